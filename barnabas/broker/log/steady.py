"""The time of day by which records, producers and offsets grow old: one that jumps ahead is not believed at once.

Apache Kafka believes it: a clock that is set two hours ahead removes, at the next look, what was written a minute ago
under a retention of an hour. Here the time of day is compared with the monotonic time at each look. After a jump ahead
of more than five minutes the old time goes on for as long as the jump was wide, at most a day, and then the new one is
believed; if the clock is set back before, nothing has happened. A start takes the time as it is. A machine that slept
looks the same: its monotonic clock stood still.
"""

from __future__ import annotations

import logging
from typing import Final

logger = logging.getLogger(__name__)

JUMP_MS: Final = 5 * 60 * 1000
HOLD_MS_MAX: Final = 24 * 60 * 60 * 1000


class SteadyTime:
    """Compares a time of day (ms) with the monotonic time (ms), from the first look on."""

    def __init__(self) -> None:
        self._ahead_ms: int | None = None
        """How far the believed time of day is ahead of the monotonic time."""
        self._jumped_ms: int | None = None
        """When (monotonic) the jump was seen that is not believed yet."""

    def look(self, wall_ms: int, mono_ms: int) -> int:
        """The time of day to go by (ms)."""
        ahead_ms = wall_ms - mono_ms
        jump_ms = 0 if self._ahead_ms is None else ahead_ms - self._ahead_ms
        if self._ahead_ms is None or jump_ms <= JUMP_MS:
            self._ahead_ms, self._jumped_ms = ahead_ms, None
            return wall_ms
        hold_ms = min(jump_ms, HOLD_MS_MAX)
        if self._jumped_ms is None:
            self._jumped_ms = mono_ms
            logger.warning(
                "the time of day jumped ahead by %d s: for so long, at most a day, records, producers and offsets grow "
                "old by the old time; set the clock back, or restart the broker if the new time is right",
                jump_ms // 1000,
            )
        if mono_ms - self._jumped_ms >= hold_ms:
            self._ahead_ms, self._jumped_ms = ahead_ms, None
            return wall_ms
        return mono_ms + self._ahead_ms
