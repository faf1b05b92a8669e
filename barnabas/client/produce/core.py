"""The producer's core: one record from the application's hand into a batch (Kafka's `KafkaProducer.doSend`).

`append` either places the record or says what it must wait for; how to wait is the shell's business. Both shells, the
asyncio one and the blocking one with its threads, stand on this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, Generic, NamedTuple, TypeVar

from barnabas.client.arguments import shown
from barnabas.client.errors import InvalidRecord, RecordTooLarge, SerializationFailed
from barnabas.client.libraries import require_libraries
from barnabas.client.produce.accumulator import Accumulator, PartitionQueue, TopicQueue
from barnabas.client.produce.batch import ProducerBatch, record_size_bound
from barnabas.client.produce.checks import check_callback, check_record, check_topic
from barnabas.client.produce.columns.rows import CHOSEN, Chunk, Rows
from barnabas.client.produce.config import ProducerConfig
from barnabas.client.produce.interceptors import Interceptors
from barnabas.client.produce.partitioner import Partitioner, partition_for_key, partitioner
from barnabas.client.produce.records import Headers, OnDelivery, ProducerRecord
from barnabas.client.produce.result import BatchResult
from barnabas.client.produce.sender import Sender
from barnabas.client.produce.state import ProducerState
from barnabas.client.serializers import keeps_octets, plain_bytes, serialize, serializer
from barnabas.net.backoff import Random
from barnabas.net.errors import ClientClosed
from barnabas.net.metadata import Metadata
from barnabas.net.network import NetworkClient
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import NO_TIMESTAMP, TopicPartition

F = TypeVar("F")
"""What the shell's `send` returns."""

COLUMNS_BATCH_BYTES: Final = 256 * 1024
"""What a batch of columns may hold where `batch.size` is less: a batch costs some 0.1 ms, however small it is."""


class Placed(NamedTuple):
    """In a batch. `begun`: as its first, so the sender may have to be told; `full`: the partition has a full batch."""

    result: BatchResult
    at: int
    begun: bool
    full: bool


class NeedMetadata(NamedTuple):
    """Wait for the topic (or for more of its partitions) to be known."""

    topic: str


class NeedMemory(NamedTuple):
    """Wait for this many bytes in the pool's line, then append again with the buffer."""

    size: int


