"""Cutting a log from its end (UnifiedLog.truncateTo, truncateFullyAndStartAt).

All that must be read is read first, so a `NotYet` leaves the log as it was.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from barnabas.broker.log.state import Change, LogView
from barnabas.broker.ports import Disk
from barnabas.protocol.errors import ErrorCode, KafkaError


def truncate_to(log: LogView, offset: int) -> Change | None:
    """Drop every batch that ends at or after `offset`; None if there is none.

    The log then ends at `offset`, or where a batch began that contained it.

    The high watermark, the recovery point and the log start come down with the end; producer state is rebuilt from
    the newest snapshot that is left.

    Raises:
        NotYet: bytes must be read first; nothing was changed.
        KafkaError: KAFKA_STORAGE_ERROR.
    """
    if offset >= log.log_end_offset:
        return None
    if offset <= log.bases[0]:
        return truncate_fully_and_start_at(log, offset, log.active.created_ms)
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
    kept = [snapshot for snapshot in log.snapshots if snapshot <= log_end]
    producers = rebuild_producers(log, kept, log_end)
    try:
        segment.truncate(end, log_end)
    except OSError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory}: {error}") from error
    if max_offset < log_end and max_timestamp > segment.max_timestamp:
        segment.max_timestamp, segment.max_timestamp_offset = max_timestamp, max_offset
    segment.bytes_since_index = unindexed
    drop_segments(log, log.segments[index + 1 :])
    remove_snapshots(log.disk, log.directory, [snapshot for snapshot in log.snapshots if snapshot > log_end])
    return Change(
        segments=list(log.segments[: index + 1]),
        log_start_offset=min(log.log_start_offset, log_end),
        log_end_offset=log_end,
        cut_to=log_end,
        recovery_point=min(log.recovery_point, log_end),
        high_watermark=min(log.high_watermark, log_end),
        epochs=log.epochs.up_to(log_end),
        producers=producers,
        snapshots=kept,
    )


def truncate_fully_and_start_at(log: LogView, offset: int, now_ms: int) -> Change:
    """Drop everything; the next record gets `offset`.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR.
    """
    drop_segments(log, log.segments)
    try:
        fresh = Segment.create(log.disk, log.directory, offset, now_ms)
    except OSError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory}: {error}") from error
    remove_snapshots(log.disk, log.directory, log.snapshots)
    return Change(
        segments=[fresh],
        log_start_offset=offset,
        log_end_offset=offset,
        cut_to=-1,
        recovery_point=offset,
        high_watermark=offset,
        epochs=log.epochs.up_to(-1),
        producers=ProducerState(),
        snapshots=[],
    )


def rebuild_producers(log: LogView, snapshots: Sequence[int], end_offset: int) -> ProducerState:
    """The producer state at `end_offset`: the newest readable of `snapshots`, and the batches after it.

    Raises:
        NotYet: bytes must be read first.
    """
    state, start = load_snapshot(log.disk, log.directory, snapshots, log.log_start_offset)
    for segment in log.segments[max(log.segment_index(start), 0) :]:
        for _, header in scan(segment.file, segment.offsets.lookup(start), segment.size):
            if header.last_offset >= end_offset:
                return state
            if header.last_offset >= start:
                state.replay(header, header.last_offset)
    return state


def load_snapshot(
    disk: Disk, directory: str, snapshots: Sequence[int], log_start_offset: int
) -> tuple[ProducerState, int]:
    """The newest readable of `snapshots` (rising) and its offset; an empty state and the log start if there is none."""
    for snapshot in reversed(snapshots):
        try:
            data = disk.load(f"{directory}/{stem(snapshot)}{SNAPSHOT_SUFFIX}")
            return ProducerState.from_snapshot(data), snapshot
        except (FileNotFoundError, ValueError):
            continue
    return ProducerState(), log_start_offset


def drop_segments(log: LogView, segments: Sequence[Segment]) -> None:
    """Rename segments' files away and hand them to `log.discard`."""
    for segment in segments:
        log.discard(rename_away(log.disk, segment))


def rename_away(disk: Disk, segment: Segment) -> list[str]:
    """Rename a segment's files away; returns what they are called now."""
    segment.close()
    gone = []
    for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        path = segment.path(suffix)
        if disk.exists(path):
            disk.rename(path, path + DELETED_SUFFIX)
            gone.append(path + DELETED_SUFFIX)
    return gone


def remove_snapshots(disk: Disk, directory: str, snapshots: Sequence[int]) -> None:
    """Remove the files of producer snapshots."""
    for snapshot in snapshots:
        disk.remove(f"{directory}/{stem(snapshot)}{SNAPSHOT_SUFFIX}")
