"""AlterPartition, API key 56. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests import message


@message
class BrokerState:
    broker_id: int = 0
    broker_epoch: int = -1


@message
class AlterPartitionPartition:
    partition_index: int = 0
    leader_epoch: int = 0
    new_isr: list[int] = field(default_factory=list)
    new_isr_with_epochs: list[BrokerState] = field(default_factory=list)
    leader_recovery_state: int = 0
    partition_epoch: int = 0


@message
class AlterPartitionTopic:
    topic_id: bytes = ZERO_UUID
    partitions: list[AlterPartitionPartition] = field(default_factory=list)


@message
class AlterPartitionRequest:
    broker_id: int = 0
    broker_epoch: int = -1
    topics: list[AlterPartitionTopic] = field(default_factory=list)


@message
class AlterPartitionPartitionResult:
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    isr: list[int] = field(default_factory=list)
    leader_recovery_state: int = 0
    partition_epoch: int = 0


@message
class AlterPartitionTopicResult:
    topic_id: bytes = ZERO_UUID
    partitions: list[AlterPartitionPartitionResult] = field(default_factory=list)


@message
class AlterPartitionResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    topics: list[AlterPartitionTopicResult] = field(default_factory=list)
