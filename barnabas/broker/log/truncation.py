"""Cutting a log from its end (UnifiedLog.truncateTo, truncateFullyAndStartAt).

All that must be read is read first, so a `NotYet` leaves the log as it was. So does a disk that refuses, a full one
above all: what is new is made before what is old is renamed away, and names go back where they were.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from barnabas.broker.log.producer_state import ProducerState
from barnabas.broker.log.scan import scan
from barnabas.broker.log.segment import (
    CLEANED_SUFFIX,
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

logger = logging.getLogger(__name__)

_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)


def truncate_to(log: LogView, offset: int) -> Change | None:
    """Drop every batch that ends at or after `offset`; None if there is none.

    The log then ends at `offset`, or where a batch began that contained it; where what goes began behind a gap around
    `offset`, before that: the first that goes may have been there, and have had a wrong offset. So it may have where it
    begins at `offset` behind a gap, but for a log that is compacted, or was (the gap is below the high watermark then):
    what was there was committed, and its offsets are not given away again.

    The high watermark, the recovery point and the log start come down with the end; producer state is rebuilt from
    the newest snapshot that is left.

    Raises:
        NotYet: bytes must be read first; nothing was changed.
        KafkaError: KAFKA_STORAGE_ERROR, the log is as it was.
    """
    if offset >= log.log_end_offset:
        return None
    if offset <= log.bases[0]:
        return truncate_fully_and_start_at(log, offset, log.active.created_ms)
    index = log.segment_index(offset)
    segment = log.segments[index]
    end = segment.offsets.lookup(offset - 1)  # an entry that stays: of what comes before it the time index tells
    segment.times  # noqa: B018  to be loaded
    max_timestamp, max_offset = -1, segment.base
    unindexed = 0
    log_end = offset
    kept_end = offset if end else segment.base
    for position, header in scan(segment.file, end, segment.size):
        if header.last_offset >= offset:
            end = position
            compacted = "compact" in log.config.cleanup_policy or offset <= log.high_watermark
            if header.base_offset == offset and compacted:
                break
            log_end = min(header.base_offset, kept_end)
            break
        end, kept_end = position + header.size, header.next_offset
        unindexed += header.size
        if header.max_timestamp > max_timestamp:
            max_timestamp, max_offset = header.max_timestamp, header.last_offset
    if offset >= log.log_start_offset:
        log_end = max(log_end, log.log_start_offset)
    kept = [snapshot for snapshot in log.snapshots if snapshot <= log_end]
    producers = rebuild_producers(log, kept, log_end)
    following = log.segments[index + 1 :]
    # From the end on: whoever is killed meanwhile leaves no gap.
    with undone_on_failure(log) as rename:
        gone_files = rename_all_away(log.disk, following[::-1], rename)
        segment.truncate(end, log_end)
    if max_timestamp > segment.max_timestamp:
        segment.max_timestamp, segment.max_timestamp_offset = max_timestamp, max_offset
    segment.bytes_since_index = unindexed
    log.discard(gone_files)
    return Change(
        failed=_remove(log, [snapshot for snapshot in log.snapshots if snapshot > log_end]),
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
        KafkaError: KAFKA_STORAGE_ERROR, the log is as it was.
    """
    fresh = Segment(log.disk, log.directory, offset, now_ms)
    path = fresh.path(LOG_SUFFIX)
    with undone_on_failure(log) as rename:
        fresh.adopt(log.disk.open(path + CLEANED_SUFFIX, create=True))  # a start that finds it so takes it away
        gone_files = rename_all_away(log.disk, log.segments[::-1], rename)
        log.disk.rename(path + CLEANED_SUFFIX, path)
    log.discard(gone_files)
    return Change(
        failed=_remove(log, log.snapshots),
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


@contextmanager
def undone_on_failure(log: LogView) -> Iterator[Callable[[str, str], None]]:
    """Gives what renames files; when anything fails in the block, they are called again what they were called.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR, what failed. If names could not be put back, the log has failed for good.
    """
    renamed: list[tuple[str, str]] = []

    def rename(old: str, new: str) -> None:
        log.disk.rename(old, new)
        renamed.append((old, new))

    try:
        yield rename
    except OSError as error:
        try:
            for old, new in reversed(renamed):
                log.disk.rename(new, old)
        except OSError as again:
            log.adopt(Change(failed=again))
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory}: {error}") from error


def _remove(log: LogView, snapshots: Sequence[int]) -> OSError | None:
    """Remove snapshots of records that are gone. One that stays would be believed by a later start."""
    try:
        remove_snapshots(log.disk, log.directory, snapshots)
    except OSError as error:
        return error
    return None


def rebuild_producers(log: LogView, snapshots: Sequence[int], end_offset: int) -> ProducerState:
    """The producer state at `end_offset`: the newest readable of `snapshots`, and the batches after it.

    Raises:
        NotYet: bytes must be read first.
    """
    state, start = load_snapshot(log.disk, log.directory, snapshots, log.bases[0])
    for segment in log.segments[max(log.segment_index(start), 0) :]:
        for _, header in scan(segment.file, segment.offsets.lookup(start), segment.size):
            if header.last_offset >= end_offset:
                return state
            if header.last_offset >= start:
                state.replay(header, header.last_offset)
    return state


def load_snapshot(disk: Disk, directory: str, snapshots: Sequence[int], first: int) -> tuple[ProducerState, int]:
    """The newest readable of `snapshots` (rising) and its offset; an empty state and `first` if there is none."""
    for snapshot in reversed(snapshots):
        path = f"{directory}/{stem(snapshot)}{SNAPSHOT_SUFFIX}"
        try:
            return ProducerState.from_snapshot(disk.load(path)), snapshot
        except (OSError, ValueError) as error:
            logger.warning("%s is not used: %s; an older one is, and the batches after it", path, error)
    return ProducerState(), first


def rename_all_away(disk: Disk, segments: Sequence[Segment], rename: Callable[[str, str], None]) -> list[str]:
    """Rename segments' files away, in this order; returns what they are called now. Handles open again when needed."""
    away = []
    for segment in segments:
        segment.close()
        for path in _files_of(disk, segment):
            rename(path, path + DELETED_SUFFIX)
            away.append(path + DELETED_SUFFIX)
    return away


def rename_away(disk: Disk, segment: Segment) -> list[str]:
    """Rename a segment's files away; returns what they are called now."""
    return rename_all_away(disk, [segment], disk.rename)


def _files_of(disk: Disk, segment: Segment) -> list[str]:
    return [path for path in map(segment.path, _SUFFIXES) if disk.exists(path)]


def remove_snapshots(disk: Disk, directory: str, snapshots: Sequence[int]) -> None:
    """Remove the files of producer snapshots."""
    for snapshot in snapshots:
        disk.remove(f"{directory}/{stem(snapshot)}{SNAPSHOT_SUFFIX}")
