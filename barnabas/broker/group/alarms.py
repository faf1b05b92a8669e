"""Things that happen when their time has come, on the timing wheel: sessions, rebalances, what expires.

An alarm belongs to what it is about (a member, a group, a partition) and is set anew in place of its old time, as
Kafka's keyed timers are. Times are monotonic whole ms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.broker.delayed import Timer, TimerTask

SPENT_MAX: Final = 500
"""What is rung in one step: an alarm counts one, and as many more as members were told something by it."""

_NEVER: Final = 2**63 - 1


class Alarm(TimerTask):
    """Calls `ring(now_ms)` once when it is due. One that was stopped or put off does not, even if it was due."""

    __slots__ = ("_ring",)

    def __init__(self, ring: Callable[[int], object]) -> None:
        self._prev = self._next = None  # as `TimerTask` does
        self.deadline_ms = _NEVER
        self._ring = ring

    def call(self, ring: Callable[[int], object]) -> None:
        """Call another when it is due: what it is about has become something else."""
        self._ring = ring

    def run(self, now_ms: int) -> None:
        """Ring, unless it was stopped or put off since."""
        if now_ms >= self.deadline_ms:
            self.deadline_ms = _NEVER
            self._ring(now_ms)


class Alarms:
    """All alarms of one coordinator; `now_ms` is the end of the last step, or the time it was told last."""

    __slots__ = ("now_ms", "spent", "timer")

    def __init__(self, now_ms: int) -> None:
        self.timer = Timer(now_ms)
        self.now_ms = now_ms
        self.spent = 0

    def set(self, alarm: Alarm, deadline_ms: int) -> None:
        """Let it ring at that time, and at no other."""
        self.timer.add(alarm, deadline_ms)

    def stop(self, alarm: Alarm) -> None:
        """Let it not ring."""
        self.timer.cancel(alarm)
        alarm.deadline_ms = _NEVER

    def advance(self, now_ms: int) -> None:
        """The clock has moved: ring what is due."""
        self.now_ms = now_ms
        self.timer.advance(now_ms)
        self.ring_due(now_ms)

    def ring_due(self, now_ms: int) -> None:
        """Ring what is due, as much as one step may have; the rest is due still, and has the next.

        Whoever joins says when its session ends, so any number of alarms may be due at the same time.
        """
        self.spent = 0
        while self.timer.due and self.spent < SPENT_MAX:
            self.timer.run_due(now_ms, 1)
            self.spent += 1
