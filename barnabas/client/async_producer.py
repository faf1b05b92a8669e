"""The producer for coroutines: the core on the running loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar, Unpack

from barnabas.client.arguments import check_named, milliseconds
from barnabas.client.futures import AsyncRecordFuture
from barnabas.client.handle import Handle
from barnabas.client.produce.checks import checked_timestamp
from barnabas.client.produce.columns.rows import CHOSEN
from barnabas.client.produce.config import ProducerConfig
from barnabas.client.produce.placing import Memory, Topic, Wait, drain, know, limit_of, place, place_chunk
from barnabas.client.produce.records import Headers, OnDelivery, ProducerRecord, RecordMetadata
from barnabas.client.produce.result import BatchResult
from barnabas.client.sending import make_core, tell
from barnabas.client.sent_columns import AsyncSentColumns
from barnabas.client.unclosed import closed, opened
from barnabas.net.counts import Metrics
from barnabas.net.errors import NOT_STARTED, ClientClosed, ClientTimeout
from barnabas.net.host.connection import leave_loop
from barnabas.net.host.forks import belongs_to_parent, tell_child
from barnabas.net.host.surroundings import REAL, Surroundings
from barnabas.net.topology import PartitionInfo
from barnabas.protocol.errors import BarnabasError

if TYPE_CHECKING:
    from barnabas.client.settings import ProducerSettings

log = logging.getLogger(__name__)

T = TypeVar("T")


class AsyncProducer(Handle):
    """Sends records from coroutines of one loop. Settings and timeouts (seconds) as with `Producer`.

    `start` begins, `close` ends; `async with` does both.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | str | None = None,
        *more: Never,
        surroundings: Surroundings = REAL,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        check_named(more)
        self.config = ProducerConfig.of(config, **settings)
        self._client, self._core = make_core(self.config, surroundings, AsyncRecordFuture)
        self._core.make_sender(leave=leave_loop)
        self._core.closed = NOT_STARTED
        self._wall_ms = surroundings.wall_ms
        self._wake_planned = False
        self._lost = 0
        tell_child(self)

    async def start(self) -> Self:
        """Begin to connect; `send` waits for what it needs.

        Raises:
            ClientClosed: it was closed: make a new one.
        """
        if self._core.closed == NOT_STARTED:
            self._core.closed = None
            self._client.drivers.append(self._core.sender.step)
            self._client.open()
            opened(self)
        self._core.check_open()
        return self

    async def close(self, timeout: float | None = None) -> None:
        """Send what is left, for at most `timeout` seconds (None: until all have an outcome); what remains then fails.

        A second call does nothing.
        """
        milliseconds(timeout)  # refused before anything is closed
        if self._core.closed not in (None, NOT_STARTED):
            return
        self._core.closed = "the producer is closed"
        self._core.accumulator.closed = True
        closed(self)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._drained()
        finally:  # also when it is cancelled
            self._lost = self._core.accumulator.undelivered
            if self._lost:
                log.warning("closing with %d records undelivered%s", self._lost, self._client.metadata.troubles.why())
            self._core.sender.abort(ClientClosed("the producer was closed before the record was delivered"))
            await self._client.close()
            self._core.interceptors.close()

    async def __aenter__(self) -> Self:
        """Start."""
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        """Close; after an exception within `close.timeout.ms`."""
        await self.close(None if kind is None else self.config.close_timeout_ms / 1000)

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
            ClientClosed: the producer was closed, or not started.
            InvalidRecord: topic, partition, timestamp or headers are none, or `on_delivery` is no function.
            SerializationFailed: a serializer refused key or value.
        """
        core = self._core
        if core.closed is not None:
            raise ClientClosed(core.closed)
        if not core.plain:
            record = core.prepare(ProducerRecord(topic, value, key, headers, partition, timestamp_ms), on_delivery)
            topic, value, key = record.topic, record.value, record.key
            headers, partition, timestamp_ms = record.headers, record.partition, record.timestamp_ms
            if core.interceptors:
                on_delivery = core.interceptors.before(on_delivery)
        stamp_ms = self._wall_ms() if timestamp_ms is None else checked_timestamp(timestamp_ms)
        future = core.append_fast(topic, value, key, headers, partition, stamp_ms, on_delivery)
        if future is None:
            if core.plain:
                record = core.prepare(ProducerRecord(topic, value, key, headers, partition, stamp_ms), on_delivery)
                value, key, headers, partition = record.value, record.key, record.headers, record.partition
                stamp_ms = record.timestamp_ms or 0
            now_ms, wait_ms = self._client.now_ms(), self.config.max_block_ms
            placing = place(core, topic, partition, key, value, headers, stamp_ms, now_ms, wait_ms, on_delivery)
            made, placed = await self._placed(placing)
            if on_delivery is not None and not placed:
                tell(made, on_delivery)
            return made
        return future

    async def send_columns(self, topic: str, columns: Any, *, partition: int | None = None) -> AsyncSentColumns:
        """Hand over the rows of a table, as `Producer.send_columns`; others have their turn between its batches."""
        core, wait_ms = self._core, self.config.max_block_ms
        core.check_open()
        rows = core.rows_of(topic, columns, partition, self._wall_ms())
        sent = AsyncSentColumns(len(rows))
        try:
            await self._placed(know(core, topic, rows.largest_partition, self._client.now_ms(), wait_ms))
            for chunk in core.chunks(topic, rows):
                placing = place_chunk(core, topic, chunk, self._client.now_ms(), wait_ms)
                sent.add(await self._placed(placing), chunk.rows)
                await asyncio.sleep(0)
        except BarnabasError as error:
            sent.error = error
        return sent

    async def send_and_wait(self, topic: str, value: Any = None, key: Any = None, **options: Any) -> RecordMetadata:
        """Send one record and await its outcome."""
        return await (await self.send(topic, value, key, **options))

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until every record handed over so far has its outcome.

        Raises:
            ClientClosed: the producer was not started.
            ClientTimeout: some had none after `timeout` seconds.
        """
        milliseconds(timeout)
        self._core.check_owned()
        self._client.check_started()
        try:
            await asyncio.wait_for(self._drained(), timeout)
        except TimeoutError:
            raise ClientTimeout(
                f"records without an outcome after {timeout} s of flush{self._client.metadata.troubles.why()}"
            ) from None

    async def partitions_for(self, topic: str, timeout: float | None = None) -> tuple[PartitionInfo, ...]:
        """The topic's partitions.

        Raises:
            ClientClosed: the producer was closed, or not started.
            ClientTimeout: it is not known after `timeout` seconds (None: `max.block.ms`).
            KafkaError: the topic is refused for good (invalid name, no authorisation).
        """
        self._core.check_open()
        limit = limit_of(timeout, self.config)
        await self._placed(know(self._core, topic, CHOSEN, self._client.now_ms(), *limit))
        return self._client.cluster.partitions_for(topic)

    def metrics(self) -> Metrics:
        """Figures in groups, by Kafka's names: `metrics()["producer-metrics"]["record-send-total"]`."""
        return self._client.metrics("producer")

    # ---- the end of the program, and forks ------------------------------------------------------------------------

    @property
    def failed(self) -> BarnabasError | None:
        """What this producer can never go on after (its id is refused, say), or None: make a new one."""
        return self._core.sender.fatal or self._core.metadata.fatal

    @property
    def undelivered(self) -> int:
        """Records without an outcome, or given up when this was closed."""
        return self._lost + self._core.accumulator.undelivered

    @property
    def close_seconds(self) -> float:
        """`close.timeout.ms` in seconds."""
        return self.config.close_timeout_ms / 1000

    def forked(self) -> None:
        """In the child of a fork: what was handed over is the parent's."""
        closed(self)
        self._core.forked(belongs_to_parent("producer"))

    # ---- waiting --------------------------------------------------------------------------------------------------

    async def _drained(self) -> None:
        with closing(drain(self._core)) as draining:
            self._client.pump()
            for result in draining:
                await _settled(result)

    async def _placed(self, placing: Generator[Wait, int, tuple[T, bool]]) -> T:
        with closing(placing):
            try:
                wait = next(placing)
                while True:
                    await (self._wait_for_memory(wait) if isinstance(wait, Memory) else self._wait_for_topic(wait))
                    wait = placing.send(self._client.now_ms())
            except StopIteration as end:
                got: T
                got, wakes = end.value
        if wakes:
            self._plan_wake()
        return got

    async def _wait_for_memory(self, wait: Memory) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wait.waiter.wake = lambda: None if ready.done() else ready.set_result(None)
        self._client.pump()
        if wait.waiter.buffer is None:
            await asyncio.wait([ready], timeout=max(wait.deadline_ms - self._client.now_ms(), 0) / 1000)

    async def _wait_for_topic(self, wait: Topic) -> None:
        metadata = self._client.metadata
        metadata.want(wait.name, self._client.now_ms())
        with suppress(ClientTimeout):
            left_ms = max(wait.deadline_ms - self._client.now_ms(), 0)
            await self._client.wait_for_metadata(lambda: metadata.version > wait.version, left_ms)

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
