"""Looking at every record of a batch without building one: what a broker has to know before it lets a batch in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.protocol.batch import BatchHeader
from barnabas.protocol.compression import HoldsTooMuch
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.primitives import read_varint, read_varlong
from barnabas.protocol.records.decode import RECORD_SIZE_MIN, read_record

HEADERS_MAX: Final = 10_000
"""Headers of one record that a broker looks at: 5 ms."""
HEADERS_AT_ONCE: Final = 5_000
"""So many headers, and those of one record more, are passed over in one go."""
_NULL: Final = 1
"""The varint of -1."""


class Walked(NamedTuple):
    """What the records of a batch are like.

    Timestamps relative to the batch's (ms; of no records the smallest is above the largest), how many have no key, and
    whether offsets go on by one from the batch's. How many were looked at, and headers of theirs passed over.
    """

    smallest_delta: int
    largest_delta: int
    null_keys: int
    in_order: bool
    looked_at: int
    headers: int = 0


def walk_area(area: Buffer, header: BatchHeader) -> Walked:
    """Check each record of a decompressed record area, in the way of `decode_area` (offset deltas of three bytes, too).

    Raises:
        ProtocolError: anything but exactly the announced records.
        HoldsTooMuch: they have more headers than are passed over in one go.
    """
    walked, end = walk_next(area, 0, 0, header.record_count)
    if walked.looked_at < header.record_count:
        raise HoldsTooMuch(f"the records have more than {HEADERS_AT_ONCE} headers")
    if end != len(area):
        raise ProtocolError(f"{len(area) - end} bytes follow the last of {header.record_count} records")
    return walked


def walk_next(area: Buffer, at: int, first: int, count: int) -> tuple[Walked, int]:
    """What the `count` records from byte `at` on are like, and the byte behind them.

    `first` is the offset delta that the first of them should have. Varints of one or two bytes are read here, whatever
    looks odd is read once more, strictly, by `_look_at`. Deltas stay doubled. It stops after `HEADERS_AT_ONCE` headers.

    Raises:
        ProtocolError: the bytes hold no such records.
    """
    smallest, largest = 2**64 - 2, -(2**64)  # doubled, as they stand there
    null_keys, headers, end, in_order = 0, 0, at, True
    for twice in (indices := iter(range(2 * first, 2 * (first + count), 2))):
        start = end
        try:
            n = area[start]
            p = start + 2
            if n > 127:
                n = n & 127 | area[start + 1] << 7
                p = start + 3
            end = p - 1 + (n >> 1)
            t = area[p]
            p += 1
            if t > 127:
                t = t & 127 | area[p] << 7
                p += 1
            d = area[p]
            if d > 127:
                d = d & 127 | area[p + 1] << 7
                p += 1
                if d > 16383:  # offsets above 8191
                    d = d & 16383 | area[p + 1] << 14
                    p += 1
            k = area[p + 1]
            if k == 1:
                p += 2
                odd = n | t
            elif k < 128:
                p += 2 + (k >> 1)
                odd = n | t | k
            else:
                k = k & 127 | area[p + 2] << 7
                p += 3 + (k >> 1)
                odd = n | t | k
            v = area[p]
            if v > 127:
                v = v & 127 | area[p + 1] << 7
                p += 2 + (v >> 1)
                odd |= v
            elif v == 1:
                p += 1
            else:
                p += 1 + (v >> 1)
                odd |= v
            # (Behind the area, looking at the last byte ends here, too.)
            if p + 1 != end or odd > 16383 or d > 2097151 or (odd | d) & 1 or area[p]:
                raise IndexError
        except IndexError:
            t, d, k, end, number = _look_at(area, start)
            headers += number
            if headers > HEADERS_AT_ONCE:
                count -= _passed_over(indices)
        if k == 1:
            null_keys += 1
        if t < smallest:
            smallest = t
        if t > largest:
            largest = t
        if d != twice:
            in_order = False
    return Walked(smallest >> 1, largest >> 1, null_keys, in_order, count, headers), end


def _passed_over(indices: Iterator[int]) -> int:
    """End a loop; how many were left."""
    return sum(1 for _ in indices)


def _look_at(area: Buffer, start: int) -> tuple[int, int, int, int, int]:
    """Of a record, strictly: timestamp and offset delta, doubled, 1 if there is no key, end, number of headers."""
    if isinstance(area, bytes):
        t, d, key, _, headers, end = read_record(area, start, HEADERS_MAX)
        return 2 * t, 2 * d, key is None, end, len(headers)
    t, d, no_key, end, count = _pass_record(area, start)
    return 2 * t, 2 * d, no_key, end, count


def look_at_record(area: Buffer, start: int) -> tuple[int, int, bool, int]:
    """Timestamp delta, offset delta, whether there is no key, and end of the record at `start`; nothing is copied.

    Raises:
        ProtocolError: there is no such record, or it has more than `HEADERS_MAX` headers.
    """
    return _pass_record(area, start)[:4]


def _pass_record(area: Buffer, start: int) -> tuple[int, int, bool, int, int]:
    """As `look_at_record`, and the number of its headers."""
    try:
        length, p = read_varint(area, start)
        end = p + length
        if not RECORD_SIZE_MIN - 1 <= length <= len(area) - p:
            raise ProtocolError(f"record at byte {start} announces {length} bytes, {len(area) - p} are left")
        timestamp_delta, p = read_varlong(area, p + 1)
        offset_delta, p = read_varint(area, p)
        key_end = _pass_over(area, p, end)
        no_key = area[p] == _NULL
        p = _pass_over(area, key_end, end)
        count, p = read_varint(area, p)
        if not 0 <= count <= HEADERS_MAX:
            raise ProtocolError(f"record at byte {start} announces {count} headers, at most {HEADERS_MAX} are read")
        for _ in range(count):
            if area[p] == _NULL:
                raise ProtocolError(f"record header at byte {p} has a null key")
            p = _pass_over(area, _pass_over(area, p, end), end)
    except IndexError:
        raise ProtocolError(f"the record area of {len(area)} bytes ends within the record at byte {start}") from None
    if p != end:
        raise ProtocolError(f"record at byte {start} ends at byte {p}, its length says {end}")
    return timestamp_delta, offset_delta, no_key, end, count


def _pass_over(area: Buffer, position: int, end: int) -> int:
    """The byte behind bytes with a length of their own (-1: null)."""
    length, position = read_varint(area, position)
    if not -1 <= length <= end - position:
        raise ProtocolError(f"record field announces {length} bytes at byte {position}, {end - position} are left")
    return position + max(length, 0)
