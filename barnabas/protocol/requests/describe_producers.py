"""DescribeProducers, API key 61. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.requests import message


@message
class TopicRequest:
    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)


@message
class DescribeProducersRequest:
    topics: list[TopicRequest] = field(default_factory=list)


@message
class ProducerState:
    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1


@message
class PartitionResponse:
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = field(default_factory=list)


@message
class TopicResponse:
    name: str = ""
    partitions: list[PartitionResponse] = field(default_factory=list)


@message
class DescribeProducersResponse:
    throttle_time_ms: int = 0
    topics: list[TopicResponse] = field(default_factory=list)
