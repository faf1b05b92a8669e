"""What a start looks at in a segment: every batch, or the ends of its indexes alone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from barnabas.broker.jobs import Job
from barnabas.broker.log.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from barnabas.broker.log.scan import batches_in, patient, window_at
from barnabas.broker.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment, stem
from barnabas.broker.ports import Disk
from barnabas.protocol.batch import BatchHeader, crc_ok

logger = logging.getLogger(__name__)

OFFSETS_MAX: Final = 2**31
"""Offsets one segment may span."""

Learn = Callable[[BatchHeader], None]


class _Doubted(NamedTuple):
    """A batch that begins behind a gap, as after a compaction: where it lies, and the offset after the one before it.

    If the next one begins below its end, and not below the end of the one before, it is this one whose offset is wrong.
    """

    position: int
    log_end: int
    header: BatchHeader


class Walked(NamedTuple):
    """How far the batches of a segment are good: position in the file (bytes), and the offset after the last.

    `gap`: where the last one begins behind a gap, the offset at which that gap begins; else -1.
    """

    good_bytes: int
    log_end: int
    gap: int = -1


def rebuild(segment: Segment, index_interval: int, log_end: int, following: int, learn: Learn) -> Job[Walked]:
    """Walk a whole segment: check every batch, and build the indexes anew.

    Args:
        segment: the segment; where the first bad batch begins, it is to be cut.
        index_interval: bytes between two index entries.
        log_end: offsets must not lie below.
        following: offsets must lie below (the next segment's base). The sum does not cover offsets: all that guards
            them is that they rise and stay in their segment.
        learn: is told of every good batch.

    Raises:
        OSError: a read failed.
    """
    segment.reset_indexes()
    position = 0
    size = segment.size
    good = True
    doubted: _Doubted | None = None

    def take(position: int, header: BatchHeader) -> None:
        segment.note(position, header.size, header.last_offset, header.max_timestamp, index_interval)
        learn(header)

    while position < size and good:
        start = position
        view = yield from patient(lambda start=start: window_at(segment.file, start, size))  # type: ignore[misc]
        for at, header in batches_in(view):
            whole = header.base_offset <= header.last_offset < following and crc_ok(view, at, header.size)
            good = whole and log_end <= header.base_offset
            if not good:
                if doubted is not None and whole and doubted.log_end <= header.base_offset:
                    position, log_end, _ = doubted
                    doubted = None
                break
            if doubted is not None:
                take(doubted.position, doubted.header)
                doubted = None
            if log_end < header.base_offset:
                doubted = _Doubted(position, log_end, header)
            else:
                take(position, header)
            log_end = header.next_offset
            position = start + at + header.size
        if position == start:
            good = False
        yield None
    if doubted is not None:
        take(doubted.position, doubted.header)
    segment.close_times()
    return Walked(position, log_end, -1 if doubted is None else doubted.log_end)


def indexes_are_sane(disk: Disk, segment: Segment, present: set[str]) -> Job[bool]:
    """Whether both index files are there and can belong to this segment (a look at the last entry of one)."""
    if not {stem(segment.base) + suffix for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)} <= present:
        return not segment.size
    offsets = disk.open(segment.path(INDEX_SUFFIX))
    times = disk.open(segment.path(TIME_INDEX_SUFFIX))
    try:
        if offsets.size % OFFSET_ENTRY_SIZE or times.size % TIME_ENTRY_SIZE or (segment.size and not times.size):
            return False
        if not offsets.size:
            return True
        last = yield from patient(lambda: offsets.read(offsets.size - OFFSET_ENTRY_SIZE, OFFSET_ENTRY_SIZE))
        offset = int.from_bytes(last[:4], "big", signed=True)
        position = int.from_bytes(last[4:], "big", signed=True)
        return offset >= 0 and 0 <= position < segment.size
    except OSError as error:
        logger.warning("an index of %s cannot be read and is built anew: %s", segment.path(LOG_SUFFIX), error)
        return False
    finally:
        offsets.close()
        times.close()
