"""EndQuorumEpoch, API key 54. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests import message


@message
class ReplicaInfo:
    candidate_id: int = 0
    candidate_directory_id: bytes = ZERO_UUID


@message
class EndedPartition:
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    preferred_successors: list[int] = field(default_factory=list)
    preferred_candidates: list[ReplicaInfo] = field(default_factory=list)


@message
class EndedTopic:
    topic_name: str = ""
    partitions: list[EndedPartition] = field(default_factory=list)


@message
class LeaderEndpoint:
    name: str = ""
    host: str = ""
    port: int = 0


@message
class EndQuorumEpochRequest:
    cluster_id: str | None = None
    topics: list[EndedTopic] = field(default_factory=list)
    leader_endpoints: list[LeaderEndpoint] = field(default_factory=list)


@message
class PartitionData:
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0


@message
class TopicData:
    topic_name: str = ""
    partitions: list[PartitionData] = field(default_factory=list)


@message
class NodeEndpoint:
    node_id: int = 0
    host: str = ""
    port: int = 0


@message
class EndQuorumEpochResponse:
    throttle_time_ms: ClassVar[int] = 0
    """No version carries one: a constant for whoever asks every answer."""
    error_code: int = 0
    topics: list[TopicData] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)
