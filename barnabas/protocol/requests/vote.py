"""Vote, API key 52. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests import message


@message
class AskedPartition:
    partition_index: int = 0
    replica_epoch: int = 0
    replica_id: int = 0
    replica_directory_id: bytes = ZERO_UUID
    voter_directory_id: bytes = ZERO_UUID
    last_offset_epoch: int = 0
    last_offset: int = 0
    pre_vote: bool = False


@message
class AskedTopic:
    topic_name: str = ""
    partitions: list[AskedPartition] = field(default_factory=list)


@message
class VoteRequest:
    cluster_id: str | None = None
    voter_id: int = -1
    topics: list[AskedTopic] = field(default_factory=list)


@message
class PartitionData:
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    vote_granted: bool = False


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
class VoteResponse:
    throttle_time_ms: ClassVar[int] = 0
    """No version carries one: a constant for whoever asks every answer."""
    error_code: int = 0
    topics: list[TopicData] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)
