"""Records waiting to be sent: a deque of batches per partition (Kafka's `RecordAccumulator`).

A record goes into its partition's last batch, or begins a new one. A node is *ready* when a partition it leads, that
is not muted, has (a) a full batch (more than one, or a full last one), (b) a head that waited `linger.ms`, or for a
retry its back-off, which is (c) skipped when the leader changed since, (d) somebody waiting for memory, (e) a flush or
a close. Draining takes at most one batch per partition, in rotation, up to `max.request.size` (the first always goes).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from barnabas.client.produce.batch import ProducerBatch, record_size_bound
from barnabas.client.produce.buffer_pool import BufferPool
from barnabas.client.produce.columns.rows import Chunk
from barnabas.client.produce.config import ProducerConfig
from barnabas.client.produce.partitioner import StickyPartitioner
from barnabas.client.produce.records import Headers
from barnabas.client.produce.state import ProducerState, is_after
from barnabas.net.backoff import Backoff, Random
from barnabas.net.layered import news
from barnabas.net.metadata import NEVER
from barnabas.net.topology import Cluster
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import decode_records

log = logging.getLogger(__name__)


class PartitionQueue:
    """One partition's batches, oldest first."""

    __slots__ = ("batches", "muted", "where")

    def __init__(self, where: TopicPartition) -> None:
        self.where = where
        self.batches: deque[ProducerBatch] = deque()
        self.muted = False

    def holds(self, buffer: bytearray) -> bool:
        """Whether the newest batch lies in this buffer."""
        return bool(self.batches) and self.batches[-1].buffer is buffer


class TopicQueue:
    """One topic's partitions, as many as the metadata knows, and where its keyless records go.

    `queues` are those of all partitions it ever had: a topic that was made anew with fewer still has its records.
    """

    __slots__ = ("available", "bytes_sent", "name", "partitions", "queues", "records_sent", "sticky")

    def __init__(self, name: str, sticky: StickyPartitioner) -> None:
        self.name = name
        self.records_sent = self.bytes_sent = 0
        self.queues: list[PartitionQueue] = []
        self.partitions: list[PartitionQueue] = []
        self.available: tuple[int, ...] = ()
        self.sticky = sticky


@dataclass(slots=True)
class Ready:
    """What could be sent now: nodes in order, when to look again, topics with records but without a leader."""

    nodes: list[int] = field(default_factory=list)
    next_check_ms: int = NEVER
    leaderless: dict[str, None] = field(default_factory=dict)


