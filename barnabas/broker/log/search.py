"""The first record of a batch that is young enough: found at once, or in steps where the batch holds much."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.jobs import Job
from barnabas.broker.log.apart import BYTES_AT_ONCE, RECORDS_AT_ONCE, Apart
from barnabas.broker.log.segment import Segment
from barnabas.broker.log.types import TimestampOffset
from barnabas.broker.ports import NotYet
from barnabas.protocol.batch import BatchHeader
from barnabas.protocol.compression import HoldsTooMuch
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.records import look_at_record, record_area, walk_next


class Search:
    """A `Token` for a search that takes steps. Whoever parks on it calls `begin` with who runs jobs."""

    __slots__ = ("__weakref__", "_begun", "_steps", "_waiting", "fault", "found", "ready", "segment")

    def __init__(self, segment: Segment, steps: Job[TimestampOffset | None]) -> None:
        self.segment = segment  # its file keeps its identity meanwhile
        self.ready = False
        self.found: TimestampOffset | None = None
        self.fault: Exception | None = None
        self._begun = False
        self._steps = steps
        self._waiting: list[Callable[[], None]] = []

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Call back once it is known."""
        self._waiting.append(callback)

    def begin(self, run: Callable[[Job[None], Callable[[Exception | None], None]], None]) -> None:
        """Have the steps taken; asked again, it is under way."""
        if not self._begun:
            self._begun = True
            run(self._run(), self._ended)

    def _run(self) -> Job[None]:
        self.found = yield from self._steps

    def _ended(self, fault: Exception | None) -> None:
        self.ready, self.fault = True, fault
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()


def first_record(
    apart: Apart, segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, from_offset: int
) -> TimestampOffset | None:
    """The first record of the batch at `position` of at least that time and offset; None if there is none.

    Raises:
        NotYet: bytes must be read first, or the token is a `Search`.
        ProtocolError: the batch is broken.
    """
    key = id(segment.file), position, timestamp_ms, from_offset
    search = apart.searches.get(key)
    if search is None:
        data = segment.file.read(position, header.size)
        if header.size <= BYTES_AT_ONCE and header.record_count <= RECORDS_AT_ONCE:
            try:
                area = record_area(data, 0, header, BYTES_AT_ONCE)
                if walk_next(area, 0, 0, header.record_count)[0].looked_at == header.record_count:  # few headers
                    return _in_area(area, 0, header.record_count, header, timestamp_ms, from_offset)
            except HoldsTooMuch:
                pass
        search = Search(segment, _in_steps(apart, data, header, timestamp_ms, from_offset))
        apart.searches[key] = search
    if not search.ready:
        raise NotYet(search)
    if search.fault is not None:
        raise search.fault
    return search.found


def _in_steps(
    apart: Apart, data: Buffer, header: BatchHeader, timestamp_ms: int, from_offset: int
) -> Job[TimestampOffset | None]:
    area, turn = yield from apart.opened(data, 0, header)
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
