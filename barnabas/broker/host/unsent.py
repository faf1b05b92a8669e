"""Answers that a peer does not read: what the broker keeps of them, and how they are dropped with their connection."""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from socket import SO_LINGER, SOL_SOCKET
from typing import Final

from barnabas.broker.host.disk_calls import Copied
from barnabas.protocol.ids import Buffer

_OWN: Final = (bytes, Copied)
_DROP: Final = struct.pack("ii", 1, 0)


def copies(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a loop copies what a peer does not read at once: asyncio's does before Python 3.12."""
    return sys.version_info < (3, 12) and isinstance(loop, asyncio.SelectorEventLoop)


def own_bytes(answers: Iterable[Buffer]) -> int:
    """What is kept for these answers alone.

    Records are views into maps of files, or into blocks that are there anyway, but for those that were copied out of a
    file or put together.
    """
    return sum(len(one) for one in answers if type(one) is not memoryview or type(one.obj) in _OWN)


def drop(transport: asyncio.Transport) -> None:
    """Have the system forget, at the end of a connection, what it still holds for the peer, who sees a reset.

    It would keep up to 4 MiB for minutes where the peer reads nothing.
    """
    sock = transport.get_extra_info("socket")
    with suppress(OSError, AttributeError):
        sock.setsockopt(SOL_SOCKET, SO_LINGER, _DROP)
