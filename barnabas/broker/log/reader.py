"""Reading: from an offset, and by time (UnifiedLog.read, LogSegment.read, fetchOffsetByTimestamp)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from barnabas.broker.log.place import begin_at, locate
from barnabas.broker.log.search import LEARNED_AT_ONCE, first_in_segment, largest_in_steps
from barnabas.broker.log.segment import Segment
from barnabas.broker.log.state import LogView
from barnabas.broker.log.types import CorruptLogError, FetchData, Isolation, OffsetMetadata, TimestampOffset
from barnabas.broker.ports import NotYet
from barnabas.protocol.batch import LOG_OVERHEAD
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import Buffer

_LOG_END: Final = Isolation.LOG_END
_ALL_TIME: Final = 2**63 - 1
_knows_largest = attrgetter("knows_largest")
_TXN_COMMITTED: Final = Isolation.TXN_COMMITTED


def read(log: LogView, offset: int, max_bytes: int, isolation: Isolation, min_one: bool) -> FetchData:
    """Whole batches from the one that contains `offset`, never past the visible end, of one segment.

    Args:
        log: the log.
        offset: where to begin (the first batch may begin before it).
        max_bytes: most bytes to give; the last batch may be cut by it.
        isolation: how far the reader sees.
        min_one: give the first batch whole even if it is larger (KIP-74). Without it a first batch that does not fit
            gives nothing.

    Raises:
        KafkaError: OFFSET_OUT_OF_RANGE below the log start or above the log end; KAFKA_STORAGE_ERROR.
        NotYet: bytes must be read first.
    """
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise _out_of_range(log, offset)
    try:
        return _read(log, offset, max_bytes, isolation, min_one)
    except OSError as error:
        raise unreadable(log, error) from error
    except CorruptLogError as error:
        log.losses.unreadable(str(log.topic_partition), log.directory, error)
        raise


def unreadable(log: LogView, error: OSError) -> KafkaError:
    """A read failed: it is noted, and this is what to answer."""
    log.losses.unreadable(str(log.topic_partition), str(error.filename or log.directory), error)
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory}: {error}")


def _read(log: LogView, offset: int, max_bytes: int, isolation: Isolation, min_one: bool) -> FetchData:
    if isolation is _LOG_END:
        end = log.log_end_metadata
    else:
        end = log.placed_last_stable() if isolation is _TXN_COMMITTED else log.placed_high_watermark()
    if offset >= end.offset:
        start = end if offset == end.offset else offset_metadata(log, offset)
        return _answer(log, start, b"")
    index = log.segment_index(offset)
    while True:
        segment = log.segments[index]
        is_last = segment.base >= end.segment_base
        limit = end.position if segment.base == end.segment_base else segment.size
        position = locate(log, segment, offset)
        if position is not None and position < limit:
            break
        if is_last:  # only offsets that compaction removed lie between here and the visible end
            return _answer(log, OffsetMetadata(offset, segment.base, limit), b"")
        index += 1
    start = OffsetMetadata(offset, segment.base, position)
    available = limit - position
    view = segment.file.read(position, max(max_bytes, LOG_OVERHEAD), some=True)
    first = LOG_OVERHEAD + int.from_bytes(view[8:12], "big", signed=True)
    if first > max_bytes:
        if not min_one:
            return _answer(log, start, b"")
        if first > len(view):
            view = segment.file.read(position, first)
        return _answer(log, start, view[: min(first, available)])
    return _answer(log, start, view[: min(max_bytes, available)] if len(view) > min(max_bytes, available) else view)


def _answer(log: LogView, start: OffsetMetadata, records: Buffer) -> FetchData:
    return FetchData(
        start, records, log.high_watermark, log.last_stable_offset, log.log_start_offset, log.log_end_offset
    )


def offset_metadata(log: LogView, offset: int) -> OffsetMetadata:
    """Where the batch that contains `offset` begins.

    Raises:
        KafkaError: OFFSET_OUT_OF_RANGE.
        NotYet: bytes must be read first.
    """
    if offset == log.log_end_offset:
        return log.log_end_metadata
    if not log.log_start_offset <= offset < log.log_end_offset:
        raise _out_of_range(log, offset)
    for segment in log.segments[log.segment_index(offset) :]:
        position = locate(log, segment, offset)
        if position is not None:
            return OffsetMetadata(offset, segment.base, position)
    return OffsetMetadata(offset, log.active.base, log.active.size)


def offset_for_timestamp(log: LogView, timestamp_ms: int) -> TimestampOffset | None:
    """The first record at or after the log start with a timestamp of at least `timestamp_ms`; None if there is none.

    Raises:
        NotYet: bytes must be read first.
        KafkaError: KAFKA_STORAGE_ERROR.
    """
    segments, rest = _learnable(log)
    for segment in segments:
        if segment.largest_timestamp < timestamp_ms:
            continue
        start = locate(log, segment, max(begin_at(log, segment, timestamp_ms), log.log_start_offset))
        if start is None:
            continue
        found = first_in_segment(log.apart, segment, start, timestamp_ms, log.log_start_offset)
        if found is not None:
            return found
    if rest:
        raise NotYet(largest_in_steps(log.apart, rest, timestamp_ms))
    return None


def offset_of_max_timestamp(log: LogView) -> TimestampOffset | None:
    """The first record with the largest timestamp in the log; None in an empty log (KIP-734).

    Raises:
        NotYet: bytes must be read first.
        KafkaError: KAFKA_STORAGE_ERROR.
    """
    segments, rest = _learnable(log)
    best: Segment | None = None
    largest = -1
    for segment in segments:
        its = segment.largest_timestamp
        if its > largest:
            best, largest = segment, its
    if rest:  # not before: what cannot be read is told by who reads it here
        raise NotYet(largest_in_steps(log.apart, rest, _ALL_TIME))
    if best is None:
        return None
    offset = best.max_timestamp_offset
    position = locate(log, best, offset)
    if position is None:
        return None
    return first_in_segment(log.apart, best, position, largest, best.base)


def _learnable(log: LogView) -> tuple[Sequence[Segment], Sequence[Segment]]:
    """The segments from the log start on: those whose largest timestamps can be had in one step, and the rest."""
    segments = log.segments[max(log.segment_index(log.log_start_offset), 0) :]
    unknown = [index for index, known in enumerate(map(_knows_largest, segments)) if not known]
    if len(unknown) <= LEARNED_AT_ONCE:
        return segments, ()
    end = unknown[LEARNED_AT_ONCE]
    return segments[:end], segments[end:]


def _out_of_range(log: LogView, offset: int) -> KafkaError:
    return KafkaError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"offset {offset} of {log.topic_partition} is not in [{log.log_start_offset}, {log.log_end_offset}]",
    )
