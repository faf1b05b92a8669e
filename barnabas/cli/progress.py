"""How far long work is: one line on a terminal's standard error that is written over, and gone at the end."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final, Self

_FIRST_S: Final = 1.0
_EVERY_S: Final = 0.2
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """Tells from the second second on, where somebody looks; `on` says whether nothing else goes to the screen."""

    def __init__(self, on: bool = True) -> None:
        self._on = on and sys.stderr is not None and sys.stderr.isatty()
        self._due_s = time.monotonic() + _FIRST_S
        self._told = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.clear()

    def due(self) -> bool:
        """Whether it is time to `tell` again."""
        return self._on and time.monotonic() >= self._due_s

    def tell(self, text: str) -> None:
        """Show this instead of what was shown."""
        sys.stderr.write(_CLEAR + text)
        sys.stderr.flush()
        self._told = True
        self._due_s = time.monotonic() + _EVERY_S

    def clear(self) -> None:
        """Show nothing."""
        if self._told:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
            self._told = False


def size(count: int) -> str:
    """Bytes in words: `3.4 MB`."""
    amount, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            break
        amount /= 1000
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
