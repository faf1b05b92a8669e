"""Opening a log that lies on disk (Kafka's LogLoader).

After a clean shutdown nothing is scanned but the few batches behind the active segment's last index entry. After any
other end, segments from the recovery point on are walked batch by batch: sum, framing and rising offsets. The first bad
batch ends the log: its segment is cut there and later segments go.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from barnabas.broker.jobs import Job, remove
from barnabas.broker.log import checkpoint
from barnabas.broker.log.closing import ClosingFiles
from barnabas.broker.log.epochs import LeaderEpochs
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
from barnabas.broker.log.state import Change
from barnabas.broker.log.truncation import load_snapshot, remove_snapshots, rename_away
from barnabas.broker.log.walk import indexes_are_sane, rebuild
from barnabas.broker.ports import Disk
from barnabas.protocol.batch import BatchHeader, read_header

_FAR: Final = 2**62
OFFSETS_MAX: Final = 2**31
"""Offsets one segment may span."""


@dataclass(slots=True)
class Found:
    """What is known of a log so far, while it is opened.

    Attributes:
        disk, directory, index_interval, now_ms: where it lies, bytes between two index entries, time of day (ms).
        discard: takes the paths of files that were renamed away.
        segments: rising by base, at least one.
        snapshots: offsets of producer snapshots, rising.
    """

    disk: Disk
    directory: str
    index_interval: int
    now_ms: int
    discard: Callable[[list[str]], None]
    segments: list[Segment] = field(default_factory=list)
    snapshots: list[int] = field(default_factory=list)
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    producers: ProducerState = field(default_factory=ProducerState)
    log_start_offset: int = 0
    log_end_offset: int = 0

    @property
    def active(self) -> Segment:
        """The segment that will be written to."""
        return self.segments[-1]

    def index_of(self, offset: int) -> int:
        """Index of the segment an offset lies in; the first one's for what lies before all."""
        return max(bisect_right([segment.base for segment in self.segments], offset) - 1, 0)

    def learn_epoch(self, header: BatchHeader) -> None:
        """Learn from a batch which leader epoch begins with it, if one does."""
        if header.leader_epoch > self.epochs.latest:
            self.epochs.assign(header.leader_epoch, header.base_offset)


def recover(
    found: Found,
    *,
    clean: bool,
    recovery_point: int,
    log_start_offset: int,
    high_watermark: int,
    closing: ClosingFiles | None = None,
) -> Job[Change]:
    """Find out what lies on disk, and mend it.

    Args:
        found: where to look.
        clean: the data directory was shut down cleanly.
        recovery_point: from the checkpoint; everything below is on stable storage.
        log_start_offset: from the checkpoint, 0 if there is none.
        high_watermark: from the checkpoint, 0 if there is none; clamped to [log start, log end].
        closing: what the clean stop put down elsewhere (see `closing`); without effect after any other end.

    Raises:
        OSError: the disk failed.
    """
    names = yield from _tidy(found)
    if not names:
        found.disk.make_dir(found.directory)
    topic_id = _load_topic_id(found, names)
    bases = sorted(int(name[: -len(LOG_SUFFIX)]) for name in names if _is_segment(name))
    segments = [Segment.existing(found.disk, found.directory, base, found.now_ms) for base in bases]
    if not segments:
        segments = [Segment.create(found.disk, found.directory, log_start_offset, found.now_ms)]
    found.segments = segments
    kept: Mapping[str, bytes] = {}
    if clean and closing is not None:
        clean = (closing.base, closing.size) == (found.active.base, found.active.size)
        kept = closing.contents if clean else {}
    found.epochs = _load_epochs(found, names, kept)
    found.log_start_offset = max(log_start_offset, segments[0].base)
    found.snapshots = sorted(int(name[: -len(SNAPSHOT_SUFFIX)]) for name in names if _is_snapshot(name))
    suspect = _FAR if clean else segments[found.index_of(recovery_point)].base
    producers = _Producers(found, suspect)
    yield from _check_segments(found, names, suspect, producers, kept)
    yield from _open_active(found)
    recovery_point = found.log_end_offset if clean else min(recovery_point, found.log_end_offset)
    if found.log_end_offset < found.log_start_offset:
        recovery_point = found.log_start_offset
        _start_anew(found)
    found.epochs = found.epochs.up_to(found.log_end_offset).from_start(found.log_start_offset)
    if producers.learning and found.log_end_offset > found.log_start_offset:
        found.producers = producers.state
    elif (snapshot := stem(found.log_end_offset) + SNAPSHOT_SUFFIX) in kept:
        found.producers = ProducerState.from_snapshot(kept[snapshot])
    elif found.snapshots or not clean:
        yield from _load_producers(found)
    _drop_old_snapshots(found)
    return Change(
        segments=found.segments,
        log_start_offset=found.log_start_offset,
        log_end_offset=found.log_end_offset,
        recovery_point=recovery_point,
        high_watermark=high_watermark,
        epochs=found.epochs,
        producers=found.producers,
        snapshots=found.snapshots,
        topic_id=topic_id,
    )


