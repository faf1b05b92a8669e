"""OffsetDelete, API key 47. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.requests import message


@message
class OffsetDeleteRequestPartition:
    partition_index: int = 0


@message
class OffsetDeleteRequestTopic:
    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)


@message
class OffsetDeleteRequest:
    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)


@message
class OffsetDeleteResponsePartition:
    partition_index: int = 0
    error_code: int = 0


@message
class OffsetDeleteResponseTopic:
    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)


@message
class OffsetDeleteResponse:
    error_code: int = 0
    throttle_time_ms: int = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)
