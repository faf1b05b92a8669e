"""Serving a DeleteRecords. Source: `ReplicaManager.deleteRecords` of Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from barnabas.broker.config.topics import INTERNAL_TOPICS
from barnabas.broker.context import Connection
from barnabas.broker.replica.delayed_delete_records import DelayedDeleteRecords
from barnabas.broker.replica.hosted import HostedPartitions
from barnabas.broker.replica.types import DeleteRecordsResult
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition

Respond: TypeAlias = Callable[[dict[TopicPartition, DeleteRecordsResult]], None]


def delete_records(
    hosted: HostedPartitions,
    offsets: Mapping[TopicPartition, int],
    timeout_ms: int,
    respond: Respond,
    now_ms: int,
    connection: Connection | None = None,
) -> None:
    """Raise log starts and respond when all alive replicas follow, see `ReplicaManager.delete_records`."""
    results: dict[TopicPartition, DeleteRecordsResult] = {}
    required: dict[TopicPartition, int] = {}
    waits = False
    for key, offset in offsets.items():
        try:
            if key.topic in INTERNAL_TOPICS:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{key.topic} is an internal topic")
            meant, low_watermark = hosted.get(key).delete_records(offset)
        except KafkaError as error:
            results[key] = DeleteRecordsResult(error.code)
            continue
        results[key] = DeleteRecordsResult(0, low_watermark)
        required[key] = meant
        waits = waits or low_watermark < meant
    if not waits or (connection is not None and not connection.open):
        respond(results)
        return
    operation = DelayedDeleteRecords(timeout_ms, required, results, hosted, respond)
    if not hosted.shared.delete_records.try_complete_else_watch(operation, results, now_ms):
        hosted.shared.parked(operation, connection, len(required))
