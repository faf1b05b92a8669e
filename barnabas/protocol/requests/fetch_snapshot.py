"""FetchSnapshot, API key 59. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.ids import ZERO_UUID, Buffer
from barnabas.protocol.requests import message


@message
class SnapshotId:
    end_offset: int = 0
    epoch: int = 0


@message
class PartitionSnapshot:
    partition: int = 0
    current_leader_epoch: int = 0
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)
    position: int = 0
    replica_directory_id: bytes = ZERO_UUID


@message
class TopicSnapshot:
    name: str = ""
    partitions: list[PartitionSnapshot] = field(default_factory=list)


@message
class FetchSnapshotRequest:
    cluster_id: str | None = None
    replica_id: int = -1
    max_bytes: int = 0x7FFFFFFF
    topics: list[TopicSnapshot] = field(default_factory=list)


@message
class LeaderIdAndEpoch:
    leader_id: int = 0
    leader_epoch: int = 0


@message
class PartitionSnapshotResult:
    index: int = 0
    error_code: int = 0
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)
    current_leader: LeaderIdAndEpoch | None = None
    size: int = 0
    position: int = 0
    unaligned_records: Buffer | list[Buffer] = b""


@message
class TopicSnapshotResult:
    name: str = ""
    partitions: list[PartitionSnapshotResult] = field(default_factory=list)


@message
class NodeEndpoint:
    node_id: int = 0
    host: str = ""
    port: int = 0


@message
class FetchSnapshotResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    topics: list[TopicSnapshotResult] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)
