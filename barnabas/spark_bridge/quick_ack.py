"""Acknowledges at once what Spark sends a worker over TCP: without that each task waits 40 ms for nothing.

The JVM writes a task in several small pieces with Nagle's algorithm on, so it holds back the second piece until the
first is acknowledged; the worker's kernel delays that acknowledgement by 40 ms in the hope of an answer to send it
with. TCP_NODELAY here changes nothing, for it is the JVM that holds back. TCP_QUICKACK does, but holds only until the
kernel thinks otherwise: a thread sets it anew whenever something arrives (edge-triggered, so it never reads, and
sleeps while Spark is silent).

Linux only; elsewhere, and over Unix sockets (the tuned session), there is nothing to do.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

THREAD: Final = "barnabas-quick-ack"
_DESCRIPTORS: Final = Path("/proc/self/fd")

_started: set[int] = set()
"""The processes in which this was done: a fork has the module's state, but not the thread."""


def acknowledge_quickly() -> None:
    """Once a process, before it opens connections of its own: those that are there are Spark's."""
    if os.getpid() in _started or not sys.platform.startswith("linux"):
        return
    _started.add(os.getpid())
    if socket.getdefaulttimeout() is not None:
        return  # Python would make the sockets themselves non-blocking, and the worker does not expect that
    found = list(loopback_connections())
    if found:
        threading.Thread(target=watch, args=(found,), name=THREAD, daemon=True).start()


def loopback_connections() -> Iterator[int]:
    """A descriptor of each of this process' TCP connections within the machine; some have several."""
    seen: set[str] = set()
    try:
        descriptors = sorted(int(name) for name in os.listdir(_DESCRIPTORS))
    except OSError:  # no /proc here
        return
    for descriptor in descriptors:
        with suppress(OSError):  # closed meanwhile: the listing's own, for one
            target = os.readlink(_DESCRIPTORS / str(descriptor))
            if target.startswith("socket:") and target not in seen:
                seen.add(target)
                if _is_loopback_tcp(descriptor):
                    yield descriptor


@contextmanager
def _socket_of(descriptor: int) -> Iterator[socket.socket]:
    """Somebody else's socket, which stays theirs: a copy of the descriptor would keep what they close open."""
    borrowed = socket.socket(fileno=descriptor)
    try:
        yield borrowed
    finally:
        borrowed.detach()


def _is_loopback_tcp(descriptor: int) -> bool:
    with _socket_of(descriptor) as each:
        if each.family not in (socket.AF_INET, socket.AF_INET6) or each.type != socket.SOCK_STREAM:
            return False
        host: str = each.getpeername()[0]  # an OSError where it listens, or is not connected yet
    return host.startswith(("127.", "::ffff:127.")) or host == "::1"


def watch(descriptors: Iterable[int]) -> None:
    """Sets TCP_QUICKACK on each of these whenever something arrives on it; returns once all were closed from afar."""
    import select

    closed = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
    with select.epoll() as poll:
        left = {each for each in descriptors if acknowledge(each)}
        for each in tuple(left):
            try:
                poll.register(each, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
            except OSError:  # it was closed just now
                left.discard(each)
        while left:
            for each, event in poll.poll():
                if event & closed or not acknowledge(each):
                    left.discard(each)
                    with suppress(OSError):  # it is closed here, too
                        poll.unregister(each)


def acknowledge(descriptor: int) -> bool:
    """Acknowledges what has arrived, and what arrives in the near future; whether that socket is still there."""
    try:
        with _socket_of(descriptor) as each:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    except OSError:
        return False
    return True