class _Producers:
    """What the walk over suspect segments learns of producers, so that these need not be read a second time.

    It can if there is a snapshot of the state where the walk begins, as there is one at the base of every segment that
    was not the first. Not so when indexes of older segments are walked: they come without state.
    """

    __slots__ = ("learning", "start", "state")

    def __init__(self, found: Found, suspect: int) -> None:
        self.learning = False
        if suspect < _FAR:
            usable = [snapshot for snapshot in found.snapshots if snapshot <= suspect]
            self.state, self.start = load_snapshot(found.disk, found.directory, usable, found.log_start_offset)
            self.learning = self.start >= suspect

    def replay(self, header: BatchHeader) -> None:
        """Learn from the next batch of the walk."""
        if header.producer_id >= 0 and header.last_offset >= self.start:
            self.state.replay(header, header.last_offset)


def _is_segment(name: str) -> bool:
    return name.endswith(LOG_SUFFIX) and name[: -len(LOG_SUFFIX)].isdigit()


def _is_snapshot(name: str) -> bool:
    return name.endswith(SNAPSHOT_SUFFIX) and name[: -len(SNAPSHOT_SUFFIX)].isdigit()


def _tidy(found: Found) -> Job[list[str]]:
    """Remove what was being deleted or written, finish swaps of compaction, drop indexes without a segment."""
    disk, directory = found.disk, found.directory
    names = disk.list(directory)
    if any(name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)) for name in names):
        for name in names:
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX)):
                yield from remove(disk, f"{directory}/{name}")
        for name in names:
            if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
                yield from _finish_swap(found, int(name[: -len(LOG_SUFFIX + SWAP_SUFFIX)]))
        names = disk.list(directory)
    stems = {name[: -len(LOG_SUFFIX)] for name in names if _is_segment(name)}
    orphans = [name for name in names if name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX)) and _is_orphan(name, stems)]
    for name in orphans:
        disk.remove(f"{directory}/{name}")
    return [name for name in names if name not in orphans] if orphans else names


def _is_orphan(name: str, stems: set[str]) -> bool:
    base = name.partition(".")[0]
    return base.isdigit() and base not in stems


def _finish_swap(found: Found, base: int) -> Job[None]:
    """A `.swap` file is whole: it replaces every segment from its base to its last offset."""
    disk, directory = found.disk, found.directory
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
            replaced = Segment(disk, directory, int(name[: -len(LOG_SUFFIX)]), found.now_ms)
            for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                yield from remove(disk, replaced.path(suffix))
    disk.rename(swap, f"{directory}/{stem(base)}{LOG_SUFFIX}")


def _load_topic_id(found: Found, names: list[str]) -> bytes | None:
    if checkpoint.PARTITION_METADATA_FILE not in names:
        return None
    try:
        data = found.disk.load(f"{found.directory}/{checkpoint.PARTITION_METADATA_FILE}")
        return checkpoint.parse_partition_metadata(data)
    except ValueError as error:
        raise OSError(f"{found.directory}: {error}") from error


