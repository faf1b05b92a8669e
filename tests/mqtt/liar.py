"""An MQTT broker that says what a test has it say: MQTT 5.0 packets, or none of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from tests.mqtt.witness import variable

CONNACK = b"\x20\x03\x00\x00\x00"
SUBSCRIBE, DISCONNECT = 8, 14


class Peer:
    """One connection, from the liar's side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> tuple[int, bytes]:
        """Type and body of the next packet."""
        first = await self._reader.readexactly(1)
        size = b""
        while not size or size[-1] & 128:
            size += await self._reader.readexactly(1)
        return first[0] >> 4, await self._reader.readexactly(variable(size, 0)[0])

    async def until(self, kind: int) -> bytes:
        """The body of the next packet of a type."""
        while True:
            found, body = await self.read()
            if found == kind:
                return body

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def accept(self) -> bytes:
        """Answer CONNECT, and take the SUBSCRIBE that follows; its packet id."""
        await self.read()
        self.write(CONNACK)
        return (await self.until(SUBSCRIBE))[:2]


def packet(first: int, body: bytes) -> bytes:
    """A whole packet."""
    size, left = b"", len(body)
    while True:
        left, low = left >> 7, left & 127
        size += bytes([low | (128 if left else 0)])
        if not left:
            return bytes([first]) + size + body


def publish(topic: bytes, payload: bytes, mid: int) -> bytes:
    """A message of QoS 1."""
    return packet(0x32, len(topic).to_bytes(2, "big") + topic + mid.to_bytes(2, "big") + b"\0" + payload)


Says = Callable[[Peer], Awaitable[object]]


@asynccontextmanager
async def liar(says: Says) -> AsyncIterator[int]:
    """Its port, while it listens. Each connection is closed once `says` ends."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await says(Peer(reader, writer))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
