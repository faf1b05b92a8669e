"""From a host's name to addresses, and the system's reasons for a connection that is not made, in words."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from ipaddress import ip_address
from typing import Final

_HINTS: Final = {
    errno.ECONNREFUSED: "nothing listens there",
    errno.ENOENT: "no broker serves from there",
    errno.EHOSTUNREACH: "is there a way to that network?",
    errno.ENETUNREACH: "is there a way to that network?",
    errno.ETIMEDOUT: "a firewall may swallow it",
}
"""What the system's words for a failed connection come to."""


def words_of(error: Exception) -> str:
    """Why a connection was not made, and what that may come of."""
    if isinstance(error, socket.gaierror):
        return f"{error.strerror or error} (is the host's name right?)"
    if isinstance(error, OSError) and error.errno in _HINTS:
        return f"{os.strerror(error.errno)} ({_HINTS[error.errno]})"
    return str(error)


async def resolve(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[str]:
    """The addresses behind a name.

    Raises:
        OSError: there is no such name.
    """
    if host.startswith("/"):  # a Unix socket of this machine
        return [host]
    try:
        return [str(ip_address(host))]
    except ValueError:
        pass
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except RuntimeError:  # asyncio's own loop asks in a thread, and at exit, where the last records go, starts none
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))
