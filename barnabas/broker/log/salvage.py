"""Reading all that a log still has, whatever stands between: as who keeps his state in it does, and can bear a loss.

Nothing is believed that is not shown. A batch counts if its sum fits; the next one begins behind it. Behind what is no
such batch the next one begins where its length says, if a batch is there whose sum fits, and else where the bytes are
next those of one. Offsets are outside of the sum, and nobody goes by them: one wrong bit of an offset would lead past
all that follows. (`replay` believes a log, since it was checked before.)

Clients choose what stands within a batch, and may write what looks like many. So a sum is taken in bounded steps, and
what may be summed up in vain grows with the bytes that are passed. Behind bytes that have used it up, a batch that is
good may be passed over, until enough has been passed.

So do they choose what a batch unpacks to. It is unpacked as any other is (`apart`): what holds much in a thread, one at
a time in the whole broker. One that holds more than any honest one is passed over.

Apache Kafka's coordinators go by offsets and lengths: one wrong bit ends the loading, or passes over what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from barnabas.broker.jobs import Job
from barnabas.broker.log.apart import Apart
from barnabas.broker.log.log import Log
from barnabas.broker.log.replay import RECORDS_PER_STEP
from barnabas.broker.log.scan import WINDOW, batches_in, patient
from barnabas.broker.log.segment import Segment
from barnabas.protocol.batch import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    crc_ok,
    read_header,
)
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.primitives import crc32c
from barnabas.protocol.records import SLICE_BYTES, Record, decode_slices_of

_WINDOW: Final = 32 * 1024
_SOUGHT_MAX: Final = 4 * 1024 * 1024
"""Bytes of a batch that is found by its looks, at most (or what the topic takes): it may have taken more before."""
_LOOKS_AT_ONCE: Final = 500
"""Places that are looked at in one step: about 1 ms."""
_IN_VAIN: Final = 16
"""Bytes that may be summed up in vain, for each byte of the segment so far."""
_LARGE_IN_VAIN: Final = 4
"""How often a segment's bytes may be summed up in vain for batches larger than any that are sought."""
UNPACKED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes that a batch may unpack to. The members of one group take a third of that (`group/holdings.py`), and a MiB of
offsets, as well as they compress, some more."""
_MAGIC_AT: Final = 16
_MAGIC: Final = bytes([MAGIC])

Take = Callable[[BatchHeader, Sequence[Record]], object]
PassedOver = Callable[[int, int, str], object]
"""Is told the first and the last offset that may be lost, and the reason, which names the place."""
Damaged = Callable[[int], object]
"""Is told an offset from which on bytes are not those that were written: other replicas may have these."""


class _Place:
    """How far the reading has come. `offset` is the next one, as far as offsets can be believed."""

    __slots__ = ("_next_base", "known", "log", "offset", "position", "segment", "sought")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.offset = log.log_start_offset
        self.segment: Segment | None = None
        self.position = 0
        self._next_base: int | None = None

    def window(self) -> memoryview | None:
        """Bytes from here on; None at the end of the log.

        Raises:
            NotYet: they must be read first.
        """
        segments = self.log.segments
        if self.segment not in segments:  # the first time, or compaction has put another in its place
            self._begin(segments[max(self.log.segment_index(self.offset), 0)])
        assert self.segment is not None, "it was found, or is there still"
        following = segments.index(self.segment) + 1
        while self.position >= self.segment.size:
            if following == len(segments):
                return None
            self._begin(segments[following])
            self.offset = max(self.offset, self.segment.base)
            following += 1
        self._next_base = segments[following].base if following < len(segments) else None  # the last may have rolled
        return self.segment.file.read(self.position, min(_WINDOW, self.segment.size - self.position))

    def _begin(self, segment: Segment) -> None:
        self.segment, self.position = segment, 0
        size_max = max(_SOUGHT_MAX, LOG_OVERHEAD + self.log.config.max_message_bytes)
        self.known, self.sought = _Purse(size_max), _Purse(size_max)

    @property
    def end(self) -> int:
        """Offsets of this segment lie below."""
        return self.log.log_end_offset if self._next_base is None else self._next_base

    def passed(self, header: BatchHeader) -> None:
        """A batch was taken."""
        self.position += header.size
        if self.offset <= header.base_offset and header.next_offset <= self.end:
            self.offset = header.next_offset


class _Purse:
    """What may still be summed up in vain in a segment: one for places that are known, one for those that are sought.

    `size_max` is that of a batch that is found by its looks.
    """

    __slots__ = ("_large_spent", "_spent", "size_max")

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self._spent = 0
        self._large_spent = 0

    def affords(self, size: int, position: int, segment_size: int) -> bool:
        """Whether a batch of that size may be tried at a byte of the segment."""
        if size > self.size_max:
            return self._large_spent + size <= _LARGE_IN_VAIN * segment_size
        return self._spent + size <= 2 * self.size_max + _IN_VAIN * position

    def spend(self, size: int) -> None:
        """That was in vain."""
        if size > self.size_max:
            self._large_spent += size
        else:
            self._spent += size


def salvage(log: Log, take: Take, passed_over: PassedOver, damaged: Damaged = lambda _: None) -> Job[None]:
    """Hand all records of a log to `take`, in order, at most `RECORDS_PER_STEP` at a time.

    A batch comes in one or more pieces, each with the header of the whole. What is appended meanwhile is read, too, and
    what is not committed yet. A segment that compaction replaces meanwhile is read again from its beginning.

    Raises:
        OSError: the disk failed.
        Exception: what `take` raised.
    """
    place = _Place(log)
    first = log.log_start_offset
    while (view := (yield from patient(place.window))) is not None:
        segment = place.segment
        assert segment is not None, "there is a window into it"
        start = place.position
        for at, header in batches_in(view):
            if not crc_ok(view, at, header.size):
                break
            if segment.base >= first or header.last_offset >= first:
                yield from _hand_over(log, view, at, header, take, passed_over)
            place.passed(header)
        if place.position == start:
            large = yield from _batch_at(segment, start, place.known)
            if large is None:
                damaged(place.offset)
                yield from _pass_over(place, segment, passed_over)
            else:
                size = large.size
                whole = yield from patient(lambda: segment.file.read(start, size))  # noqa: B023
                if segment.base >= first or large.last_offset >= first:
                    yield from _hand_over(log, whole, 0, large, take, passed_over)
                place.passed(large)
        yield None


def _hand_over(log: Log, view: Buffer, at: int, header: BatchHeader, take: Take, passed_over: PassedOver) -> Job[None]:
    try:
        area, turn = yield from _opened(log.apart, view, at, header)
    except ProtocolError as fault:
        passed_over(header.base_offset, header.next_offset - 1, str(fault))
        yield None  # it may have been unpacked before that was seen, and many such lie in a window
        return
    large = header.record_count > RECORDS_PER_STEP or len(area) > SLICE_BYTES
    try:
        for records in decode_slices_of(area, header, RECORDS_PER_STEP):
            take(header, records)
            if large:
                yield None
    except ProtocolError as fault:
        passed_over(header.base_offset, header.next_offset - 1, str(fault))
    finally:
        if turn:
            log.apart.release()
    if large:
        yield None


def _opened(apart: Apart, view: Buffer, at: int, header: BatchHeader) -> Job[tuple[Buffer, bool]]:
    if header.record_count > apart.records_max:
        raise ProtocolError(f"the batch holds {header.record_count} records, more than {apart.records_max}")
    return (yield from apart.opened(view, at, header, UNPACKED_BYTES_MAX))


def _pass_over(place: _Place, segment: Segment, passed_over: PassedOver) -> Job[None]:
    """Here is no batch: go on with the next one, or at the end of the segment."""
    start = place.position
    head = yield from patient(lambda: segment.file.read(start, HEADER_SIZE))
    told = start + read_header(head).size if len(head) >= HEADER_SIZE else segment.size
    found = None
    if start < told <= segment.size:
        found = yield from _batch_at(segment, told, place.known)
    if found is None and told != segment.size:
        told, found = yield from _next_batch(segment, start + 1, place.sought)
    last = max((place.end if found is None else found.base_offset) - 1, place.offset)
    reason = f"no batch whose sum fits is at byte {start} of {segment.file.path}; {told - start} bytes are passed over"
    passed_over(place.offset, last, reason)
    place.position = told
    if found is not None and place.offset < found.base_offset < place.end:
        place.offset = found.base_offset


def _next_batch(segment: Segment, position: int, purse: _Purse) -> Job[tuple[int, BatchHeader | None]]:
    """Where in a segment the bytes are next those of a batch, and its header; the end where they are not."""
    looked = 0
    while segment.size - position >= HEADER_SIZE:
        start = position
        view = yield from patient(lambda: segment.file.read(start, _WINDOW))  # noqa: B023
        data = bytes(view)
        if len(data) < HEADER_SIZE:
            break
        heads_end = len(data) - HEADER_SIZE + 1
        at = data.find(_MAGIC, _MAGIC_AT, heads_end + _MAGIC_AT) - _MAGIC_AT
        while at >= 0:
            header = read_header(data, at)
            may_be = _may_be(header, min(purse.size_max, segment.size - start - at))
            if may_be and (yield from _fits(segment, start + at, header, purse)):
                return start + at, header
            looked += 1
            if not looked % _LOOKS_AT_ONCE:
                yield None
            at = data.find(_MAGIC, at + _MAGIC_AT + 1, heads_end + _MAGIC_AT) - _MAGIC_AT
        position += heads_end
        yield None
    return segment.size, None


def _batch_at(segment: Segment, position: int, purse: _Purse) -> Job[BatchHeader | None]:
    """The header of the batch that is at a byte of a segment, whatever its size, if its sum fits."""
    head = yield from patient(lambda: segment.file.read(position, HEADER_SIZE))
    if len(head) < HEADER_SIZE:
        return None
    header = read_header(head)
    if not _may_be(header, segment.size - position):
        return None
    return header if (yield from _fits(segment, position, header, purse)) else None


def _may_be(header: BatchHeader, size_max: int) -> bool:
    """Whether these may be the fields of a batch: only such as its sum covers, and the length that it needs."""
    counted = 0 <= header.record_count <= header.last_offset_delta + 1
    return header.magic == MAGIC and counted and HEADER_SIZE <= header.size <= size_max


def _fits(segment: Segment, position: int, header: BatchHeader, purse: _Purse) -> Job[bool]:
    """Whether the sum of a batch fits, which is taken in steps; no, if it can be afforded no more."""
    if not purse.affords(header.size, position, segment.size):
        return False
    crc, at, end = 0, position + ATTRIBUTES_AT, position + header.size
    while at < end:
        start, size = at, min(WINDOW, end - at)
        view = yield from patient(lambda: segment.file.read(start, size))  # noqa: B023
        if len(view) < size:
            return False
        crc = crc32c(view, crc)
        at += size
        yield None
    if crc != header.crc:
        purse.spend(header.size)
    return crc == header.crc
