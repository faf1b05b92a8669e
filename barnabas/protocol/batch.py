"""The header of a record batch (format v2): read it, patch it in place, check its sum, find where batches begin.

Record batches are the same bytes on the wire, on disk and in both dialects. The sum covers what follows it, so base
offset, length and leader epoch change in place without a new sum. Source: Kafka's `DefaultRecordBatch`.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, error
from typing import Final, NamedTuple

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.primitives import crc32c

# Record batch v2, big endian, 61 bytes, then the records (compressed as one block where a codec is set):
#
#    0  i64  base_offset            21  i16  attributes           43  i64  producer_id
#    8  i32  length (bytes after)   23  i32  last_offset_delta    51  i16  producer_epoch
#   12  i32  leader_epoch           27  i64  base_timestamp       53  i32  base_sequence
#   16  i8   magic = 2              35  i64  max_timestamp        57  i32  record_count
#   17  u32  crc of bytes 21..end
_HEADER: Final = Struct(">qiibIhiqqqhii")
# base_offset i64 | length i32 | ... | magic i8 | ... | last_offset_delta i32
_SPAN: Final = Struct(">qi4xb6xi")
# base_offset i64 | length i32 | leader_epoch i32
_PLACE: Final = Struct(">qii")
# base_offset i64 | length i32
_OVERHEAD: Final = Struct(">qi")
_INT64: Final = Struct(">q")
_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_INT16: Final = Struct(">h")
# producer_id i64 | producer_epoch i16 | base_sequence i32
_PRODUCER: Final = Struct(">qhi")

unpack_header: Final = _HEADER.unpack_from
"""`unpack_header(data, position)`: the fields of `BatchHeader` as a plain tuple; struct.error where bytes miss."""

HEADER_SIZE: Final = _HEADER.size
"""Bytes before the records."""
LOG_OVERHEAD: Final = _OVERHEAD.size
"""Bytes that the length field does not count."""
LENGTH_MIN: Final = HEADER_SIZE - LOG_OVERHEAD
MAGIC: Final = 2

LENGTH_AT: Final = 8
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_AT: Final = 43
RECORD_COUNT_AT: Final = 57

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40


class BatchHeader(NamedTuple):
    """All fields of a batch header. Timestamps in ms since the epoch; `length` counts the bytes behind itself."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Offset of the last record (also where compaction has removed it)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset after the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; after 2**31 - 1 comes 0; -1 without a producer's sequence."""
        return add_sequence(self.base_sequence, self.last_offset_delta) if self.base_sequence >= 0 else -1

    @property
    def compression(self) -> int:
        """Codec number (see `compression.Codec`)."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether `max_timestamp` is the broker's time and holds for all records."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker, which clients never see."""
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time after which tombstones may go."""
        return bool(self.attributes & DELETE_HORIZON)


def add_sequence(sequence: int, delta: int) -> int:
    """A sequence number `delta` later: after 2**31 - 1 comes 0."""
    return (sequence + delta) & 0x7FFFFFFF


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, as it stands there.

    Raises:
        ProtocolError: fewer than 61 bytes.
    """
    try:
        return tuple.__new__(BatchHeader, unpack_header(data, position))
    except error:
        raise ProtocolError(
            f"batch header at byte {position} needs 61 bytes, {len(data) - position} are left"
        ) from None


read_span: Final = _SPAN.unpack_from
"""`read_span(data, position)`: base offset, length, magic, last offset delta, for who only looks for a batch."""


pack_header: Final = _HEADER.pack_into
"""`pack_header(data, position, *fields)` writes a header from what `BatchHeader` names, in that order."""


def write_header(data: bytearray | memoryview, position: int, header: BatchHeader) -> None:
    """Write a header as it is (its `crc` too)."""
    _HEADER.pack_into(data, position, *header)


def batch_size(data: Buffer, position: int = 0) -> int:
    """Bytes of the batch at `position`, by its length field; 0 where fewer than 12 bytes are left.

    Raises:
        ProtocolError: a length that no batch can have.
    """
    if len(data) - position < LOG_OVERHEAD:
        return 0
    length: int = _INT32.unpack_from(data, position + LENGTH_AT)[0]
    if length < LENGTH_MIN:
        raise ProtocolError(f"batch at byte {position} has length {length}, the least is {LENGTH_MIN}")
    return length + LOG_OVERHEAD


def batches(data: Buffer, position: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """(position, size) of every whole batch in `data[position:end]`; a cut last one is left out.

    Raises:
        ProtocolError: a length that no batch can have.
    """
    limit = len(data) if end is None else end
    while limit - position >= HEADER_SIZE:
        size = batch_size(data, position)
        if size > limit - position:
            return
        yield position, size
        position += size


set_place: Final = _PLACE.pack_into
"""`set_place(data, position, base offset, length, leader epoch)` gives a batch its place in the log; `length` is what
stands in that field. The sum does not cover these."""


def set_max_timestamp(
    data: bytearray | memoryview, position: int, size: int, timestamp_ms: int, *, log_append_time: bool
) -> None:
    """Set the largest timestamp and its kind, and sum up anew (Kafka's `setMaxTimestamp`).

    With `log_append_time` the timestamp holds for all records, whatever they say themselves.
    """
    attributes = _INT16.unpack_from(data, position + ATTRIBUTES_AT)[0]
    attributes = attributes | LOG_APPEND_TIME if log_append_time else attributes & ~LOG_APPEND_TIME
    _INT16.pack_into(data, position + ATTRIBUTES_AT, attributes)
    _INT64.pack_into(data, position + MAX_TIMESTAMP_AT, timestamp_ms)
    set_crc(data, position, size)


def set_producer(
    data: bytearray | memoryview, position: int, size: int, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    """Give a finished batch a producer's identity, and sum up anew."""
    _PRODUCER.pack_into(data, position + PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    set_crc(data, position, size)


def compute_crc(data: Buffer, position: int, size: int) -> int:
    """CRC-32C of the batch's bytes 21 to its end."""
    return crc32c(memoryview(data)[position + ATTRIBUTES_AT : position + size])


def set_crc(data: bytearray | memoryview, position: int, size: int) -> None:
    """Write the sum of the batch as it is now."""
    _UINT32.pack_into(data, position + CRC_AT, compute_crc(data, position, size))


def crc_ok(data: Buffer, position: int, size: int) -> bool:
    """Whether the sum fits the bytes; a batch cut short, or shorter than a header, never fits."""
    if size < HEADER_SIZE or len(data) - position < size:
        return False
    crc: int = _UINT32.unpack_from(data, position + CRC_AT)[0]
    return compute_crc(data, position, size) == crc
