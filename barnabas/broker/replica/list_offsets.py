"""Serving a ListOffsets. Source: `ReplicaManager.fetchOffset`, `Partition.fetchOffsetForTimestamp` of Apache Kafka."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from barnabas.broker.context import Connection
from barnabas.broker.log.types import Isolation, TimestampOffset
from barnabas.broker.ports import NotYet
from barnabas.broker.replica.hosted import HostedPartitions
from barnabas.broker.replica.partition import Partition
from barnabas.broker.replica.types import ListOffsetsQuery, ListOffsetsResult
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    TopicPartition,
)

logger = logging.getLogger(__name__)

Respond: TypeAlias = Callable[[dict[TopicPartition, ListOffsetsResult]], None]


def list_offsets(
    hosted: HostedPartitions,
    queries: Mapping[TopicPartition, ListOffsetsQuery],
    isolation: Isolation,
    respond: Respond,
    now_ms: int,
    *,
    leader_only: bool = True,
    asker: Connection | None = None,
) -> None:
    """Look offsets up by time, see `ReplicaManager.list_offsets`."""

    def attempt(_: int) -> None:
        results = {}
        if asker is not None and not asker.open:
            respond(dict.fromkeys(queries, ListOffsetsResult()))  # which nobody hears
            return
        for key, query in queries.items():
            try:
                results[key] = _look_up(hosted.get(key), query, isolation, leader_only)
            except KafkaError as error:
                results[key] = ListOffsetsResult(error.code)
            except NotYet:
                raise
            except Exception as error:
                logger.error("looking up an offset of %s failed", key, exc_info=error)
                code = ErrorCode.KAFKA_STORAGE_ERROR if isinstance(error, OSError) else ErrorCode.UNKNOWN_SERVER_ERROR
                results[key] = ListOffsetsResult(code)
        respond(results)

    hosted.shared.when_read(attempt, now_ms, asker)


def _look_up(
    partition: Partition, query: ListOffsetsQuery, isolation: Isolation, leader_only: bool
) -> ListOffsetsResult:
    """One partition's answer.

    A new leader whose high watermark has not reached its epoch's start yet may know less than its predecessor told:
    for a client, the latest offset and hits at or above the visible end are then OFFSET_NOT_AVAILABLE.
    """
    partition.check_access(query.current_leader_epoch, leader_only=leader_only)
    log = partition.log
    timestamp = query.timestamp
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return ListOffsetsResult(0, -1, log.log_start_offset, _epoch_at_start(partition))
    if timestamp == LATEST_TIERED_TIMESTAMP:
        return ListOffsetsResult()
    for_client = isolation != Isolation.LOG_END
    lags = for_client and partition.epoch_start_offset > log.high_watermark
    visible_end = (log.log_end_offset, log.high_watermark, log.last_stable_offset)[isolation]
    if timestamp == LATEST_TIMESTAMP:
        if lags:
            raise _not_available(partition)
        return ListOffsetsResult(0, -1, visible_end, partition.leader_epoch)
    found: TimestampOffset | None
    found = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= visible_end:
        if found is not None and lags:
            raise _not_available(partition)
        return ListOffsetsResult()
    return ListOffsetsResult(0, found.timestamp, found.offset, found.leader_epoch)


def _epoch_at_start(partition: Partition) -> int:
    """The epoch of the first record, if the epoch cache reaches back to the log's start."""
    log = partition.log
    for epoch, start_offset in log.epochs.entries[:1]:
        if start_offset <= log.log_start_offset:
            return epoch
    return -1


def _not_available(partition: Partition) -> KafkaError:
    detail = f"{partition.topic_partition}: the high watermark has not reached this leader's first offset yet"
    return KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, detail)
