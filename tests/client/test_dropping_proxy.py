"""C04 over real sockets: a proxy loses an answer with five requests in flight; each record is there once, in order.

The simulated twin, with losses at random, stands in `tests/client/produce/test_sender.py`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from barnabas import aio
from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka import codec as kafka
from barnabas.protocol.native import codec as native

PREAMBLE = b"BNB1"
IN_FLIGHT = (5, 1)
"""At the first loss all that may be in flight is; the batch that is retried goes alone, and is lost again."""
RECORDS = 1000
WAIT = 60.0


class DroppingProxy:
    """Passes frames both ways, but for one Produce answer for each of `losses`: it holds that one back until so many
    requests wait for an answer, and ends the connection then. The broker has written, and the client cannot know.
    """

    def __init__(self) -> None:
        self.losses: deque[int] = deque()
        self.waited: list[int] = []
        self.broker_port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Listen; returns the port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        there, to_broker = await asyncio.open_connection("127.0.0.1", self.broker_port)
        asked: deque[int] = deque()
        more = asyncio.Event()
        back = asyncio.ensure_future(self._answers(there, writer, asked, more))
        forth = asyncio.ensure_future(self._requests(reader, to_broker, asked, more))
        try:
            await asyncio.wait((back, forth), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (back, forth):
                each.cancel()
            await asyncio.gather(back, forth, return_exceptions=True)
            writer.close()
            to_broker.close()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: deque[int], more: asyncio.Event
    ) -> None:
        decode: Callable[[memoryview], Any] = kafka.decode_request
        head = await reader.readexactly(4)
        if head == PREAMBLE:
            decode = native.decode_request
            writer.write(head)
            head = await reader.readexactly(4)
        while True:
            frame = await reader.readexactly(int.from_bytes(head, "big"))
            asked.append(decode(memoryview(frame))[0].api_key)
            more.set()
            writer.write(head + frame)
            head = await reader.readexactly(4)

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: deque[int], more: asyncio.Event
    ) -> None:
        while True:
            head = await reader.readexactly(4)
            frame = await reader.readexactly(int.from_bytes(head, "big"))
            if asked[0] == ApiKey.PRODUCE and self.losses:
                while asked.count(ApiKey.PRODUCE) < self.losses[0]:
                    more.clear()
                    await more.wait()
                self.losses.popleft()
                self.waited.append(asked.count(ApiKey.PRODUCE))
                return
            asked.popleft()
            writer.write(head + frame)


@pytest.mark.parametrize("dialect", ["kafka", "native"])
async def test_c04_a_lost_answer_with_five_in_flight_leaves_each_record_once_and_in_order(dialect: Any) -> None:
    sent = [b"%04d" % number for number in range(RECORDS)]
    proxy = DroppingProxy()
    port = await proxy.start()
    advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    async with aio.Broker(topics={"t": 1}, config=advertised) as broker:
        proxy.broker_port = broker.port
        servers = f"127.0.0.1:{port}"
        async with aio.Producer(servers, dialect=dialect, batch_size=500, linger_ms=0) as producer:
            futures = [await producer.send("t", sent[0])]
            await asyncio.wait_for(futures[0], WAIT)  # a partition's first goes alone
            proxy.losses.extend(IN_FLIGHT)
            futures += [await producer.send("t", value) for value in sent[1:]]
            offsets = [(await asyncio.wait_for(future, WAIT)).offset for future in futures]
        assert offsets == list(range(RECORDS))
        settings = {"auto.offset.reset": "earliest", "dialect": dialect}
        found: list[bytes] = []
        async with aio.Consumer("t", config=settings, bootstrap_servers=servers) as consumer:
            ends = await consumer.end_offsets(consumer.assignment())
            assert list(ends.values()) == [RECORDS]
            while len(found) < RECORDS:
                records = await consumer.poll(WAIT)
                assert records
                found += [record.value for record in records]
        assert found == sent
    await proxy.stop()
    assert tuple(proxy.waited) == IN_FLIGHT
