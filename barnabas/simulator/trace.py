"""What happened in a world, in order: a sum over all of it, and the last lines in words."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Final

LINES_KEPT: Final = 2000
"""Of a run that broke a promise so many lines before the end are told."""


class Trace:
    """Two runs are the same exactly when their `digest` is."""

    __slots__ = ("_sum", "count", "lines")

    def __init__(self) -> None:
        self._sum = hashlib.sha256()
        self.count = 0
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)

    def note(self, now_ns: int, what: str) -> None:
        """Something happened, at this virtual time."""
        line = f"{now_ns / 1e6:.6f} {what}"
        self.count += 1
        self._sum.update(line.encode())
        self.lines.append(line)

    @property
    def digest(self) -> str:
        """The sum of everything noted so far, in hexadecimal digits."""
        return self._sum.hexdigest()
