"""SIGTERM as a way to end that closes what is open: a member leaves its group, records on their way are delivered."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from barnabas.cli.codes import TERMINATED


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Within the block SIGTERM ends the program as an exception does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> NoReturn:
        sys.exit(TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
