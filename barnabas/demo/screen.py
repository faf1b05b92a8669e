"""What the demo writes to the terminal: steps, a progress bar that stays on its line, and the table."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

_BLOCKS: Final = " ▏▎▍▌▋▊▉█"
_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


class Screen:
    """Writes for people on a terminal, line by line elsewhere."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self._colour = self.live and "NO_COLOR" not in os.environ
        self._begun = time.monotonic()
        self._told_percent = -10
        self._lines = 0

    def step(self, text: str) -> None:
        """One step of the run, with the seconds since the start."""
        self._clear()
        print(f"{self._dim(f'{time.monotonic() - self._begun:5.1f} s')}  {text}", flush=True)

    def progress(self, done: float, text: str, below: Sequence[str] = ()) -> None:
        """The bar: `done` from 0 to 1, with lines below it. Without a terminal they are told for every tenth."""
        if not self.live:
            percent = int(done * 100)
            if percent >= self._told_percent + 10 or percent == 100 > self._told_percent:
                self._told_percent = percent
                for line in (f"{self._told_percent:3d} %  {text}", *below):
                    print(f"         {line}", flush=True)
            return
        columns = shutil.get_terminal_size().columns
        width = max(8, min(30, columns - 60))  # a narrow terminal has room for figures first
        eighths = round(done * width * 8)
        bar = "█" * (eighths // 8) + (_BLOCKS[eighths % 8] if eighths % 8 else "")
        self.panel([f"{bar:<{width}} {done * 100:3.0f} %  {text}", *below])

    def panel(self, lines: Sequence[str]) -> None:
        """Lines that stay where they are: the next panel, step or table is written over them. Only on a terminal."""
        if not self.live:
            return
        self._clear()
        columns = shutil.get_terminal_size().columns
        print("\n".join(f"         {line}"[: columns - 1] for line in lines), end="", flush=True)
        self._lines = len(lines)

    def table(self, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows of texts under their names, aligned right."""
        self._clear()
        names = list(rows[0])
        widths = {name: max(len(name), *(len(str(row[name])) for row in rows)) for name in names}
        print(f"\n  {self._bold(title)}")
        print("  " + self._dim("  ".join(f"{name:>{widths[name]}}" for name in names)))
        for row in rows:
            print("  " + "  ".join(f"{row[name]!s:>{widths[name]}}" for name in names))
        print(flush=True)

    def _clear(self) -> None:
        """Takes the panel away; the cursor stands where it began."""
        if self.live:
            print("\r\x1b[2K" + "\x1b[1A\x1b[2K" * (self._lines - 1), end="")
            self._lines = 0

    def _bold(self, text: str) -> str:
        return f"{_BOLD}{text}{_PLAIN}" if self._colour else text

    def _dim(self, text: str) -> str:
        return f"{_DIM}{text}{_PLAIN}" if self._colour else text
