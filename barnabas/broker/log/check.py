"""Looking a log through without changing it: every batch of every segment, and what lies behind the first bad one.

What a killed process or a power failure can leave at the end of a log is its **torn tail**: the file ends inside the
last batch, or the end, or whole blocks of it, are zeros, and no whole batch follows. Whatever else is broken is damage:
those bytes were there once, and were announced. Base offset, length, leader epoch and magic lie outside of a batch's
sum; what guards them here is that offsets go on where the last batch ended, that epochs do not fall, and that a batch
whose sum is good has no other length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from barnabas.broker.jobs import Job
from barnabas.broker.log.scan import batches_in, patient, window_at
from barnabas.broker.log.segment import LOG_SUFFIX
from barnabas.broker.ports import Disk, File
from barnabas.protocol.batch import HEADER_SIZE, LENGTH_MIN, LOG_OVERHEAD, MAGIC, BatchHeader, crc_ok, read_header

_BLOCK: Final = 512
"""Bytes a disk writes as a whole, or not at all."""
_ZEROS_MIN: Final = 32
"""So many zeros at the end of a block are no content: a batch may well end in one or two."""
_SEARCHED_MAX: Final = 64 * 1024 * 1024
"""Bytes behind a bad place that are searched for good batches."""
_EPOCHS_SKIPPED_MAX: Final = 1000
"""How far the leader epoch of a gapless log may rise at a time; one start raises it by one."""
_EPOCH_MAX: Final = 2**30

Visit = Callable[[str, int, BatchHeader, memoryview], None]
"""Told of each good batch: file, position in it, header, bytes (which must not be kept)."""


class Broken(NamedTuple):
    """The first place of a log that is not as it was written.

    Attributes:
        path: the file.
        position: byte in it.
        size: bytes of the file.
        offset: the first record that is not there any more.
        reason: what is wrong.
        known_end: offset after the last good batch found behind it, -1 if there is none.
        torn: whether it is a torn tail (see above).
    """

    path: str
    position: int
    size: int
    offset: int
    reason: str
    known_end: int
    torn: bool


class CheckedSegment(NamedTuple):
    """What the good part of a segment holds: file, first offset, bytes, batches, records, offset after the last."""

    path: str
    base: int
    size: int
    batches: int
    records: int
    end: int


class Checked(NamedTuple):
    """What a log holds up to its first broken place."""

    segments: list[CheckedSegment]
    end_offset: int
    latest_epoch: int
    broken: Broken | None


def segment_bases(disk: Disk, directory: str) -> list[int]:
    """Base offsets of a log's segments, rising."""
    names = [name[: -len(LOG_SUFFIX)] for name in disk.list(directory) if name.endswith(LOG_SUFFIX)]
    return sorted(int(name) for name in names if name.isascii() and name.isdigit() and len(name) == 20)


def segment_base(path: str) -> int:
    """Base offset of a segment, by its path."""
    return int(path.rpartition("/")[2][: -len(LOG_SUFFIX)])


def check_log(disk: Disk, directory: str, *, gapless: bool, visit: Visit | None = None) -> Job[Checked]:
    """Look at every batch up to the first broken place.

    Args:
        disk: where it lies.
        directory: its directory, or one segment of it.
        gapless: every offset must be there, as in a log that is never compacted.
        visit: is told of every good batch.

    Raises:
        OSError: the disk failed.
    """
    if directory.endswith(LOG_SUFFIX):
        bases = [segment_base(directory)]
        directory = directory.rpartition("/")[0]
    else:
        bases = segment_bases(disk, directory)
    walk = _Walk(gapless, visit)
    for number, base in enumerate(bases):
        path = f"{directory}/{base:020d}{LOG_SUFFIX}"
        later = bases[number + 1 :]
        if number and (base < walk.end or (gapless and base != walk.end)):
            detail = f"it begins with record {base}, and the segment before it ends with {walk.end - 1}"
            size = disk.open(path).size
            known_end = max((yield from _last_end(disk, directory, bases[number:])), base)
            broken = Broken(path, 0, size, min(walk.end, base), detail, known_end, torn=False)
            return Checked(walk.segments, walk.end, walk.epoch, broken)
        file = disk.open(path)
        try:
            found = yield from walk.segment(path, base, file)
        finally:
            file.close()
        if found is not None:
            behind = yield from _last_end(disk, directory, later)
            if later:
                found = found._replace(known_end=max(found.known_end, behind, later[-1]), torn=False)
            return Checked(walk.segments, walk.end, walk.epoch, found)
    return Checked(walk.segments, walk.end, walk.epoch, None)


