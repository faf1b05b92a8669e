"""A partition of `__consumer_offsets` as its shard writes it, through the replica room."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.config.keys import LONG_MAX
from barnabas.broker.replica import ReplicaManager, damage
from barnabas.broker.replica.partition import Partition
from barnabas.broker.replica.produce import append_as_coordinator
from barnabas.protocol.ids import Buffer


class PartitionJournal:
    """A led partition's log (a `Journal`). `committed` is called when its high watermark rises, while listening.

    Whoever listens is told after every append, at the end of the step, which costs a commit a fifth more.
    """

    __slots__ = ("_heard", "_partition", "_replicas")

    def __init__(self, replicas: ReplicaManager, partition: Partition, committed: Callable[[], None]) -> None:
        self._replicas = replicas
        self._partition = partition
        self._heard = lambda high_watermark, now_ms: committed()

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch it takes (`max.message.bytes`, and what fits into a segment)."""
        config = self._partition.log.config
        return min(config.max_message_bytes, config.segment_bytes)

    @property
    def high_watermark(self) -> int:
        """What lies below is committed."""
        return self._partition.log.high_watermark

    @property
    def commits_at_once(self) -> bool:
        """Whether what is appended is committed with that."""
        partition = self._partition
        return (
            len(partition.replicas) == 1
            and partition.durable.limit is None
            and partition.log.config.flush_messages == LONG_MAX
        )

    def write(self, batch: Buffer, wall_ms: int, now_ms: int) -> int:
        """Append a batch; returns the offset after it.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, or what the log refuses.
        """
        return append_as_coordinator(self._replicas.hosted, self._partition, batch, wall_ms, now_ms).last_offset + 1

    def listen(self, listens: bool) -> None:
        """Have `committed` called from now on, or no more."""
        listeners = self._partition.listeners
        if self._heard in listeners:
            listeners.remove(self._heard)
        if listens:
            listeners.append(self._heard)

    def give_up(self, offset: int) -> bool:
        """Have a replica that is in sync lead, whose log is whole; whether there is one."""
        partition = self._partition
        reason = f"what is at offset {offset} cannot be read, as its groups were to be loaded"
        damage.resign(partition, reason, offset)
        return bool(partition.remotes) and len(partition.isr.committed) > 1
