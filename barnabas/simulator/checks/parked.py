"""Every parked operation ends once, by its deadline, and with an answer; none waits for what is there.

A fetch that has waited for the disk may be parked after its deadline: it ends with the next tick.
"""

from __future__ import annotations

from typing import Final

from barnabas.simulator.checks import Check
from barnabas.simulator.history import Completed, Overlooked, Parked
from barnabas.simulator.world import Broken

LATE_MS_MAX: Final = 100
"""After a turn of its broker nothing is later than this: the work of that turn passes time, too."""
LATE_TURNS_MAX: Final = 8
"""A process that was paused may read before it looks at its clock, and puts off its timer by two turns where it does.
The timer, late, puts off what is due by a look at the sockets, and by more where requests wait in line (`Ticks`)."""


class ParkedOperations(Check):
    """Operations by broker, incarnation and number."""

    def __init__(self) -> None:
        self._parked_ms: dict[tuple[str, int, int], int] = {}
        self._late_turns: dict[tuple[str, int, int], int] = {}
        self._ended: set[tuple[str, int, int]] = set()
        self.rules = {Parked: self._parked, Completed: self._completed, Overlooked: self._overlooked}

    def _parked(self, event: Parked) -> None:
        key = (event.broker, event.incarnation, event.operation)
        late_ms = event.now_ms - max(event.deadline_ms, self._parked_ms.setdefault(key, event.now_ms))
        if late_ms > LATE_MS_MAX:
            self._late_turns[key] = self._late_turns.get(key, 0) + 1
        if self._late_turns.get(key, 0) > LATE_TURNS_MAX:
            raise Broken(
                f"parked: operation {event.operation} of {event.broker} still waits {late_ms} ms after its deadline"
            )
        if key in self._ended:
            raise Broken(f"parked: operation {event.operation} of {event.broker} waits again after its end")

    def _completed(self, event: Completed) -> None:
        key = (event.broker, event.incarnation, event.operation)
        if key in self._ended:
            raise Broken(f"parked: operation {event.operation} of {event.broker} ends a second time")
        if not event.answered:
            raise Broken(f"parked: operation {event.operation} of {event.broker} waits no more, and has no answer")
        self._parked_ms.pop(key, None)
        self._late_turns.pop(key, None)
        self._ended.add(key)

    def _overlooked(self, event: Overlooked) -> None:
        raise Broken(
            f"parked: an operation of {event.broker} waits for {event.partition}, which has all up to {event.offset}"
        )