class _Walk:
    """Where the look through a log has come to."""

    def __init__(self, gapless: bool, visit: Visit | None) -> None:
        self.gapless = gapless
        self.visit = visit
        self.segments: list[CheckedSegment] = []
        self.end = 0
        self.epoch = -1

    def segment(self, path: str, base: int, file: File) -> Job[Broken | None]:
        """Look through one segment; its broken place, if it has one."""
        self.end = max(self.end, base)
        first, batches, records, position, size = not self.segments, 0, 0, 0, file.size
        reason = ""
        while position < size and not reason:
            start = position
            view = yield from patient(lambda start=start: window_at(file, start, size))  # type: ignore[misc]
            for at, header in batches_in(view):
                reason = self._fault(header, view, at, first and not batches)
                if reason:
                    break
                if self.visit is not None:
                    self.visit(path, position, header, view[at : at + header.size])
                self.end, self.epoch = header.next_offset, header.leader_epoch
                batches, records = batches + 1, records + header.record_count
                position = start + at + header.size
            if position == start:
                reason = reason or "no batch begins there"
            yield None
        self.segments.append(CheckedSegment(path, base, position, batches, records, self.end))
        if not reason:
            return None
        count = min(size - position, _SEARCHED_MAX)
        rest = yield from patient(lambda: file.read(position, count))
        known_end = _last_good(rest, self.end)
        torn = known_end < 0 and count == size - position and _is_torn(rest, position)
        return Broken(path, position, size, self.end, reason, known_end, torn)

    def _fault(self, header: BatchHeader, view: memoryview, at: int, first: bool) -> str:
        """What is wrong with a batch, the `first` of all or another; empty for nothing."""
        if not crc_ok(view, at, header.size):
            return "the sum of the batch is wrong"
        if header.base_offset < self.end or (self.gapless and header.base_offset != self.end):
            return f"the batch says that it begins with record {header.base_offset}, where {self.end} is due"
        if header.last_offset_delta < 0:
            return f"the batch ends {-header.last_offset_delta} records before it begins"
        epoch_max = _EPOCH_MAX if first and self.end else max(self.epoch, 0) + _EPOCHS_SKIPPED_MAX
        if header.leader_epoch < self.epoch or (self.gapless and header.leader_epoch > epoch_max):
            return f"the batch is of leader epoch {header.leader_epoch}, the one before it of {self.epoch}"
        return ""


def _last_end(disk: Disk, directory: str, bases: list[int]) -> Job[int]:
    """Offset after the last good batch of these segments, -1 if there is none."""
    end = -1
    for base in bases:
        file = disk.open(f"{directory}/{base:020d}{LOG_SUFFIX}")
        try:
            count = min(file.size, _SEARCHED_MAX)
            view = yield from patient(lambda file=file, count=count: file.read(0, count))  # type: ignore[misc]
            end = max(end, _last_good(view, base))
        finally:
            file.close()
        yield None
    return end


def _last_good(view: memoryview, expected: int) -> int:
    """Offset after the last whole batch with a good sum in `view`, wherever it begins; -1 if there is none.

    A batch that begins with record `expected` or later, and not later than so many bytes can have brought.
    """
    end = -1
    for _, header in good_batches(bytes(view)):
        if expected <= header.base_offset <= expected + len(view):
            end = header.next_offset
    return end


def good_batches(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch with a good sum, wherever it begins; what lies between is passed over."""
    magic = data.find(MAGIC, 16)
    while magic >= 0:
        start = magic - 16
        following = magic + 1
        if len(data) - start >= HEADER_SIZE:
            header = read_header(data, start)
            if header.last_offset_delta >= 0 and crc_ok(data, start, header.size):
                yield start, header
                following = start + header.size + 16
        magic = data.find(MAGIC, following)


def _is_torn(rest: memoryview, position: int) -> bool:
    """Whether what begins at `position` and goes on to the end of the file is what a torn write leaves."""
    if len(rest) < HEADER_SIZE:
        return True
    if crc_ok(rest, 0, len(rest)):
        return False  # all of it is there: its length, place or epoch was changed
    length = int.from_bytes(rest[8:LOG_OVERHEAD], "big", signed=True)
    if rest[16] == MAGIC and length >= LENGTH_MIN and LOG_OVERHEAD + length > len(rest):
        return True
    start = position - position % _BLOCK
    for block in range(start, position + len(rest), _BLOCK):
        lost = rest[max(block - position, 0) : block + _BLOCK - position]
        if not any(lost) and (len(lost) >= _ZEROS_MIN or len(lost) == len(rest)):
            return True
    return False
