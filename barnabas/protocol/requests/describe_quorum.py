"""DescribeQuorum, API key 55. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests import message


@message
class RequestedPartitionData:
    partition_index: int = 0


@message
class RequestedTopicData:
    topic_name: str = ""
    partitions: list[RequestedPartitionData] = field(default_factory=list)


@message
class DescribeQuorumRequest:
    topics: list[RequestedTopicData] = field(default_factory=list)


@message
class ReplicaState:
    replica_id: int = 0
    replica_directory_id: bytes = ZERO_UUID
    log_end_offset: int = 0
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1


@message
class PartitionData:
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: list[ReplicaState] = field(default_factory=list)
    observers: list[ReplicaState] = field(default_factory=list)


@message
class TopicData:
    topic_name: str = ""
    partitions: list[PartitionData] = field(default_factory=list)


@message
class Listener:
    name: str = ""
    host: str = ""
    port: int = 0


@message
class Node:
    node_id: int = 0
    listeners: list[Listener] = field(default_factory=list)


@message
class DescribeQuorumResponse:
    throttle_time_ms: ClassVar[int] = 0
    """No version carries one: a constant for whoever asks every answer."""
    error_code: int = 0
    error_message: str | None = ""
    topics: list[TopicData] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
