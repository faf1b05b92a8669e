"""The two clocks of the real world: one that only goes forward, and the time of day."""

from __future__ import annotations

import time


def mono_ms() -> int:
    """Whole ms of a clock that only goes forward: drives timers, never stamps records."""
    return time.monotonic_ns() // 1_000_000


class SystemWallClock:
    """Time of day (`ports.WallClock`)."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Whole ms since the epoch."""
        return time.time_ns() // 1_000_000
