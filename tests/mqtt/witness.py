"""A wire between a bridge and its MQTT broker that reads along: what was delivered, and what was acknowledged when.

MQTT 5.0, section 2 and 3.3 to 3.4: a fixed header (type, flags, remaining length as a variable byte integer), then for
PUBLISH a topic, a packet id with QoS above 0, properties, the payload; for PUBACK the packet id.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

PUBLISH, PUBACK = 3, 4


@dataclass
class Connection:
    """One connection: packet ids and payloads as they were delivered, packet ids as they were acknowledged."""

    delivered: list[tuple[int, bytes]] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)
    ended: bool = False

    def acknowledged_payloads(self) -> list[bytes]:
        return [payload for _, payload in self.delivered[: len(self.acknowledged)]]

    def check(self) -> None:
        """Acknowledgements are a beginning of what was delivered, in its order."""
        assert self.acknowledged == [mid for mid, _ in self.delivered[: len(self.acknowledged)]]


@dataclass
class Witness:
    """Listens on `port`, and carries to `upstream`. `on_ack(payload)` is told of each acknowledgement as it passes."""

    upstream: int
    five: bool = True
    connections: list[Connection] = field(default_factory=list)
    on_ack: Callable[[bytes], None] = lambda payload: None
    port: int = 0

    def newest(self) -> int:
        """The number that was acknowledged last, where payloads are numbers."""
        payloads = [one.delivered[len(one.acknowledged) - 1][1] for one in self.connections if one.acknowledged]
        return int(payloads[-1]) if payloads else 0

    def ahead(self, sent: int) -> float:
        """By how much who has `sent` so many numbers is ahead of what the MQTT broker was acknowledged, at most.

        No number tells it where a connection ended before all was acknowledged, until the next one brings what is
        open: the MQTT broker may never have read what was acknowledged on the last one.
        """
        behind = sent - self.newest()
        last = self.connections[-1]
        in_doubt = last.ended or (len(self.connections) > 1 and not last.acknowledged)
        return math.inf if in_doubt and behind > 1 else behind

    async def start(self) -> None:
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """End all connections at once, as a network does that goes."""
        for writer in self._writers:
            writer.transport.abort()

    async def close(self) -> None:
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self.upstream)
        except OSError:
            writer.transport.abort()
            self._tasks.discard(task)
            return
        connection = Connection()
        self.connections.append(connection)
        self._writers |= {writer, upstream}
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await asyncio.gather(
                self._carry(reader, upstream, connection, self._from_bridge),
                self._carry(upstream_reader, writer, connection, self._from_broker),
            )
        connection.ended = True
        for each in (writer, upstream):
            self._writers.discard(each)
            each.transport.abort()
        self._tasks.discard(task)

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        connection: Connection,
        seen: Callable[[Connection, int, bytes], None],
    ) -> None:
        left = b""
        try:
            while data := await reader.read(65536):
                left += data
                size = 0
                for first, body, end in packets(left):
                    seen(connection, first, body)
                    size = end
                left = left[size:]
                writer.write(data)
                await writer.drain()
        finally:
            writer.transport.abort()

    def _from_broker(self, connection: Connection, first: int, body: bytes) -> None:
        if first >> 4 != PUBLISH or not first & 6:
            return
        at = 2 + int.from_bytes(body[:2], "big")
        mid = int.from_bytes(body[at : at + 2], "big")
        at += 2
        if self.five:
            size, at = variable(body, at)
            at += size
        connection.delivered.append((mid, body[at:]))

    def _from_bridge(self, connection: Connection, first: int, body: bytes) -> None:
        if first >> 4 == PUBACK:
            connection.acknowledged.append(int.from_bytes(body[:2], "big"))
            mid, payload = connection.delivered[len(connection.acknowledged) - 1]
            assert connection.acknowledged[-1] == mid  # those before were looked at as they came
            self.on_ack(payload)


def packets(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """First byte, body and end of each whole packet."""
    at = 0
    while at + 2 <= len(data):
        try:
            size, begin = variable(data, at + 1)
        except IndexError:
            return
        if begin + size > len(data):
            return
        yield data[at], data[begin : begin + size], begin + size
        at = begin + size


def variable(data: bytes, at: int) -> tuple[int, int]:
    """A variable byte integer, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        shift += 7
        at += 1
        if byte < 128:
            return value, at
