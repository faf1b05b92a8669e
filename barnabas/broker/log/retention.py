"""Forgetting the oldest segments: log start, size, age (UnifiedLog.deleteOldSegments)."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from barnabas.broker.jobs import Job, wait
from barnabas.broker.log.losses import Loss
from barnabas.broker.log.place import newest_ms
from barnabas.broker.log.segment import Segment
from barnabas.broker.log.state import Change, LogView
from barnabas.broker.log.truncation import remove_snapshots, rename_all_away, undone_on_failure

_SEGMENTS_PER_STEP: Final = 32
"""Segments one step looks at and deletes: three files of each are renamed, and a log may have 20,000."""
_SNAPSHOTS_PER_STEP: Final = 32
"""Producer snapshots one step removes: each roll takes one, and compaction leaves them."""


def retain(log: LogView, now_ms: int) -> Job[int]:
    """Delete what the rules let go; returns the number of segments deleted.

    Only a prefix of segments that ends at or below the high watermark goes, and never an empty active one; if all go,
    a new one is opened first. Rules, in this order: (a) the segment lies below the log start; (b) `retention.bytes`:
    the rest is still as large as the limit; (c) `retention.ms`: its largest timestamp is older than the limit. (b) and
    (c) hold for `cleanup.policy=delete` only. The log start moves to the first segment that is left.

    Before a segment goes, a producer snapshot at or above its end is on the device: what it held of producers is known
    from nowhere else after a kill.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR, no new segment could be opened, or files could not be renamed: they stay.
        OSError: a read failed, or there is no room for a snapshot: what an earlier one covers went.
    """
    deleted = 0
    while not log.closed and (deletable := _below_log_start(log)):
        deleted += yield from _delete(log, deletable, now_ms, "log start")
        yield None
    if "delete" not in log.config.cleanup_policy:
        return deleted
    yield None
    while not log.closed and (deletable := _above_size(log)):
        deleted += yield from _delete(log, deletable, now_ms, f"retention.bytes={log.config.retention_bytes}")
        yield None
    while old := (yield from _too_old(log, now_ms)):
        deleted += yield from _delete(log, old, now_ms, f"retention.ms={log.config.retention_ms}")
        yield None
    return deleted


def _is_committed(log: LogView, index: int) -> bool:
    """Whether a segment may go at all: it ends at or below the high watermark, and an active one is not empty."""
    if index + 1 < len(log.segments):
        return log.bases[index + 1] <= log.high_watermark
    return log.active.size > 0 and log.log_end_offset <= log.high_watermark


def _below_log_start(log: LogView) -> list[Segment]:
    """The next few."""
    count, most = 0, min(_SEGMENTS_PER_STEP, len(log.segments) - 1)
    while count < most and log.bases[count + 1] <= log.log_start_offset and _is_committed(log, count):
        count += 1
    return list(log.segments[:count])


def _above_size(log: LogView) -> list[Segment]:
    """The next few."""
    limit = log.config.retention_bytes
    if limit < 0:
        return []
    excess = log.size_bytes - limit
    count, most = 0, min(_SEGMENTS_PER_STEP, len(log.segments))
    while count < most and excess >= log.segments[count].size and _is_committed(log, count):
        excess -= log.segments[count].size
        count += 1
    return list(log.segments[:count])


def _too_old(log: LogView, now_ms: int) -> Job[list[Segment]]:
    """The next few that are old when this returns; in a later step a young record may be in the active one."""
    limit = log.config.retention_ms
    old: list[Segment] = []
    if limit < 0 or log.closed:
        return old
    for segment in list(log.segments[:_SEGMENTS_PER_STEP]):
        end = log.log_end_offset
        largest = yield from newest_ms(log, segment, now_ms - limit, now_ms)
        if log.closed or len(old) >= len(log.segments) or log.segments[len(old)] is not segment:
            return []  # the log was cut or compacted meanwhile
        if segment is log.active and log.log_end_offset != end:
            break
        since_ms = largest if largest >= 0 else segment.created_ms
        if now_ms - since_ms <= limit or not _is_committed(log, len(old)):
            break
        old.append(segment)
    return old


def _delete(log: LogView, segments: list[Segment], now_ms: int, rule: str) -> Job[int]:
    if len(segments) == len(log.segments):
        log.roll(now_ms)
        size = sum(segment.size for segment in segments)
        reason = f"{rule} lets every record go"
        first, name = log.log_start_offset, str(log.topic_partition)
        log.losses.report(Loss(name, first, log.log_end_offset, size, log.directory, reason))
    gate = log.snapshot_from(log.bases[len(segments)])
    if gate is not None:
        ends = log.bases[1 : len(segments) + 1]
        try:
            yield from wait(gate)
        except OSError:
            covered = max(log.snapshots, default=-1)
            segments = [segment for segment, end in zip(segments, ends, strict=True) if end <= covered]
            if not segments:
                raise
        if log.closed or list(log.segments[: len(segments)]) != segments:
            return 0
    with undone_on_failure(log) as rename:
        gone_files = rename_all_away(log.disk, segments, rename)
    left = list(log.segments[len(segments) :])
    begin = left[0].base
    kept_from = bisect_left(log.snapshots, begin)
    old = list(log.snapshots[:kept_from])
    log.adopt(
        Change(
            segments=left,
            log_start_offset=max(begin, log.log_start_offset),
            epochs=log.epochs.from_start(begin),
            snapshots=list(log.snapshots[kept_from:]),
        )
    )
    log.discard(gone_files)
    for start in range(0, len(old), _SNAPSHOTS_PER_STEP):
        if start:
            yield None
            if log.closed:  # another log may be of that name by now
                break
        remove_snapshots(log.disk, log.directory, old[start : start + _SNAPSHOTS_PER_STEP])
    return len(segments)
