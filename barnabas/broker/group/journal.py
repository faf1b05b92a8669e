"""A partition of `__consumer_offsets` as its shard writes it, through the replica room."""

from __future__ import annotations

from barnabas.broker.replica import ReplicaManager
from barnabas.broker.replica.partition import Partition
from barnabas.protocol.ids import Buffer


class PartitionJournal:
    """A led partition's log (a `shard.Journal`)."""

    __slots__ = ("_partition", "_replicas")

    def __init__(self, replicas: ReplicaManager, partition: Partition) -> None:
        self._replicas = replicas
        self._partition = partition

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch it takes (`max.message.bytes`, and what fits into a segment)."""
        config = self._partition.log.config
        return min(config.max_message_bytes, config.segment_bytes)

    @property
    def high_watermark(self) -> int:
        """What lies below is committed."""
        return self._partition.log.high_watermark

    def write(self, batch: Buffer, wall_ms: int, now_ms: int) -> int:
        """Append a batch; returns the offset after it.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, or what the log refuses.
        """
        info = self._replicas.append_as_coordinator(self._partition, batch, wall_ms, now_ms)
        return info.last_offset + 1
