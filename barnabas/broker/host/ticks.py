"""When the core is told the time: one loop timer, armed for its next deadline.

A process that was paused (SIGSTOP, a machine that is short of processors) wakes with its timers due, and the heartbeats
of all that time in its sockets. Whoever sent them is not silent, so a tick that comes late is put off, once, by a look
at the sockets. In Apache Kafka other threads read these while the reaper ends sessions, and its controller takes down
when a broker was heard of before it queues the heartbeat.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from barnabas.broker.host.host import Host

LATE_MS: Final = 100
"""A tick that comes so much later than it was due: the process did not run, or did something else for that long."""
HEARD_MS_MAX: Final = 200
"""How long a late tick waits at most for those whose requests have come, and wait in line for their turn."""
_EARLIEST: Final = -1


class Ticks:
    """One per host."""

    __slots__ = ("_due_ms", "_host", "_timer")

    def __init__(self, host: Host) -> None:
        self._host = host
        self._timer: asyncio.Handle | None = None
        self._due_ms = 0

    def arm(self) -> None:
        """The core may have something to do earlier than it had."""
        host = self._host
        due_ms = host.core.next_deadline_ms()
        if due_ms is not None and (self._timer is None or due_ms < self._due_ms):
            self.close()
            self._due_ms = due_ms
            self._timer = host.loop.call_later(max(0, due_ms - host.now_ms()) / 1000, self._come)

    def close(self) -> None:
        """Let go of the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def armed(self) -> bool:
        """Whether the core will be told the time."""
        return self._timer is not None

    def _come(self) -> None:
        now_ms = self._host.now_ms()
        if now_ms - self._due_ms <= LATE_MS:
            self._tick()
            return
        self._due_ms = _EARLIEST  # nothing is due before, so `arm` leaves this tick alone
        self._timer = self._host.loop.call_soon(self._look, now_ms + HEARD_MS_MAX)

    def _look(self, until_ms: int) -> None:
        """The loop has looked at its sockets. What that brought runs after this, and before what is called soon now."""
        host = self._host
        in_line = host.turns.is_waited_for and host.now_ms() < until_ms
        self._timer = host.loop.call_soon(self._look, until_ms) if in_line else host.loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._host.tick()
