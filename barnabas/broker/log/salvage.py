"""Reading all that a log still has, whatever stands between: as who keeps his state in it does, and can bear a loss.

Nothing is believed that is not shown. A batch counts if its sum fits; the next one begins behind it. Behind what is no
such batch the next one begins where its length says, if a batch is there whose sum fits, and else where the bytes are
next those of one. Offsets are outside of the sum, and nobody goes by them: one wrong bit of an offset would lead past
all that follows. (`replay` believes a log, since it was checked before.)

Apache Kafka's coordinators go by offsets and lengths: one wrong bit ends the loading, or passes over what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from barnabas.broker.jobs import Job
from barnabas.broker.log.log import Log
from barnabas.broker.log.replay import RECORDS_PER_STEP
from barnabas.broker.log.scan import batches_in, patient, window_at
from barnabas.broker.log.segment import Segment
from barnabas.protocol.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, crc_ok, read_header
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.records import Record, decode_slices

_WINDOW: Final = 32 * 1024
_SOUGHT_MAX: Final = 16 * 1024 * 1024
"""Bytes of a batch that is found by its looks, at most (or what the topic takes): so much is summed up for a try."""
_MAGIC_AT: Final = 16
_MAGIC: Final = bytes([MAGIC])

Take = Callable[[BatchHeader, Sequence[Record]], object]
PassedOver = Callable[[int, int, str], object]
"""Is told the first and the last offset that may be lost, and the reason, which names the place."""


class _Place:
    """How far the reading has come. `offset` is the next one, as far as offsets can be believed."""

    __slots__ = ("log", "offset", "position", "segment")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.offset = log.log_start_offset
        self.segment: Segment | None = None
        self.position = 0

    def window(self) -> memoryview | None:
        """Bytes from here on, with a whole batch if one begins here; None at the end of the log.

        Raises:
            NotYet: they must be read first.
        """
        segments = self.log.segments
        if self.segment not in segments:  # the first time, or compaction has put another in its place
            self.segment = segments[max(self.log.segment_index(self.offset), 0)]
            self.position = 0
        assert self.segment is not None, "it was found, or is there still"
        while self.position >= self.segment.size:
            index = segments.index(self.segment) + 1
            if index == len(segments):
                return None
            self.segment, self.position = segments[index], 0
            self.offset = max(self.offset, self.segment.base)
        return window_at(self.segment.file, self.position, self.segment.size, _WINDOW)

    @property
    def end(self) -> int:
        """Offsets of this segment lie below."""
        bases = [one.base for one in self.log.segments if self.segment is not None and one.base > self.segment.base]
        return min(bases, default=self.log.log_end_offset)

    def passed(self, header: BatchHeader) -> None:
        """A batch was taken."""
        self.position += header.size
        if self.offset <= header.base_offset and header.next_offset <= self.end:
            self.offset = header.next_offset


def salvage(log: Log, take: Take, passed_over: PassedOver) -> Job[None]:
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
                yield from _hand_over(view, at, header, take, passed_over)
            place.passed(header)
        if place.position == start:
            yield from _pass_over(place, segment, passed_over)
        yield None


def _hand_over(view: Buffer, at: int, header: BatchHeader, take: Take, passed_over: PassedOver) -> Job[None]:
    try:
        for records in decode_slices(view, at, RECORDS_PER_STEP):
            take(header, records)
            if header.record_count > RECORDS_PER_STEP:
                yield None
    except ProtocolError as fault:
        passed_over(header.base_offset, header.next_offset - 1, str(fault))


def _pass_over(place: _Place, segment: Segment, passed_over: PassedOver) -> Job[None]:
    """Here is no batch: go on with the next one, or at the end of the segment."""
    start, size_max = place.position, max(_SOUGHT_MAX, LOG_OVERHEAD + place.log.config.max_message_bytes)
    head = yield from patient(lambda: segment.file.read(start, HEADER_SIZE))
    told = start + read_header(head).size if len(head) >= HEADER_SIZE else segment.size
    found = None
    if start < told <= segment.size:
        found = yield from patient(lambda: _batch_at(segment, told, segment.size))
    if found is None and told != segment.size:
        told, found = yield from _next_batch(segment, start + 1, size_max)
    last = max((place.end if found is None else found.base_offset) - 1, place.offset)
    reason = f"no batch whose sum fits is at byte {start} of {segment.file.path}; {told - start} bytes are passed over"
    passed_over(place.offset, last, reason)
    place.position = told
    if found is not None and place.offset < found.base_offset < place.end:
        place.offset = found.base_offset


def _next_batch(segment: Segment, position: int, size_max: int) -> Job[tuple[int, BatchHeader | None]]:
    """Where in a segment the bytes are next those of a batch, and its header; the end where they are not."""
    while segment.size - position >= HEADER_SIZE:
        start = position
        view = yield from patient(lambda: segment.file.read(start, _WINDOW))  # noqa: B023
        data = bytes(view)
        at = data.find(_MAGIC, _MAGIC_AT)
        while at >= 0:
            begin = start + at - _MAGIC_AT
            found = yield from patient(lambda: _batch_at(segment, begin, size_max))  # noqa: B023
            if found is not None:
                return begin, found
            at = data.find(_MAGIC, at + 1)
        if len(data) <= _MAGIC_AT:
            break
        position += len(data) - _MAGIC_AT
        yield None
    return segment.size, None


def _batch_at(segment: Segment, position: int, size_max: int) -> BatchHeader | None:
    """The header of the batch that is at a byte of a segment, if its sum fits."""
    head = segment.file.read(position, HEADER_SIZE)
    if len(head) < HEADER_SIZE:
        return None
    header = read_header(head)
    if header.magic != MAGIC or not HEADER_SIZE <= header.size <= min(size_max, segment.size - position):
        return None
    return header if crc_ok(segment.file.read(position, header.size), 0, header.size) else None
