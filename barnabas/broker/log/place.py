"""Where an offset lies in a segment, and how old its newest record is.

Indexes have no sum: what an entry says is held against the batch that it names. An entry of the offset index names a
batch that ends with its offset, so one that begins above what is looked for, or no batch at all, is a wrong entry, and
an earlier one is taken. (Apache Kafka believes its indexes: one wrong bit hides records from whoever begins to read
there, and retention removes a segment whose time index says that it is old.)
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.jobs import Job
from barnabas.broker.log.scan import patient
from barnabas.broker.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, Segment
from barnabas.broker.log.state import LogView
from barnabas.broker.log.types import CorruptLogError
from barnabas.broker.log.walk import OFFSETS_MAX, rebuild
from barnabas.protocol.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, read_header, read_span

_NEAR: Final = 8 * 1024
"""Bytes looked at at a time behind an index entry: twice the default distance of entries."""


def locate(log: LogView, segment: Segment, offset: int) -> int | None:
    """Position of the first batch in `segment` that ends at or after `offset`; None if there is none.

    Raises:
        NotYet: bytes must be read first.
        CorruptLogError: no batch is where one should be.
    """
    if offset <= segment.base:
        return 0 if segment.size else None
    if segment is log.active:
        position = log.recent.get(offset)
        if position is not None:
            return position
    start = segment.offsets.lookup(offset)
    try:
        return _walk(segment, start, offset)
    except CorruptLogError as wrong:
        if not start:
            raise
        found = _from_earlier(segment, offset)
        _doubt(log, segment, INDEX_SUFFIX, wrong)
        return found


def locate_at_start(segment: Segment, offset: int) -> int:
    """As `locate`, before there is a log; its end where there is no such batch, its beginning where it is broken."""
    try:
        try:
            found = _walk(segment, segment.offsets.lookup(offset), offset)
        except CorruptLogError:
            found = _from_earlier(segment, offset)
    except CorruptLogError:
        return 0
    return segment.size if found is None else found


def _walk(segment: Segment, start: int, offset: int) -> int | None:
    position, end = start, segment.size
    if start and not 0 < start < end:
        raise CorruptLogError(f"{segment.file.path} has no byte {start}")
    while position < end:
        view = segment.file.read(position, _NEAR)
        at = 0
        while len(view) - at >= HEADER_SIZE:
            base, length, magic, last_delta = read_span(view, at)
            size = LOG_OVERHEAD + length
            if magic != MAGIC or not HEADER_SIZE <= size <= end - position - at:
                raise CorruptLogError(f"{segment.file.path} holds no batch at byte {position + at}")
            if base + last_delta >= offset:
                if base > offset and start and position + at == start:
                    raise CorruptLogError(f"{segment.file.path} holds offset {base} at byte {start}, which is too far")
                return position + at
            at += size  # maybe beyond the view: only headers are looked at
        if not at:
            raise CorruptLogError(f"{segment.file.path} ends within a batch at byte {position}")
        position += at
    return None


def _from_earlier(segment: Segment, offset: int) -> int | None:
    """An entry was wrong: one, two, four ... before it, and at last the beginning of the segment."""
    back = 1
    while True:
        start = segment.offsets.lookup(offset, back)
        try:
            return _walk(segment, start, offset)
        except CorruptLogError:
            if not start:
                raise
        back *= 2


def _doubt(log: LogView, segment: Segment, suffix: str, reason: Exception | str) -> None:
    """An index is wrong where its segment is not: say so once, and have it made anew."""
    if not segment.doubted:
        segment.doubted = True
        path = segment.path(suffix)
        log.losses.unreadable(str(log.topic_partition), path, ValueError(f"it does not fit its segment, {reason}"))
        log.unsaved()


def begin_at(log: LogView, segment: Segment, timestamp_ms: int) -> int:
    """The offset from which on to look for a record of that time: all before it are older.

    Raises:
        NotYet: bytes must be read first.
    """
    entry = segment.times.entry(timestamp_ms)
    if entry is None or _is_true(segment, *entry):
        return segment.base if entry is None else entry[1]
    _doubt(log, segment, TIME_INDEX_SUFFIX, f"no batch of time {entry[0]} ends with offset {entry[1]}")
    return segment.base


def _is_true(segment: Segment, timestamp_ms: int, offset: int) -> bool:
    """Whether a batch ends with that offset, and its largest timestamp is that."""
    position = locate_at_start(segment, offset)
    if position >= segment.size:
        return False
    header = read_header(segment.file.read(position, HEADER_SIZE))
    return header.max_timestamp == timestamp_ms and header.last_offset == offset


def newest_ms(log: LogView, segment: Segment, old_ms: int, now_ms: int) -> Job[int]:
    """The largest timestamp in a segment (ms), -1 if there is none.

    Where the time index says that it is older than `old_ms`, or to come, that is held against the batch that it names;
    where it is wrong, the segment is walked.

    Raises:
        OSError: a read failed.
    """
    largest = yield from patient(lambda: segment.largest_timestamp)
    if old_ms <= largest <= now_ms or not segment.size:
        return largest
    offset = segment.max_timestamp_offset
    if (yield from patient(lambda: _is_true(segment, largest, offset))):
        return largest
    walked, whole = yield from _walk_all(log, segment)
    if whole and walked.max_timestamp != largest:
        _doubt(log, segment, TIME_INDEX_SUFFIX, f"no batch of time {largest} ends with offset {offset}")
        return walked.max_timestamp
    return max(largest, walked.max_timestamp)


def mend_indexes(log: LogView) -> Job[None]:
    """Make the indexes that were found wrong anew, of sealed segments. They are to be written then.

    Raises:
        OSError: a read failed.
    """
    for segment in [segment for segment in log.segments[:-1] if segment.doubted]:
        walked, whole = yield from _walk_all(log, segment)
        if whole and segment in log.segments and not log.closed:
            segment.take_indexes(bytes(walked.offsets.data), bytes(walked.times.data))


def _walk_all(log: LogView, segment: Segment) -> Job[tuple[Segment, bool]]:
    """Its like with indexes made anew, and whether all of it could be walked."""
    fresh = segment.like()
    following = next((base for base in log.bases if base > segment.base), segment.base + OFFSETS_MAX)
    walked = yield from rebuild(fresh, log.config.index_interval_bytes, segment.base, following, lambda _: None)
    return fresh, walked.good_bytes == fresh.size
