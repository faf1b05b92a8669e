"""From records to a batch: one by one within a bound (producer), or all at once under a given header (compaction)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.protocol import batch
from barnabas.protocol.batch import HEADER_SIZE, BatchHeader
from barnabas.protocol.compression import Codec, CompressStream, compress
from barnabas.protocol.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, Buffer
from barnabas.protocol.primitives import varint
from barnabas.protocol.records.decode import Headers, Record

# Zig-zag varints of 0 to 2047: lengths and deltas of ordinary records are looked up, not computed.
_KNOWN: Final = 2048
_VARINTS: Final = [varint(value) for value in range(_KNOWN)]
_ZERO: Final = b"\x00"
_ZEROS: Final = bytes(3)
_NULL: Final = varint(-1)
_NO_HEADER: Final = bytes(HEADER_SIZE)
_PIECE: Final = 256 * 1024
"""Bytes that a rewrite compresses at a time: 1 ms."""


def _encode_headers(headers: Headers) -> bytes:
    parts = [varint(len(headers))]
    for key, value in headers:
        name = key.encode("utf-8", "surrogateescape")
        parts += (varint(len(name)), name)
        parts += (_NULL,) if value is None else (varint(len(value)), value)
    return b"".join(parts)


def _encode_record(
    offset_delta: int, timestamp_delta: int, key: Buffer | None, value: Buffer | None, headers: Headers
) -> tuple[int, tuple[Buffer, ...]]:
    """A record's size and its parts; key and value by reference."""
    known = _VARINTS
    time = known[timestamp_delta] if 0 <= timestamp_delta < _KNOWN else varint(timestamp_delta)
    number = known[offset_delta] if offset_delta < _KNOWN else varint(offset_delta)
    if key is None:
        key_head, key = _NULL, b""
    else:
        size = len(key)
        key_head = known[size] if size < _KNOWN else varint(size)
    if value is None:
        value_head, value = _NULL, b""
    else:
        size = len(value)
        value_head = known[size] if size < _KNOWN else varint(size)
    tail = _encode_headers(headers) if headers else _ZERO
    size = 1 + len(time) + len(number) + len(key_head) + len(key) + len(value_head) + len(value) + len(tail)
    head = known[size] if size < _KNOWN else varint(size)
    return len(head) + size, (head, _ZERO, time, number, key_head, key, value_head, value, tail)


class BatchBuilder:
    """Collects records for one batch, one by one, within a bound on its bytes before compression.

    Keys and values are kept by reference until `build` and must not change before.

    Attributes:
        count: records so far.
        size: bytes so far, header included, before compression.
        max_timestamp: largest timestamp so far, ms.
    """

    __slots__ = (
        "_base_timestamp",
        "_codec",
        "_gathered",
        "_level",
        "_max_bytes",
        "_parts",
        "count",
        "max_timestamp",
        "size",
    )

    def __init__(self, max_bytes: int, codec: int = Codec.NONE, *, level: int | None = None) -> None:
        self.count = 0
        self.size = HEADER_SIZE
        self.max_timestamp = NO_TIMESTAMP
        self._max_bytes = max_bytes
        self._codec = codec
        self._level = level
        self._base_timestamp = NO_TIMESTAMP
        self._parts: list[Buffer] = [bytes(HEADER_SIZE)]
        self._gathered = 1

    def try_append(self, timestamp_ms: int, key: Buffer | None, value: Buffer | None, headers: Headers = ()) -> bool:
        """Append a record if it fits; the first always does.

        Returns:
            Whether it was appended. Its offset within the batch is the `count` before.
        """
        count = self.count
        if count == 0:
            self._base_timestamp = timestamp_ms
        size, parts = _encode_record(count, timestamp_ms - self._base_timestamp, key, value, headers)
        size += self.size
        if count and size > self._max_bytes:
            return False
        self._parts += parts
        self.size = size
        self.count = count + 1
        if timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
        return True

    def gather(self) -> None:
        """Join what was appended since the last time: of 20,000 records `build` alone would take 8 ms for that."""
        self._parts[self._gathered :] = [b"".join(self._parts[self._gathered :])]
        self._gathered += 1

    def build(
        self,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        *,
        transactional: bool = False,
    ) -> bytearray:
        """The finished batch at base offset 0. `batch.set_producer` can give it another identity later.

        Raises:
            ValueError: there are no records.
        """
        if not self.count:
            raise ValueError("a batch needs at least one record")
        data = _joined(self._parts, self._codec, self._level)
        size, count = len(data), self.count
        attributes = self._codec | (batch.TRANSACTIONAL if transactional else 0)
        # Base offset, length, leader epoch, magic, no sum yet; a `BatchHeader` takes as long as all the rest.
        place = 0, size - batch.LOG_OVERHEAD, -1, batch.MAGIC, 0
        times = self._base_timestamp, self.max_timestamp
        producer = producer_id, producer_epoch, base_sequence
        batch.pack_header(data, 0, *place, attributes, count - 1, *times, *producer, count)
        batch.set_crc(data, 0, size)
        return data