def _load_epochs(found: Found, names: list[str], kept: Mapping[str, bytes]) -> LeaderEpochs:
    saved: list[tuple[int, int]] = []
    if checkpoint.LEADER_EPOCH_FILE in names:
        with contextlib.suppress(ValueError, IndexError):
            saved = checkpoint.parse_epochs(found.disk.load(f"{found.directory}/{checkpoint.LEADER_EPOCH_FILE}"))
    if checkpoint.LEADER_EPOCH_FILE in kept:
        return LeaderEpochs(checkpoint.parse_epochs(kept[checkpoint.LEADER_EPOCH_FILE]), saved=saved)
    return LeaderEpochs(saved)


def _check_segments(
    found: Found, names: list[str], suspect: int, producers: _Producers, kept: Mapping[str, bytes]
) -> Job[None]:
    """Walk the segments from `suspect` on, and older ones whose indexes are missing or senseless."""
    present = set(names)
    log_end = found.segments[0].base

    def learn(header: BatchHeader) -> None:
        found.learn_epoch(header)
        if producers.learning and segment.base >= suspect:
            producers.replay(header)

    for index, segment in enumerate(list(found.segments)):
        is_suspect = segment.base >= suspect
        log_end = max(log_end, segment.base)
        if (offsets := stem(segment.base) + INDEX_SUFFIX) in kept:
            segment.take_indexes(kept[offsets], kept[stem(segment.base) + TIME_INDEX_SUFFIX])
        elif is_suspect or not (yield from indexes_are_sane(found.disk, segment, present)):
            last = index + 1 == len(found.segments)
            following = segment.base + OFFSETS_MAX if last else found.segments[index + 1].base
            whole = yield from rebuild(segment, found.index_interval, log_end, following, learn)
            if is_suspect:
                segment.synced_size = 0
            if not whole:
                dropped = found.segments[index + 1 :]
                found.segments = found.segments[: index + 1]
                for gone in dropped:
                    found.discard(rename_away(found.disk, gone))
                return
        yield None


def _open_active(found: Found) -> Job[None]:
    """Bring the active segment's state up to date and find the log end.

    Batches behind the last index entry are walked; a tail that is no batch (which a clean end cannot leave) is cut.
    """
    active = found.active
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
                yield from rebuild(
                    active, found.index_interval, active.base, active.base + OFFSETS_MAX, found.learn_epoch
                )
                yield from _open_active(found)
                return
            yield None
        active.bytes_since_index = size - start
        first = yield from patient(lambda: active.file.read(0, 61))
        active.first_timestamp = read_header(first).max_timestamp
    else:
        active.reset_indexes()
    found.log_end_offset = log_end


def _start_anew(found: Found) -> None:
    """The checkpoint says that the log starts above its end: it goes on there, empty."""
    for segment in found.segments:
        found.discard(rename_away(found.disk, segment))
    offset = found.log_end_offset = found.log_start_offset
    found.segments = [Segment.create(found.disk, found.directory, offset, found.now_ms)]
    remove_snapshots(found.disk, found.directory, found.snapshots)
    found.snapshots = []


def _load_producers(found: Found) -> Job[None]:
    """The newest usable snapshot, and every batch after it."""
    snapshots = [snapshot for snapshot in found.snapshots if snapshot <= found.log_end_offset]
    state, start = load_snapshot(found.disk, found.directory, snapshots, found.log_start_offset)
    if start < found.log_end_offset:
        for segment in found.segments[found.index_of(start) :]:
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
    found.producers = state


def _drop_old_snapshots(found: Found) -> None:
    """Keep those at the beginning of a segment, and the newest; none above the log end."""
    usable = [snapshot for snapshot in found.snapshots if snapshot <= found.log_end_offset]
    keep = {*(segment.base for segment in found.segments), *usable[-1:]}.intersection(usable)
    remove_snapshots(found.disk, found.directory, [old for old in found.snapshots if old not in keep])
    found.snapshots = sorted(keep)
