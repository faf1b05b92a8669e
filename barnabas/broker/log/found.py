"""What a start finds in a log's directory, and the tidying before anything of it is read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.broker.jobs import Job, remove
from barnabas.broker.log.epochs import LeaderEpochs
from barnabas.broker.log.index_room import IndexRoom
from barnabas.broker.log.losses import Loss, Report
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
    base_of,
    stem,
)
from barnabas.broker.log.truncation import rename_away
from barnabas.broker.ports import Disk
from barnabas.protocol.batch import BatchHeader

_NAMES_PER_STEP: Final = 2000
_UNFINISHED: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)


@dataclass(slots=True)
class Found:
    """What is known of a log so far, while it is opened.

    Attributes:
        disk, directory, name: where it lies, and what it is called where a loss is told.
        compacts: whether offsets may be missing between segments.
        index_interval, now_ms: bytes between two index entries; time of day (ms).
        discard: takes the paths of files that were renamed away.
        report: is told of what is lost.
        indexes: where the bytes of indexes are counted.
        segments: rising by base, at least one.
        snapshots: offsets of producer snapshots, rising.
    """

    disk: Disk
    directory: str
    name: str
    compacts: bool
    index_interval: int
    now_ms: int
    discard: Callable[[list[str]], None]
    report: Report
    indexes: IndexRoom
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


class Noted(NamedTuple):
    """What the checkpoints say of a log: offsets, 0 where they say nothing.

    All below the recovery point is on stable storage. It and the log start are believed if the log reaches so far.
    """

    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0

    def is_believed(self, log_end_offset: int) -> bool:
        """Whether recovery point and log start can be those of a log that ends there."""
        return max(self.recovery_point, self.log_start_offset) <= log_end_offset


def is_segment(name: str) -> bool:
    """Whether a file is the log file of a segment."""
    return base_of(name, LOG_SUFFIX) is not None


def is_snapshot(name: str) -> bool:
    """Whether a file is a producer snapshot."""
    return base_of(name, SNAPSHOT_SUFFIX) is not None


def sift(names: Iterable[str], kept: Callable[[str], bool] = lambda _: True) -> Job[list[str]]:
    """Those names that are to be kept, some in a step."""
    sifted = []
    for count, name in enumerate(names, 1):
        if kept(name):
            sifted.append(name)
        if not count % _NAMES_PER_STEP:
            yield None
    return sifted


def tidy(found: Found) -> Job[list[str]]:
    """Let go what was being deleted or written, finish swaps of compaction, drop indexes without a segment."""
    disk, directory = found.disk, found.directory
    names = yield from sift(disk.names(directory))
    if unfinished := sorted((yield from sift(names, lambda name: name.endswith(_UNFINISHED)))):
        found.discard([f"{directory}/{name}" for name in unfinished if name.endswith(DELETED_SUFFIX)])
        for name in unfinished:
            if name.endswith(CLEANED_SUFFIX):
                yield from remove(disk, f"{directory}/{name}")
        for name in unfinished:
            if (swapped := base_of(name, LOG_SUFFIX + SWAP_SUFFIX)) is not None:
                yield from _finish_swap(found, swapped)
        names = yield from sift(disk.names(directory))
    stems = {name[: -len(LOG_SUFFIX)] for name in (yield from sift(names, is_segment))}
    orphans = sorted((yield from sift(names, lambda name: _is_orphan(name, stems))))
    for name in orphans:
        base, path = name.partition(".")[0], f"{directory}/{name}"
        if name.endswith(INDEX_SUFFIX) and base + LOG_SUFFIX + DELETED_SUFFIX not in names:
            gone = f"{directory}/{base}{LOG_SUFFIX}"
            found.report(Loss(found.name, int(base), -1, 0, gone, "the file is gone, and its index is here"))
        disk.remove(path)
    return sorted(set(names).difference(orphans)) if orphans else names


def _is_orphan(name: str, stems: set[str]) -> bool:
    base = base_of(name, INDEX_SUFFIX)
    if base is None:
        base = base_of(name, TIME_INDEX_SUFFIX)
    return base is not None and stem(base) not in stems


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
    replaced = {int(name[: -len(LOG_SUFFIX)]) for name in disk.list(directory) if is_segment(name)}
    replaced = {one for one in replaced if base <= one < end}
    for one in sorted(replaced | {base}):  # indexes may be there whose log file was renamed away before the end
        found.discard(rename_away(disk, Segment(disk, directory, one, found.now_ms)))
        yield None
    disk.rename(swap, f"{directory}/{stem(base)}{LOG_SUFFIX}")
