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
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar, Unpack

from barnabas.client.arguments import check_named, milliseconds
from barnabas.client.async_producer import AsyncProducer
from barnabas.client.futures import BlockingRecordFuture, waiting_is_refused
from barnabas.client.handle import Handle
from barnabas.client.leaving import leave_program
from barnabas.client.loop_thread import new_loop
from barnabas.client.produce.checks import checked_timestamp
from barnabas.client.produce.columns.rows import CHOSEN
from barnabas.client.produce.config import ProducerConfig
from barnabas.client.produce.placing import Memory, Topic, Wait, drain, know, limit_of, place, place_chunk
from barnabas.client.produce.records import Headers, OnDelivery, ProducerRecord
from barnabas.client.sending import make_core, tell
from barnabas.client.sent_columns import BlockingSentColumns
from barnabas.net.counts import Metrics
from barnabas.net.errors import ClientClosed, ClientTimeout, WaitRefused
from barnabas.net.host.forks import belongs_to_parent, leave_behind, tell_child
from barnabas.net.host.surroundings import REAL, Surroundings
from barnabas.net.metadata import Metadata
from barnabas.net.topology import PartitionInfo
from barnabas.protocol.errors import BarnabasError

if TYPE_CHECKING:
    from barnabas.client.settings import ProducerSettings

__all__ = ["AsyncProducer", "Producer"]

log = logging.getLogger(__name__)

T = TypeVar("T")


