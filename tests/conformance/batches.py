"""Record batches (format v2) made by hand, with every field under control, and taken apart again.

batch([record(b"key", b"value")], sequence=0, producer_id=7)
parse(payload)  # the complete batches of a fetched payload
"""

import dataclasses
import gzip
import struct

import cramjam
import crc32c

#   0 base offset i64     8 length i32        12 leader epoch i32   16 magic i8       17 crc u32
#  21 attributes i16     23 last delta i32    27 base time i64      35 max time i64
#  43 producer id i64    51 epoch i16         53 base sequence i32  57 count i32      61 records
HEAD = struct.Struct(">qiibI")
BODY = struct.Struct(">hiqqqhii")
HEADER_BYTES = HEAD.size + BODY.size

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 8, 16, 32, 64


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """One record; the deltas are of its batch. `offset` and `timestamp` are set when it was parsed."""

    key: bytes | None = None
    value: bytes | None = b"v"
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_delta: int = 0
    offset_delta: int | None = None
    offset: int = -1
    timestamp: int = -1


def varint(value: int) -> bytes:
    """A zig-zag varint."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def _bytes(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def encode_record(record: Record, delta: int) -> bytes:
    """One record's bytes; `delta` is its place unless the record has a delta of its own."""
    place = delta if record.offset_delta is None else record.offset_delta
    body = b"\0" + varint(record.timestamp_delta) + varint(place) + _bytes(record.key) + _bytes(record.value)
    body += varint(len(record.headers))
    for name, value in record.headers:
        body += _bytes(name.encode()) + _bytes(value)
    return varint(len(body)) + body


def _lz4_frame(data: bytes) -> bytes:
    """One independent block in an LZ4 frame: Kafka refuses linked blocks, which cramjam's frames have."""
    assert len(data) < 1 << 16, "one block of 64 KB at most"
    block = bytes(cramjam.lz4.compress_block(data, store_size=False))
    # Magic; version 1 and independent blocks; blocks of 64 KB; checksum of these two bytes; size; block; end mark.
    return b"\x04\x22\x4d\x18\x60\x40\x82" + struct.pack("<I", len(block)) + block + b"\0\0\0\0"


def _compress(codec: int, data: bytes) -> bytes:
    match codec:
        case 1:
            return gzip.compress(data, mtime=0)
        case 2:
            return bytes(cramjam.snappy.compress_raw(data))
        case 3:
            return _lz4_frame(data)
        case 4:
            return bytes(cramjam.zstd.compress(data))
    return data


def _decompress(codec: int, data: bytes) -> bytes:
    match codec:
        case 1:
            return gzip.decompress(data)
        case 2:
            return bytes(cramjam.snappy.decompress_raw(data))
        case 3:
            return bytes(cramjam.lz4.decompress(data))
        case 4:
            return bytes(cramjam.zstd.decompress(data))
    return data


def batch(
    records: list[Record],
    *,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    magic: int = 2,
    attributes: int = 0,
    codec: int = 0,
    last_offset_delta: int | None = None,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    count: int | None = None,
    length: int | None = None,
    crc: int | None = None,
) -> bytes:
    """A whole batch. `timestamp` is the base timestamp (ms); whatever is not given is set as a right batch has it."""
    area = _compress(codec, b"".join(encode_record(record, delta) for delta, record in enumerate(records)))
    newest = timestamp + max((record.timestamp_delta for record in records), default=0)
    body = BODY.pack(
        attributes | codec,
        len(records) - 1 if last_offset_delta is None else last_offset_delta,
        timestamp,
        newest if max_timestamp is None else max_timestamp,
        producer_id,
        producer_epoch,
        sequence,
        len(records) if count is None else count,
    )
    check = crc32c.crc32c(body + area) if crc is None else crc
    size = HEADER_BYTES - 12 + len(area) if length is None else length
    return HEAD.pack(base_offset, size, leader_epoch, magic, check) + body + area


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """A batch as it was fetched or found in a file."""

    raw: bytes
    base_offset: int
    leader_epoch: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    sequence: int
    count: int
    crc_valid: bool

    @property
    def last_offset(self) -> int:
        """Offset of the last record the batch was made with."""
        return self.base_offset + self.last_offset_delta

    def records(self) -> list[Record]:
        """Its records, decompressed."""
        data, at, out = _decompress(self.attributes & 7, self.raw[HEADER_BYTES:]), 0, []
        for _ in range(self.count):
            size, at = _read_varint(data, at)
            out.append(self._record(data, at))
            at += size
        return out

    def _record(self, data: bytes, at: int) -> Record:
        time_delta, at = _read_varint(data, at + 1)
        delta, at = _read_varint(data, at)
        fields: list[bytes | None] = []
        for _ in range(2):
            size, at = _read_varint(data, at)
            fields.append(None if size < 0 else data[at : at + size])
            at += max(size, 0)
        headers = []
        count, at = _read_varint(data, at)
        for _ in range(count):
            size, at = _read_varint(data, at)
            name, at = data[at : at + size].decode(), at + size
            size, at = _read_varint(data, at)
            headers.append((name, None if size < 0 else data[at : at + size]))
            at += max(size, 0)
        stamp = self.max_timestamp if self.attributes & LOG_APPEND_TIME else self.base_timestamp + time_delta
        key, value = fields
        return Record(key, value, tuple(headers), time_delta, delta, self.base_offset + delta, stamp)


def parse(data: bytes) -> list[Batch]:
    """The complete batches of these bytes; a tail that was cut off is left out, as a client does."""
    out, at = [], 0
    while at + HEADER_BYTES <= len(data):
        base, length, epoch, _, crc = HEAD.unpack_from(data, at)
        end = at + 12 + length
        if end > len(data):
            break
        raw = data[at:end]
        fields = BODY.unpack_from(raw, HEAD.size)
        out.append(Batch(raw, base, epoch, *fields, crc32c.crc32c(raw[21:]) == crc))  # type: ignore[call-arg]
        at = end
    return out


def same_bytes(sent: bytes, stored: bytes) -> bool:
    """Whether a stored batch is the sent one save the base offset and the leader epoch, which the broker sets."""
    return sent[8:12] + sent[16:] == stored[8:12] + stored[16:]