class ProducerCore(Generic[F]):
    """Configuration, accumulator, metadata and sender of one producer, wired together."""

    def __init__(
        self,
        config: ProducerConfig,
        metadata: Metadata,
        network: NetworkClient,
        random: Random,
        future: Callable[[BatchResult, int, int], F],
    ) -> None:
        self.config = config
        self.metadata = metadata
        self.state = ProducerState() if config.enable_idempotence else None
        self.accumulator = Accumulator(config, random, self.state)
        self.accumulator.why = metadata.troubles.why
        self.interceptors = Interceptors.of(config.interceptor_classes)
        self.sender: Sender
        self.closed: str | None = None  # why nothing more is taken
        self._foreign: str | None = None  # in the child of a fork: why it is of no use
        self._network = network
        self._random = random
        self._partitioner: Partitioner | None = partitioner(config.partitioner_class)
        self._by_key = not config.partitioner_ignore_keys
        self._key_serializer = serializer(config.key_serializer, "key.serializer")
        self._value_serializer = serializer(config.value_serializer, "value.serializer")
        self._future = future
        self._sticky_bytes = max(config.batch_size, 1)
        self._limits = {"max.request.size": config.max_request_size, "buffer.memory": config.buffer_memory}
        self.plain = not self.interceptors and plain_bytes(self._key_serializer, self._value_serializer)
        # Half of what any limit allows, so that key and value together pass without being added up.
        self._sure_bytes = max(min(config.max_request_size, config.buffer_memory, 1 << 20) - 4096, 0) // 2

    def make_sender(
        self,
        guard: AbstractContextManager[Any] | None = None,
        leave: Callable[[BaseException], None] | None = None,
    ) -> Sender:
        """Build the sender; see there."""
        self.sender = Sender(self.config, self.accumulator, self._network, self.metadata, self._random, guard, leave)
        return self.sender

    def forked(self, why: str) -> None:
        """In the child of a fork: the outcomes come to the parent."""
        self.closed = self._foreign = why
        self.accumulator.closed = True
        for batch in tuple(self.accumulator.incomplete):
            batch.finish(-1, NO_TIMESTAMP, ClientClosed(why))

    def check_owned(self) -> None:
        """Refuse what only the parent of a fork can do.

        Raises:
            ClientClosed: this is the child.
        """
        if self._foreign is not None:
            raise ClientClosed(self._foreign)

    # ---- before the batch -----------------------------------------------------------------------------------------

    def prepare(self, record: ProducerRecord, on_delivery: OnDelivery | None = None) -> ProducerRecord:
        """Pass a record through interceptors and serializers; its key and value are bytes (or None) afterwards.

        Raises:
            InvalidRecord: topic, partition, timestamp or headers are none, or the callback is no function.
            SerializationFailed: a serializer refused key or value.
        """
        check_callback(on_delivery)
        record = self.interceptors.on_send(record)
        check_record(record)
        try:
            if record.key is not None:
                record.key = serialize(self._key_serializer, "key", record.key)
            if record.value is not None:
                record.value = serialize(self._value_serializer, "value", record.value)
        except SerializationFailed as error:
            raise SerializationFailed(f"topic {record.topic}, {error}", record.topic) from error.__cause__
        return record

    def check_open(self) -> None:
        """Refuse a record that comes too late.

        Raises:
            ClientClosed: the producer is closed.
        """
        if self.closed is not None:
            raise ClientClosed(self.closed)

    def check_size(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Refuse a record that could never leave.

        Raises:
            RecordTooLarge: its bound is above `max.request.size` or `buffer.memory`.
        """
        size = record_size_bound(key, value, headers)
        for name, limit in self._limits.items():
            if size > limit:
                raise RecordTooLarge(f"a record of up to {size} bytes is larger than {name} ({limit})")

    # ---- into the batch -------------------------------------------------------------------------------------------

    def append_fast(
        self,
        topic_name: str,
        value: Any,
        key: Any,
        headers: Headers,
        partition: int | None,
        timestamp_ms: int,
        on_delivery: OnDelivery | None = None,
    ) -> F | None:
        """Into the partition's last batch, if all is known, plain and fits; None says: the long way.

        This is what nearly every record takes, so it is written for speed: no call that can be spared.
        """
        try:
            topic = self.accumulator.topics.get(topic_name)
        except TypeError:  # no string; the long way says so
            return None
        if topic is None or type(value) is not bytes or len(value) >= self._sure_bytes or headers or self._partitioner:
            return None
        partitions = topic.partitions
        sticky = None
        if partition is None:
            if key is None or not self._by_key:
                sticky = topic.sticky
                partition = sticky.partition
                if partition is None:
                    return None
            elif type(key) is bytes:
                partition = partition_for_key(key, len(partitions))
        elif type(partition) is not int or not 0 <= partition < len(partitions):
            return None
        if key is not None and (type(key) is not bytes or len(key) >= self._sure_bytes):
            return None
        batches = partitions[partition].batches  # type: ignore[index]  # a key that is no bytes returned above
        if not batches:
            return None
        batch = batches[-1]
        result = batch.result
        told_already = on_delivery is result.calling
        if not (told_already or on_delivery is None or callable(on_delivery)):
            return None
        before = batch.size
        index = batch.try_append(timestamp_ms, key, value, headers)
        if index < 0:
            return None
        if sticky is not None:
            sticky.produced_bytes += batch.size - before
            if sticky.produced_bytes >= self._sticky_bytes:
                sticky.produced(0, batch.full, len(partitions), topic.available)
        if not told_already or (on_delivery is not None and timestamp_ms != result.calling_ms):
            result.deliver_to(index, timestamp_ms, on_delivery)
        return self._future(result, index, timestamp_ms)

    def append(
        self,
        topic_name: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int,
        now_ms: int,
        buffer: bytearray | None = None,
    ) -> Placed | NeedMetadata | NeedMemory:
        """Place the record, in a new batch if need be; `buffer` is what a waiter was given.

        It goes back to the pool unless the record lies in it, also when this raises.

        Raises:
            ValueError: a negative partition, or a custom partitioner's answer that is none.
            KafkaError: the topic is refused for good (invalid name, no authorisation).
        """
        queue: PartitionQueue | None = None
        try:
            topic = self._topic(topic_name, partition, now_ms)
            if topic is None:
                return NeedMetadata(topic_name)
            sticky = False
            if partition is None:
                partition, sticky = self._choose(topic, key, value)
            placed = self._into_tail(topic, partition, key, value, headers, timestamp_ms)
            if placed is None and sticky:
                # The last batch is full now: the partition may be left behind without a half-filled batch.
                topic.sticky.produced(0, True, len(topic.partitions), topic.available)
                partition = topic.sticky.current(len(topic.partitions), topic.available)
                placed = self._into_tail(topic, partition, key, value, headers, timestamp_ms)
            if placed is not None:
                batch, index = placed
            else:
                if buffer is None:
                    size = self.accumulator.buffer_size(key, value, headers)
                    buffer = self.accumulator.pool.try_allocate(size)
                    if buffer is None:
                        return NeedMemory(size)
                queue = topic.partitions[partition]
                batch = self.accumulator.append(queue, buffer, timestamp_ms, key, value, headers, now_ms)
                buffer, index = None, 0
        finally:
            self._give_back(buffer, queue)
        if sticky:
            size = batch.size if index == 0 else record_size_bound(key, value, headers)
            topic.sticky.produced(size, batch.full, len(topic.partitions), topic.available)
        full = len(topic.partitions[partition].batches) > 1 or batch.full
        return Placed(batch.result, index, index == 0, full)

    # ---- columns --------------------------------------------------------------------------------------------------

    def rows_of(self, topic: str, columns: Any, partition: int | None, stamp_ms: int) -> Rows:
        """Take a table whose rows are to be sent; all of it is refused, or nothing.

        Raises:
            InvalidRecord: it is no table of records, or this producer's settings work on single records.
            RecordTooLarge: a row could never leave.
            BarnabasError: numpy or pyarrow is absent.
        """
        check_topic(topic)
        require_libraries()
        if self.interceptors:
            raise InvalidRecord("interceptor.classes: interceptors see single records; use send, or leave them out")
        for setting, given in (("key", self._key_serializer), ("value", self._value_serializer)):
            if not keeps_octets(given):
                raise InvalidRecord(
                    f"{setting}.serializer: a serializer works on single values; give columns of bytes or text to a "
                    "producer without one"
                )
        rows = Rows(columns, partition, stamp_ms)
        if self._partitioner is not None and not rows.all_placed:
            raise InvalidRecord("partitioner.class: it sees single records; give a partition to every row")
        rows.check_sizes(self._limits)
        return rows

    def chunks(self, topic: str, rows: Rows) -> Iterator[Chunk]:
        """Encode them, batch by batch; the topic is known."""
        bound = min(max(self.config.batch_size, COLUMNS_BATCH_BYTES), *self._limits.values())
        partitions = len(self.accumulator.topics[topic].partitions) if self._by_key else 0
        return rows.chunks(partitions, bound)

    def append_chunk(
        self, topic_name: str, chunk: Chunk, now_ms: int, buffer: bytearray | None = None
    ) -> Placed | NeedMetadata | NeedMemory:
        """Queue a batch of encoded records; else as `append`."""
        queue: PartitionQueue | None = None
        try:
            topic = self._topic(topic_name, None if chunk.partition == CHOSEN else chunk.partition, now_ms)
            if topic is None:
                return NeedMetadata(topic_name)
            if buffer is None:
                size = max(chunk.size, self.config.batch_size)
                buffer = self.accumulator.pool.try_allocate(size)
                if buffer is None:
                    return NeedMemory(size)
            partition = chunk.partition
            if partition == CHOSEN:
                partition = topic.sticky.current(len(topic.partitions), topic.available)
                topic.sticky.produced(chunk.size, True, len(topic.partitions), topic.available)
            queue = topic.partitions[partition]
            batch = self.accumulator.append_chunk(queue, buffer, chunk, now_ms)
            buffer = None
        finally:
            self._give_back(buffer, queue)
        return Placed(batch.result, 0, True, True)

    def _give_back(self, buffer: bytearray | None, queue: PartitionQueue | None) -> None:
        """A buffer nothing was put into. A Ctrl-C may come when the batch is queued already: then it is the batch's."""
        if buffer is not None and not (queue is not None and queue.holds(buffer)):
            self.accumulator.pool.deallocate(buffer)

    def knows(self, topic_name: str, partition: int, now_ms: int) -> bool:
        """Whether the topic has that partition (or, for `CHOSEN`, any).

        Raises:
            KafkaError: the topic is refused for good.
        """
        return self._topic(topic_name, None if partition == CHOSEN else partition, now_ms) is not None

    def _into_tail(
        self,
        topic: TopicQueue,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int,
    ) -> tuple[ProducerBatch, int] | None:
        batches = topic.partitions[partition].batches
        index = batches[-1].try_append(timestamp_ms, key, value, headers) if batches else -1
        return (batches[-1], index) if index >= 0 else None

    def _topic(self, name: str, partition: int | None, now_ms: int) -> TopicQueue | None:
        error: BarnabasError | None = self.metadata.topic_errors.get(name) or self.metadata.fatal
        if error is not None:
            raise error
        if partition is not None and partition < 0:
            raise ValueError(f"partition {partition} is negative")
        topic = self.accumulator.topics.get(name)
        if topic is None or name not in self.metadata.cluster.topics:
            self.accumulator.update(self.metadata.cluster)
            topic = self.accumulator.topics.get(name)
        if topic is None or not topic.partitions:
            return None
        return topic if partition is None or partition < len(topic.partitions) else None

    def _choose(self, topic: TopicQueue, key: bytes | None, value: bytes | None) -> tuple[int, bool]:
        count = len(topic.partitions)
        if self._partitioner is not None:
            chosen = self._partitioner(topic.name, key, value, self.metadata.cluster)
            if not (hasattr(chosen, "__index__") and 0 <= chosen < count):
                raise ValueError(f"the partitioner chose {shown(chosen)}, {topic.name} has {count} partitions")
            return chosen, False
        if key is not None and self._by_key:
            return partition_for_key(key, count), False
        return topic.sticky.current(count, topic.available), True

    # ---- waking the sender ----------------------------------------------------------------------------------------

    def should_wake(self, placed: Placed, now_ms: int) -> bool:
        """Whether the sender would sleep past what the record wants.

        While every node is busy an answer starts the next step anyway; a batch that is not full can wait for a look
        that is due within linger. So a burst of batches costs one wake-up, not one each.
        """
        if not placed.begun or not self.sender.hungry:
            return False
        return placed.full or self.sender.next_look_ms > now_ms + self.config.linger_ms

    def future(self, result: BatchResult, index: int, timestamp_ms: int) -> F:
        """One record's future, of the kind the shell asked for."""
        return self._future(result, index, timestamp_ms)

    def failed(self, topic: str, partition: int | None, error: BarnabasError, timestamp_ms: int) -> F:
        """The future of a record that never reached a batch."""
        result = BatchResult(TopicPartition(topic, -1 if partition is None else partition))
        result.error, result.done = error, True
        return self._future(result, 0, timestamp_ms)
