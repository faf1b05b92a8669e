"""Records built and decoded, against another client's codec, at the edges, and damaged."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol import batch
from barnabas.protocol.compression import Codec, HoldsTooMuch
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.records import (
    SLICE_BYTES,
    BatchBuilder,
    Record,
    decode_area,
    decode_records,
    decode_slices,
    decode_slices_of,
    encode_batch,
    record_area,
    single,
    walk_area,
    walk_next,
)
from tests.protocol.placing import placed

Fields = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

EDGES = [0, 1, 62, 63, 64, 65, 126, 127, 128, 2047, 2048, 8191, 8192, 8193, 20_000]
sized = st.one_of(st.none(), st.binary(max_size=40), st.sampled_from(EDGES).map(bytes))
headers = st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=5))), max_size=3).map(tuple)
times = st.one_of(st.integers(0, 2**40), st.sampled_from([0, 63, 64, 8191, 8192, 2047, 2048, 2**45]))
records = st.lists(st.tuples(times, sized, sized, headers), min_size=1, max_size=12)


def built(fields: list[Fields], codec: int = 0) -> bytearray:
    builder = BatchBuilder(1 << 30, codec)
    for timestamp, key, value, extra in fields:
        assert builder.try_append(timestamp, key, value, extra)
    return builder.build()


def many(count: int, value: bytes = b"v") -> list[Fields]:
    return [(1000, None, value, ())] * count


@settings(max_examples=150)
@given(records, st.sampled_from(list(Codec)))
def test_what_is_built_comes_back(fields: list[Fields], codec: Codec) -> None:
    data = built(fields, codec)
    assert batch.crc_ok(data, 0, len(data))
    placed(data, 0, 500, 1)
    assert decode_records(data) == [Record(500 + index, *entry) for index, entry in enumerate(fields)]
    header = batch.read_header(data)
    assert (header.record_count, header.last_offset_delta) == (len(fields), len(fields) - 1)
    assert (header.base_timestamp, header.max_timestamp) == (fields[0][0], max(entry[0] for entry in fields))
    assert list(batch.batches(data)) == [(0, len(data))]


@settings(max_examples=150)
@given(records)
def test_bytes_agree_with_another_client(fields: list[Fields]) -> None:
    theirs = DefaultRecordBatchBuilder(2, 0, False, 7, 3, 11, 1 << 30)
    for index, (timestamp, key, value, extra) in enumerate(fields):
        assert theirs.append(index, timestamp, key, value, list(extra))
    builder = BatchBuilder(1 << 30)
    for timestamp, key, value, extra in fields:
        builder.try_append(timestamp, key, value, extra)
    data = builder.build(7, 3, 11)
    expected = bytearray(theirs.build())
    placed(expected, 0, 0, -1)
    assert data == expected
    read = [
        (record.timestamp, record.key, record.value, tuple(record.headers))
        for record in DefaultRecordBatch(bytes(data))
    ]
    assert read == fields


@pytest.mark.parametrize("count", [1, 63, 64, 65, 2047, 2049, 8191, 8193, 20_000])
def test_many_records(count: int) -> None:
    decoded = decode_records(built(many(count)))
    assert [record.offset for record in decoded] == list(range(count))


@settings(max_examples=60)
@given(records, st.sampled_from(list(Codec)), st.integers(1, 13))
def test_slices_are_the_whole(fields: list[Fields], codec: Codec, count: int) -> None:
    data = built(fields, codec)
    slices = list(decode_slices(data, 0, count))
    assert [record for part in slices for record in part] == decode_records(data)
    for part in slices[:-1]:
        assert len(part) == count or sum(len(one.value or b"") + len(one.key or b"") + 60 for one in part) > SLICE_BYTES
    assert all(0 < len(part) <= count for part in slices)


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_many_headers_are_looked_at_in_several_goes(kind: type[bytes]) -> None:
    """21 KB of zstd held 40 million headers in 4,000 records: nobody was served for 18 s."""
    data = built([(at, b"k", None, (("", None),) * 999) for at in range(100)])
    header = batch.read_header(data)
    area = kind(data[61:])
    first = end = 0
    while first < 100:
        walked, end = walk_next(area, end, first, 100 - first)
        assert 1 <= walked.looked_at <= 6
        assert (walked.smallest_delta, walked.largest_delta) == (first, first + walked.looked_at - 1)
        assert walked.in_order
        first += walked.looked_at
    assert (first, end) == (100, len(area))
    with pytest.raises(HoldsTooMuch, match="headers"):
        walk_area(area, header)
    slices = list(decode_slices_of(area, header, 500))
    assert max(sum(len(record.headers) for record in part) for part in slices) < 10_000
    assert [record for part in slices for record in part] == decode_records(data)


@pytest.mark.parametrize("area", [b"", b"\x0c" + bytes(6) + b"\x0c\x00", b"\x01" * 40, b"\x0c" + bytes(40)])
def test_slices_refuse_what_is_no_record(area: bytes) -> None:
    header = batch.read_header(built(many(3)))
    data = bytearray(61) + area
    batch.write_header(data, 0, header._replace(length=len(data) - 12))
    with pytest.raises(ProtocolError):
        list(decode_slices(data, 0, 1))


@given(st.integers(62, 3000), st.lists(st.tuples(sized, sized, headers), min_size=1, max_size=30))
def test_the_bound_is_kept_and_size_is_exact(max_bytes: int, wanted: list[Any]) -> None:
    builder = BatchBuilder(max_bytes)
    for key, value, extra in wanted:
        before, count = builder.size, builder.count
        if builder.try_append(5, key, value, extra):
            assert builder.size == len(builder.build())
            assert builder.count == count + 1
            assert builder.size <= max_bytes or builder.count == 1
            assert builder.size > before
        else:
            assert (builder.size, builder.count) == (before, count)
            assert count > 0


def test_parts_may_be_gathered_at_any_time() -> None:
    data = []
    for every in (1, 3, 100):
        builder = BatchBuilder(1 << 20)
        for number in range(8):
            builder.try_append(
                5 + number, b"k%d" % number, None if number == 4 else b"v" * number, [("h", b"%d" % number)]
            )
            if number % every == 0:
                builder.gather()
                builder.gather()
        data.append(builder.build(9, 2, 40))
    assert data[0] == data[1] == data[2]
    assert [record.key for record in decode_records(data[0])] == [b"k%d" % number for number in range(8)]


def test_an_empty_batch_cannot_be_built() -> None:
    builder = BatchBuilder(100)
    with pytest.raises(ValueError, match="at least one record"):
        builder.build()


def test_identity_is_given_at_build_or_later() -> None:
    builder = BatchBuilder(100)
    builder.try_append(1, b"k", b"v")
    data = builder.build()
    assert batch.read_header(data)[9:12] == (-1, -1, -1)
    batch.set_producer(data, 0, len(data), 5, 1, 9)
    assert data == builder.build(5, 1, 9)
    assert batch.read_header(builder.build(5, 1, 9, transactional=True)).is_transactional


def test_compaction_keeps_offsets_horizon_and_producer() -> None:
    builder = BatchBuilder(1 << 20)
    for index in range(5):
        builder.try_append(1000 + index, b"k%d" % index, b"v")
    data = builder.build(9, 2, 40)
    placed(data, 0, 100, 3)
    header = batch.read_header(data)
    kept = [record for record in decode_records(data) if record.offset in (101, 103)]
    after = encode_batch(header, kept)
    assert batch.crc_ok(after, 0, len(after))
    assert decode_records(after) == kept
    again = batch.read_header(after)
    assert (again.base_offset, again.last_offset, again.record_count, again.max_timestamp) == (100, 104, 2, 1003)
    assert (again.producer_id, again.producer_epoch, again.base_sequence, again.leader_epoch) == (9, 2, 40, 3)
    horizon = header._replace(attributes=batch.DELETE_HORIZON | Codec.ZSTD, base_timestamp=5_000_000)
    stamped = encode_batch(horizon, kept)
    assert decode_records(stamped) == kept
    assert batch.read_header(stamped).base_timestamp == 5_000_000
    empty = encode_batch(header, [])
    assert decode_records(empty) == []
    assert (batch.read_header(empty).record_count, batch.read_header(empty).last_offset) == (0, 104)
    assert batch.read_header(empty).max_timestamp == header.max_timestamp


def patched(area: bytes, count: int, **fields: int) -> bytearray:
    header = batch.read_header(built(many(1)))._replace(record_count=count, **fields)
    data = bytearray(61) + area
    batch.write_header(data, 0, header._replace(length=len(data) - 12))
    return data


@pytest.mark.parametrize(
    ("area", "count", "message"),
    [
        ("", 1, "announces 1 records in 0 bytes"),
        ("0c000000010100", -1, "announces -1 records"),
        ("0c000000010100", 2**31 - 1, "announces 2147483647 records in 7 bytes"),
        ("0c000000010100ff", 1, "1 bytes follow the last of 1 records"),
        ("0e000000010100", 1, "announces 7 bytes, 6 are left"),
        ("0a0000000101000000", 1, "announces 5 bytes"),
        ("01000000010100", 1, "announces -1 bytes"),
        ("0e00000001010000", 1, "ends at byte 7, its length says 8"),
        ("0e00000003010000", 1, "field announces -2 bytes"),
        ("0e00000001080000", 1, "field announces 4 bytes at byte 6, 2 are left"),
        ("0e00000001010400", 1, "announces 2 headers"),
        ("0e00000001010100", 1, "announces -1 headers"),
        ("100000000101020100", 1, "null key"),
        ("8080808080010000000101", 1, "longer than 5 bytes"),
        ("0c0080808080808080", 1, "longer|ends|announces"),
    ],
)
def test_broken_records_are_refused(area: str, count: int, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        decode_records(patched(bytes.fromhex(area), count))


def test_a_header_key_that_is_no_text_survives_re_encoding() -> None:
    data = patched(bytes.fromhex("14" + "00000001" + "01" + "02" + "04ff61" + "01"), 1)
    batch.set_crc(data, 0, len(data))
    (record,) = decode_records(data)
    assert record.headers == (("\udcffa", None),)
    assert encode_batch(batch.read_header(data), [record]) == data


def test_a_cut_batch_is_refused() -> None:
    data = built(many(3))
    for size in range(len(data)):
        with pytest.raises(ProtocolError):
            decode_records(data[:size])


@pytest.mark.parametrize("codec", list(Codec))
def test_damaged_batches_are_read_or_refused(codec: Codec) -> None:
    random = Random(int(codec))
    good = built([(index, b"key", bytes(30), (("h", b"x"),)) for index in range(30)], codec)
    refused = 0
    for _ in range(400):
        data = bytearray(good)
        for _ in range(random.choice([1, 2, 5])):
            data[random.randrange(61, len(data))] = random.randrange(256)
        try:
            for record in decode_records(data):
                assert record.key is None or len(record.key) < len(good) * 50
        except ProtocolError:
            refused += 1
    assert refused > 40


@settings(max_examples=300)
@given(st.binary(max_size=120), st.integers(-2, 20))
def test_random_areas_are_read_or_refused(area: bytes, count: int) -> None:
    try:
        decoded = decode_records(patched(area, count))
    except ProtocolError:
        return
    assert len(decoded) == count


def test_the_fast_loop_agrees_with_strict_reading() -> None:
    """Records whose varints are longer than they need be are read all the same, as Kafka reads them."""
    # length 9, attributes, timestamp delta 1 in two bytes, offset delta 0 in three, null key, null value, no headers
    area = bytes.fromhex("12" + "00" + "8200" + "808000" + "01" + "01" + "00")
    assert decode_records(patched(area, 1)) == [Record(0, 1001, None, None)]


def test_any_class_can_take_the_fields() -> None:
    data = built(many(2))
    header = batch.read_header(data)
    assert decode_area(record_area(data, 0, header), header, lambda *fields: fields) == [
        (0, 1000, None, b"v", ()),
        (1, 1000, None, b"v", ()),
    ]
    assert repr(Record(1, 2, b"k", None)) == "Record(1, 2, b'k', None, ())"
    assert Record(1, 2, b"k", None) != Record(1, 2, b"k", b"")
    assert Record(1, 2, b"k", None) != 5


@pytest.mark.parametrize("key", [b"", b"k", b"k" * 63, b"k" * 64, b"k" * 3000])
@pytest.mark.parametrize("value", [None, b"", b"v" * 100, b"v" * 70_000])
def test_a_single_record_makes_the_batch_that_a_builder_makes(key: bytes, value: bytes | None) -> None:
    builder = BatchBuilder(1 << 20)
    assert builder.try_append(1_700_000_000_000, key, value)
    assert single(1_700_000_000_000, key, value) == builder.build()
