"""Cutting a log from its end (UnifiedLog.truncateTo, truncateFullyAndStartAt).

All that must be read is read first, so a `NotYet` leaves the log as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.log.producer_state import ProducerState
from barnabas.broker.log.scan import scan
from barnabas.broker.log.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    stem,
)
from barnabas.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.broker.log.log import Log


def truncate_to(log: Log, offset: int) -> bool:
    """Drop every batch that ends at or after `offset`. Returns whether anything was dropped.

    The log then ends at `offset`, or where a batch began that contained it.

    The high watermark, the recovery point and the log start come down with the end; producer state is rebuilt from
    the newest snapshot that is left.

    Raises:
        NotYet: bytes must be read first; nothing was changed.
        KafkaError: KAFKA_STORAGE_ERROR.
    """
    if offset >= log.log_end_offset:
        return False
    if offset <= log.bases[0]:
        truncate_fully_and_start_at(log, offset, log.active.created_ms)
        return True
    index = log.segment_index(offset)
    segment = log.segments[index]
    end = segment.offsets.lookup(offset)
    times = segment.times
    max_timestamp, max_offset = times.last_timestamp, times.last_offset
    unindexed = 0
    log_end = offset
    for position, header in scan(segment.file, end, segment.size):
        if header.last_offset >= offset:
            end = position
            log_end = min(header.base_offset, offset)
            break
        end = position + header.size
        unindexed += header.size
        if header.max_timestamp > max_timestamp:
            max_timestamp, max_offset = header.max_timestamp, header.last_offset
    if offset >= log.log_start_offset:
        log_end = max(log_end, log.log_start_offset)
    snapshots = [snapshot for snapshot in log.snapshots if snapshot <= log_end]
    producers = rebuild_producers(log, snapshots, log_end)
    log.note_cut(log_end)
    try:
        segment.truncate(end, log_end)
    except OSError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory}: {error}") from error
    if max_offset < log_end and max_timestamp > segment.max_timestamp:
        segment.max_timestamp, segment.max_timestamp_offset = max_timestamp, max_offset
    segment.bytes_since_index = unindexed
    dropped = log.segments[index + 1 :]
    log.set_segments(log.segments[: index + 1])
    drop_segments(log, dropped)
    drop_snapshots(log, log_end + 1)
    log.producers = producers
    log.log_end_offset = log_end
    log.epochs.truncate_from_end(log_end)
    log.save_epochs(cut=True)
    log.recovery_point = min(log.recovery_point, log_end)
    log.log_start_offset = min(log.log_start_offset, log_end)
    log.update_high_watermark(min(log.high_watermark, log_end))
    log.forget_watermark_place()
    return True


def truncate_fully_and_start_at(log: Log, offset: int, now_ms: int) -> None:
    """Drop everything; the next record gets `offset`.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR, the log is as it was.
    """
    log.note_cut(-1)
    for segment in log.segments:
        _rename_away(log, segment)
    try:
        fresh = Segment.create(log.disk, log.directory, offset, now_ms)
    except OSError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory}: {error}") from error
    log.set_segments([fresh])
    drop_snapshots(log, -1)
    log.producers = ProducerState()
    log.log_end_offset = log.log_start_offset = log.recovery_point = offset
    log.epochs.clear()
    log.save_epochs(cut=True)
    log.update_high_watermark(offset)


def rebuild_producers(log: Log, snapshots: list[int], end_offset: int) -> ProducerState:
    """The producer state at `end_offset`: the newest readable of `snapshots`, and the batches after it.

    Raises:
        NotYet: bytes must be read first.
    """
    state, start = load_snapshot(log, snapshots)
    for segment in log.segments[max(log.segment_index(start), 0) :]:
        for _, header in scan(segment.file, segment.offsets.lookup(start), segment.size):
            if header.last_offset >= end_offset:
                return state
            if header.last_offset >= start:
                state.replay(header, header.last_offset)
    return state


def load_snapshot(log: Log, snapshots: list[int]) -> tuple[ProducerState, int]:
    """The newest readable of `snapshots` (rising) and its offset; an empty state and the log start if there is none."""
    for snapshot in reversed(snapshots):
        try:
            data = log.disk.load(f"{log.directory}/{stem(snapshot)}{SNAPSHOT_SUFFIX}")
            return ProducerState.from_snapshot(data), snapshot
        except (FileNotFoundError, ValueError):
            continue
    return ProducerState(), log.log_start_offset


def drop_segments(log: Log, segments: list[Segment]) -> None:
    """Rename segments' files away and hand them to `log.discard`; they are out of `log.segments` already."""
    for segment in segments:
        _rename_away(log, segment)


def _rename_away(log: Log, segment: Segment) -> None:
    segment.close()
    gone = []
    for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        path = segment.path(suffix)
        if log.disk.exists(path):
            log.disk.rename(path, path + DELETED_SUFFIX)
            gone.append(path + DELETED_SUFFIX)
    log.discard(gone)


def drop_snapshots(log: Log, from_offset: int) -> None:
    """Remove producer snapshots at or above an offset."""
    for snapshot in [snapshot for snapshot in log.snapshots if snapshot >= from_offset]:
        log.snapshots.remove(snapshot)
        log.disk.remove(f"{log.directory}/{stem(snapshot)}{SNAPSHOT_SUFFIX}")
