"""Listening sockets: every address of every listener, the loopback ones always as a pair on one port.

Port 0 takes a free port, the same one on all addresses of its listener. ::1 is served where it exists.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.broker.config.listeners import WILDCARDS, Endpoint
from barnabas.net.host.keepalive import keep_alive
from barnabas.protocol.errors import BarnabasError, ConfigError

AT_ONCE: Final = 16
"""Connections that come in between two looks at the sockets."""
_ATTEMPTS_MAX: Final = 32
_ABSENT: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT})


class BindError(BarnabasError):
    """An address that cannot be listened on: says which, why, and what to do."""


class Listening(NamedTuple):
    """One listener that is bound: `endpoint` with its real port, and its sockets, one for each address.

    `doors` are further handles of these. uvloop takes one connection in from each handle between two looks at all
    sockets (libuv since 1.47): with one of them, who came behind 300 others that asked for much waited for 300 rounds.
    """

    endpoint: Endpoint
    sockets: tuple[socket.socket, ...]
    doors: tuple[socket.socket, ...] = ()

    @property
    def handles(self) -> tuple[socket.socket, ...]:
        """All that connections come in by."""
        return self.sockets + self.doors

    def close(self) -> None:
        """Close the sockets."""
        for one in self.handles:
            one.close()


def listen(endpoints: Sequence[Endpoint], backlog: int) -> list[Listening]:
    """Bind all endpoints and listen; connections queue up until the host accepts them.

    Raises:
        ConfigError: a security protocol this release does not serve, or a host that does not resolve.
        BindError: an address in use, or not ours to listen on.
    """
    named = {endpoint.host for endpoint in endpoints}
    listening: list[Listening] = []
    try:
        for endpoint in endpoints:
            if endpoint.security_protocol != "PLAINTEXT":
                raise ConfigError(
                    f"listener {endpoint.listener} asks for {endpoint.security_protocol}, which this release does not "
                    f"serve; map it to PLAINTEXT in listener.security.protocol.map"
                )
            listening.append(_listen_on(endpoint, _addresses(endpoint.host, named), backlog))
    except BaseException:
        for one in listening:
            one.close()
        raise
    return listening


def _addresses(host: str, named: set[str]) -> list[tuple[str, bool]]:
    """The addresses of a host, each with whether it may be absent on this machine."""
    if host in ("127.0.0.1", "localhost"):
        return [("127.0.0.1", False)] + ([] if "::1" in named else [("::1", True)])
    if host == "":
        return [("0.0.0.0", False), ("::", True)]  # noqa: S104 - the user asked for every address
    if host in WILDCARDS:
        return [(host, False)]
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigError(f"listeners has the host {host!r}, which does not resolve: {error.strerror}") from error
    return [(address, False) for address in dict.fromkeys(str(info[4][0]) for info in found)]


def _listen_on(endpoint: Endpoint, addresses: list[tuple[str, bool]], backlog: int) -> Listening:
    for attempt in range(1, _ATTEMPTS_MAX + 1):
        port = endpoint.port
        sockets: list[socket.socket] = []
        try:
            for address, may_be_absent in addresses:
                opened = _open(address, port, backlog, may_be_absent)
                if opened is not None:
                    sockets.append(opened)
                    port = opened.getsockname()[1]
        except OSError as error:
            for one in sockets:
                one.close()
            # A port that was free on the first address may be taken on the next one: try another.
            if endpoint.port == 0 and sockets and error.errno == errno.EADDRINUSE and attempt < _ATTEMPTS_MAX:
                continue
            raise BindError(_sentence(address, port, error)) from error
        doors = tuple(one.dup() for _ in range(AT_ONCE - 1) for one in sockets)
        return Listening(endpoint._replace(port=port), tuple(sockets), doors)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _open(address: str, port: int, backlog: int, may_be_absent: bool) -> socket.socket | None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        one = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        if may_be_absent:
            return None
        raise
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        keep_alive(one)
        one.bind((address, port))
        one.listen(backlog)
        one.setblocking(False)
    except OSError as error:
        one.close()
        if may_be_absent and error.errno in _ABSENT:
            return None
        raise
    return one


def _sentence(address: str, port: int, error: OSError) -> str:
    where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    if error.errno == errno.EADDRINUSE:
        return f"{where} is in use by another program; stop it, or choose another port (--port 0 takes a free one)"
    if error.errno == errno.EACCES:
        return f"{where} needs more rights than this user has; choose a port above 1023"
    if error.errno in _ABSENT:
        return f"{where} is no address of this machine; choose one of its own in listeners"
    return f"{where} cannot be listened on: {error.strerror}"
