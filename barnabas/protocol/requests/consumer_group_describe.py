"""ConsumerGroupDescribe, API key 69. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests import message


@message
class ConsumerGroupDescribeRequest:
    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


@message
class TopicPartitions:
    topic_id: bytes = ZERO_UUID
    topic_name: str = ""
    partitions: list[int] = field(default_factory=list)


@message
class Assignment:
    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@message
class Member:
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = None
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    member_type: int = -1


@message
class DescribedGroup:
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: list[Member] = field(default_factory=list)
    authorized_operations: int = -2147483648


@message
class ConsumerGroupDescribeResponse:
    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = field(default_factory=list)
