"""The producer for coroutines: the core on the running loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Self

from barnabas.client.futures import AsyncRecordFuture
from barnabas.client.produce.batch import BatchResult
from barnabas.client.produce.config import ProducerConfig
from barnabas.client.produce.core import NeedMemory, NeedMetadata, Placed
from barnabas.client.produce.records import Headers, ProducerRecord, RecordMetadata
from barnabas.client.sending import OnDelivery, make_core, too_long, wall_ms, watch
from barnabas.net.cluster import PartitionInfo
from barnabas.net.errors import ClientClosed, ClientTimeout
from barnabas.net.host.connection import monotonic_ms
from barnabas.protocol.errors import BarnabasError

log = logging.getLogger(__name__)


class AsyncProducer:
    """Sends records from coroutines of one loop. Settings are Kafka's (`produce/config.py`)."""

    def __init__(self, settings: Mapping[str, Any] | str | None = None, **named: Any) -> None:
        self.config = ProducerConfig.of(settings, **named)
        self._client, self._core = make_core(self.config, AsyncRecordFuture)
        self._closed = False
        self._wake_planned = False

    async def start(self) -> Self:
        """Begin to connect; `send` waits for what it needs."""
        self._client.drivers.append(self._core.make_sender().step)
        self._client.open()
        return self

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - what is left then fails
        """Send what is left, for at most `timeout` seconds (None: until every record has its outcome), and close."""
        if self._closed:
            return
        self._closed = True
        self._core.accumulator.closed = True
        try:
            await asyncio.wait_for(self._drained(), timeout)
        except TimeoutError:
            log.warning("closing with %d batches undelivered", len(self._core.accumulator.incomplete))
        self._core.sender.abort(ClientClosed("the producer was closed before the record was delivered"))
        await self._client.close()
        self._core.interceptors.close()

    async def __aenter__(self) -> Self:
        """Start."""
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        """Stop; after an exception without waiting for what is left."""
        await self.stop(None if kind is None else 0)

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> AsyncRecordFuture:
        """Hand over one record; awaits only metadata and memory, `max.block.ms` at most. Await the future for more.

        Raises:
            ClientClosed: the producer was stopped.
            SerializationFailed: a serializer refused key or value.
            ValueError: a negative partition.
        """
        if self._closed:
            raise ClientClosed("the producer is closed")
        core = self._core
        if not core.plain:
            record = core.prepare(ProducerRecord(topic, value, key, headers, partition, timestamp_ms))
            topic, value, key = record.topic, record.value, record.key
            headers, partition, timestamp_ms = record.headers, record.partition, record.timestamp_ms
        stamp_ms = wall_ms() if timestamp_ms is None else timestamp_ms
        future = core.append_fast(topic, value, key, headers, partition, stamp_ms)
        if future is None:
            if core.plain:
                record = core.prepare(ProducerRecord(topic, value, key))
                value, key = record.value, record.key
            future = await self._place(topic, partition, key, value, headers, stamp_ms)
        if on_delivery is not None or core.interceptors:
            watch(core, future, on_delivery)
        return future

    async def send_and_wait(self, topic: str, value: Any = None, key: Any = None, **options: Any) -> RecordMetadata:
        """Send one record and await its outcome."""
        return await (await self.send(topic, value, key, **options))

    async def flush(self) -> None:
        """Send everything now and wait until every record handed over so far has its outcome."""
        self._core.accumulator.flushing += 1
        try:
            await self._drained()
        finally:
            self._core.accumulator.flushing -= 1

    async def partitions_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The topic's partitions.

        Raises:
            ClientTimeout: it is not known after `max.block.ms`.
        """
        deadline_ms = monotonic_ms() + self.config.max_block_ms
        while not self._client.cluster.partitions_for(topic):
            await self._wait_for_topic(topic, None, deadline_ms)
        return self._client.cluster.partitions_for(topic)

    async def _drained(self) -> None:
        self._client.pump()
        pending = [batch.result for batch in self._core.accumulator.incomplete]
        for result in pending:  # grows while it is walked: a split batch's parts follow
            await _settled(result)
            pending.extend(part for _, part in result.parts)

    async def _place(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        stamp_ms: int,
    ) -> AsyncRecordFuture:
        try:
            self._core.check_size(key, value, headers)
            placed = await self._wait_and_append(topic, partition, key, value, headers, stamp_ms)
        except ClientClosed:
            raise
        except BarnabasError as error:
            return self._core.failed(topic, partition, error, stamp_ms)
        return self._core.future(placed.result, placed.at, stamp_ms)

    async def _wait_and_append(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        stamp_ms: int,
    ) -> Placed:
        deadline_ms = monotonic_ms() + self.config.max_block_ms
        buffer = None
        while True:
            now_ms = monotonic_ms()
            got = self._core.append(topic, partition, key, value, headers, stamp_ms, now_ms, buffer)
            if isinstance(got, Placed):
                if self._core.should_wake(got, now_ms):
                    self._plan_wake()
                return got
            if now_ms >= deadline_ms:
                raise too_long(got, topic, partition, self.config.max_block_ms)
            if isinstance(got, NeedMemory):
                buffer = await self._wait_for_memory(got, deadline_ms)
            else:
                buffer = None
                await self._wait_for_topic(topic, partition, deadline_ms)
            if self._closed:
                raise ClientClosed("the producer was closed while a send waited")

    async def _wait_for_memory(self, need: NeedMemory, deadline_ms: int) -> bytearray | None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        pool = self._core.accumulator.pool
        waiter = pool.wait(need.size, lambda: None if ready.done() else ready.set_result(None))
        self._client.pump()
        try:
            await asyncio.wait([ready], timeout=max(deadline_ms - monotonic_ms(), 0) / 1000)
        except asyncio.CancelledError:
            pool.give_up(waiter)
            raise
        if waiter.buffer is None:
            pool.give_up(waiter)
        return waiter.buffer

    async def _wait_for_topic(self, topic: str, partition: int | None, deadline_ms: int) -> None:
        metadata = self._client.metadata
        version = metadata.add_topics((topic,), monotonic_ms())
        if not metadata.update_requested:
            metadata.request_update()
        try:
            left_ms = max(deadline_ms - monotonic_ms(), 0)
            await self._client.wait_for_metadata(lambda: metadata.version > version, left_ms)
        except ClientTimeout:
            raise too_long(NeedMetadata(topic), topic, partition, self.config.max_block_ms) from None

    def _plan_wake(self) -> None:
        if not self._wake_planned:
            self._wake_planned = True
            asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        self._wake_planned = False
        self._client.pump()


async def _settled(result: BatchResult) -> None:
    if result.done:
        return
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    result.watch(0, lambda: None if outcome.done() else outcome.set_result(None))
    await outcome
