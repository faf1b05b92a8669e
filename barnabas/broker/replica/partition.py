"""One hosted partition: its leadership, its replicas, and the high watermark. Source: `Partition` of Apache Kafka.

The high watermark is the smallest log end among the leader, the maximal ISR, and the replicas that are about to join:

    leader end 9    ISR {1, 2, 3}, leader 1    follower ends: 2 -> 9, 3 -> 7    high watermark 7
                    4 is out of sync, end 8, caught up 5 s ago, eligible        still min(9, 9, 7, 8) = 7
                    then 3 fetches from 9                                       8: waits for 4, which may join any time

Long because who leads and what is committed are one state.

It never goes back on a leader, and stands still while the committed ISR is smaller than the effective
`min.insync.replicas` (KIP-966), for acks=0 and acks=1 data too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from barnabas.broker.config.topics import INTERNAL_TOPICS
from barnabas.broker.log import Log
from barnabas.broker.log.look import ClientBatch, Costly, Summed
from barnabas.broker.log.producer_owners import Asker
from barnabas.broker.log.types import AppendInfo, AppendOrigin, EpochEnd, OffsetMetadata
from barnabas.broker.replica import isr_changes
from barnabas.broker.replica.durable_end import DurableEnd
from barnabas.broker.replica.isr import IsrState
from barnabas.broker.replica.listeners import HighWatermarkListeners
from barnabas.broker.replica.remote_replica import RemoteReplica
from barnabas.broker.replica.shared import Shared
from barnabas.broker.replica.types import PartitionState
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import NO_LEADER, Buffer, TopicPartition

_CLIENT: Final = AppendOrigin.CLIENT  # an enum's member is looked up in its class at every use


class Partition:
    """A partition hosted here, as leader or follower. `leader_epoch` and `partition_epoch` are -1 until told."""

    __slots__ = (
        "adding",
        "damaged",
        "durable",
        "epoch_start_offset",
        "is_internal",
        "isr",
        "leader_epoch",
        "leader_id",
        "listeners",
        "log",
        "moves",
        "partition_epoch",
        "recovering",
        "remotes",
        "replicas",
        "shared",
        "stats",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, topic_id: bytes, log: Log, shared: Shared) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.shared = shared
        self.stats = shared.stats.topic(topic_partition.topic)
        self.is_internal = topic_partition.topic in INTERNAL_TOPICS
        self.leader_id = NO_LEADER
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.epoch_start_offset = -1
        self.replicas: tuple[int, ...] = ()
        self.adding: tuple[int, ...] = ()
        self.moves = False
        self.recovering = False
        self.damaged = -1  # from where on its log is not believed (`damage`); -1: all of it is
        self.isr = IsrState()
        self.remotes: dict[int, RemoteReplica] = {}
        self.durable = DurableEnd()
        self.listeners = HighWatermarkListeners()

    # Leadership

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition."""
        return self.leader_id == self.shared.broker_id

    def become_leader(self, state: PartitionState, now_ms: int) -> bool:
        """Lead from now on, or go on under a changed state; False when the partition epoch is not newer.

        What other brokers have is unknown at first: the high watermark stays where it was until each member of the
        ISR has fetched once.
        """
        if state.partition_epoch <= self.partition_epoch:
            return False
        shared = self.shared
        new_leader = not self.is_leader
        new_epoch = state.leader_epoch > self.leader_epoch
        isr_changes.settled_by_metadata(self, state)
        old_isr = self.isr.committed
        self.isr.commit(state.isr)
        self.replicas, self.adding, self.moves = state.replicas, state.adding, state.moves
        others = [broker for broker in state.replicas if broker != shared.broker_id]
        self.remotes = {broker: self.remotes.get(broker) or RemoteReplica(broker) for broker in others}
        if new_leader:
            self.durable = DurableEnd()
            self.durable.lead(self)
        if new_epoch or new_leader:
            end = self.log.log_end_offset
            self.log.assign_epoch(state.leader_epoch)
            self.epoch_start_offset = end
            for remote in self.remotes.values():
                remote.reset(now_ms, end, new_leader=new_leader, in_sync=remote.broker_id in state.isr)
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.leader_id = shared.broker_id
        isr_changes.note_recovery(self, state, new_epoch=new_epoch)
        if new_epoch or new_leader:
            shared.leadership.tell(self, True, shared.actions)
        # The ISR may be this broker alone by now; or too small for what a produce waits for.
        if self.advance_high_watermark(now_ms) or state.isr != old_isr:
            self.check_all(now_ms)
        return True

    def become_follower(self, state: PartitionState) -> bool:
        """Follow `state.leader` (-1: nobody); what a leader knows is dropped. False when not newer.

        Nobody is followed where that is another process with the node id of this one, either.
        """
        if state.partition_epoch <= self.partition_epoch:
            return False
        self.replicas, self.adding, self.moves = state.replicas, state.adding, state.moves
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self._lead_no_longer(NO_LEADER if state.leader == self.shared.broker_id else state.leader)
        return True

    def stop(self) -> None:
        """Hosted here no longer: parked operations that still hold this object find no leader."""
        self._lead_no_longer(NO_LEADER)

    def check_access(self, current_leader_epoch: int, *, leader_only: bool) -> None:
        """Whether a request that knows `current_leader_epoch` (-1: says nothing) may be served.

        Raises:
            KafkaError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER.
        """
        if current_leader_epoch != -1 and current_leader_epoch != self.leader_epoch:
            older = current_leader_epoch < self.leader_epoch
            code = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
            detail = f"{self.topic_partition}: leader epoch {current_leader_epoch}, here it is {self.leader_epoch}"
            raise KafkaError(code, detail)
        if leader_only and self.leader_id != self.shared.broker_id:
            raise self.not_leader()

    def not_leader(self) -> KafkaError:
        """The error for what only a leader can answer."""
        detail = f"broker {self.shared.broker_id} does not lead {self.topic_partition}"
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, detail)

    # Appending and the high watermark

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, but never more than there are replicas."""
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    def _below_minimum(self, in_sync_count: int) -> bool:
        # `in_sync_count < self.effective_min_isr`, spelt out: every append asks this three times.
        return in_sync_count < self.log.config.min_insync_replicas and in_sync_count < len(self.replicas)

    def append(
        self,
        records: Buffer | Summed | ClientBatch,
        size: int,
        acks: int,
        wall_ms: int,
        internal_allowed: bool = False,
        asker: Asker | None = None,
        origin: AppendOrigin = _CLIENT,
    ) -> AppendInfo:
        """Append one batch and count it; the high watermark is the caller's next step.

        Args:
            records: the batch.
            size: the bytes it came in.
            acks: what the client waits for.
            wall_ms: the time of day.
            internal_allowed: whether an internal topic may be written to.
            asker: who sent it.
            origin: a client's batch is held to more rules.

        Raises:
            Costly: it is to come again, looked through; nothing is counted.
            KafkaError: INVALID_TOPIC_EXCEPTION, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS (acks=-1), and what the log
                refuses.
        """
        shared = self.shared
        stats = self.stats
        stats.total_produces.count += 1
        if self.is_internal and not internal_allowed:
            raise internal(self.topic_partition)
        if self.leader_id != shared.broker_id:
            raise self.not_leader()
        if acks == -1 and self.remotes and self._below_minimum(len(self.isr.committed)):
            detail = f"{self.topic_partition}: ISR {list(self.isr.committed)} is below {self.effective_min_isr}"
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, detail)
        try:
            info = self.log.append_as_leader(records, self.leader_epoch, wall_ms, shared.validate_full, asker, origin)
        except Costly:
            stats.total_produces.count -= 1
            raise
        if info.sync_needed and not info.duplicate:
            self.durable.appended(self, info)
        stats.bytes_in.count += size
        stats.messages_in.count += info.last_offset - info.first_offset + 1
        return info

    def advance_high_watermark(self, now_ms: int) -> bool:
        """Move the high watermark as far as the replicas allow; True when it rose."""
        isr = self.isr
        log = self.log
        in_sync_count = len(isr.committed)  # `_below_minimum`, spelt out: every append asks
        if in_sync_count < log.config.min_insync_replicas and in_sync_count < len(self.replicas):
            return False
        limit = self.durable.limit
        if limit is None and not self.remotes:
            return log.commit_all()
        end = log.log_end_metadata
        candidate = limit or end
        maximal = isr.maximal
        for remote in self.remotes.values():
            if remote.end.offset < candidate.offset and (
                remote.broker_id in maximal or self._may_join(remote, end.offset, now_ms)
            ):
                candidate = remote.end
        return candidate.offset >= 0 and log.advance_high_watermark(candidate)

    def check_all(self, now_ms: int) -> None:
        """The high or low watermark rose, or the ISR changed: try what waits for it, and tell who listens."""
        self.shared.check_all(self.topic_partition, now_ms)
        self.listeners.tell(self.log.high_watermark, now_ms)

    def _may_join(self, remote: RemoteReplica, end: int, now_ms: int) -> bool:
        lag_ms_max = self.shared.config.replica_lag_time_max_ms
        return remote.caught_up(end, now_ms, lag_ms_max) and self.isr_eligible(remote)

    def isr_eligible(self, remote: RemoteReplica) -> bool:
        """Whether the cluster lets the replica's broker into an ISR."""
        return self.shared.cluster.isr_eligible(remote.broker_id, remote.broker_epoch)

    def reached(self, required_offset: int) -> tuple[bool, int]:
        """Whether everything below `required_offset` is committed, with the error to answer (0: none).

        The ISR may have fallen below the minimum since: the data is there, but NOT_ENOUGH_REPLICAS_AFTER_APPEND says
        that it is in fewer places than was asked for.
        """
        if self.leader_id != self.shared.broker_id:
            return False, ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark >= required_offset:
            if self._below_minimum(len(self.isr.maximal)):
                return True, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            return True, 0
        if self.log.failed:
            return False, ErrorCode.KAFKA_STORAGE_ERROR
        return False, 0

    # Followers

    def follower(self, broker_id: int, current_leader_epoch: int) -> RemoteReplica:
        """The follower of that id.

        Raises:
            KafkaError: it is not in the assignment: UNKNOWN_LEADER_EPOCH when it sent an epoch (its metadata is ahead
                of ours), else NOT_LEADER_OR_FOLLOWER.
        """
        remote = self.remotes.get(broker_id)
        if remote is None:
            told = current_leader_epoch != -1
            code = ErrorCode.UNKNOWN_LEADER_EPOCH if told else ErrorCode.NOT_LEADER_OR_FOLLOWER
            raise KafkaError(code, f"broker {broker_id} is no replica of {self.topic_partition}")
        return remote

    def follower_fetched(
        self, broker_id: int, start: OffsetMetadata, log_start_offset: int, leader_end: int, epoch: int, now_ms: int
    ) -> None:
        """Take in what a follower's fetch tells, and act on it: ISR, high watermark, low watermark.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, from an older incarnation of that broker, or no replica any more.
        """
        remote = self.follower(broker_id, -1)
        # The low watermark matters only while a DeleteRecords waits for it.
        deleting = self.shared.delete_records.num_delayed > 0
        low = self.low_watermark() if deleting else -1
        previous_end = remote.end.offset
        registered = self.shared.cluster.broker_epoch(broker_id)
        remote.fetched(start, log_start_offset, now_ms, leader_end, epoch, registered)
        rose = deleting and self.low_watermark() > low
        isr_changes.maybe_expand(self, remote)
        if remote.end.offset != previous_end and self.advance_high_watermark(now_ms):
            rose = True
        if rose:
            self.check_all(now_ms)

    def low_watermark(self) -> int:
        """The smallest log start offset among this leader and all alive replicas (-1: one has not said)."""
        alive = self.shared.cluster.is_alive
        starts = [remote.log_start_offset for remote in self.remotes.values() if alive(remote.broker_id)]
        return min([self.log.log_start_offset, *starts])

    def shrink_isr(self, now_ms: int) -> None:
        """Propose an ISR without the members that lag; the periodic task calls it."""
        isr_changes.maybe_shrink(self, now_ms)

    # Looking up

    def epoch_end(self, leader_epoch: int, current_leader_epoch: int, *, leader_only: bool) -> EpochEnd:
        """Where `leader_epoch` ended in this log; (-1, -1) when undefined.

        Raises:
            KafkaError: as `check_access`.
        """
        self.check_access(current_leader_epoch, leader_only=leader_only)
        return self.log.end_offset_for_epoch(leader_epoch)

    def delete_records(self, offset: int) -> tuple[int, int]:
        """Hide everything below `offset` (-1: the high watermark); returns (offset meant, low watermark now).

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, POLICY_VIOLATION (the topic only compacts), OFFSET_OUT_OF_RANGE.
        """
        log = self.log
        if not self.is_leader:
            raise self.not_leader()
        if set(log.config.cleanup_policy) == {"compact"}:
            detail = f"{self.topic_partition} is only compacted; DeleteRecords needs cleanup.policy=delete"
            raise KafkaError(ErrorCode.POLICY_VIOLATION, detail)
        meant = log.high_watermark if offset == -1 else offset
        if not 0 <= meant <= log.high_watermark:
            detail = f"{self.topic_partition}: {meant} is not between 0 and the high watermark {log.high_watermark}"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, detail)
        log.raise_log_start_offset(meant)
        return meant, self.low_watermark()

    # Looking in

    @property
    def under_replicated(self) -> bool:
        """Whether this leader misses members in its ISR; those that are only coming are not missed."""
        return self.is_leader and len(self.isr.committed) < len(self.replicas) - len(self.adding)

    @property
    def under_min_isr(self) -> bool:
        """Whether this leader's ISR is below the effective minimum."""
        return self.is_leader and self._below_minimum(len(self.isr.committed))

    @property
    def at_min_isr(self) -> bool:
        """Whether this leader's ISR is exactly the effective minimum."""
        return self.is_leader and len(self.isr.committed) == self.effective_min_isr

    def snapshot(self) -> dict[str, Any]:
        """Offsets, leadership and replicas as plain values."""
        log = self.log
        return {
            **self.topic_partition._asdict(),
            "leader": self.leader_id,
            "leader_epoch": self.leader_epoch,
            "partition_epoch": self.partition_epoch,
            "replicas": list(self.replicas),
            "adding": list(self.adding),
            "isr": list(self.isr.committed),
            "maximal_isr": list(self.isr.maximal),
            "recovering": self.recovering,
            "log_start_offset": log.log_start_offset,
            "last_stable_offset": log.last_stable_offset,
            "high_watermark": log.high_watermark,
            "log_end_offset": log.log_end_offset,
            "followers": _followers(self.remotes.values()),
        }

    def _lead_no_longer(self, leader_id: int) -> None:
        if self.epoch_start_offset >= 0:  # it led; one that was disowned may not look so
            self.shared.leadership.tell(self, False, self.shared.actions)
        self.leader_id = leader_id
        self.recovering = False
        self.isr.commit(())
        self.remotes = {}
        self.epoch_start_offset = -1
        self.durable = DurableEnd()


def internal(key: TopicPartition) -> KafkaError:
    """The error for a client that writes to an internal topic."""
    return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{key.topic} is an internal topic")


def _followers(remotes: Sequence[RemoteReplica] | Any) -> list[dict[str, Any]]:
    return [
        {
            "broker": remote.broker_id,
            "log_end_offset": remote.end.offset,
            "log_start_offset": remote.log_start_offset,
            "last_caught_up_ms": remote.last_caught_up_ms,
        }
        for remote in remotes
    ]