class Producer(Handle):
    """Sends records from any thread. Every `timeout` is in seconds.

    Settings carry Kafka's names: `config` is a mapping (`{"linger.ms": 5}`) or the bootstrap servers as a string, and
    keywords are the same names with underscores (`linger_ms=5`). None means unset.

    The constructor starts the sender thread and does not wait for a broker. A producer does not survive `fork`: the
    child gets `ClientClosed` and makes its own. One that nobody closed is closed at exit, within `close.timeout.ms`.

    SIGTERM ends a Python program on the spot, and what is not delivered is lost, unless the program says otherwise:

        import signal, sys
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
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
        self._client, self._core = make_core(self.config, surroundings, BlockingRecordFuture)
        self._wall_ms, self._now_ms = surroundings.wall_ms, surroundings.now_ms
        self._lock = threading.RLock()
        self._metadata_changed = threading.Condition(self._lock)
        self._core.make_sender(self._lock, self._leave)
        self._client.leave = self._leave
        self._woken = False
        self._lost = 0
        self._loop = new_loop()
        self._stopping = asyncio.Event()
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"barnabas-producer-{id(self):x}", daemon=True)
        self._thread.start()
        tell_child(self)
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

        Most failures come through the future. `on_delivery(metadata, error)` runs on the sender thread: keep it short;
        `sys.exit` in it ends the program.

        Raises:
            ClientClosed: the producer was closed, or belongs to the parent process of a fork.
            InvalidRecord: topic, partition, timestamp or headers are none, or `on_delivery` is no function.
            SerializationFailed: a serializer refused key or value.
        """
        core = self._core
        if not core.plain:
            record = core.prepare(ProducerRecord(topic, value, key, headers, partition, timestamp_ms), on_delivery)
            topic, value, key = record.topic, record.value, record.key
            headers, partition, timestamp_ms = record.headers, record.partition, record.timestamp_ms
            if core.interceptors:
                on_delivery = core.interceptors.before(on_delivery)
        stamp_ms = self._wall_ms() if timestamp_ms is None else checked_timestamp(timestamp_ms)
        with self._lock:
            if core.closed is not None:
                raise ClientClosed(core.closed)
            future = core.append_fast(topic, value, key, headers, partition, stamp_ms, on_delivery)
        if future is None:
            if core.plain:
                record = core.prepare(ProducerRecord(topic, value, key, headers, partition, stamp_ms), on_delivery)
                value, key, headers, partition = record.value, record.key, record.headers, record.partition
                stamp_ms = record.timestamp_ms or 0
            on_sender = threading.current_thread() is self._thread  # which nothing can wake while it waits
            wait_ms = 0 if on_sender else self.config.max_block_ms
            placing = place(core, topic, partition, key, value, headers, stamp_ms, self._now_ms(), wait_ms, on_delivery)
            future, placed = self._placed(placing)
            if on_delivery is not None and not placed:
                tell(future, on_delivery)
        return future

    def send_columns(self, topic: str, columns: Any, *, partition: int | None = None) -> BlockingSentColumns:
        """Hand over the rows of a table: a pyarrow Table or RecordBatch, a pandas DataFrame, or a mapping of arrays.

        Columns are `value` and `key` (bytes, or text as UTF-8; null is null), `timestamp`, `partition`, and `headers`
        as `poll_columns` gives them; rows of one key keep their order. Batches hold up to 256 KiB, or `batch.size` if
        that is more. Blocks like `send`: for metadata, and for memory, `max.block.ms` at most for each batch.

        Raises:
            ClientClosed: the producer is closed, or belongs to the parent process of a fork.
            InvalidRecord: a column or a row cannot be sent; nothing was.
            RecordTooLarge: a row is larger than `max.request.size` or `buffer.memory`; nothing was sent.
        """
        core = self._core
        core.check_open()
        rows = core.rows_of(topic, columns, partition, self._wall_ms())
        sent = BlockingSentColumns(len(rows))
        wait_ms = 0 if threading.current_thread() is self._thread else self.config.max_block_ms
        try:
            self._placed(know(core, topic, rows.largest_partition, self._now_ms(), wait_ms))
            for chunk in core.chunks(topic, rows):
                sent.add(self._placed(place_chunk(core, topic, chunk, self._now_ms(), wait_ms)), chunk.rows)
        except BarnabasError as error:
            sent.error = error
        return sent

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until every record handed over so far has its outcome.

        Raises:
            ClientTimeout: some had none after `timeout` seconds.
            WaitRefused: called from a delivery callback.
        """
        self._check_may_wait("flush()")
        wait_ms = milliseconds(timeout)
        deadline_ms = None if wait_ms is None else self._now_ms() + wait_ms
        draining = drain(self._core)
        with self._lock:
            result = next(draining, None)
            if result is not None:  # else there may be no loop any more
                self._wake()
        try:
            while result is not None:
                outcome = threading.Event()
                result.watch(0, outcome.set)
                if not outcome.wait(None if deadline_ms is None else max(deadline_ms - self._now_ms(), 0) / 1000):
                    raise ClientTimeout(
                        f"records without an outcome after {timeout} s of flush{self._client.metadata.troubles.why()}"
                    )
                with self._lock:
                    result = next(draining, None)
            self._await_callbacks(deadline_ms)
        finally:
            with self._lock:
                draining.close()

    def _await_callbacks(self, deadline_ms: float | None) -> None:
        """Callbacks run on the loop in the very event that brings the outcomes: what is posted now comes after them."""
        told = threading.Event()
        try:
            self._loop.call_soon_threadsafe(told.set)
        except RuntimeError:
            return  # the producer was closed meanwhile: the loop is gone, and all it had to call
        if not told.wait(None if deadline_ms is None else max(deadline_ms - self._now_ms(), 0) / 1000):
            raise ClientTimeout("all records have their outcome, but a delivery callback still runs")

    def partitions_for(self, topic: str, timeout: float | None = None) -> tuple[PartitionInfo, ...]:
        """The topic's partitions.

        Raises:
            ClientClosed: the producer was closed.
            ClientTimeout: it is not known after `timeout` seconds (None: `max.block.ms`).
            KafkaError: the topic is refused for good (invalid name, no authorisation).
            WaitRefused: called from a delivery callback.
        """
        self._check_may_wait("partitions_for()")
        limit = limit_of(timeout, self.config)
        self._placed(know(self._core, topic, CHOSEN, self._now_ms(), *limit))
        return self._client.cluster.partitions_for(topic)

    def metrics(self) -> Metrics:
        """Figures in groups, by Kafka's names: `metrics()["producer-metrics"]["record-send-total"]`."""
        with self._lock:
            return self._client.metrics("producer")

    def close(self, timeout: float | None = None) -> None:
        """Send what is left, for at most `timeout` seconds (None: until all have an outcome), and end the thread.

        From a delivery callback it does not wait: what is left fails.
        """
        wait_ms = milliseconds(timeout)  # refused before anything is closed
        deadline_ms = None if wait_ms is None else self._now_ms() + wait_ms
        with self._lock:
            first = self._core.closed is None
            self._core.closed = self._core.closed or "the producer is closed"
            self._core.accumulator.closed = True
            self._metadata_changed.notify_all()
            if first:
                self._wake()
        on_sender = threading.current_thread() is self._thread
        if first:
            atexit.unregister(self._close_at_exit)
            try:
                if not on_sender:
                    self._deliver_all(timeout)
            finally:
                self._post(self._stopping.set)
        if not on_sender and self._finished.wait(self._left_seconds(deadline_ms)):
            self._thread.join()
        elif not on_sender:
            log.warning("closing while a delivery callback still runs, whose thread is left to it")

    def _deliver_all(self, timeout: float | None) -> None:
        """Flush; what is left when time is over, or at a Ctrl-C, is counted and said."""
        try:
            with suppress(ClientTimeout):
                self.flush(timeout)
        finally:
            self._lost = self._core.accumulator.undelivered
            if self._lost:
                log.warning("closing with %d records undelivered%s", self._lost, self._client.metadata.troubles.why())

    def _left_seconds(self, deadline_ms: float | None) -> float | None:
        """What is left for the end of the thread; a second at least, in which what is not delivered fails."""
        return None if deadline_ms is None else max(deadline_ms - self._now_ms(), 1000) / 1000

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close; after an exception within `close.timeout.ms`."""
        self.close(None if kind is None else self.config.close_timeout_ms / 1000)

    # ---- waiting, in the caller's thread --------------------------------------------------------------------------

    def _placed(self, placing: Generator[Wait, int, tuple[T, bool]]) -> T:
        try:
            with self._lock:
                wait = next(placing)
            while True:
                if isinstance(wait, Memory):
                    self._wait_for_memory(wait)
                else:
                    self._wait_for_topic(wait)
                with self._lock:
                    wait = placing.send(self._now_ms())
        except StopIteration as end:
            got: T
            got, wakes = end.value
        finally:
            with self._lock:
                placing.close()
        if wakes:
            with self._lock:
                self._wake()
        return got

    def _wait_for_memory(self, wait: Memory) -> None:
        ready = threading.Event()
        with self._lock:
            wait.waiter.wake = ready.set
            if wait.waiter.buffer is not None:
                return
            self._wake()
        ready.wait(max(wait.deadline_ms - self._now_ms(), 0) / 1000)

    def _wait_for_topic(self, wait: Topic) -> None:
        metadata = self._client.metadata
        self._post(self._want_topic, wait.name)
        with self._lock:
            while metadata.version == wait.version and metadata.fatal is None and self._core.closed is None:
                left_ms = wait.deadline_ms - self._now_ms()
                if left_ms <= 0:
                    return
                self._metadata_changed.wait(left_ms / 1000)

    # ---- the sender thread ----------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Have the sender look; called with the lock held. One wake-up serves all until it has looked."""
        if not self._woken:
            self._woken = True
            self._post(self._on_wake)

    def _post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Have the sender's thread do it. Once a close ended that, nothing is left to be done."""
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            if self._core.closed is None:
                raise

    def _on_wake(self) -> None:
        self._woken = False
        self._client.pump()

    def _want_topic(self, topic: str) -> None:
        self._client.metadata.want(topic, self._now_ms())
        self._client.pump()

    def _on_metadata(self, metadata: Metadata) -> None:
        with self._lock:
            self._metadata_changed.notify_all()

    def _run(self) -> None:
        waiting_is_refused()
        try:
            asyncio.set_event_loop(None)
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()
            self._finished.set()

    async def _serve(self) -> None:
        self._client.metadata.listeners.append(self._on_metadata)
        self._client.drivers.append(self._core.sender.step)
        self._client.open()
        await self._stopping.wait()
        self._core.sender.abort(ClientClosed("the producer was closed before the record was delivered"))
        await self._client.close()
        self._core.interceptors.close()

    def _leave(self, error: BaseException) -> None:
        """A callback left, with `sys.exit` or a Ctrl-C of its own. A program that ends anyway just does."""
        if self._core.closed is None:
            leave_program(error, self._loop.call_later)

    # ---- exit and fork --------------------------------------------------------------------------------------------

    def _close_at_exit(self) -> None:
        """The program ends and nobody closed this. Its exit code stays what it is."""
        self.close(self.config.close_timeout_ms / 1000)
        if self._lost:
            limit_ms = self.config.close_timeout_ms
            sys.stderr.write(f"barnabas: {self._lost} records were lost: not delivered in {limit_ms} ms at exit\n")

    def forked(self) -> None:
        """In the child of a fork: the thread is not here, the lock may be held, the sockets are the parent's."""
        self._lock = threading.RLock()
        self._metadata_changed = threading.Condition(self._lock)
        atexit.unregister(self._close_at_exit)
        self._core.forked(belongs_to_parent("producer"))
        self._finished.set()
        leave_behind(self._loop)

    def _check_may_wait(self, what: str) -> None:
        """Refuse a wait that would never end.

        Raises:
            ClientClosed: this process is the child of the one that made the producer.
            WaitRefused: the caller is a delivery callback.
        """
        self._core.check_owned()
        if threading.current_thread() is self._thread:
            raise WaitRefused(
                f"{what} inside a delivery callback would wait for the thread it runs on; call it elsewhere"
            )
