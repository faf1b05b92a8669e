"""The producers: `AsyncProducer` for coroutines (see there), `Producer` for everybody else.

    with Producer("localhost:9092", value_serializer="json") as producer:
        future = producer.send("flights", {"origin": "JFK"}, key=b"UA1545")
        print(future.result(10).offset)

Both are the same core. The blocking one has one sender thread that owns a loop of its own; any number of threads append
to the accumulator under one short lock, and wake the sender only when it would otherwise sleep too long.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from barnabas.client.async_producer import AsyncProducer
from barnabas.client.futures import BlockingRecordFuture
from barnabas.client.produce.config import ProducerConfig
from barnabas.client.produce.core import NeedMemory, NeedMetadata, Placed
from barnabas.client.produce.records import Headers, ProducerRecord
from barnabas.client.sending import OnDelivery, make_core, too_long, wall_ms, watch
from barnabas.net.cluster import PartitionInfo
from barnabas.net.errors import ClientClosed, ClientTimeout
from barnabas.net.host.connection import monotonic_ms
from barnabas.net.metadata import Metadata
from barnabas.protocol.errors import BarnabasError

__all__ = ["AsyncProducer", "Producer"]

log = logging.getLogger(__name__)


class Producer:
    """Sends records from any thread. Settings are Kafka's (`produce/config.py`); timeouts in seconds.

    The constructor starts the sender thread and does not wait for a broker. A producer does not survive `fork`: the
    child gets `ClientClosed` and makes its own. One that nobody closed is closed at exit.
    """

    def __init__(self, settings: Mapping[str, Any] | str | None = None, **named: Any) -> None:
        self.config = ProducerConfig.of(settings, **named)
        self._client, self._core = make_core(self.config, BlockingRecordFuture)
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
            watch(core, future, on_delivery)
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
                    if self._core.should_wake(got, now_ms):
                        self._wake()
                    return got
            if now_ms >= deadline_ms:
                raise too_long(got, topic, partition, self.config.max_block_ms)
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
                    raise too_long(need, need.topic, partition, self.config.max_block_ms)
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
