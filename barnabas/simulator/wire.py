"""One side of a connection: the socket, and asyncio's transport over it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from barnabas.protocol.ids import Buffer
from barnabas.simulator.pipe import End, Item, Pipe

if TYPE_CHECKING:
    from barnabas.simulator.loop import ProcessLoop
    from barnabas.simulator.network import Network

_WINDOWS_TOLD: Final = 4
"""Who reads tells of it when so large a part of the window is free again; else each read would be an event."""
Tap = Callable[["Wire", bool, bytes], None]
"""Is told of bytes as the process reads (True) or writes (False) them."""


class Wire(asyncio.Transport):
    """A stream transport that keeps asyncio's contract; no byte of a buffer is read after `write` has returned.

    Attributes:
        pipe: what leaves here.
        peer: the other side.
        gone: whether the process has let go of it, or is gone itself.
    """

    def __init__(self, network: Network, loop: ProcessLoop, name: str, peername: tuple[str, int]) -> None:
        super().__init__({"peername": peername})
        self.host = loop.host
        self.loop = loop
        self.name = name
        self.gone = False
        self.pipe: Pipe
        self.peer: Wire
        self.tap: Tap | None = None
        self._network = network
        self._protocol: Any = None
        self._inbox: deque[bytes] = deque()
        self._out = bytearray()
        self._read_bytes = 0
        """Read, and not told of yet."""
        self._high, self._low = 64 * 1024, 16 * 1024
        self._reading = True
        self._read_due = False
        self._choked = False
        self._closing = False
        self._eof = False
        self._told = False

    def attach(self, protocol: Any) -> None:
        """Hand over to a protocol, and begin to read."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._read_later()

    # -- what arrives

    def arrived(self, item: Item) -> None:
        """Something came over the network."""
        if self.gone:
            if isinstance(item, bytes) or item is End.EOF:
                self.pipe.put(End.RESET)
        elif isinstance(item, bytes):
            self._inbox.append(item)
            self._read_later()
        elif isinstance(item, int):
            self.pipe.room += item
            if self._out:
                self.loop.call_soon(self._flush)
        elif item is End.RESET:
            self.failed(ConnectionResetError("connection reset by peer"))
        else:
            self._eof = True
            self._read_later()

    def failed(self, error: OSError) -> None:
        """The connection is no more."""
        if not self.gone:
            self._let_go()
            self.loop.call_soon(self._tell_lost, error)

    def _read_later(self) -> None:
        there_is_some = (self._inbox or self._eof) and self._reading and self._protocol is not None
        if there_is_some and not (self._read_due or self._closing or self.gone):
            self._read_due = True
            self.loop.call_soon(self._read)

    def _read(self) -> None:
        """One read: as much as there is, and as fits."""
        self._read_due = False
        if not self._reading or self._closing or self.gone:
            return
        if not self._inbox:
            self._reading = False
            if not self._protocol.eof_received():
                self.close()
            return
        target = memoryview(self._protocol.get_buffer(-1))
        filled = 0
        while self._inbox and filled < len(target):
            piece = self._inbox.popleft()
            size = min(len(piece), len(target) - filled)
            target[filled : filled + size] = piece[:size]
            filled += size
            if size < len(piece):
                self._inbox.appendleft(piece[size:])
        if self.tap is not None:
            self.tap(self, True, bytes(target[:filled]))
        target.release()
        self._read_bytes += filled
        if self._read_bytes * _WINDOWS_TOLD >= self._network.window:
            self.pipe.put(self._read_bytes)
            self._read_bytes = 0
        self._protocol.buffer_updated(filled)
        self._read_later()

    # -- asyncio.Transport

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._closing or self.gone

    def is_reading(self) -> bool:
        """Whether it reads."""
        return self._reading and not self.is_closing()

    def pause_reading(self) -> None:
        """Leave what comes where it is."""
        self._reading = False

    def resume_reading(self) -> None:
        """Read on."""
        if not self._closing:
            self._reading = True
            self._read_later()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """When writing is to pause, and when to go on."""
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """Bytes that the system has not taken yet."""
        return len(self._out)

    def write(self, data: Buffer) -> None:
        """Send a copy."""
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Send a copy of all of them."""
        data = b"".join(list_of_data)
        if self._closing or self.gone or not data:
            return
        if self.tap is not None:
            self.tap(self, False, data)
        sent = 0 if self._out else self.pipe.send(data)
        self._out += data[sent:]
        if len(self._out) > self._high and not self._choked:
            self._choked = True
            self._network.world.count("writers stalled")
            self._protocol.pause_writing()

    def _flush(self) -> None:
        if self.gone or not self._out:
            return
        del self._out[: self.pipe.send(bytes(self._out))]
        if self._choked and len(self._out) <= self._low:
            self._choked = False
            self._protocol.resume_writing()
        if self._closing and not self._out:
            self._finish()

    def close(self) -> None:
        """Close once all is sent."""
        if not self.is_closing():
            self._closing = True
            if not self._out:
                self._finish()

    def _finish(self) -> None:
        if not self.gone:
            self.pipe.put(End.RESET if self._inbox else End.EOF)
            self._let_go()
            self.loop.call_soon(self._tell_lost, None)

    def abort(self) -> None:
        """Close now."""
        if not self.gone:
            self._closing = True
            self.pipe.put(End.RESET)
            self._let_go()
            self.loop.call_soon(self._tell_lost, None)

    # -- the end

    def process_ended(self) -> None:
        """The process is gone, and the system closes what it had open."""
        if not self.gone:
            self.pipe.put(End.RESET if self._inbox else End.EOF)
            self._let_go()

    def machine_ended(self) -> None:
        """The machine is gone, and nobody is told."""
        self.pipe.orphan()
        self._let_go()

    def _let_go(self) -> None:
        self.gone = True
        self._inbox.clear()
        self._out.clear()
        self._network.forget(self)

    def _tell_lost(self, error: Exception | None) -> None:
        if not self._told:
            self._told = True
            if self._protocol is not None:
                self._protocol.connection_lost(error)


def server_side(wire: Wire, factory: Callable[[], asyncio.BaseProtocol]) -> None:
    """The accepting process takes a connection."""
    if not wire.gone:
        wire.attach(cast("Any", factory()))
