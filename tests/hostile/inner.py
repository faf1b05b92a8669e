"""What lies within the bytes of a request, well-formed or nearly so, and at its limits: batches, and groups' own words.

A batch is a function of its chance: honest but for a field or two of its header or of one record, which lie at their
limits (counts, deltas, codecs, times, producers), or holding far more than its bytes are worth, or nothing in many
parts. Its sum always fits: else nothing behind it would be looked at. What consumers of a classic group tell each other
is made from the field tables of `consumer_protocol`, as requests are from theirs; some of its counts lie.
"""

from __future__ import annotations

import gzip
from functools import cache
from random import Random
from struct import calcsize, pack_into
from typing import Any

from barnabas.protocol.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, pack_header, set_crc
from barnabas.protocol.compression import Codec, compress
from barnabas.protocol.errors import EncodeError
from barnabas.protocol.kafka.consumer_protocol import ASSIGNMENT, SUBSCRIPTION
from barnabas.protocol.kafka.data import Data
from barnabas.protocol.limits import MANY
from barnabas.protocol.primitives import varint
from barnabas.protocol.requests.join_group import JoinGroupRequestProtocol
from barnabas.protocol.requests.sync_group import SyncGroupRequestAssignment
from tests.broker.node.world import START_WALL_MS

WITHIN: dict[tuple[type, str], Data] = {
    (JoinGroupRequestProtocol, "metadata"): SUBSCRIPTION,
    (SyncGroupRequestAssignment, "assignment"): ASSIGNMENT,
}
"""Bytes that have a form, by the message and the field that carry them."""
WITHIN_ELEMENTS = (0, 1, 300, MANY // 3, MANY - 10, MANY + 1)
COUNT_AT = 2
"""Where either says how much it holds, behind its version: an int32."""
COUNTS = (2**31 - 1, 2**24, MANY + 1, -1, -(2**31))
NUMBERS = (-1, 4, 32_767, -32_768)
"""Of versions that there are not: below 0 is refused, a later one is read as the last."""

HEADER = dict(zip(BatchHeader._fields, "qiibIhiqqqhii", strict=True))
"""Fields of a batch's header, with what they travel as."""
LIED = tuple(name for name in HEADER if name != "crc")
RECORD = ("length", "attributes", "timestamp_delta", "offset_delta", "key_length", "value_length", "headers")
"""Fields of a record, in their order; all but attributes (int8) are varints."""
CODECS = tuple(Codec)
SMALLEST = bytes([12, 0, 0, 0, 1, 1, 0])
"""Neither key nor value."""
PARTS = {
    Codec.GZIP: gzip.compress(b""),
    Codec.SNAPPY: b"\0\0\0\1\0",
    Codec.LZ4: bytes(compress(Codec.LZ4, b"")),
    Codec.ZSTD: bytes(compress(Codec.ZSTD, b"")),
}
"""The smallest members, blocks and frames: of these a batch may have a million, and holds nothing."""
PACKED = (40_000, 900_000)
XERIAL = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
BOMBS = (1_000, 100_000, 1_000_000, 1_000_001, 4_000_000)
"""Records of seven bytes: a batch may have a million, and four are 28 MB."""


def of_width(code: str) -> tuple[int, ...]:
    """Numbers at the limits of a field, by its `struct` letter."""
    top = 1 << (8 * calcsize(code) - 1)
    return (0, 1, -1, 7, top - 1, -top) if code.islower() else (0, 1, 2 * top - 1)


def records(random: Random) -> bytes:
    """What a partition of Produce carries: one batch, seldom several, or none that is whole."""
    if random.random() < 0.05:
        return random.choice((b"", batch(random)[0][:30]))
    return b"".join(batch(random)[0] for _ in range(random.choice((1, 1, 1, 2, 20))))


def batch(random: Random) -> tuple[bytes, tuple[str, ...]]:
    """A batch, and the names of what is not honest in it."""
    codec = random.choice(CODECS)
    if codec != Codec.NONE and random.random() < 0.1:
        count, lied = random.choice(BOMBS), ["bomb"]
        area = _bomb(int(codec), count)
    elif codec != Codec.NONE and random.random() < 0.03:
        count, lied = random.choice((0, 1, 300)), ["parts"]
        area = XERIAL if codec == Codec.SNAPPY else b""
        area += PARTS[codec] * (random.choice(PACKED) // len(PARTS[codec]))
    else:
        count = random.choice((1, 1, 3, 300))
        at = random.randrange(count) if random.random() < 0.4 else -1
        field = random.choice(RECORD)
        lied = [f"record.{field}"] if at >= 0 else []
        honest = [record(number) for number in range(count)]
        if at >= 0:
            honest[at] = record(at, field, random)
        area = bytes(compress(codec, b"".join(honest)))
    header: dict[str, int] = {
        "base_offset": 0,
        "length": HEADER_SIZE - LOG_OVERHEAD + len(area),
        "leader_epoch": -1,
        "magic": 2,
        "crc": 0,
        "attributes": int(codec),
        "last_offset_delta": count - 1,
        "base_timestamp": START_WALL_MS,
        "max_timestamp": START_WALL_MS,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "record_count": count,
    }
    if random.random() < 0.3:  # a producer's own
        header |= {"producer_id": random.randrange(50), "producer_epoch": 0, "base_sequence": 0}
    for _ in range(random.choice((0, 1, 1, 2))):
        name = random.choice(LIED)
        numbers = range(256) if name == "attributes" else of_width(HEADER[name])  # each bit of it says something
        header[name] = random.choice(numbers)
        lied.append(name)
        if name == "record_count" and random.random() < 0.5:  # both agree
            header["last_offset_delta"] = max(header[name] - 1, -(2**31))
    data = bytearray(HEADER_SIZE) + area
    pack_header(data, 0, *(header[name] for name in HEADER))
    set_crc(data, 0, len(data))
    return bytes(data), tuple(lied)


def record(number: int, extreme: str = "", random: Random | None = None) -> bytes:
    """An honest record with one header, or one of whose fields (`RECORD`) has an extreme instead."""
    said = {
        "attributes": 0,
        "timestamp_delta": 0,
        "offset_delta": number,
        "key_length": 1,
        "value_length": 1,
        "headers": 1,
    }
    length = None
    if random is not None:
        lie = random.choice(of_width({"attributes": "b", "timestamp_delta": "q"}.get(extreme, "i")))
        if extreme == "length":
            length = lie
        else:
            said[extreme] = lie
    body = b"".join(
        (
            (said["attributes"] & 0xFF).to_bytes(1, "big"),
            varint(said["timestamp_delta"]),
            varint(said["offset_delta"]),
            varint(said["key_length"]) + b"k",
            varint(said["value_length"]) + b"v",
            varint(said["headers"]) + varint(1) + b"h" + varint(-1),
        )
    )
    return varint(len(body) if length is None else length) + body


@cache
def _bomb(codec: int, count: int) -> bytes:
    return bytes(compress(codec, SMALLEST * count))


def said(random: Random, kind: Data, maker: Any) -> bytes:
    """A message of `kind` as its bytes; `maker` makes a struct by its field table."""
    version = random.randint(kind.first, kind.last)
    number = random.choice(NUMBERS) if random.random() < 0.1 else version
    while True:
        try:
            data = bytearray(kind.encode(maker(version).struct(kind.struct), version, number))
        except EncodeError:  # a string that is too long to be written
            continue
        break
    chance = random.random()
    if chance < 0.15:
        pack_into(">i", data, COUNT_AT, random.choice(COUNTS))
    elif chance < 0.2:
        del data[random.randrange(len(data)) :]
    return bytes(data)
