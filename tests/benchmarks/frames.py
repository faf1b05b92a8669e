"""Request frames made by hand for the compiled load generator: they depend on nothing that is being measured."""

from __future__ import annotations

import struct
from typing import NamedTuple

import crc32c


class FetchFrame(NamedTuple):
    """A Fetch v4 frame of one partition, and where its fetch offset (int64) stands."""

    frame: bytes
    offset_at: int


def _varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def batch(records: int, value_bytes: int) -> bytes:
    """An uncompressed v2 batch of `records` records without keys, each with a value of `value_bytes` bytes."""
    body = bytearray()
    for index in range(records):
        record = (
            b"\x00" + _varint(0) + _varint(index) + _varint(-1) + _varint(value_bytes) + b"x" * value_bytes + _varint(0)
        )
        body += _varint(len(record)) + record
    return _batch(records, bytes(body))


def _batch(records: int, body: bytes) -> bytes:
    timestamp_ms = 1_700_000_000_000
    crc_part = struct.pack(">hiqqqhii", 0, records - 1, timestamp_ms, timestamp_ms, -1, -1, -1, records) + body
    head = struct.pack(">qiibI", 0, 9 + len(crc_part), -1, 2, crc32c.crc32c(crc_part))
    return head + crc_part


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _frame(api_key: int, version: int, body: bytes) -> bytes:
    request = struct.pack(">hhi", api_key, version, 1) + _string("bench") + body
    return struct.pack(">i", len(request)) + request


def produce(topic: str, partition: int, records: bytes, acks: int = -1) -> bytes:
    """A Produce v7 frame of one batch."""
    body = struct.pack(">hhii", -1, acks, 30_000, 1) + _string(topic)
    return _frame(0, 7, body + struct.pack(">iii", 1, partition, len(records)) + records)


def fetch(topic: str, max_bytes: int, max_wait_ms: int = 0, partitions: int = 1) -> FetchFrame:
    """A Fetch v4 frame of the first partitions, each from offset 0 (the load generator patches that)."""
    head = struct.pack(">iiiibi", -1, max_wait_ms, 1, max_bytes * partitions, 0, 1) + _string(topic)
    asked = b"".join(struct.pack(">iqi", partition, 0, max_bytes) for partition in range(partitions))
    frame = _frame(1, 4, head + struct.pack(">i", partitions) + asked)
    return FetchFrame(frame, len(frame) - len(asked) + 4)


def find_coordinator(group: str) -> bytes:
    """A FindCoordinator v2 frame; the error code of its answer is behind the length, the id and the throttle time."""
    return _frame(10, 2, _string(group) + b"\x00")


def offset_commit(group: str, topic: str) -> bytes:
    """An OffsetCommit v7 frame of one partition, of a group without members."""
    who = _string(group) + struct.pack(">i", -1) + _string("") + struct.pack(">h", -1)
    what = struct.pack(">i", 1) + _string(topic) + struct.pack(">iiqi", 1, 0, 4711, -1) + _string("")
    return _frame(8, 7, who + what)


def api_versions() -> bytes:
    """An ApiVersions v0 frame: the smallest request there is."""
    return _frame(18, 0, b"")


def keyed_batch(keys: range, value_bytes: int) -> bytes:
    """An uncompressed batch of one record per key, for compacted topics."""
    body = bytearray()
    for index, key in enumerate(keys):
        name = b"%08d" % key
        record = b"\x00" + _varint(0) + _varint(index) + _varint(len(name)) + name
        record += _varint(value_bytes) + b"x" * value_bytes + _varint(0)
        body += _varint(len(record)) + record
    return _batch(len(keys), bytes(body))