def single(timestamp_ms: int, key: Buffer, value: Buffer | None) -> bytearray:
    """A batch of one record, uncompressed: what a `BatchBuilder` makes of it, in a third of the time."""
    known = _VARINTS
    size = len(key)
    key_head = known[size] if size < _KNOWN else varint(size)
    if value is None:
        value_head, value = _NULL, b""
    else:
        size = len(value)
        value_head = known[size] if size < _KNOWN else varint(size)
    size = 4 + len(key_head) + len(key) + len(value_head) + len(value)  # and attributes, both deltas, no headers
    head = known[size] if size < _KNOWN else varint(size)
    data = bytearray().join((_NO_HEADER, head, _ZEROS, key_head, key, value_head, value, _ZERO))
    size = len(data)
    batch.pack_header(data, 0, 0, size - batch.LOG_OVERHEAD, -1, 2, 0, 0, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1)
    batch.set_crc(data, 0, size)
    return data


def _joined(parts: list[Buffer], codec: int, level: int | None) -> bytearray:
    """The place of the header, which is the first part, and the records."""
    if codec:
        parts = [parts[0], compress(codec, b"".join(parts[1:]), level)]
    return bytearray().join(parts)


def _seal(header: BatchHeader, data: bytearray) -> bytearray:
    """Write the header, which knows its length, where it belongs, and sum up."""
    batch.write_header(data, 0, header)
    batch.set_crc(data, 0, len(data))
    return data


class BatchRewriter:
    """A batch of given records under a given header, as compaction needs it; added in as many parts as one likes.

    Offsets and timestamps become relative to the header's `base_offset` and `base_timestamp`; `last_offset_delta` and
    the producer's fields stay (Kafka keeps them when records go); length, count and sum are set, and the largest
    timestamp too, where records have their own and there are any.
    """

    __slots__ = ("_area", "_count", "_header", "_level", "_max_timestamp", "_stream")

    def __init__(self, header: BatchHeader, *, level: int | None = None) -> None:
        self._header = header
        self._level = level
        self._area = bytearray(0 if header.compression else HEADER_SIZE)
        self._stream: CompressStream | None = None
        self._count = 0
        self._max_timestamp = NO_TIMESTAMP

    @property
    def least_bytes(self) -> int:
        """Bytes that the batch has by now at least, as far as that is known."""
        if not self._header.compression:
            return len(self._area)
        return HEADER_SIZE if self._stream is None else HEADER_SIZE + self._stream.least_bytes

    def add(self, records: Iterable[Record]) -> None:
        """Add records, which follow those before; nothing of them is kept but their bytes, compressed as they grow."""
        base_offset, base_timestamp = self._header.base_offset, self._header.base_timestamp
        parts: list[Buffer] = []
        for record in records:
            offset_delta, timestamp_delta = record.offset - base_offset, record.timestamp - base_timestamp
            parts += _encode_record(offset_delta, timestamp_delta, record.key, record.value, record.headers)[1]
            self._count += 1
            self._max_timestamp = max(self._max_timestamp, record.timestamp)
        self._area += b"".join(parts)
        if len(self._area) >= _PIECE and self._header.compression:
            if self._stream is None:
                self._stream = CompressStream(self._header.compression, level=self._level)
            self._stream.add(bytes(self._area))
            self._area.clear()

    def build(self) -> bytearray:
        """The finished batch, once."""
        header = self._header
        if self._count and not header.is_log_append_time:
            header = header._replace(max_timestamp=self._max_timestamp)
        header = header._replace(record_count=self._count)
        if not header.compression:
            data = self._area
        elif self._stream is None:
            data = _joined([bytes(HEADER_SIZE), bytes(self._area)], header.compression, self._level)
        else:
            self._stream.add(bytes(self._area))
            data = bytearray().join((bytes(HEADER_SIZE), self._stream.finish()))
        return _seal(header._replace(length=len(data) - batch.LOG_OVERHEAD), data)


def encode_batch(header: BatchHeader, records: Iterable[Record], *, level: int | None = None) -> bytearray:
    """A batch of these records under this header, see `BatchRewriter`."""
    rewriter = BatchRewriter(header, level=level)
    rewriter.add(records)
    return rewriter.build()
