"""The first record of a segment that is young enough: found at once, or in steps where that may take long.

One batch may hold much, and many may say that they hold what they do not, or lie before the one that does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from barnabas.broker.context import Connection
from barnabas.broker.jobs import Job
from barnabas.broker.log.apart import BYTES_AT_ONCE, RECORDS_AT_ONCE, Apart, is_small
from barnabas.broker.log.scan import batches_in, patient, scan, window_at
from barnabas.broker.log.segment import Segment
from barnabas.broker.log.types import CorruptLogError, TimestampOffset
from barnabas.broker.ports import NotYet
from barnabas.protocol.batch import BatchHeader
from barnabas.protocol.compression import HoldsTooMuch
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.records import look_at_record, record_area, walk_next

HEADERS_AT_ONCE: Final = 1000
"""Batches whose headers are looked at in one step: about 1 ms."""
BATCHES_AT_ONCE: Final = 2
"""Small batches that are looked into in one step: about 1 ms each."""

_LARGEST: Final = -1
"""Instead of a position: the search is for largest timestamps."""
LEARNED_AT_ONCE: Final = 50
"""Segments whose largest timestamp is read in one step: 50 µs each, for a file is opened. A log may have 20,000."""


class Search:
    """A `Token` for a search that takes steps. Whoever parks on it calls `begin` with who runs jobs.

    It ends where it stands when all who asked for it are gone.
    """

    __slots__ = (
        "__weakref__",
        "_askers",
        "_begun",
        "_steps",
        "_waiting",
        "fault",
        "found",
        "given_up",
        "ready",
        "segment",
    )

    def __init__(self, segment: Segment, steps: Job[TimestampOffset | None]) -> None:
        self.segment = segment  # its file keeps its identity meanwhile
        self.ready = False
        self.given_up = False
        self.found: TimestampOffset | None = None
        self.fault: Exception | None = None
        self._askers: list[Connection | None] = []
        self._begun = False
        self._steps = steps
        self._waiting: list[Callable[[], None]] = []

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Call back once it is known."""
        self._waiting.append(callback)

    def begin(
        self, run: Callable[[Job[None], Callable[[Exception | None], None]], object], asker: Connection | None = None
    ) -> None:
        """Have the steps taken for `asker` (None: whoever it is will stay); asked again, it is under way."""
        self._askers.append(asker)
        if not self._begun:
            self._begun = True
            run(self._run(), self._ended)

    def _run(self) -> Job[None]:
        while any(one is None or one.open for one in self._askers):
            try:
                token = next(self._steps)
            except StopIteration as stop:
                self.found = stop.value
                return
            yield token
        self.given_up = True
        self._steps.close()

    def _ended(self, fault: Exception | None) -> None:
        self.ready, self.fault = True, fault if fault is None else _bare(fault)
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()


def first_in_segment(
    apart: Apart, segment: Segment, start: int, timestamp_ms: int, from_offset: int
) -> TimestampOffset | None:
    """The first record of a segment, from the batch at `start` on, of at least that time and offset; None without one.

    A header may say that its batch has such a record, and lie; nobody looks into the batches of most topics before.

    Raises:
        NotYet: bytes must be read first, or the token is a `Search`.
        CorruptLogError: a batch is broken.
    """
    key = id(segment.file), start, timestamp_ms, from_offset
    search = apart.searches.get(key)
    if search is None or search.given_up:
        passed = opened = 0
        for position, header in scan(segment.file, start, segment.size):
            passed += 1
            costly = passed > HEADERS_AT_ONCE
            if not costly and not _may_have(header, timestamp_ms, from_offset):
                continue
            opened += 1
            if not costly and opened <= BATCHES_AT_ONCE and is_small(header):
                data = segment.file.read(position, header.size)
                try:
                    area = record_area(data, 0, header, BYTES_AT_ONCE)
                    if walk_next(area, 0, 0, header.record_count)[0].looked_at == header.record_count:  # few headers
                        found = _in_area(area, 0, header.record_count, header, timestamp_ms, from_offset)
                        if found is not None:
                            return found
                        continue
                except HoldsTooMuch:
                    pass
                except ProtocolError as error:
                    raise _broken(segment, position, error) from error
            search = Search(segment, _in_steps(apart, segment, position, timestamp_ms, from_offset))
            apart.searches[key] = search
            break
        else:
            return None
    if not search.ready:
        raise NotYet(search)
    if search.fault is not None:
        raise search.fault
    return search.found


