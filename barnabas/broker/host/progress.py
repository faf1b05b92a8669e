"""Deadlines by progress: whoever has begun something must go on with it.

Watched is a connection that has not told its dialect, whose HTTP head or frame has come in part, or that is being
closed and has answers to read. In every `barnabas.connection.progress.ms` it must move so many bytes a second on
average (`barnabas.connection.progress.bytes.per.second`): a slow upload lives however large it is, and who opens and
stays silent, or sends a byte a second, goes. The clock stands while the broker itself does not read (a request of the
connection is parked, memory is short); but a connection that its peer has closed meanwhile, which no read tells, goes
after three seconds (at once when it was reset), and what it has parked with it. Kafka closes as soon as it hears.
Where the peer's system has yet more to bring, its end lies behind that, and nothing tells: who holds much, looks
something up and has sent so much behind it goes after `UNHEARD_MS`, for else all that have left are served first.

Idle connections, with nothing begun, are `connections.max.idle.ms`'s.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.host.states import State

if TYPE_CHECKING:
    from barnabas.broker.host.channel import Channel
    from barnabas.broker.host.host import Host

_LOOK_MS_MIN: Final = 10
_LOOK_MS_MAX: Final = 3000
CLOSED_MS_MAX: Final = 3000
"""So long who has closed one side may wait for answers to what it sent before: what lies behind that will not go on."""
UNHEARD_MS: Final = 4000
AT_ONCE_MAX: Final = 50
"""Connections that are ended in one step."""
RESET: Final = (7,)
_CLOSED: Final = (7, 8)
"""TCP_CLOSE and TCP_CLOSE_WAIT of Linux. In the latter the peer may have closed one side, and still read."""


class _Mark(NamedTuple):
    """Where a connection stood: its requests so far, and the bytes of what it has begun."""

    since_ms: int
    requests: int
    moved: int


class Progress:
    """Looks at what is unfinished; no timer runs while nothing is."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._marks: dict[Channel, _Mark] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, channel: Channel) -> None:
        """Something of this connection is unfinished."""
        if channel in self._marks:
            return
        self._marks[channel] = self._mark(channel, self._host.now_ms())
        if self._timer is None:
            self._look_later()

    def forget(self, channel: Channel) -> None:
        """It is gone."""
        self._marks.pop(channel, None)

    def close(self) -> None:
        """Let go of the timer."""
        self._marks.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_later(self) -> None:
        window_ms = self._host.config.barnabas_connection_progress_ms
        look_ms = min(max(window_ms // 4, _LOOK_MS_MIN), _LOOK_MS_MAX)
        self._timer = self._host.loop.call_later(look_ms / 1000, self._look)

    def _look(self) -> None:
        self._timer = None
        config, now_ms = self._host.config, self._host.now_ms()
        window_ms = config.barnabas_connection_progress_ms
        closed_ms, ended = min(window_ms, CLOSED_MS_MAX), 0
        per_second = config.barnabas_connection_progress_bytes_per_second
        for channel, mark in list(self._marks.items()):
            if not unfinished(channel):
                del self._marks[channel]
            elif channel.paused and self._end_if_left(channel, now_ms - mark.since_ms >= closed_ms):
                del self._marks[channel]
                ended += 1
                if ended == AT_ONCE_MAX:
                    self._timer = self._host.loop.call_later(0, self._look)
                    return
            elif channel.paused and is_closed(channel):
                continue
            elif channel.paused or channel.requests != mark.requests:
                self._marks[channel] = self._mark(channel, now_ms)
            elif now_ms - mark.since_ms >= window_ms:
                moved, elapsed_ms = self._moved_bytes(channel) - mark.moved, now_ms - mark.since_ms
                if moved * 1000 < per_second * elapsed_ms:
                    del self._marks[channel]
                    channel.end(
                        f"{unfinished(channel)} came to {max(moved, 0)} bytes in {elapsed_ms} ms; "
                        f"barnabas.connection.progress.bytes.per.second asks for {per_second}"
                    )
                else:
                    self._marks[channel] = self._mark(channel, now_ms)
        if self._marks:
            self._look_later()

    def _end_if_left(self, channel: Channel, long_ago: bool) -> bool:
        """End a connection that is not read from, and whose peer is gone or taken to be; whether it was ended."""
        if is_closed(channel):
            if not long_ago and not is_closed(channel, RESET):
                return False
            channel.abort()
        elif self._host.relief.is_unheard(channel, UNHEARD_MS) and has_more(channel):
            channel.end(f"it has sent more and more behind a request that waits its turn, {UNHEARD_MS} ms ago")
        else:
            return False
        return True

    def _mark(self, channel: Channel, now_ms: int) -> _Mark:
        return _Mark(now_ms, channel.requests, self._moved_bytes(channel))

    def _moved_bytes(self, channel: Channel) -> int:
        """How far what a connection has begun has come: it grows with what is received, or read by the peer."""
        if channel.state is State.LEAVING:
            return -channel.transport.get_write_buffer_size()
        read_bytes = self._host.web.moved_bytes(channel)
        return channel.receiver.unread_bytes if read_bytes is None else read_bytes


def unfinished(channel: Channel) -> str:
    """What of a connection has begun and not come to its end, for people; empty when nothing has."""
    if channel.state is State.OPENING:
        return "its first request, or the answer's reading"
    if channel.state is State.OPEN and channel.receiver.has_bytes:
        return "its request"
    if channel.state is State.LEAVING and channel.transport.get_write_buffer_size():
        return "its last answer"
    return ""


def is_closed(channel: Channel, states: tuple[int, ...] = _CLOSED) -> bool:
    """Whether the peer has closed its side, or reset the connection; never, where the system does not tell."""
    sock = channel.transport.get_extra_info("socket")
    if sock is None or sock.family == socket.AF_UNIX or not hasattr(socket, "TCP_INFO"):
        return False
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in states
    except OSError:
        return True


def has_more(channel: Channel) -> bool:
    """Whether the system has received bytes of a connection that were not read yet; never, where it does not tell."""
    sock = channel.transport.get_extra_info("socket")
    if sock is None or sys.platform == "win32":
        return False
    from fcntl import ioctl
    from termios import FIONREAD

    try:
        return any(ioctl(sock.fileno(), FIONREAD, bytes(4)))
    except OSError:
        return False
