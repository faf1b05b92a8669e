"""From a batch's bytes to its records.

Record (inside the record area; all numbers but the attributes are zig-zag varints):

    length | attributes i8 = 0 | timestamp delta (64 bits) | offset delta | key length (-1 null) | key
    | value length (-1 null) | value | header count | headers: key length | key | value length (-1 null) | value
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

from barnabas.protocol import batch
from barnabas.protocol.batch import HEADER_SIZE, BatchHeader
from barnabas.protocol.compression import BYTES_MAX, decompress
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.primitives import read_varint, read_varlong

T = TypeVar("T")

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
"""Record headers in order; keys may repeat."""

RECORD_SIZE_MIN: Final = 7
"""Bytes of a record with null key, null value and no headers: bounds every record count from outside."""
_ANY: Final = 2**31 - 1


class Record:
    """One record. `timestamp` in ms since the epoch; `headers` a tuple of (key, value)."""

    __slots__ = ("headers", "key", "offset", "timestamp", "value")

    def __init__(
        self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Record({self.offset}, {self.timestamp}, {self.key!r}, {self.value!r}, {self.headers!r})"


def record_area(data: Buffer, position: int, header: BatchHeader, bytes_max: int = BYTES_MAX) -> bytes:
    """The records of a whole batch at `position`, decompressed, as bytes of their own.

    Raises:
        ProtocolError: as `plain_area`.
    """
    return bytes(plain_area(data, position, header, bytes_max))


def plain_area(data: Buffer, position: int, header: BatchHeader, bytes_max: int = BYTES_MAX) -> Buffer:
    """The records of a whole batch at `position`, decompressed; a view where they were not compressed.

    Raises:
        ProtocolError: the batch is cut, its data broken, or its count more than its bytes can hold.
    """
    length = header.length
    end = position + batch.LOG_OVERHEAD + length
    if length < batch.LENGTH_MIN or end > len(data):
        raise ProtocolError(f"batch at byte {position} has length {length}, {len(data) - position} bytes are left")
    area = memoryview(data)[position + HEADER_SIZE : end]
    codec = header.attributes & batch.COMPRESSION_MASK
    plain = decompress(codec, area, bytes_max=bytes_max) if codec else area
    if not 0 <= header.record_count * RECORD_SIZE_MIN <= len(plain):
        raise ProtocolError(f"batch at byte {position} announces {header.record_count} records in {len(plain)} bytes")
    return plain


def decode_records(data: Buffer, position: int = 0, *, bytes_max: int = BYTES_MAX) -> list[Record]:
    """All records of the whole batch at `position` (a control batch's markers too); the sum is not checked.

    Raises:
        ProtocolError: anything but exactly the announced records.
    """
    header = batch.read_header(data, position)
    return decode_area(record_area(data, position, header, bytes_max), header, Record)


def decode_area(area: bytes, header: BatchHeader, make: Callable[..., T]) -> list[T]:
    """`make(offset, timestamp, key, value, headers)` for each record of a decompressed record area.

    Raises:
        ProtocolError: anything but exactly the announced records.
    """
    made, end = decode_next(area, 0, header.record_count, header, make)
    if end != len(area):
        raise ProtocolError(f"{len(area) - end} bytes follow the last of {header.record_count} records")
    return made


def decode_next(area: bytes, at: int, count: int, header: BatchHeader, make: Callable[..., T]) -> tuple[list[T], int]:
    """`make(...)` as above for the `count` records from byte `at` on, and the byte behind them.

    The loop reads varints of one or two bytes, as ordinary records have them, and checks at the end of each record that
    it met nothing else; whatever looks odd is read once more, strictly, by `read_record`.

    Raises:
        ProtocolError: the bytes hold no such records.
    """
    made: list[T] = []
    add = made.append
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    size = len(area)
    headers: Headers
    end = at
    for _ in range(count):
        start = p = end
        try:
            n = area[p]
            p += 2
            if n > 127:
                n = n & 127 | area[p - 1] << 7
                p += 1
            end = p - 1 + (n >> 1)
            t = area[p]
            p += 1
            if t > 127:
                t = t & 127 | area[p] << 7
                p += 1
            d = area[p]
            p += 1
            if d > 127:
                d = d & 127 | area[p] << 7
                p += 1
            k = area[p]
            p += 1
            if k == 1:
                key, k = None, 0
            else:
                if k > 127:
                    k = k & 127 | area[p] << 7
                    p += 1
                key = area[p : (p := p + (k >> 1))]
            v = area[p]
            p += 1
            if v == 1:
                value, v = None, 0
            else:
                if v > 127:
                    v = v & 127 | area[p] << 7
                    p += 1
                value = area[p : (p := p + (v >> 1))]
            odd = n | t | d | k | v
            ordinary = p + 1 == end <= size and odd < 16384 and not odd & 1 and area[p] == 0
        except IndexError:
            ordinary = False
        if ordinary:
            t, d, headers = t >> 1, d >> 1, ()
        else:
            t, d, key, value, headers, end = read_record(area, start)
        add(make(base_offset + d, base_timestamp + t if append_time is None else append_time, key, value, headers))
    return made, end


SLICE_BYTES: Final = 16 * 1024


def decode_slices(data: Buffer, position: int, count: int) -> Iterator[list[Record]]:
    """As `decode_records`, but at most `count` records at a time: for those who may not take long over one batch.

    Raises:
        ProtocolError: anything but exactly the announced records; slices before may have come out.
    """
    header = batch.read_header(data, position)
    yield from decode_slices_of(record_area(data, position, header), header, count)


def decode_slices_of(area: Buffer, header: BatchHeader, count: int) -> Iterator[list[Record]]:
    """As `decode_slices`, of a record area that is decompressed already.

    A slice is over after `SLICE_BYTES`, too, for these may hold eight thousand headers.

    Raises:
        ProtocolError: anything but exactly the announced records; slices before may have come out.
    """
    if header.record_count <= count and len(area) <= SLICE_BYTES:
        yield decode_area(bytes(area), header, Record)
        return
    left = header.record_count
    view = memoryview(area)
    end = 0
    while left:
        start = end
        part = 0
        while left and part < count and end - start < SLICE_BYTES:
            part += 1
            left -= 1
            try:
                length, end = read_varint(area, end)
            except IndexError:
                raise ProtocolError(f"the record area of {len(area)} bytes ends before its last record") from None
            if not 0 <= length <= len(area) - end:
                raise ProtocolError(f"a record announces {length} bytes at byte {end} of {len(area)}")
            end += length
        yield decode_area(bytes(view[start : end if left else len(area)]), header._replace(record_count=part), Record)


def read_record(
    area: bytes, start: int, headers_max: int = _ANY
) -> tuple[int, int, bytes | None, bytes | None, Headers, int]:
    """Timestamp delta, offset delta, key, value, headers and end of the record at `start`, strictly."""
    try:
        length, p = read_varint(area, start)
        end = p + length
        if not RECORD_SIZE_MIN - 1 <= length <= len(area) - p:
            raise ProtocolError(f"record at byte {start} announces {length} bytes, {len(area) - p} are left")
        timestamp_delta, p = read_varlong(area, p + 1)
        offset_delta, p = read_varint(area, p)
        key, p = _read_bytes(area, p, end)
        value, p = _read_bytes(area, p, end)
        headers, p = _read_headers(area, p, end, headers_max)
    except IndexError:
        raise ProtocolError(f"the record area of {len(area)} bytes ends within the record at byte {start}") from None
    if p != end:
        raise ProtocolError(f"record at byte {start} ends at byte {p}, its length says {end}")
    return timestamp_delta, offset_delta, key, value, headers, end


def _read_bytes(area: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(area, position)
    if length == -1:
        return None, position
    if not 0 <= length <= end - position:
        raise ProtocolError(f"record field announces {length} bytes at byte {position}, {end - position} are left")
    return area[position : position + length], position + length


def _read_headers(area: bytes, position: int, end: int, headers_max: int) -> tuple[Headers, int]:
    count, position = read_varint(area, position)
    # A header takes at least two bytes: the lengths of its key and value.
    if not 0 <= count * 2 <= end - position:
        raise ProtocolError(f"record announces {count} headers at byte {position}, {end - position} bytes are left")
    if count > headers_max:
        raise ProtocolError(f"record announces {count} headers at byte {position}, more than {headers_max}")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, after = _read_bytes(area, position, end)
        if key is None:
            raise ProtocolError(f"record header at byte {position} has a null key")
        # Bytes that are no UTF-8 survive the way back to bytes: compaction must not stumble over what Kafka takes.
        name = key.decode("utf-8", "surrogateescape")
        value, position = _read_bytes(area, after, end)
        headers.append((name, value))
    return tuple(headers), position