def largest_in_steps(apart: Apart, segments: Sequence[Segment], enough_ms: int) -> Search:
    """Have the largest timestamps of segments learned, up to the first of at least `enough_ms`."""
    key = id(segments[0].file), _LARGEST, enough_ms, 0
    search = apart.searches.get(key)
    if search is None or search.given_up or search.ready:
        search = apart.searches[key] = Search(segments[0], _learn_largest(segments, enough_ms))
    return search


def _learn_largest(segments: Sequence[Segment], enough_ms: int) -> Job[None]:
    for count, segment in enumerate(segments, 1):
        try:
            largest = yield from patient(lambda segment=segment: segment.largest_timestamp)  # type: ignore[misc]
        except OSError:
            return  # it may have been deleted meanwhile; else whoever asks is told
        if largest >= enough_ms:
            return
        if not count % LEARNED_AT_ONCE:
            yield None


def _bare(fault: Exception) -> Exception:
    """An error that is kept without the frames that it came through, and what these hold; of a defect they are told."""
    at: BaseException | None = fault if isinstance(fault, CorruptLogError) else None
    while at is not None:
        at.__traceback__ = None
        at = at.__context__
    return fault


def _may_have(header: BatchHeader, timestamp_ms: int, from_offset: int) -> bool:
    return header.max_timestamp >= timestamp_ms and header.last_offset >= from_offset


def _broken(segment: Segment, position: int, error: ProtocolError) -> CorruptLogError:
    return CorruptLogError(f"{segment.file.path} holds a broken batch at byte {position}: {error}")


def _in_steps(
    apart: Apart, segment: Segment, start: int, timestamp_ms: int, from_offset: int
) -> Job[TimestampOffset | None]:
    """The same from the batch at `start` on, however many there are."""
    file, end = segment.file, segment.size
    passed = 0
    while start < end:
        view = yield from patient(partial(window_at, file, start, end))
        advanced = 0
        for position, header in batches_in(view):
            advanced = position + header.size
            passed += 1
            if passed % HEADERS_AT_ONCE == 0:
                yield None
            if _may_have(header, timestamp_ms, from_offset):
                try:
                    found = yield from _in_batch(apart, view, position, header, timestamp_ms, from_offset)
                except ProtocolError as error:
                    raise _broken(segment, start + position, error) from error
                if found is not None:
                    return found
        if not advanced:
            return None
        start += advanced
    return None


def _in_batch(
    apart: Apart, data: Buffer, position: int, header: BatchHeader, timestamp_ms: int, from_offset: int
) -> Job[TimestampOffset | None]:
    area, turn = yield from apart.opened(data, position, header)
    try:
        first = end = 0
        while first < header.record_count:
            count = min(RECORDS_AT_ONCE, header.record_count - first)
            part, after = walk_next(area, end, first, count)
            if header.is_log_append_time or header.base_timestamp + part.largest_delta >= timestamp_ms:
                found = _in_area(area, end, part.looked_at, header, timestamp_ms, from_offset)
                if found is not None:
                    return found
            first += part.looked_at
            end = after
            yield None
        if end != len(area):
            raise ProtocolError(f"{len(area) - end} bytes follow the last of {header.record_count} records")
    finally:
        if turn:
            apart.release()
    return None


def _in_area(
    area: Buffer, end: int, count: int, header: BatchHeader, timestamp_ms: int, from_offset: int
) -> TimestampOffset | None:
    append_time = header.max_timestamp if header.is_log_append_time else None
    for _ in range(count):
        delta, offset_delta, _, end = look_at_record(area, end)
        timestamp = header.base_timestamp + delta if append_time is None else append_time
        offset = header.base_offset + offset_delta
        if timestamp >= timestamp_ms and offset >= from_offset:
            return TimestampOffset(timestamp, offset, header.leader_epoch)
    return None
