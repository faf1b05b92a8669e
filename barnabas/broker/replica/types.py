"""What the replica room takes and gives: queries and results per partition, assignments, its view of the cluster.

Results carry protocol error codes as ints; handlers put them into responses. Results keep the order of the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from barnabas.broker.context import Connection
from barnabas.broker.log.types import EpochEnd, Isolation, OffsetMetadata
from barnabas.protocol.ids import CONSUMER_REPLICA_ID, ZERO_UUID, Buffer, TopicPartition


class ClusterView(Protocol):
    """What the metadata image says of brokers and partitions. Asked again each time, never remembered."""

    def contains(self, partition: TopicPartition) -> bool:
        """Whether the metadata knows the partition, wherever it is hosted."""

    def is_alive(self, broker_id: int) -> bool:
        """Whether the broker is registered and not fenced."""

    def broker_epoch(self, broker_id: int) -> int:
        """In which of its lives the broker is registered; -1 while it is not."""

    def topic_overrides(self, topic: str) -> Mapping[str, str]:
        """The settings given to a topic itself."""

    def isr_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether the broker may be in an ISR: unfenced, not shutting down, and of this epoch (-1 fits any)."""

    def rack(self, broker_id: int, listener: str) -> str | None:
        """Where a broker stands that is alive and has that listener; None where it does not say, or there is none."""


class PartitionState(Protocol):
    """One partition's assignment, as the metadata image has it. `leader` is -1 when there is none."""

    @property
    def topic_id(self) -> bytes:
        """16 raw bytes."""

    @property
    def leader(self) -> int:
        """Broker id, -1 for none."""

    @property
    def leader_epoch(self) -> int:
        """Rises with each change of leader."""

    @property
    def partition_epoch(self) -> int:
        """Rises with each change."""

    @property
    def replicas(self) -> tuple[int, ...]:
        """Broker ids, the preferred leader first."""

    @property
    def isr(self) -> tuple[int, ...]:
        """Broker ids in sync, as committed."""

    @property
    def elr(self) -> tuple[int, ...]:
        """Broker ids that are not in sync and have all that was committed (KIP-966)."""

    @property
    def recovering(self) -> bool:
        """Whether its leader may lack what was acknowledged, and nobody has been in sync with it since."""

    @property
    def adding(self) -> tuple[int, ...]:
        """Those of the replicas that it is on its way to."""

    @property
    def moves(self) -> bool:
        """Whether it is being reassigned."""


@dataclass(slots=True)
class ProduceResult:
    """One partition's answer to Produce. `record_errors` holds (index in the batch, message)."""

    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: list[tuple[int, str | None]] | None = None


@dataclass(slots=True)
class FetchParams:
    """What a Fetch says for all of its partitions.

    `isolation` is LOG_END for followers and debuggers. `leader_only`: only the leader may serve it (a follower's
    fetch, or a consumer below version 11, which cannot be told of another replica). `connection`: who waits. `rack`: of
    a consumer that is to be told of a replica near it, "" for none. `held`: of a follower's, whether this leader has
    sent all that replicas out of sync may have for now (`throttle`). `followed`: whether what was read has followers.
    `passed`: how many partitions had been read when the device was asked last.
    """

    replica_id: int = CONSUMER_REPLICA_ID
    replica_epoch: int = -1
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2**31 - 1
    isolation: Isolation = Isolation.HIGH_WATERMARK
    leader_only: bool = False
    connection: Connection | None = None
    rack: str = ""
    held: bool = False
    followed: bool = False
    passed: int = 2**31 - 1

    @property
    def from_follower(self) -> bool:
        """Whether a broker asks."""
        return self.replica_id >= 0

    @property
    def consumer(self) -> Connection | None:
        """Whose memory it is that is read into; other brokers are charged with nothing that they wait for."""
        return self.connection if self.replica_id < 0 else None


class FetchInfo(NamedTuple):
    """What a Fetch asks of one partition; -1 where a version has no such field. A zero topic id is not compared."""

    topic_id: bytes = ZERO_UUID
    fetch_offset: int = 0
    log_start_offset: int = -1
    max_bytes: int = 2**31 - 1
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1


@dataclass(slots=True)
class FetchResult:
    """One partition's answer to Fetch. `records` is leased (see `ports`).

    `start` is the fetch offset with its place in the log, which a parked fetch remembers; None when nothing was read.
    """

    error_code: int = 0
    records: Buffer = b""
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEnd | None = None
    preferred_read_replica: int = -1
    start: OffsetMetadata | None = None


@dataclass(slots=True)
class DeleteRecordsResult:
    """One partition's answer to DeleteRecords."""

    error_code: int = 0
    low_watermark: int = -1


class ListOffsetsQuery(NamedTuple):
    """What ListOffsets asks of one partition."""

    timestamp: int
    current_leader_epoch: int = -1


@dataclass(slots=True)
class ListOffsetsResult:
    """One partition's answer to ListOffsets; -1 where there is no such record."""

    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


class EpochQuery(NamedTuple):
    """What OffsetForLeaderEpoch asks of one partition."""

    leader_epoch: int
    current_leader_epoch: int = -1


@dataclass(slots=True)
class EpochResult:
    """One partition's answer to OffsetForLeaderEpoch; -1 when undefined."""

    error_code: int = 0
    leader_epoch: int = -1
    end_offset: int = -1
