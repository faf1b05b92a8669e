"""What happened in a world, in order: a sum over all of it, and the last lines in words."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Final

LINES_KEPT: Final = 2000
"""Of a run that broke a promise so many lines before the end are told."""


class Trace:
    """Two runs are the same exactly when their `digest` is."""

    __slots__ = ("_fresh", "_lines", "_sum", "_summed")

    def __init__(self) -> None:
        self._sum = hashlib.sha256()
        self._summed = 0
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._fresh: list[str] = []
        """Not summed up yet: many at a time are cheaper."""

    def note(self, now_ns: int, what: str) -> None:
        """Something happened, at this virtual time."""
        fresh = self._fresh
        fresh.append(f"{now_ns / 1e6:.6f} {what}")
        if len(fresh) == LINES_KEPT:
            self._sum_up()

    @property
    def count(self) -> int:
        """How many lines there were."""
        return self._summed + len(self._fresh)

    @property
    def lines(self) -> deque[str]:
        """The last ones."""
        self._sum_up()
        return self._lines

    @property
    def digest(self) -> str:
        """The sum of everything noted so far, in hexadecimal digits."""
        self._sum_up()
        return self._sum.hexdigest()

    def _sum_up(self) -> None:
        self._sum.update("".join(self._fresh).encode())
        self._summed += len(self._fresh)
        self._lines.extend(self._fresh)
        self._fresh.clear()
