"""OffsetCommit, API key 8. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests import message


@message
class OffsetCommitRequestPartition:
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""


@message
class OffsetCommitRequestTopic:
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)


@message
class OffsetCommitRequest:
    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)


@message
class OffsetCommitResponsePartition:
    partition_index: int = 0
    error_code: int = 0


@message
class OffsetCommitResponseTopic:
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)


@message
class OffsetCommitResponse:
    throttle_time_ms: int = 0
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)
