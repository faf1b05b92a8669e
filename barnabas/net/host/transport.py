"""One socket to one broker: frames in, lists of buffers out.

Small frames are cut from one receive buffer that is used again; a frame that does not fit gets a buffer of its own,
into which the socket writes directly, so that a fetch answer is never copied. Buffers are written by reference
(`writelines`): whoever hands them out must leave them alone until `transport_written`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from asyncio.trsock import TransportSocket
from mmap import mmap
from typing import Final, Protocol, cast

from barnabas.net.host.keepalive import keep_alive
from barnabas.net.host.writing import write_all
from barnabas.net.troubles import stranger
from barnabas.protocol.ids import Buffer

MAX_FRAME_BYTES: Final = 256 * 1024 * 1024
"""A frame longer than this is nonsense: the largest honest answer is a fetch, bounded by `fetch.max.bytes`."""

_MAPPED_BYTES_MIN: Final = 32 * 1024 * 1024
"""A frame of so many bytes has pages of its own, which the system gives as the bytes come: zeros for all of them at
once hold up the loop, and who announces much need not bring it. Smaller ones have memory that may have been used."""

_SCRATCH_BYTES: Final = 64 * 1024
_SMALL_BYTES_MAX: Final = 4096
_WAKE_BYTES: Final = 512 * 1024


class TransportListener(Protocol):
    """Who is told what happens on the socket; all calls come on the loop."""

    def transport_open(self, transport: Transport) -> None:
        """The socket is connected."""

    def transport_frame(self, transport: Transport, frame: memoryview) -> None:
        """One whole frame, without its length prefix; the view stays valid."""

    def transport_written(self, transport: Transport) -> None:
        """All buffers handed to `write` so far have left."""

    def transport_lost(self, transport: Transport, reason: str) -> None:
        """The socket is gone; nothing follows."""


class Transport(asyncio.BufferedProtocol):
    """The socket of one connection attempt to `node_id`."""

    def __init__(self, node_id: int, listener: TransportListener, send_buffer: int, receive_buffer: int) -> None:
        self.node_id = node_id
        self._listener = listener
        self._socket_buffers = ((socket.SO_SNDBUF, send_buffer), (socket.SO_RCVBUF, receive_buffer))
        self._transport: asyncio.Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._file = -1
        self._socket: TransportSocket | None = None
        self._wake_bytes = 1
        self._paused = False
        self._lost = False
        self._heard = False  # a frame came
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)
        self._filled = 0
        self._frame: memoryview | None = None  # a large frame under way
        self._frame_filled = self._frame_bytes = 0

    # ---- asyncio's calls ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open: small write buffers, so that `written` means written."""
        self._transport = cast("asyncio.Transport", transport)
        self._loop = asyncio.get_running_loop()
        self._transport.set_write_buffer_limits(high=0)
        self._set_up_socket()
        self._listener.transport_open(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: the large frame under way, else the scratch buffer."""
        if self._frame is not None:
            return self._frame[self._frame_filled :]
        return self._scratch_view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came: hand out every whole frame."""
        if self._frame is None:
            self._filled += nbytes
            self._cut_frames()
            return
        self._frame_filled += nbytes
        self._wake_at(self._frame_bytes - self._frame_filled)
        if self._frame_filled == self._frame_bytes:
            frame, self._frame = self._frame, None
            self._listener.transport_frame(self, frame)

    def pause_writing(self) -> None:
        """Bytes wait for the socket."""
        self._paused = True

    def resume_writing(self) -> None:
        """The last waiting byte left."""
        self._paused = False
        if not self._lost:
            self._listener.transport_written(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._tell_lost(f"connection lost: {exc}" if exc else "the broker closed the connection")

    def fileno(self) -> int:
        """The socket's number, -1 while there is none; a loop that is closed has closed it, too."""
        return self._file if self._loop is not None and not self._loop.is_closed() else -1

    # ---- the shell's calls ----------------------------------------------------------------------------------------

    def write(self, buffers: list[Buffer]) -> None:
        """Write all buffers in order, by reference; `transport_written` follows, maybe from inside this call."""
        if self._transport is None or self._lost:
            return
        if buffers := self._write_small(buffers):
            write_all(self._transport, buffers)
        if not self._paused:
            self._listener.transport_written(self)

    def abort(self) -> None:
        """Close at once and report nothing more; no byte of a buffer is read after this."""
        self._lost = True
        if self._transport is not None:
            self._transport.abort()

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _write_small(self, buffers: list[Buffer]) -> list[Buffer]:
        """Writes a small request at once, where nothing waits for the socket; returns what is left to write.

        The write wakes a broker on this machine, which may take this thread's processor until it has answered. uvloop
        holds Python's lock while it writes, and the thread that decodes would stand still for so long.
        """
        assert self._transport is not None
        assert self._loop is not None
        if self._file < 0 or self._transport.get_write_buffer_size() or sum(map(len, buffers)) > _SMALL_BYTES_MAX:
            return buffers
        if self._loop.is_closed():  # it closed the socket and told nobody: its number may be another file's by now
            return buffers
        data = b"".join(buffers)
        try:
            left = data[os.write(self._file, data) :]
        except OSError:  # the transport will meet it, too, and tell
            left = data
        return [left] if left else []

    def _set_up_socket(self) -> None:
        assert self._transport is not None
        sock = self._transport.get_extra_info("socket")
        if sock is not None and os.name == "posix":  # elsewhere a socket is no file
            self._file = sock.fileno()
        if sys.platform == "linux":
            self._socket = sock
        if sock is not None:
            keep_alive(sock)
        for option, size in self._socket_buffers:
            if sock is not None and size > 0 and sock.getsockopt(socket.SOL_SOCKET, option) < size:
                sock.setsockopt(socket.SOL_SOCKET, option, size)

    def _cut_frames(self) -> None:
        start, filled, view = 0, self._filled, self._scratch_view
        while filled - start >= 4 and not self._lost:
            length = int.from_bytes(view[start : start + 4], "big")
            if length > MAX_FRAME_BYTES or length < 4:
                self._refuse(length, b"" if self._heard else bytes(view[:filled]))
                return
            end = start + 4 + length
            if end > filled:
                if end - start > _SCRATCH_BYTES:
                    self._begin_large(length, view[start + 4 : filled])
                    start = filled
                break
            self._listener.transport_frame(self, memoryview(bytes(view[start + 4 : end])))
            start = end
        if start:
            self._heard = True
            left = filled - start
            view[:left] = view[start:filled]
            self._filled = left

    def _begin_large(self, length: int, head: memoryview) -> None:
        # Fresh and filled with zeros each time: into a buffer that another processor read last the system copies four
        # times slower, which costs more than the zeros do.
        self._frame = memoryview(mmap(-1, length) if length >= _MAPPED_BYTES_MIN else bytearray(length))
        self._frame_bytes = length
        self._frame[: len(head)] = head
        self._frame_filled = len(head)
        self._wake_at(length - len(head))

    def _wake_at(self, left: int) -> None:
        """Lets the system wake the loop once it has much of a large frame, at the latest when `left` bytes are there.

        Each piece takes Python's lock twice, which a thread that decodes would have to give up. Linux wakes a reader
        all the same when its buffer is full or the peer is gone (`tcp_stream_is_readable`).
        """
        wake_bytes = max(min(left, _WAKE_BYTES), 1)
        if wake_bytes != self._wake_bytes and self._socket is not None:
            self._wake_bytes = wake_bytes
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wake_bytes)
            except OSError:  # a system that has no such thing (a sandbox) wakes for every piece
                self._socket = None

    def _refuse(self, length: int, first: bytes) -> None:
        """No frame begins so; `first` are the bytes of a connection on which none came before."""
        self.abort()
        self._lost = False
        self._tell_lost(stranger(first) or f"a frame of {length} bytes is none of Kafka's: is this port a broker's?")

    def _tell_lost(self, reason: str) -> None:
        if not self._lost:
            self._lost = True
            self._listener.transport_lost(self, reason)
