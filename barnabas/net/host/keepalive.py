"""TCP asks a peer that says nothing whether it is still there, so that who waits for its answer hears of its end.

A machine that loses its power tells nobody. Whoever sends it something is refused once it is back, but who only waits
(JoinGroup: for up to `max.poll.interval.ms` and 5 s) would wait for the whole of that time. Kafka's sockets have
SO_KEEPALIVE, too (Selector.configureSocketChannel), at the system's times: Linux asks after two hours.
"""

from __future__ import annotations

import socket
from typing import Final, Protocol

IDLE_S: Final = 30
"""The first question, after so long a silence."""
AGAIN_S: Final = 10
UNANSWERED_MAX: Final = 3
"""So many questions without an answer end the connection."""

_OPTIONS: Final = tuple(
    (getattr(socket, name), value)
    for name, value in (
        ("TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE", IDLE_S),  # macOS: the latter
        ("TCP_KEEPINTVL", AGAIN_S),
        ("TCP_KEEPCNT", UNANSWERED_MAX),
    )
    if hasattr(socket, name)
)
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)


class Options(Protocol):
    """A socket, or what a transport gives in its place."""

    @property
    def family(self) -> int:
        """The address family."""

    def setsockopt(self, level: int, option: int, value: int, /) -> None:
        """As a socket's."""


def keep_alive(sock: Options) -> None:
    """Have TCP ask; connections that a listening socket takes in inherit it on Linux."""
    if sock.family not in _FAMILIES:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _OPTIONS:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
