"""The producers: `AsyncProducer` for coroutines, `Producer` for everybody else.

    with Producer(bootstrap_servers="localhost:9092", value_serializer="json") as producer:
        future = producer.send("flights", {"origin": "JFK"}, key=b"UA1545")
        print(future.result(10).offset)

Both are the same core. The asyncio one lives on the running loop. The blocking one has one sender thread that owns a
loop of its own; any number of threads append to the accumulator under one short lock, and wake the sender only when it
would otherwise sleep too long. (Above 400 lines: the two stand side by side because they must stay alike.)
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from barnabas.client.connection import Client, monotonic_ms
from barnabas.client.core.cluster import PartitionInfo
from barnabas.client.core.config import ProducerConfig
from barnabas.client.core.errors import BufferExhausted, ClientClosed, ClientTimeout
from barnabas.client.core.metadata import Metadata
from barnabas.client.core.producer import NeedMemory, NeedMetadata, Placed, ProducerCore
from barnabas.client.core.producer_batch import BatchResult
from barnabas.client.core.records import Headers, ProducerRecord, RecordMetadata
from barnabas.client.futures import AsyncRecordFuture, BlockingRecordFuture, RecordFuture
from barnabas.protocol.errors import BarnabasError

log = logging.getLogger(__name__)

F = TypeVar("F")

OnDelivery = Callable[[RecordMetadata | None, BarnabasError | None], Any]
"""Called on the sender's thread with a record's metadata or its error."""


def wall_ms() -> int:
    """Time of day in ms since the epoch: what a record is stamped with unless the caller says otherwise."""
    return time.time_ns() // 1_000_000


def _make_core(config: ProducerConfig, future: Callable[[BatchResult, int, int], F]) -> tuple[Client, ProducerCore[F]]:
    metadata = Metadata(config, random.random, topic_idle_ms=config.metadata_max_idle_ms)
    client = Client(config, metadata)
    return client, ProducerCore(config, metadata, client.network, random.random, future)


def _too_long(need: NeedMetadata | NeedMemory, topic: str, partition: int | None, wait_ms: int) -> BarnabasError:
    if isinstance(need, NeedMemory):
        return BufferExhausted(f"no {need.size} bytes of buffer.memory became free within max.block.ms ({wait_ms} ms)")
    what = f"topic {topic}" if partition is None else f"partition {partition} of topic {topic}"
    return ClientTimeout(f"{what} is not in the metadata after max.block.ms ({wait_ms} ms)")


class AsyncProducer:
    """Sends records from coroutines of one loop. Settings are Kafka's (`core/config.py`, `ProducerConfig`)."""

    def __init__(self, settings: Mapping[str, Any] | str | None = None, **named: Any) -> None:
        self.config = ProducerConfig.of(settings, **named)
        self._client, self._core = _make_core(self.config, AsyncRecordFuture)
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
            _watch(core, future, on_delivery)
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
                if got.begun and self._core.should_wake(now_ms):
                    self._plan_wake()
                return got
            if now_ms >= deadline_ms:
                raise _too_long(got, topic, partition, self.config.max_block_ms)
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
            raise _too_long(NeedMetadata(topic), topic, partition, self.config.max_block_ms) from None

    def _plan_wake(self) -> None:
        if not self._wake_planned:
            self._wake_planned = True
            asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        self._wake_planned = False
        self._client.pump()


def _watch(core: ProducerCore[Any], future: RecordFuture, on_delivery: OnDelivery | None) -> None:
    """Tell the callback and the interceptors of a record's outcome."""

    def told(future: RecordFuture) -> None:
        metadata, error = future.outcome()
        if core.interceptors:
            core.interceptors.on_acknowledgement(metadata, error)
        if on_delivery is not None:
            on_delivery(metadata, error)

    future.add_done_callback(told)


async def _settled(result: BatchResult) -> None:
    if result.done:
        return
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    result.watch(0, lambda: None if outcome.done() else outcome.set_result(None))
    await outcome


