"""A terminal's screen for a while: keys come one by one, and it is given back however the program ends."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

from barnabas.cli.view import Line

_ENTER: Final = "\x1b[?1049h\x1b[?25l"
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_CLEAR_LINE: Final = "\x1b[K"
_CLEAR_BELOW: Final = "\x1b[J"
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)

Pressed = Callable[[float], bytes]
"""Waits for keys so many seconds; what came, and nothing when the time is over."""


class EndedBySignal(BaseException):
    """A signal asked the program to end while the screen was its own."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def pass_on(self) -> None:
        """End as the signal ends a program that knows nothing of it."""
        signal.signal(self.number, signal.SIG_DFL)
        os.kill(os.getpid(), self.number)


@contextmanager
def screen() -> Iterator[Pressed]:
    """A screen of our own, until the block ends.

    Raises:
        EndedBySignal: SIGTERM or SIGHUP came; the terminal is as it was.
    """
    saved = termios.tcgetattr(sys.stdin)

    def enter() -> None:
        tty.setcbreak(sys.stdin)
        _write(_ENTER)

    def leave() -> None:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)
        _write(_LEAVE)

    def on_end(number: int, _frame: FrameType | None) -> None:
        for each in _ENDING:  # the first one ends it; a second must not cut short what gives the terminal back
            signal.signal(each, signal.SIG_IGN)
        raise EndedBySignal(number)

    def on_stop(_number: int, _frame: FrameType | None) -> None:
        leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        enter()  # it goes on

    def pressed(limit_s: float) -> bytes:
        ready, _, _ = select.select([sys.stdin], [], [], max(limit_s, 0))
        return os.read(sys.stdin.fileno(), 1024) or b"q" if ready else b""  # its end: nobody is there

    before = {number: signal.signal(number, on_end) for number in _ENDING}
    before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, on_stop)
    try:
        enter()
        yield pressed
    finally:
        leave()
        for number, handler in before.items():
            signal.signal(number, handler)


def paint(lines: Sequence[Line]) -> None:
    """Show these lines and nothing else; there are no more than the screen has."""
    painted = (f"{_BOLD}{line.text}{_PLAIN}" if line.strong else line.text for line in lines)
    _write(_HOME + "\r\n".join(f"{line}{_CLEAR_LINE}" for line in painted) + _CLEAR_BELOW)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
