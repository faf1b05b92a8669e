"""The map of a compaction: the newest offset of each key, and which batches may not be used (see `compaction`)."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NamedTuple

from barnabas.broker.jobs import Job
from barnabas.broker.log.scan import batches_in, patient, window_at
from barnabas.broker.log.segment import Segment
from barnabas.broker.log.state import LogView
from barnabas.protocol.batch import BatchHeader, crc_ok
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.records import SLICE_BYTES, decode_slices_of

_KEY_MAX: Final = 40
RECORDS_PER_STEP: Final = 500
"""Records one step decodes, looks up and encodes: 1.5 ms. A batch that holds more is taken in slices."""

_OPENED: Final = 20
"""Records that unpacking a batch counts as: of gzip it may have 33 members (`compression.BLOCK_BYTES`)."""


class BadBatch(NamedTuple):
    """A batch that keeps its segment from being cleaned: where it begins (byte), its offset and size by its header."""

    file: str
    position: int
    offset: int
    size: int
    reason: str


def digest(key: bytes) -> bytes:
    """What stands for a key in the map: long keys by a hash longer than any short key."""
    return key if len(key) <= _KEY_MAX else blake2b(key, digest_size=_KEY_MAX + 8).digest()


def first_bad_frame(segment: Segment, following: int) -> Job[BadBatch | None]:
    """Walk over the frames of a whole segment; the first that is senseless, or None.

    A flipped bit in a base offset (no sum covers it) shows in the batch after it at the earliest: nothing of a segment
    is used before all of it was walked.
    """
    position = 0
    expected = segment.base
    while position < segment.size:
        at = position
        view = yield from patient(lambda at=at: window_at(segment.file, at, segment.size))  # type: ignore[misc]
        for offset, header in batches_in(view):
            if not expected <= header.base_offset <= header.last_offset < following:
                reason = (
                    f"its offsets {header.base_offset} to {header.last_offset} are not within [{expected}, {following})"
                )
                return BadBatch(segment.file.path, at + offset, header.base_offset, header.size, reason)
            position = at + offset + header.size
            expected = header.next_offset
        if position == at:
            return BadBatch(segment.file.path, at, expected, segment.size - at, "no whole batch begins here")
        yield None
    return None


def work_of(header: BatchHeader) -> int:
    """What a small batch takes of a step's records."""
    return max(header.record_count, 1) + (_OPENED if header.compression else 0)


def fault_of(view: memoryview, position: int, header: BatchHeader) -> str:
    """Why a batch may not be rewritten; empty if it may."""
    return "" if crc_ok(view, position, header.size) else "its sum does not fit"


def map_keys(log: LogView, first_dirty: int, end: int, keys_max: int) -> Job[tuple[dict[bytes, int], int]]:
    """The newest offset of each key from `first_dirty` to `end`, and the offset up to which the map holds.

    Bad batches stand in the map with nothing: whatever older record has a key of theirs stays.
    """
    newest: dict[bytes, int] = {}
    sealed = zip(log.segments[:-1], log.bases[1:], strict=True)
    for segment, following in [(s, f) for s, f in sealed if s.base < end and f > first_dirty]:
        if (yield from first_bad_frame(segment, following)) is not None:
            continue
        position = seen = 0
        while position < segment.size:
            at = position
            view = yield from patient(
                lambda segment=segment, at=at: window_at(segment.file, at, segment.size)  # type: ignore[misc]
            )
            for offset, header in batches_in(view):
                position = at + offset + header.size
                if header.last_offset < first_dirty or header.is_control or fault_of(view, offset, header):
                    continue
                full_at = yield from _map_batch(log, newest, view, offset, header, first_dirty, keys_max)
                if full_at >= 0:
                    return newest, full_at
                seen += work_of(header)
                if seen >= RECORDS_PER_STEP:
                    seen = 0
                    yield None
            if position == at:
                break  # the file has changed since it was walked; the rewrite will say so
            yield None
    return newest, end


def _map_batch(
    log: LogView,
    newest: dict[bytes, int],
    view: memoryview,
    position: int,
    header: BatchHeader,
    first: int,
    keys_max: int,
) -> Job[int]:
    """Map the keys of a batch from offset `first` on; the offset at which the map was full, or -1.

    A batch of which one record cannot be read adds none.
    """
    try:
        area, turn = yield from log.apart.opened(view, position, header)
    except ProtocolError:
        return -1
    try:
        if header.record_count > RECORDS_PER_STEP or len(area) > SLICE_BYTES:
            for _ in decode_slices_of(area, header, RECORDS_PER_STEP):
                yield None
        for records in decode_slices_of(area, header, RECORDS_PER_STEP):
            for record in records:
                if record.key is not None and record.offset >= first:
                    if len(newest) >= keys_max:
                        return record.offset
                    newest[digest(record.key)] = record.offset
            if len(records) < header.record_count:
                yield None
    except ProtocolError:
        return -1
    finally:
        if turn:
            log.apart.release()
    return -1
