"""AlterPartitionReassignments, API key 45. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.requests import message


@message
class ReassignablePartition:
    partition_index: int = 0
    replicas: list[int] | None = None


@message
class ReassignableTopic:
    name: str = ""
    partitions: list[ReassignablePartition] = field(default_factory=list)


@message
class AlterPartitionReassignmentsRequest:
    timeout_ms: int = 60000
    topics: list[ReassignableTopic] = field(default_factory=list)
    allow_replication_factor_change: bool = True


@message
class ReassignablePartitionResponse:
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""


@message
class ReassignableTopicResponse:
    name: str = ""
    partitions: list[ReassignablePartitionResponse] = field(default_factory=list)


@message
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    responses: list[ReassignableTopicResponse] = field(default_factory=list)
    allow_replication_factor_change: bool = True
