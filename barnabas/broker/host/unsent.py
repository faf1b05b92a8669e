"""Answers that a peer does not read: what the broker keeps of them, and how they are dropped with their connection.

asyncio's loop joins and copies what it is given before Python 3.12: 67 ms for an answer of 57 MB. It is given portions.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections import deque
from contextlib import suppress
from socket import SO_LINGER, SOL_SOCKET
from typing import TYPE_CHECKING, Final

from barnabas.broker.pages import own_bytes_of
from barnabas.protocol.ids import Buffer

if TYPE_CHECKING:
    from barnabas.broker.host.channel import Channel

PORTION_BYTES: Final = 256 * 1024
STEP_BYTES: Final = 4 * PORTION_BYTES
"""Of one answer in one step, where its peer reads as fast."""
LEFT_BYTES_MAX: Final = 64 * 1024
"""Above that the transport says when it has less (`channel.WRITE_BYTES_MAX`)."""

_DROP: Final = struct.pack("ii", 1, 0)


def copies(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a loop copies what a peer does not read at once: asyncio's does before Python 3.12."""
    return sys.version_info < (3, 12) and isinstance(loop, asyncio.SelectorEventLoop)


def drop(transport: asyncio.Transport) -> None:
    """Have the system forget, at the end of a connection, what it still holds for the peer, who sees a reset.

    It would keep up to 4 MiB for minutes where the peer reads nothing.
    """
    sock = transport.get_extra_info("socket")
    with suppress(OSError, AttributeError):
        sock.setsockopt(SOL_SOCKET, SO_LINGER, _DROP)


class Rest:
    """What is left of a large answer, `left_bytes`. Its connection is stalled until the transport has all of it."""

    def __init__(self, channel: Channel, buffers: list[Buffer]) -> None:
        self._channel = channel
        self._buffers: deque[tuple[memoryview, int]] = deque()
        """What is left of a buffer, and what is kept for it as long as anything is: all of it."""
        self.left_bytes = self._own_bytes = 0
        channel.pause_writing()
        self.add(buffers)

    def add(self, buffers: list[Buffer]) -> None:
        """What comes behind it: a request that was parked before is answered while its connection is stalled."""
        for one in buffers:
            own = own_bytes_of(one)
            self._buffers.append((memoryview(one), own))
            self.left_bytes += len(one)
            self._own_bytes += own
        self._charge()

    def go_on(self) -> None:
        """Write as much as the peer reads now, but no more than is written in a step; `resume_writing` comes after."""
        channel, transport = self._channel, self._channel.transport
        if channel.rest is not self:
            return  # its connection is about to go
        if not self.left_bytes:
            channel.rest = None
            channel.resume_writing()
            return
        until = self.left_bytes - STEP_BYTES
        while self.left_bytes > max(until, 0) and transport.get_write_buffer_size() <= LEFT_BYTES_MAX:
            transport.write(self._portion())
        self._charge()
        if transport.get_write_buffer_size() <= LEFT_BYTES_MAX:  # else the transport tells when that is sent
            asyncio.get_running_loop().call_soon(self.go_on)

    def all(self) -> list[Buffer]:
        """All that is left, to be written as it is."""
        return [one for one, _ in self._buffers]

    def _charge(self) -> None:
        unsent = self._channel.transport.get_write_buffer_size()
        self._channel.hold_unread(unsent + self._own_bytes)

    def _portion(self) -> Buffer:
        taken: list[memoryview] = []
        room = PORTION_BYTES
        while self._buffers and room:
            one, own = self._buffers.popleft()
            if len(one) > room:
                self._buffers.appendleft((one[room:], own))
                one = one[:room]
            else:
                self._own_bytes -= own
            taken.append(one)
            room -= len(one)
        self.left_bytes -= PORTION_BYTES - room
        return taken[0] if len(taken) == 1 else b"".join(taken)
