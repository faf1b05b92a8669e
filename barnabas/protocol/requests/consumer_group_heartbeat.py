"""ConsumerGroupHeartbeat, API key 68. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests import message


@message
class TopicPartitions:
    topic_id: bytes = ZERO_UUID
    partitions: list[int] = field(default_factory=list)


@message
class ConsumerGroupHeartbeatRequest:
    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: list[TopicPartitions] | None = None


@message
class Assignment:
    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@message
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
