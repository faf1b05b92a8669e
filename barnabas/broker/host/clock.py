"""The two clocks of the real world: one that only goes forward, and the time of day; and since when both run."""

from __future__ import annotations

import time
from typing import Final

_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
"""Linux's; no other system has one."""


def boot_id() -> str:
    """Which run of the machine this is: another one after each start of it; "" where the system does not say."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def mono_ms() -> int:
    """Whole ms of a clock that only goes forward: drives timers, never stamps records."""
    return time.monotonic_ns() // 1_000_000


class SystemWallClock:
    """Time of day (`ports.WallClock`)."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Whole ms since the epoch."""
        return time.time_ns() // 1_000_000
