"""What a consumer took undecoded: checked and unpacked by whoever decodes it."""

from __future__ import annotations

import pytest

from barnabas.client.consume.taken import Taken, decode_taken
from barnabas.protocol import batch as wire
from barnabas.protocol.compression import Codec, compress
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import Record, encode_batch

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


def batch(base_offset: int, *values: bytes) -> bytes:
    records = [Record(base_offset + index, 7, None, value) for index, value in enumerate(values)]
    count = len(values)
    header = wire.BatchHeader(base_offset, 0, 0, 2, 0, 0, count - 1, 7, 7, -1, -1, -1, count)
    return bytes(encode_batch(header, records))


def taken(where: TopicPartition, raw: bytes, next_position: int, *, check_crcs: bool = True) -> Taken:
    return Taken(where, 0, next_position, memoryview(raw), None, check_crcs)


def broken(raw: bytes, at: int) -> bytes:
    changed = bytearray(raw)
    changed[at] ^= 1
    return bytes(changed)


def test_the_columns_of_all() -> None:
    pytest.importorskip("pyarrow")
    columns, left, error = decode_taken([taken(P0, batch(0, b"a") + batch(1, b"b"), 2), taken(P1, batch(0, b"c"), 1)])
    assert [(each.partition, each.value.to_pylist()) for each in columns] == [(0, [b"a", b"b"]), (1, [b"c"])]
    assert not left
    assert error is None


@pytest.mark.parametrize(
    ("place", "why"), [(wire.CRC_AT, "checksum"), (wire.HEADER_SIZE + 6, "checksum"), (16, "magic 3")]
)
def test_what_is_corrupt_is_left_with_all_behind_it(place: int, why: str) -> None:
    pytest.importorskip("pyarrow")
    all_three = [
        taken(P0, batch(0, b"a"), 1),
        taken(P1, broken(batch(0, b"b"), place), 1),
        taken(P2, batch(0, b"c"), 1),
    ]
    columns, left, error = decode_taken(all_three)
    assert [each.partition for each in columns] == [0]
    assert left == all_three[1:]
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.CORRUPT_MESSAGE
    assert "t-1" in str(error)
    assert why in str(error)


def test_records_that_break_their_framing_are_found_one_by_one() -> None:
    pytest.importorskip("pyarrow")
    wrong = bytearray(batch(0, b"b"))
    wrong[wire.HEADER_SIZE] = 2 * 50
    all_three = [
        taken(where, raw, 1, check_crcs=False)
        for where, raw in ((P0, batch(0, b"a")), (P1, bytes(wrong)), (P2, batch(0, b"c")))
    ]
    columns, left, error = decode_taken(all_three)
    assert [each.partition for each in columns] == [0]
    assert left == all_three[1:]
    assert "t-1, at or after offset 0" in str(error)


def test_batches_whose_offsets_do_not_rise_are_refused() -> None:
    pytest.importorskip("pyarrow")
    columns, left, error = decode_taken([taken(P0, batch(8, b"a") + batch(1, b"b"), 2)])
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.CORRUPT_MESSAGE
    assert "t-0, at or after offset 9: offsets that do not rise: 1 behind 8" in str(error)
    assert [each.offset.to_pylist() for each in columns] == [[8]]
    assert [each.position for each in left] == [9]


def test_what_was_compressed_is_unpacked_here() -> None:
    plain = batch(0, b"a" * 100)
    area = compress(Codec.GZIP, plain[wire.HEADER_SIZE :])
    raw = bytearray(plain[: wire.HEADER_SIZE] + bytes(area))
    raw[wire.LENGTH_AT : wire.LENGTH_AT + 4] = (len(raw) - wire.LOG_OVERHEAD).to_bytes(4, "big")
    raw[wire.ATTRIBUTES_AT + 1] |= Codec.GZIP
    wire.set_crc(raw, 0, len(raw))
    (found,) = taken(P0, bytes(raw), 1).areas()
    assert bytes(found.data) == plain[wire.HEADER_SIZE :]
