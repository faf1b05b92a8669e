"""Asyncio producers that nobody closed: at exit they deliver where that can be, and count what is lost where not."""

from __future__ import annotations

import asyncio
import atexit
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, Protocol

GRACE_SECONDS: Final = 1.0
"""What a loop that stands still may take longer than the producer's own limit."""


class Unclosed(Protocol):
    """A producer on a loop."""

    @property
    def undelivered(self) -> int:
        """Records without an outcome, or given up at its end."""

    def close(self, timeout: float | None = None) -> Coroutine[Any, Any, None]:
        """Deliver for so many seconds at most, and close."""

    @property
    def close_seconds(self) -> float:
        """How long it may deliver at the end."""


_open: dict[Unclosed, asyncio.AbstractEventLoop] = {}


def opened(producer: Unclosed) -> None:
    """It works on the running loop from now on, until `closed`.

    Held strongly: a producer that is forgotten must still be there at exit. Of those whose loop is closed it is told
    now.
    """
    for one, loop in tuple(_open.items()):
        if loop.is_closed():
            del _open[one]
            _tell_lost(one)
    _open[producer] = asyncio.get_running_loop()


def closed(producer: Unclosed) -> None:
    """It was closed, or belongs to the parent of a fork."""
    _open.pop(producer, None)


@atexit.register
def _close_all() -> None:
    """A loop that still runs, in a thread, delivers, and so does one that only stopped. A closed one cannot."""
    for producer, loop in tuple(_open.items()):
        del _open[producer]
        if producer.undelivered and not loop.is_closed():
            _deliver(producer, loop)
        else:
            _tell_lost(producer)


def _deliver(producer: Unclosed, loop: asyncio.AbstractEventLoop) -> None:
    seconds = producer.close_seconds
    work = producer.close(seconds)
    with suppress(RuntimeError, TimeoutError):  # the loop was closed meanwhile, or does not move
        if loop.is_running():
            asyncio.run_coroutine_threadsafe(work, loop).result(seconds + GRACE_SECONDS)
        else:
            loop.run_until_complete(work)
    if producer.undelivered:
        limit_ms = round(seconds * 1000)
        _say(f"{producer.undelivered} records were lost: not delivered in {limit_ms} ms at exit")


def _tell_lost(producer: Unclosed) -> None:
    if producer.undelivered:
        _say(
            f"{producer.undelivered} records were lost: the loop ended before their producer was closed; "
            "use `async with`, or await its close"
        )


def _say(what: str) -> None:
    sys.stderr.write(f"barnabas: {what}\n")
