"""How long a request that changes the metadata waits for its turn.

As in Apache Kafka (`ControllerRequestContext.deadlineNs`, `KafkaEventQueue`) the time that a request gives counts until
its change is begun: what still waits behind others then is answered REQUEST_TIMED_OUT and never done. What was begun
is seen through, and answered with what became of it, however long that takes. No time at all is over at once.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.delayed import CallbackTask, Timer


class Patience:
    """One request's. `give_up` is called at most once, and only if `take_turn` was not and will not be answered yes."""

    __slots__ = ("_begun", "_give_up", "_over", "_task", "_timer")

    def __init__(self, timer: Timer, give_up: Callable[[], None]) -> None:
        self._timer = timer
        self._give_up = give_up
        self._begun = False
        self._over = False
        self._task: CallbackTask | None = None

    def take_turn(self) -> bool:
        """The turn has come: whether somebody still waits for the change."""
        self._begun = not self._over
        if self._task is not None:
            self._timer.cancel(self._task)
        return self._begun

    def wait(self, timeout_ms: int, now_ms: int) -> None:
        """Give up in so many ms, unless the turn has come."""
        if not self._begun:
            self._task = CallbackTask(self._time_is_up)
            self._timer.add(self._task, now_ms + timeout_ms)

    def _time_is_up(self, now_ms: int) -> None:
        if not self._begun:
            self._over = True
            self._give_up()
