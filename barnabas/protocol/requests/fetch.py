"""Fetch, API key 1. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.ids import ZERO_UUID, Records
from barnabas.protocol.requests import message


@message
class ReplicaState:
    replica_id: int = -1
    replica_epoch: int = -1


@message
class FetchPartition:
    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: bytes = ZERO_UUID
    high_watermark: int = 9223372036854775807


@message
class FetchTopic:
    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[FetchPartition] = field(default_factory=list)


@message
class ForgottenTopic:
    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[int] = field(default_factory=list)


@message
class FetchRequest:
    cluster_id: str | None = None
    replica_id: int = -1
    replica_state: ReplicaState | None = None
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(default_factory=list)
    rack_id: str = ""


@message
class EpochEndOffset:
    epoch: int = -1
    end_offset: int = -1


@message
class LeaderIdAndEpoch:
    leader_id: int = -1
    leader_epoch: int = -1


@message
class SnapshotId:
    end_offset: int = -1
    epoch: int = -1


@message
class AbortedTransaction:
    producer_id: int = 0
    first_offset: int = 0


@message
class PartitionData:
    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset | None = None
    current_leader: LeaderIdAndEpoch | None = None
    snapshot_id: SnapshotId | None = None
    aborted_transactions: list[AbortedTransaction] | None = field(default_factory=list)
    preferred_read_replica: int = -1
    records: Records | None = None


@message
class FetchableTopicResponse:
    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@message
class NodeEndpoint:
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


@message
class FetchResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)
