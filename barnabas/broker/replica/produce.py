"""Appending a Produce request. Source: `ReplicaManager.appendRecords` of Apache Kafka.

The order matters: append every partition, leave one action that checks the purgatories, then make the DelayedProduce
and try it. With one replica the high watermark rises with the append, so that the first try of an operation would
complete it: where nothing is pending, none is made. (The ISR needs no second look: the append has just looked.) The
action runs at the end of the step, so that answers of others leave after this request's own bookkeeping; it is left
only if somebody waits, for who parks later finds what was appended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from barnabas.broker.config.topics import INTERNAL_TOPICS
from barnabas.broker.context import Connection
from barnabas.broker.log.look import SPENT, WORK_AT_ONCE, ClientBatch, Costly, Summed
from barnabas.broker.log.producer_owners import Asker
from barnabas.broker.log.types import AppendInfo, AppendOrigin, InvalidRecord
from barnabas.broker.replica import damage
from barnabas.broker.replica.delayed_produce import DelayedProduce, Written
from barnabas.broker.replica.hosted import HostedPartitions
from barnabas.broker.replica.late import Late, line_up
from barnabas.broker.replica.partition import Partition, internal
from barnabas.broker.replica.shared import Shared
from barnabas.broker.replica.types import ProduceResult
from barnabas.protocol.batch import BatchHeader, unpack_header
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import Buffer, TopicPartition

ProduceResults: TypeAlias = dict[TopicPartition, ProduceResult]
Respond: TypeAlias = Callable[[ProduceResults], None]
Changes: TypeAlias = list[tuple[Partition, bool]]
"""Partitions that were appended to, and whether their high watermark rose."""

# Refusals that say nothing about this broker's health are not counted as failed produces.
_EXPECTED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)

# Refusals before the log itself has a say: their answers do not tell where it starts (`appendRecordsToLeader`).
_BEFORE_THE_LOG: Final = _EXPECTED | {ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_RECORD}

_ANSWERED: Final = (1, -1)
_COORDINATOR: Final = AppendOrigin.COORDINATOR  # an enum's member is looked up in its class at every use
_NEVER: Final = 2**63 - 1  # flush.messages
_PARTITION: Final = 20
"""What appending a batch takes beside its bytes, as `Spent` counts."""
_KIB_WRITTEN: Final = 4
"""Summing and writing a KiB, where the pages are new."""

logger = logging.getLogger(__name__)


def append_one(
    hosted: HostedPartitions,
    key: TopicPartition,
    records: Buffer,
    acks: int,
    internal_allowed: bool,
    asker: Asker | None,
    now_ms: int,
) -> AppendInfo | ProduceResult | None:
    """Append the only batch of a request whose answer has nothing to wait for: a shorter way to the same end.

    Returns:
        What was appended, or why it was refused. None where an answer may have to wait, or must not be given: nothing
        was done then, `append_records` knows.
    """
    shared = hosted.shared
    if shared.late or acks not in _ANSWERED:
        return None
    partition = hosted.online.get(key)
    if (
        partition is None
        or (acks == -1 and partition.remotes)
        or partition.durable.limit is not None
        or partition.log.config.flush_messages != _NEVER
    ):
        return None
    try:
        info = partition.append(records, len(records), acks, shared.wall_clock.now_ms(), internal_allowed, asker)
    except Costly:
        return None
    except Exception as error:
        return _failed(hosted, key, records, error)
    # Alone, a leader's log is its high watermark; `advance_high_watermark` says so after more questions.
    rose = partition.advance_high_watermark(now_ms) if partition.remotes else partition.log.commit_all()
    if (  # `_heard`, spelt out
        shared.fetch.watchers or shared.produce.watchers or shared.delete_records.watchers or partition.listeners
    ):
        shared.actions.add(lambda now_ms: _check(shared, [(partition, rose)], now_ms))
    return info


def append_records(
    hosted: HostedPartitions,
    entries: Collection[tuple[TopicPartition, Buffer]],
    acks: int,
    timeout_ms: int,
    respond: Respond,
    now_ms: int,
    *,
    internal_allowed: bool = False,
    asker: Asker | None = None,
    connection: Connection | None = None,
) -> int:
    """Append one batch to each partition and respond as `acks` asks, see `ReplicaManager.append_records`."""
    shared = hosted.shared
    results: ProduceResults = {}
    if acks not in (-1, 0, 1):
        for key, _ in entries:
            results[key] = ProduceResult(ErrorCode.INVALID_REQUIRED_ACKS)
        respond(results)
        return len(entries)
    done = _Done(results, [], {}, {}, connection)
    late: list[tuple[Partition, Buffer, Costly | None]] = []
    spent = SPENT
    until = spent.work + WORK_AT_ONCE
    taken = 0
    for key, records in entries:
        if spent.work >= until:
            break
        taken += 1
        spent.work += _PARTITION + (len(records) >> 10) * _KIB_WRITTEN
        partition = hosted.online.get(key)
        if partition is None:
            results[key] = _failed(hosted, key, records, _absent(hosted, key, internal_allowed))
            continue
        if shared.late and key in shared.late:
            late.append((partition, records, None))
            continue
        try:
            info = partition.append(records, len(records), acks, shared.wall_clock.now_ms(), internal_allowed, asker)
        except Costly as costly:
            late.append((partition, records, costly.bare()))
            continue
        except Exception as error:
            results[key] = _failed(hosted, key, records, error)
            continue
        done.add(key, partition, info, now_ms)
    if late:
        _append_late(hosted, late, done, acks, timeout_ms, respond, internal_allowed, asker)
    else:
        if done.changes and (done.pending or _heard(shared, done.changes)):
            shared.actions.add(lambda now_ms: _check(shared, done.changes, now_ms))
        _conclude(hosted, done, acks, timeout_ms, respond, now_ms)
    return taken


def append_as_coordinator(
    hosted: HostedPartitions, partition: Partition, batch: Buffer, wall_ms: int, now_ms: int
) -> AppendInfo:
    """Append a batch of the broker's own to a partition it leads, with acks=-1; when it is committed, listeners hear.

    Raises:
        KafkaError: as `Partition.append`; nothing was appended.
    """
    if hosted.online.get(partition.topic_partition) is not partition:
        raise partition.not_leader()
    shared = hosted.shared
    size = len(batch)
    own: Buffer | ClientBatch = batch
    if size <= partition.log.config.max_message_bytes:  # it was just built, and is what it says
        own = ClientBatch(memoryview(batch), BatchHeader._make(unpack_header(batch, 0)), -1)
    info = partition.append(own, size, -1, wall_ms, True, None, _COORDINATOR)
    rose = partition.advance_high_watermark(now_ms)
    if (  # `_heard`, spelt out
        shared.fetch.watchers or shared.produce.watchers or shared.delete_records.watchers or partition.listeners
    ):
        shared.actions.add(lambda now_ms: _check(shared, [(partition, rose)], now_ms))
    return info


class _Done(NamedTuple):
    """What of a request is appended: results, which high watermarks rose, what there is to wait for, and for whom."""

    results: ProduceResults
    changes: Changes
    pending: dict[TopicPartition, Written]
    unsynced: dict[TopicPartition, Written]
    connection: Connection | None

    def add(self, key: TopicPartition, partition: Partition, info: AppendInfo, now_ms: int) -> None:
        """One more partition was appended to."""
        self.changes.append((partition, partition.advance_high_watermark(now_ms)))
        end = info.last_offset + 1
        if partition.log.high_watermark < end:
            self.pending[key] = Written(partition, partition.log.cuts, end)
        limit = partition.durable.limit
        if limit is not None and end > limit.offset:
            self.unsynced[key] = Written(partition, partition.log.cuts, end)
        self.results[key] = ProduceResult(0, info.first_offset, info.log_append_time_ms, info.log_start_offset)


def _append_late(
    hosted: HostedPartitions,
    late: list[tuple[Partition, Buffer, Costly | None]],
    done: _Done,
    acks: int,
    timeout_ms: int,
    respond: Respond,
    internal_allowed: bool,
    asker: Asker | None,
) -> None:
    """Append what could not be at once, each when its turn comes; the answer waits for the last of them."""
    shared = hosted.shared
    _tell(shared, list(done.changes))
    waiting = {partition.topic_partition: None for partition, _, _ in late}

    def append(partition: Partition, size: int, batch: Buffer | Summed | ClientBatch, now_ms: int) -> None:
        info = partition.append(batch, size, acks, shared.wall_clock.now_ms(), internal_allowed, asker)
        done.add(partition.topic_partition, partition, info, now_ms)
        _tell(shared, done.changes[-1:])

    def ended(partition: Partition, records: Buffer, fault: Exception | None) -> None:
        key = partition.topic_partition
        if fault is not None:
            done.results[key] = _failed(hosted, key, records, fault)
        del waiting[key]
        if not waiting:
            shared.actions.add(lambda now_ms: _conclude(hosted, done, acks, timeout_ms, respond, now_ms))

    for partition, records, costly in late:
        steps = partial(append, partition, len(records)), partial(ended, partition, records)
        line_up(hosted, Late(partition, records, costly, *steps))


def _heard(shared: Shared, changes: Changes) -> bool:
    """Whether anybody waits for anything, or listens to one of these."""
    if shared.awaited:
        return True
    for partition, _ in changes:  # noqa: SIM110  # a third of what `any` takes, at every request
        if partition.listeners:
            return True
    return False


def _tell(shared: Shared, changes: Changes) -> None:
    if changes and _heard(shared, changes):
        shared.actions.add(lambda now_ms: _check(shared, changes, now_ms))


def _conclude(hosted: HostedPartitions, done: _Done, acks: int, timeout_ms: int, respond: Respond, now_ms: int) -> None:
    """All is appended that can be: answer as `acks` asks."""
    shared = hosted.shared
    results, _, pending, unsynced, connection = done
    if acks == -1 and pending and (connection is None or connection.open):
        operation = DelayedProduce(timeout_ms, pending, results, hosted, respond)
        if not shared.produce.try_complete_else_watch(operation, results, now_ms):
            shared.parked(operation, connection, len(pending))
    elif acks == 1 and unsynced:
        _respond_when_synced(hosted, unsynced, results, respond)
    else:
        respond(results)


def _absent(hosted: HostedPartitions, key: TopicPartition, internal_allowed: bool) -> KafkaError:
    """Why nothing can be appended to a partition that is not here; such a request is counted in the total."""
    hosted.shared.stats.all.total_produces.count += 1
    return internal(key) if key.topic in INTERNAL_TOPICS and not internal_allowed else hosted.absent(key)


def _check(shared: Shared, changes: Changes, now_ms: int) -> None:
    for partition, high_watermark_rose in changes:
        key = partition.topic_partition
        if high_watermark_rose and shared.produce.watchers:
            shared.produce.check_and_complete(key, now_ms)
        shared.fetch.check_and_complete(key, now_ms)  # of followers it is enough that the log's end rose
        if high_watermark_rose:
            if shared.delete_records.watchers:
                shared.delete_records.check_and_complete(key, now_ms)
            if partition.listeners:
                partition.listeners.tell(partition.log.high_watermark, now_ms)


def _respond_when_synced(
    hosted: HostedPartitions, unsynced: dict[TopicPartition, Written], results: ProduceResults, respond: Respond
) -> None:
    """acks=1 where `flush.messages` asks for a sync: the answer leaves when all of it is on stable storage."""
    waiting = dict.fromkeys(unsynced)

    def synced(key: TopicPartition, error: KafkaError | None) -> None:
        del waiting[key]
        if error is not None:
            results[key] = ProduceResult(error.code, error_message=error.detail)
        if not waiting:
            hosted.shared.actions.add(lambda _: respond(results))

    for key, written in unsynced.items():
        if not written.is_there(hosted):
            synced(key, written.partition.not_leader())
            continue
        try:
            is_durable = written.partition.log.when_durable(written.end, partial(synced, key))
        except KafkaError as refusal:
            synced(key, refusal)
        else:
            if is_durable:
                synced(key, None)


def _failed(hosted: HostedPartitions, key: TopicPartition, records: Buffer, error: Exception) -> ProduceResult:
    shared = hosted.shared
    if not isinstance(error, KafkaError):
        logger.error("appending to %s failed", key, exc_info=error)
        error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker failed to append, see its log")
    counted = [shared.stats.all]
    partition = hosted.online.get(key)
    if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
        shared.complaints.refused(key, partition, error)
        if partition is not None:
            damage.refused(partition)
    start_offset = -1
    if partition is not None:
        counted.append(partition.stats)
        if isinstance(error, InvalidRecord) or error.code not in _BEFORE_THE_LOG:
            start_offset = partition.log.log_start_offset
    for stats in counted:
        if error.code not in _EXPECTED:
            stats.failed_produces.mark()
        if error.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
            stats.bytes_rejected.mark(len(records))
    record_errors = error.record_errors if isinstance(error, InvalidRecord) else None
    return ProduceResult(error.code, -1, -1, start_offset, error.detail, record_errors)
