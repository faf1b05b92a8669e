"""When to try a lost connection again: soon, then later and later, and soon again once one has held for a while."""

from __future__ import annotations

from typing import Final

from barnabas.net.backoff import Backoff, Random

FIRST_MS: Final = 100
LAST_MS: Final = 10_000
HELD_MS: Final = 10_000
"""A connection that held so long was a good one; who takes us and throws us out at once is asked ever more seldom."""


class Reconnect:
    """Counts failures in a row, and as `brief` those of connections that were made, and did not hold."""

    __slots__ = ("_backoff", "_since_ms", "brief", "failures")

    def __init__(self, random: Random) -> None:
        self._backoff = Backoff(FIRST_MS, LAST_MS, random)
        self._since_ms: int | None = None
        self.failures = 0
        self.brief = 0

    def connected(self, now_ms: int) -> None:
        """It stands."""
        self._since_ms = now_ms

    def refused(self) -> None:
        """It stands, and we end it, for it is of no use: that says nothing of whether it would have held."""
        self._since_ms, self.brief = None, 0

    def lost(self, now_ms: int) -> int:
        """It went, or could not be made; how long to wait before the next attempt (ms)."""
        if self._since_ms is not None and now_ms - self._since_ms >= HELD_MS:
            self.failures = self.brief = 0
        elif self._since_ms is not None:
            self.brief += 1
        self._since_ms = None
        wait_ms = self._backoff.wait_ms(self.failures)
        self.failures += 1
        return wait_ms
