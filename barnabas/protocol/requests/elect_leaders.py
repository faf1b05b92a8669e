"""ElectLeaders, API key 43. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.requests import message


@message
class TopicPartitions:
    topic: str = ""
    partitions: list[int] = field(default_factory=list)


@message
class ElectLeadersRequest:
    election_type: int = 0
    topic_partitions: list[TopicPartitions] | None = field(default_factory=list)
    timeout_ms: int = 60000


@message
class PartitionResult:
    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = ""


@message
class ReplicaElectionResult:
    topic: str = ""
    partition_result: list[PartitionResult] = field(default_factory=list)


@message
class ElectLeadersResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)
