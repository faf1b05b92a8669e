"""BeginQuorumEpoch, API key 53. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests import message


@message
class BegunPartition:
    partition_index: int = 0
    voter_directory_id: bytes = ZERO_UUID
    leader_id: int = 0
    leader_epoch: int = 0


@message
class BegunTopic:
    topic_name: str = ""
    partitions: list[BegunPartition] = field(default_factory=list)


@message
class LeaderEndpoint:
    name: str = ""
    host: str = ""
    port: int = 0


@message
class BeginQuorumEpochRequest:
    cluster_id: str | None = None
    voter_id: int = -1
    topics: list[BegunTopic] = field(default_factory=list)
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
class BeginQuorumEpochResponse:
    throttle_time_ms: ClassVar[int] = 0
    """No version carries one: a constant for whoever asks every answer."""
    error_code: int = 0
    topics: list[TopicData] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)
