"""Opening a log that lies on disk (Kafka's LogLoader).

After a clean shutdown nothing is scanned but the few batches behind the active segment's last index entry. After any
other end, segments from the recovery point on are walked batch by batch: sum, framing and rising offsets. The first bad
batch ends the log: its segment is cut there and later segments go.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from barnabas.broker.log import checkpoint
from barnabas.broker.log.closing import ClosingFiles
from barnabas.broker.log.epochs import LeaderEpochs
from barnabas.broker.log.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from barnabas.broker.log.producer_state import ProducerState
from barnabas.broker.log.scan import batches_in, patient, window_at
from barnabas.broker.log.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    stem,
)
from barnabas.broker.log.truncation import drop_segments, drop_snapshots, load_snapshot, truncate_fully_and_start_at
from barnabas.broker.log.types import Job, OffsetMetadata, remove
from barnabas.protocol.batch import BatchHeader, crc_ok, read_header

if TYPE_CHECKING:
    from barnabas.broker.log.log import Log

_FAR: Final = 2**62
OFFSETS_MAX: Final = 2**31
"""Offsets one segment may span."""


def recover(
    log: Log,
    clean: bool,
    now_ms: int,
    recovery_point: int,
    log_start_offset: int,
    high_watermark: int,
    closing: ClosingFiles | None = None,
) -> Job[None]:
    """Open the log.

    Args:
        log: a fresh object.
        clean: the data directory was shut down cleanly.
        now_ms: time of day (ms).
        recovery_point: from the checkpoint; everything below is on stable storage.
        log_start_offset: from the checkpoint, 0 if there is none.
        high_watermark: from the checkpoint, 0 if there is none; clamped to [log start, log end].
        closing: what the clean stop put down elsewhere (see `closing`); without effect after any other end.

    Raises:
        OSError: the disk failed.
    """
    names = yield from _tidy(log, now_ms)
    if not names:
        log.disk.make_dir(log.directory)
    _load_topic_id(log, names)
    bases = sorted(int(name[: -len(LOG_SUFFIX)]) for name in names if _is_segment(name))
    segments = [Segment.existing(log.disk, log.directory, base, now_ms) for base in bases]
    if not segments:
        segments = [Segment.create(log.disk, log.directory, log_start_offset, now_ms)]
    log.set_segments(segments)
    kept: Mapping[str, bytes] = {}
    if clean and closing is not None:
        clean = (closing.base, closing.size) == (log.active.base, log.active.size)
        kept = closing.contents if clean else {}
    log.epochs = _load_epochs(log, names, kept)
    log.log_start_offset = max(log_start_offset, log.bases[0])
    log.snapshots = sorted(int(name[: -len(SNAPSHOT_SUFFIX)]) for name in names if _is_snapshot(name))
    suspect = _FAR if clean else log.segments[max(log.segment_index(recovery_point), 0)].base
    producers = _Producers(log, suspect)
    yield from _check_segments(log, names, suspect, producers, kept)
    yield from _open_active(log)
    log.recovery_point = log.log_end_offset if clean else min(recovery_point, log.log_end_offset)
    if log.log_end_offset < log.log_start_offset:
        truncate_fully_and_start_at(log, log.log_start_offset, now_ms=now_ms)
    log.epochs.truncate_from_end(log.log_end_offset)
    log.epochs.truncate_from_start(log.log_start_offset)
    if producers.learning and log.log_end_offset > log.log_start_offset:
        log.producers = producers.state
    elif (snapshot := stem(log.log_end_offset) + SNAPSHOT_SUFFIX) in kept:
        log.producers = ProducerState.from_snapshot(kept[snapshot])
    elif log.snapshots or not clean:
        yield from _load_producers(log)
    _drop_old_snapshots(log)
    log.advance_high_watermark(OffsetMetadata(log.log_start_offset))
    log.update_high_watermark(high_watermark)


class _Producers:
    """What the walk over suspect segments learns of producers, so that these need not be read a second time.

    It can if there is a snapshot of the state where the walk begins, as there is one at the base of every segment that
    was not the first. Not so when indexes of older segments are walked: they come without state.
    """

    __slots__ = ("learning", "start", "state")

    def __init__(self, log: Log, suspect: int) -> None:
        self.learning = False
        if suspect < _FAR:
            self.state, self.start = load_snapshot(log, [snapshot for snapshot in log.snapshots if snapshot <= suspect])
            self.learning = self.start >= suspect

    def replay(self, header: BatchHeader) -> None:
        """Learn from the next batch of the walk."""
        if header.producer_id >= 0 and header.last_offset >= self.start:
            self.state.replay(header, header.last_offset)


def _is_segment(name: str) -> bool:
    return name.endswith(LOG_SUFFIX) and name[: -len(LOG_SUFFIX)].isdigit()


def _is_snapshot(name: str) -> bool:
    return name.endswith(SNAPSHOT_SUFFIX) and name[: -len(SNAPSHOT_SUFFIX)].isdigit()


def _tidy(log: Log, now_ms: int) -> Job[list[str]]:
    """Remove what was being deleted or written, finish swaps of compaction, drop indexes without a segment."""
    disk, directory = log.disk, log.directory
    names = disk.list(directory)
    if any(name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)) for name in names):
        for name in names:
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX)):
                yield from remove(disk, f"{directory}/{name}")
        for name in names:
            if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
                yield from _finish_swap(log, int(name[: -len(LOG_SUFFIX + SWAP_SUFFIX)]), now_ms)
        names = disk.list(directory)
    stems = {name[: -len(LOG_SUFFIX)] for name in names if _is_segment(name)}
    orphans = [name for name in names if name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX)) and _is_orphan(name, stems)]
    for name in orphans:
        disk.remove(f"{directory}/{name}")
    return [name for name in names if name not in orphans] if orphans else names


def _is_orphan(name: str, stems: set[str]) -> bool:
    base = name.partition(".")[0]
    return base.isdigit() and base not in stems


def _finish_swap(log: Log, base: int, now_ms: int) -> Job[None]:
    """A `.swap` file is whole: it replaces every segment from its base to its last offset."""
    disk, directory = log.disk, log.directory
    swap = f"{directory}/{stem(base)}{LOG_SUFFIX}{SWAP_SUFFIX}"
    file = disk.open(swap)
    end = base
    position = 0
    while position < file.size:
        at = position
        view = yield from patient(lambda at=at: window_at(file, at, file.size))  # type: ignore[misc]
        for offset, header in batches_in(view):
            end = header.next_offset
            position = at + offset + header.size
        if position == at:
            break
        yield None
    file.close()
    for name in disk.list(directory):
        if _is_segment(name) and base <= int(name[: -len(LOG_SUFFIX)]) < max(end, base + 1):
            replaced = Segment(disk, directory, int(name[: -len(LOG_SUFFIX)]), now_ms)
            for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                yield from remove(disk, replaced.path(suffix))
    disk.rename(swap, f"{directory}/{stem(base)}{LOG_SUFFIX}")


def _load_topic_id(log: Log, names: list[str]) -> None:
    if checkpoint.PARTITION_METADATA_FILE not in names:
        return
    try:
        data = log.disk.load(f"{log.directory}/{checkpoint.PARTITION_METADATA_FILE}")
        log.topic_id = checkpoint.parse_partition_metadata(data)
    except ValueError as error:
        raise OSError(f"{log.directory}: {error}") from error


def _load_epochs(log: Log, names: list[str], kept: Mapping[str, bytes]) -> LeaderEpochs:
    saved: list[tuple[int, int]] = []
    if checkpoint.LEADER_EPOCH_FILE in names:
        with contextlib.suppress(ValueError, IndexError):
            saved = checkpoint.parse_epochs(log.disk.load(f"{log.directory}/{checkpoint.LEADER_EPOCH_FILE}"))
    if checkpoint.LEADER_EPOCH_FILE in kept:
        return LeaderEpochs(checkpoint.parse_epochs(kept[checkpoint.LEADER_EPOCH_FILE]), saved=saved)
    return LeaderEpochs(saved)


def _check_segments(
    log: Log, names: list[str], suspect: int, producers: _Producers, kept: Mapping[str, bytes]
) -> Job[None]:
    """Walk the segments from `suspect` on, and older ones whose indexes are missing or senseless."""
    present = set(names)
    log_end = log.bases[0]
    for index, segment in enumerate(list(log.segments)):
        is_suspect = segment.base >= suspect
        log_end = max(log_end, segment.base)
        if (offsets := stem(segment.base) + INDEX_SUFFIX) in kept:
            segment.take_indexes(kept[offsets], kept[stem(segment.base) + TIME_INDEX_SUFFIX])
        elif is_suspect or not (yield from _indexes_are_sane(log, segment, present)):
            following = log.bases[index + 1] if index + 1 < len(log.bases) else segment.base + OFFSETS_MAX
            learn = producers.replay if is_suspect and producers.learning else None
            whole = yield from rebuild(log, segment, log_end, following, learn)
            if is_suspect:
                segment.synced_size = 0
            if not whole:
                dropped = log.segments[index + 1 :]
                log.set_segments(log.segments[: index + 1])
                drop_segments(log, dropped)
                return
        yield None


def _indexes_are_sane(log: Log, segment: Segment, present: set[str]) -> Job[bool]:
    """Whether both index files are there and can belong to this segment (a look at their last entries)."""
    offsets_name, times_name = stem(segment.base) + INDEX_SUFFIX, stem(segment.base) + TIME_INDEX_SUFFIX
    if offsets_name not in present or times_name not in present:
        return not segment.size
    offsets = log.disk.open(f"{log.directory}/{offsets_name}")
    times = log.disk.open(f"{log.directory}/{times_name}")
    try:
        if offsets.size % OFFSET_ENTRY_SIZE or times.size % TIME_ENTRY_SIZE or (segment.size and not times.size):
            return False
        if not offsets.size:
            return True
        last = yield from patient(lambda: offsets.read(offsets.size - OFFSET_ENTRY_SIZE, OFFSET_ENTRY_SIZE))
        offset = int.from_bytes(last[:4], "big", signed=True)
        position = int.from_bytes(last[4:], "big", signed=True)
        return offset >= 0 and 0 <= position < segment.size
    finally:
        offsets.close()
        times.close()


def rebuild(
    log: Log, segment: Segment, log_end: int, following: int, learn: Callable[[BatchHeader], None] | None = None
) -> Job[bool]:
    """Walk a whole segment: check every batch, build the indexes anew, learn the epochs.

    Args:
        log: its log.
        segment: the segment; what follows the last good batch is cut off.
        log_end: offsets must not lie below.
        following: offsets must lie below (the next segment's base). The sum does not cover offsets: all that guards
            them is that they rise and stay in their segment.
        learn: is told of every good batch.

    Returns:
        Whether every byte was good.
    """
    segment.reset_indexes()
    interval = log.config.index_interval_bytes
    position = 0
    size = segment.size
    good = True
    while position < size and good:
        start = position
        view = yield from patient(lambda start=start: window_at(segment.file, start, size))  # type: ignore[misc]
        for at, header in batches_in(view):
            good = log_end <= header.base_offset <= header.last_offset < following and crc_ok(view, at, header.size)
            if not good:
                break
            segment.note(position, header.size, header.last_offset, header.max_timestamp, interval)
            if header.leader_epoch > log.epochs.latest:
                log.epochs.assign(header.leader_epoch, header.base_offset)
            if learn is not None:
                learn(header)
            log_end = header.next_offset
            position = start + at + header.size
        if position == start:
            good = False
        yield None
    if not good:
        del view  # a file that nobody looks into is cut in place; else what stays of it would be copied
        segment.file.truncate(position)
        segment.size = position
        segment.synced_size = min(segment.synced_size, position)
    segment.close_times()
    return good


def _open_active(log: Log) -> Job[None]:
    """Bring the active segment's state up to date and find the log end.

    Batches behind the last index entry are walked; a tail that is no batch (which a clean end cannot leave) is cut.
    """
    active = log.active
    log_end = active.base
    if active.size:
        if not active.indexes_saved:  # just rebuilt: everything is known but the end
            start = active.offsets.lookup(_FAR)
        else:
            start = yield from patient(lambda: active.offsets.lookup(_FAR))
            yield from patient(lambda: active.times)
        position, size = start, active.size
        while position < size:
            begin = position
            view = yield from patient(lambda begin=begin: window_at(active.file, begin, size))  # type: ignore[misc]
            for at, header in batches_in(view):
                position = begin + at + header.size
                log_end = header.next_offset
                if header.max_timestamp > active.max_timestamp:
                    active.max_timestamp, active.max_timestamp_offset = header.max_timestamp, header.last_offset
            if position == begin:
                yield from rebuild(log, active, active.base, active.base + OFFSETS_MAX)
                yield from _open_active(log)
                return
            yield None
        active.bytes_since_index = size - start
        first = yield from patient(lambda: active.file.read(0, 61))
        active.first_timestamp = read_header(first).max_timestamp
    else:
        active.reset_indexes()
    log.log_end_offset = log_end


def _load_producers(log: Log) -> Job[None]:
    """The newest usable snapshot, and every batch after it."""
    snapshots = [snapshot for snapshot in log.snapshots if snapshot <= log.log_end_offset]
    state, start = load_snapshot(log, snapshots)
    if start < log.log_end_offset:
        for segment in log.segments[max(log.segment_index(start), 0) :]:
            position = yield from patient(lambda segment=segment: segment.offsets.lookup(start))  # type: ignore[misc]
            while position < segment.size:
                at = position
                view = yield from patient(
                    lambda segment=segment, at=at: window_at(segment.file, at, segment.size)  # type: ignore[misc]
                )
                for offset, header in batches_in(view):
                    position = at + offset + header.size
                    if header.last_offset >= start:
                        state.replay(header, header.last_offset)
                if position == at:
                    break
                yield None
    log.producers = state


def _drop_old_snapshots(log: Log) -> None:
    drop_snapshots(log, log.log_end_offset + 1)
    keep = {*log.bases, log.snapshots[-1] if log.snapshots else -1}
    for snapshot in [snapshot for snapshot in log.snapshots if snapshot not in keep]:
        log.snapshots.remove(snapshot)
        log.disk.remove(f"{log.directory}/{stem(snapshot)}{SNAPSHOT_SUFFIX}")
