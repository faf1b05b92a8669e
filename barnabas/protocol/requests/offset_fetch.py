"""OffsetFetch, API key 9. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests import message


@message
class OffsetFetchRequestTopic:
    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)


@message
class OffsetFetchRequestTopics:
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partition_indexes: list[int] = field(default_factory=list)


@message
class OffsetFetchRequestGroup:
    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1
    topics: list[OffsetFetchRequestTopics] | None = field(default_factory=list)


@message
class OffsetFetchRequest:
    group_id: str = ""
    topics: list[OffsetFetchRequestTopic] | None = field(default_factory=list)
    groups: list[OffsetFetchRequestGroup] = field(default_factory=list)
    require_stable: bool = False


@message
class OffsetFetchResponsePartition:
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0


@message
class OffsetFetchResponseTopic:
    name: str = ""
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list)


@message
class OffsetFetchResponsePartitions:
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0


@message
class OffsetFetchResponseTopics:
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[OffsetFetchResponsePartitions] = field(default_factory=list)


@message
class OffsetFetchResponseGroup:
    group_id: str = ""
    topics: list[OffsetFetchResponseTopics] = field(default_factory=list)
    error_code: int = 0


@message
class OffsetFetchResponse:
    throttle_time_ms: int = 0
    topics: list[OffsetFetchResponseTopic] = field(default_factory=list)
    error_code: int = 0
    groups: list[OffsetFetchResponseGroup] = field(default_factory=list)