class Producer:
    """Sends records from any thread. Settings are Kafka's (`core/config.py`, `ProducerConfig`); timeouts in seconds.

    The constructor starts the sender thread and does not wait for a broker. A producer does not survive `fork`: the
    child gets `ClientClosed` and makes its own. One that nobody closed is closed at exit.
    """

    def __init__(self, settings: Mapping[str, Any] | str | None = None, **named: Any) -> None:
        self.config = ProducerConfig.of(settings, **named)
        self._client, self._core = _make_core(self.config, BlockingRecordFuture)
        self._lock = threading.RLock()
        self._metadata_changed = threading.Condition(self._lock)
        self._core.make_sender(self._lock)
        self._closed: str | None = None
        self._woken = False
        self._loop = _new_loop()
        self._stopping: asyncio.Event | None = None
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"barnabas-producer-{id(self):x}", daemon=True)
        self._thread.start()
        _alive.add(self)
        atexit.register(self._close_at_exit)

    # ---- sending --------------------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> BlockingRecordFuture:
        """Hand over one record. Blocks only for metadata and memory, `max.block.ms` at most.

        Most failures come through the future. `on_delivery(metadata, error)` runs on the sender thread: keep it short.

        Raises:
            ClientClosed: the producer was closed, or belongs to the parent process of a fork.
            SerializationFailed: a serializer refused key or value.
            ValueError: a negative partition.
        """
        core = self._core
        if not core.plain:
            record = core.prepare(ProducerRecord(topic, value, key, headers, partition, timestamp_ms))
            topic, value, key = record.topic, record.value, record.key
            headers, partition, timestamp_ms = record.headers, record.partition, record.timestamp_ms
        stamp_ms = wall_ms() if timestamp_ms is None else timestamp_ms
        with self._lock:
            if self._closed:
                raise ClientClosed(self._closed)
            future = core.append_fast(topic, value, key, headers, partition, stamp_ms)
        if future is None:
            if core.plain:
                record = core.prepare(ProducerRecord(topic, value, key))
                value, key = record.value, record.key
            future = self._place(topic, partition, key, value, headers, stamp_ms)
        if on_delivery is not None or core.interceptors:
            _watch(core, future, on_delivery)
        return future

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until every record handed over so far has its outcome.

        Raises:
            ClientTimeout: some had none after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            self._core.accumulator.flushing += 1
            pending = [batch.result for batch in self._core.accumulator.incomplete]
            self._wake()
        try:
            for result in pending:  # grows while it is walked: a split batch's parts follow
                outcome = threading.Event()
                result.watch(0, outcome.set)
                if not outcome.wait(None if deadline is None else max(deadline - time.monotonic(), 0)):
                    raise ClientTimeout(f"records without an outcome after {timeout} s of flush")
                pending.extend(part for _, part in result.parts)
        finally:
            with self._lock:
                self._core.accumulator.flushing -= 1

    def partitions_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The topic's partitions.

        Raises:
            ClientTimeout: it is not known after `max.block.ms`.
        """
        deadline_ms = monotonic_ms() + self.config.max_block_ms
        while not self._client.cluster.partitions_for(topic):
            self._wait_for_topic(NeedMetadata(topic), None, deadline_ms)
        return self._client.cluster.partitions_for(topic)

    def close(self, timeout: float | None = None) -> None:
        """Send what is left, for at most `timeout` seconds (None: until all have an outcome), and end the thread.

        From a delivery callback it does not wait: what is left fails.
        """
        with self._lock:
            first = self._closed is None
            self._closed = self._closed or "the producer is closed"
            self._core.accumulator.closed = True
            self._metadata_changed.notify_all()
            if first:
                self._wake()
        on_sender = threading.current_thread() is self._thread
        if first:
            atexit.unregister(self._close_at_exit)
            _alive.discard(self)
            if not on_sender:
                try:
                    self.flush(timeout)
                except ClientTimeout:
                    log.warning("closing with %d batches undelivered", len(self._core.accumulator.incomplete))
            self._loop.call_soon_threadsafe(self._stop)
        if not on_sender:
            self._finished.wait()
            self._thread.join()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close; after an exception without waiting for what is left."""
        self.close(None if kind is None else 0)

    # ---- waiting, in the caller's thread --------------------------------------------------------------------------

    def _place(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        stamp_ms: int,
    ) -> BlockingRecordFuture:
        try:
            self._core.check_size(key, value, headers)
            placed = self._wait_and_append(topic, partition, key, value, headers, stamp_ms)
        except ClientClosed:
            raise
        except BarnabasError as error:
            return self._core.failed(topic, partition, error, stamp_ms)
        return self._core.future(placed.result, placed.at, stamp_ms)

    def _wait_and_append(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        stamp_ms: int,
    ) -> Placed:
        now_ms = monotonic_ms()
        may_wait = threading.current_thread() is not self._thread
        deadline_ms = now_ms + (self.config.max_block_ms if may_wait else 0)
        buffer = None
        while True:
            with self._lock:
                if self._closed:
                    self._core.give_back(buffer)
                    raise ClientClosed(self._closed)
                got = self._core.append(topic, partition, key, value, headers, stamp_ms, now_ms, buffer)
                if isinstance(got, Placed):
                    if got.begun and self._core.should_wake(now_ms):
                        self._wake()
                    return got
            if now_ms >= deadline_ms:
                raise _too_long(got, topic, partition, self.config.max_block_ms)
            if isinstance(got, NeedMemory):
                buffer = self._wait_for_memory(got, deadline_ms)
            else:
                buffer = None
                self._wait_for_topic(got, partition, deadline_ms)
            now_ms = monotonic_ms()

    def _wait_for_memory(self, need: NeedMemory, deadline_ms: int) -> bytearray | None:
        ready = threading.Event()
        pool = self._core.accumulator.pool
        with self._lock:
            waiter = pool.wait(need.size, ready.set)
            self._wake()
        ready.wait(max(deadline_ms - monotonic_ms(), 0) / 1000)
        with self._lock:
            if waiter.buffer is None:
                pool.give_up(waiter)
            return waiter.buffer

    def _wait_for_topic(self, need: NeedMetadata, partition: int | None, deadline_ms: int) -> None:
        metadata = self._client.metadata
        version = metadata.version
        self._loop.call_soon_threadsafe(self._want_topic, need.topic)
        with self._lock:
            while metadata.version == version and metadata.fatal is None and not self._closed:
                left_ms = deadline_ms - monotonic_ms()
                if left_ms <= 0:
                    raise _too_long(need, need.topic, partition, self.config.max_block_ms)
                self._metadata_changed.wait(left_ms / 1000)
            if self._closed:
                raise ClientClosed(self._closed)

    # ---- the sender thread ----------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Have the sender look; called with the lock held. One wake-up serves all until it has looked."""
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._on_wake)

    def _on_wake(self) -> None:
        self._woken = False
        self._client.pump()

    def _want_topic(self, topic: str) -> None:
        self._client.metadata.add_topics((topic,), monotonic_ms())
        if not self._client.metadata.update_requested:
            self._client.metadata.request_update()
        self._client.pump()

    def _on_metadata(self, metadata: Metadata) -> None:
        with self._lock:
            self._metadata_changed.notify_all()

    def _stop(self) -> None:
        if self._stopping is not None:
            self._stopping.set()

    def _run(self) -> None:
        try:
            asyncio.set_event_loop(None)
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()
            self._finished.set()

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        self._client.metadata.listeners.append(self._on_metadata)
        self._client.drivers.append(self._core.sender.step)
        self._client.open()
        await self._stopping.wait()
        self._core.sender.abort(ClientClosed("the producer was closed before the record was delivered"))
        await self._client.close()
        self._core.interceptors.close()

    # ---- exit and fork --------------------------------------------------------------------------------------------

    def _close_at_exit(self) -> None:
        self.close()

    def _forked(self) -> None:
        """In the child of a fork: the thread is not here, the lock may be held, the sockets are the parent's."""
        self._lock = threading.RLock()
        self._closed = "this producer belongs to the parent process; make a new one after fork"
        self._finished.set()


def _new_loop() -> asyncio.AbstractEventLoop:
    """A loop for the sender thread; no event-loop policy is touched."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


_alive: weakref.WeakSet[Producer] = weakref.WeakSet()


def _after_fork() -> None:
    for producer in list(_alive):
        producer._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