class Accumulator:
    """The producer's waiting records. Whoever appends from several threads guards every call with one lock."""

    def __init__(self, config: ProducerConfig, random: Random, state: ProducerState | None = None) -> None:
        self.config = config
        self.pool = BufferPool(config.buffer_memory, config.batch_size)
        self.topics: dict[str, TopicQueue] = {}
        self.incomplete: dict[ProducerBatch, None] = {}
        self.flushing = 0
        self.closed = False
        self.state = state
        self.records_sent = self.records_retried = self.records_failed = self.batches_split = 0
        self.why: Callable[[], str] = str  # the end of a sentence: what is wrong at present, if anything is
        self._random = random
        self._retry_backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, random)
        self._busy: dict[PartitionQueue, None] = {}
        self._seen = Cluster()
        self._rotation: dict[int, int] = {}
        self._slow_nodes: dict[int, tuple[int, int]] = {}  # node: (last ready ms, last drained ms)

    # ---- topics ---------------------------------------------------------------------------------------------------

    def update(self, cluster: Cluster) -> None:
        """Take a new snapshot: more partitions, or fewer where the topic was made anew, other leaders."""
        if cluster is self._seen:
            return
        before, self._seen = self._seen, cluster
        same_nodes = before.nodes.keys() == cluster.nodes.keys()
        told = news(before.topics, cluster.topics) if same_nodes else cluster.topics
        for name, info in told.items():
            if same_nodes and before.topics.get(name) is info:
                continue  # a snapshot that brings one topic more keeps the others as they are
            topic = self.topics.get(name)
            if topic is None:
                topic = self.topics[name] = TopicQueue(name, StickyPartitioner(self.config.batch_size, self._random))
            count = len(info.partitions)
            if count != len(topic.partitions):
                for index in range(len(topic.queues), count):
                    topic.queues.append(PartitionQueue(TopicPartition(name, index)))
                topic.partitions = topic.queues[:count]
                topic.sticky.leave_if_gone(count)
            topic.available = tuple(each.partition for each in info.partitions if each.leader in cluster.nodes)

    def queue(self, where: TopicPartition) -> PartitionQueue:
        """The queue of a partition that has had records."""
        return self.topics[where.topic].queues[where.partition]

    # ---- appending ------------------------------------------------------------------------------------------------

    def append(
        self,
        queue: PartitionQueue,
        buffer: bytearray,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        now_ms: int,
    ) -> ProducerBatch:
        """Begin a new batch with this record (index 0) in a buffer of at least `buffer_size` bytes."""
        batch = ProducerBatch(queue.where, buffer, now_ms)
        index = batch.try_append(timestamp_ms, key, value, headers)
        assert index == 0, "the buffer was made for this record"
        if len(buffer) > self.config.batch_size:
            batch.closed = True  # an oversized record has its batch to itself
        self._queue_up(queue, batch)
        return batch

    def append_chunk(self, queue: PartitionQueue, buffer: bytearray, chunk: Chunk, now_ms: int) -> ProducerBatch:
        """A batch of its own for records that are encoded, in a buffer of at least `chunk.size` bytes."""
        batch = ProducerBatch(queue.where, buffer, now_ms)
        batch.fill(chunk.area, len(chunk.rows), chunk.base_timestamp_ms, chunk.max_timestamp_ms)
        self._queue_up(queue, batch)
        return batch

    def _queue_up(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Queue it. A Ctrl-C comes after a call at the earliest: it finds all of this done, or none."""
        batch.result.why = self.why
        self.incomplete[batch] = None
        if queue.batches:
            queue.batches[-1].closed = True
        else:
            self._busy[queue] = None
        queue.batches.append(batch)

    def buffer_size(self, key: bytes | None, value: bytes | None, headers: Headers) -> int:
        """The buffer a new batch needs: `batch.size`, or what its first record needs if that is more."""
        return max(self.config.batch_size, record_size_bound(key, value, headers))

    @property
    def undelivered(self) -> int:
        """Records without an outcome."""
        return sum(batch.record_count for batch in tuple(self.incomplete) if not batch.result.done)

    # ---- what is ready --------------------------------------------------------------------------------------------

    @property
    def has_unsent(self) -> bool:
        """Whether any partition has a batch waiting."""
        return bool(self._busy)

    @property
    def in_a_hurry(self) -> bool:
        """Whether batches go without waiting for linger: close, flush, or somebody waits for memory."""
        return self.closed or self.flushing > 0 or bool(self.pool.waiters)

    def ready(self, cluster: Cluster, now_ms: int) -> Ready:
        """Which nodes have something to be sent to them now (rules at the top)."""
        found = Ready()
        nodes: dict[int, None] = {}
        hurry = self.in_a_hurry
        for queue in self._busy:
            info = cluster.partition(*queue.where)
            if info is None or info.leader not in cluster.nodes:
                found.leaderless[queue.where.topic] = None
                continue
            if queue.muted or info.leader in nodes:
                continue
            due_ms = self._due_ms(queue, info.leader_epoch, hurry)
            if due_ms <= now_ms:
                nodes[info.leader] = None
            else:
                found.next_check_ms = min(found.next_check_ms, due_ms)
        found.nodes = list(nodes)
        if self.config.partitioner_adaptive_partitioning_enable:
            self._tell_loads(cluster, now_ms)
        return found

    def _due_ms(self, queue: PartitionQueue, leader_epoch: int, hurry: bool) -> int:
        batch = queue.batches[0]
        leader_changed = leader_epoch > batch.leader_epoch
        if batch.attempts > 0 and not leader_changed:
            return batch.retry_at_ms
        if hurry or len(queue.batches) > 1 or batch.full or batch.attempts > 0:
            return 0
        return batch.created_ms + self.config.linger_ms

    def _tell_loads(self, cluster: Cluster, now_ms: int) -> None:
        names = dict.fromkeys(queue.where.topic for queue in self._busy)
        for name in names:
            topic = self.topics[name]
            if topic.sticky.partition is None or len(topic.available) < 2:
                continue
            ids = [index for index in topic.available if not self._is_slow(cluster, topic.partitions[index], now_ms)]
            ids = ids or list(topic.available)
            topic.sticky.update_load(ids, [len(topic.partitions[index].batches) for index in ids])

    # ---- availability (KIP-794) -----------------------------------------------------------------------------------

    def note_node(self, node_id: int, now_ms: int, *, drained: bool) -> None:
        """A node had something ready for it, and took it or did not (`partitioner.availability.timeout.ms`)."""
        _, drained_ms = self._slow_nodes.get(node_id, (now_ms, now_ms))
        self._slow_nodes[node_id] = (now_ms, now_ms if drained else drained_ms)

    def _is_slow(self, cluster: Cluster, queue: PartitionQueue, now_ms: int) -> bool:
        limit_ms = self.config.partitioner_availability_timeout_ms
        info = cluster.partition(*queue.where)
        times = self._slow_nodes.get(info.leader) if limit_ms > 0 and info is not None else None
        return times is not None and times[0] - times[1] > limit_ms

    # ---- draining -------------------------------------------------------------------------------------------------

    def drain(self, cluster: Cluster, node_id: int, now_ms: int) -> list[ProducerBatch]:
        """Take at most one batch per partition that the node leads, until `max.request.size` would be passed."""
        led = []
        for queue in self._busy:
            info = cluster.partition(*queue.where)
            if info is not None and info.leader == node_id:
                led.append((queue, info.leader_epoch))
        if not led:
            return []
        taken: list[ProducerBatch] = []
        total = 0
        start = self._rotation.get(node_id, 0) % len(led)
        for step in range(len(led)):
            self._rotation[node_id] = start + step
            queue, leader_epoch = led[(start + step) % len(led)]
            batch = queue.batches[0]
            backing_off = batch.attempts > 0 and now_ms < self._due_ms(queue, leader_epoch, hurry=False)
            if queue.muted or backing_off:
                continue
            if taken and total + batch.size > self.config.max_request_size:
                break
            topic_id = cluster.topic_id(queue.where.topic)
            if self.state is not None and not self.state.may_drain(batch, topic_id):
                continue
            self._take(queue, batch)
            batch.leader_epoch, batch.topic_id = leader_epoch, topic_id
            total += batch.size
            taken.append(batch)
        else:
            self._rotation[node_id] = start + len(led)
        return taken

    def _take(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        queue.batches.popleft()
        if not queue.batches:
            del self._busy[queue]
        batch.closed = True
        batch.in_flight = True
        if batch.attempts == 0:
            self.records_sent += batch.record_count
            self.topics[queue.where.topic].records_sent += batch.record_count
        if self.state is not None:
            self.state.on_drained(batch)

    # ---- coming back ----------------------------------------------------------------------------------------------

    def requeue(self, batch: ProducerBatch, now_ms: int) -> None:
        """A retriable failure: to the front, or in the order of sequences where they count."""
        # Drawn once: two looks at the same batch must see the same time.
        batch.retry_at_ms = now_ms + self._retry_backoff.wait_ms(batch.attempts)
        batch.attempts += 1
        self.records_retried += batch.record_count
        log.debug("%s: %d records go again, attempt %d", batch.where, batch.record_count, batch.attempts + 1)
        batch.retry = True
        batch.in_flight = False
        self._insert(batch)

    def _insert(self, batch: ProducerBatch) -> None:
        queue = self.queue(batch.where)
        self._busy[queue] = None
        if not batch.has_sequence:
            queue.batches.appendleft(batch)
            return
        position = 0
        for other in queue.batches:
            if not other.has_sequence or not is_after(batch.base_sequence, other.base_sequence):
                break
            position += 1
        queue.batches.insert(position, batch)

    def split(self, batch: ProducerBatch, now_ms: int) -> int:
        """Re-queue a batch that is too large as smaller ones of at most half its size and records; returns how many.

        The parts keep creation time and sequences, and are attempts of their own: a split uses none up. Their buffers
        are over and above the pool's memory until they are answered, as in Kafka; the pool is not charged twice.
        """
        self.batches_split += 1
        target = max(min(batch.size // 2, self.config.batch_size), 1)
        most = (batch.record_count + 1) // 2  # the bound of a small record holds several: bytes alone may part nothing
        batch.unseal()
        view = bytes(memoryview(batch.seal(0)[0]))
        batch.unseal()
        parts: list[ProducerBatch] = []
        starts: list[int] = []
        for record in decode_records(view):
            key, value, headers = record.key, record.value, record.headers
            full = not parts or parts[-1].record_count >= most
            if full or parts[-1].try_append(record.timestamp, key, value, headers) < 0:
                size = max(target, record_size_bound(key, value, headers))
                part = ProducerBatch(batch.where, bytearray(size), batch.created_ms, pooled=False)
                part.try_append(record.timestamp, key, value, headers)
                parts.append(part)
                starts.append(record.offset)
        self._hand_over(batch, parts, starts)
        return len(parts)

    def _hand_over(self, batch: ProducerBatch, parts: list[ProducerBatch], starts: list[int]) -> None:
        if self.state is not None:
            self.state.on_split(batch, parts, starts)
        self.incomplete.pop(batch, None)
        for part in reversed(parts):
            part.closed = True
            self._insert(part)
        self.incomplete.update(dict.fromkeys(parts))
        batch.result.parts = list(zip(starts, (part.result for part in parts), strict=True))
        while batch.result.watchers:
            index, call = batch.result.watchers.pop(0)
            batch.result.watch(index, call)
        for index, timestamp_ms, on_delivery in zip(*batch.result.callbacks(batch.record_count), strict=True):
            target, at = batch.result.part_of(index)
            target.deliver_to(at, timestamp_ms, on_delivery)

    def take_expired(self, now_ms: int) -> list[ProducerBatch]:
        """Queued batches whose `delivery.timeout.ms`, counted from creation, is over."""
        expired: list[ProducerBatch] = []
        for queue in list(self._busy):
            while queue.batches and queue.batches[0].created_ms + self.config.delivery_timeout_ms <= now_ms:
                expired.append(queue.batches.popleft())
            if not queue.batches:
                del self._busy[queue]
        return expired

    def take_all(self) -> list[ProducerBatch]:
        """Every queued batch (a forced close)."""
        taken = [batch for queue in self._busy for batch in queue.batches]
        for queue in self._busy:
            queue.batches.clear()
        self._busy.clear()
        return taken

    def next_expiry_ms(self, in_flight: Iterable[ProducerBatch] = ()) -> int:
        """When the next batch, queued or in flight, passes its delivery timeout."""
        due = NEVER
        for queue in self._busy:
            due = min(due, queue.batches[0].created_ms)
        for batch in in_flight:
            if not batch.result.done:
                due = min(due, batch.created_ms)
        return due + self.config.delivery_timeout_ms if due < NEVER else NEVER

    def release(self, batch: ProducerBatch) -> None:
        """The batch has its outcome and nothing writes from its buffer: the memory goes back."""
        self.incomplete.pop(batch, None)
        buffer, batch.buffer = batch.buffer, None
        batch.unseal()
        if buffer is not None and batch.pooled:
            self.pool.deallocate(buffer)

    def mute(self, where: TopicPartition) -> None:
        """Nothing more leaves for this partition until it is unmuted."""
        self.queue(where).muted = True

    def unmute(self, where: TopicPartition) -> None:
        """The partition's batch came back."""
        self.queue(where).muted = False
