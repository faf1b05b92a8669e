"""Columns against the plain decoder: the same records from the same bytes, and the same refusals."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.consume.batches import Batch, Walk
from barnabas.client.consume.columnar import Columns
from barnabas.client.consume.taken import Taken, decode_taken
from barnabas.protocol import batch as wire
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import Record, decode_records, encode_batch
from barnabas.protocol.requests.fetch import AbortedTransaction

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

START = 1_700_000_000_000

texts = st.one_of(st.none(), st.binary(max_size=200), st.sampled_from([b"x" * 127, b"y" * 8191, b"z" * 9000]))
headers = st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=5))), max_size=4)
rows = st.tuples(texts, texts, st.integers(-(2**40), 2**62), headers)


def make_batch(
    base_offset: int,
    rows: list[Any],
    *,
    codec: int = 0,
    attributes: int = 0,
    step: int = 1,
    producer_id: int = -1,
    last_delta: int | None = None,
) -> bytes:
    records = [
        Record(base_offset + index * step, START + delta, key, value, tuple(found))
        for index, (key, value, delta, found) in enumerate(rows)
    ]
    delta = max((len(rows) - 1) * step, 0) if last_delta is None else last_delta
    header = wire.BatchHeader(
        base_offset, 0, 3, 2, 0, attributes | codec, delta, START, START + 5, producer_id, 0, 0, len(rows)
    )
    return bytes(encode_batch(header, records))


def walked(data: bytes, position: int) -> tuple[list[Batch], int]:
    walk = Walk("t-0", memoryview(data), position)
    return list(walk), walk.next_position


def columns_of(data: bytes, position: int = 0, **options: Any) -> list[Columns]:
    return decoded([Taken(TopicPartition("t", 0), position, -1, memoryview(data), **options)])


def decoded(taken: list[Taken]) -> list[Columns]:
    found, left, error = decode_taken(taken, headers=True)
    if error is not None:
        raise error
    assert not left
    return found


def rows_of(found: list[Columns]) -> list[tuple[Any, ...]]:
    return [
        (
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            tuple((entry["key"], entry["value"]) for entry in row["headers"]),
        )
        for columns in found
        for row in with_plain_timestamps(columns)
    ]


def with_plain_timestamps(columns: Columns) -> list[dict[str, Any]]:
    import pyarrow as pa

    batch = columns.to_arrow()
    place = batch.schema.get_field_index("timestamp")
    return list(batch.set_column(place, "timestamp", columns.timestamp.cast(pa.int64())).to_pylist())


def as_arrow_reads(headers: Any) -> tuple[Any, ...]:
    """A key that is no UTF-8 keeps its bytes in a Python string, and is replaced in an Arrow one."""
    return tuple((key.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), value) for key, value in headers)


def plain_rows(data: bytes, position: int = 0) -> list[tuple[Any, ...]]:
    return [
        (record.offset, record.timestamp, record.key, record.value, as_arrow_reads(record.headers))
        for at, _ in wire.batches(data)
        for record in decode_records(data, at)
        if record.offset >= position
    ]


@given(st.lists(st.tuples(st.lists(rows, min_size=1, max_size=12), st.integers(0, 4)), max_size=4), st.data())
def test_columns_hold_what_the_plain_decoder_finds(described: list[Any], data: st.DataObject) -> None:
    raw, offset = b"", 0
    for found, codec in described:
        step = data.draw(st.sampled_from([1, 3, 100_000]))
        raw += make_batch(offset, found, codec=codec, step=step)
        offset += len(found) * step
    position = data.draw(st.integers(0, offset + 1))
    assert rows_of(columns_of(raw, position)) == plain_rows(raw, position)


def test_many_records_of_one_length_and_of_changing_lengths() -> None:
    even: list[Any] = [(b"k" * 8, b"v" * 100, index, []) for index in range(3000)]
    uneven: list[Any] = [(b"k", b"v" * (index % 97), index, []) for index in range(3000)]
    data = make_batch(0, even) + make_batch(3000, uneven) + make_batch(6000, even, codec=4)
    assert rows_of(columns_of(data)) == plain_rows(data)
    assert len(columns_of(data)[0]) == 9000


def test_a_batch_holds_its_broker_s_time_for_all_records() -> None:
    data = make_batch(0, [(b"a", b"b", 7, [])]) + make_batch(1, [(b"c", b"d", 7, [])], attributes=wire.LOG_APPEND_TIME)
    (columns,) = columns_of(data)
    assert [row["timestamp"] for row in with_plain_timestamps(columns)] == [START + 7, START + 5]
    assert columns.timestamp_type.to_pylist() == [0, 1]


def test_all_keys_null_and_nothing_at_all() -> None:
    (columns,) = columns_of(make_batch(0, [(None, None, 0, []), (None, b"", 0, [])]))
    assert columns.key.null_count == 2
    assert columns.value.to_pylist() == [None, b""]
    assert columns_of(b"") == []
    assert columns_of(make_batch(0, [(b"a", b"b", 0, [])]), 1) == []


def test_slices_share_the_columns() -> None:
    (columns,) = columns_of(make_batch(5, [(b"a", b"%d" % index, 0, []) for index in range(10)]))
    part = columns.slice(3, 4)
    assert part.headers is not None
    assert part.offset.to_pylist() == [8, 9, 10, 11]
    assert part.value.to_pylist() == [b"3", b"4", b"5", b"6"]
    assert part.headers.to_pylist() == [[]] * 4


def test_control_batches_and_aborted_data_are_passed_over() -> None:
    abort = b"\x00\x00\x00\x00"
    data = b"".join(
        [
            make_batch(0, [(None, b"aborted", 0, [])], attributes=wire.TRANSACTIONAL, producer_id=9),
            make_batch(1, [(None, b"plain", 0, [])]),
            make_batch(2, [(abort, b"", 0, [])], attributes=wire.TRANSACTIONAL | wire.CONTROL, producer_id=9),
            make_batch(3, [(None, b"later", 0, [])], attributes=wire.TRANSACTIONAL, producer_id=9),
            make_batch(4, [(abort, b"", 0, [])], attributes=wire.TRANSACTIONAL | wire.CONTROL, producer_id=8),
        ]
    )
    found = columns_of(data, aborted=[AbortedTransaction(9, 0)])
    assert [row[3] for row in rows_of(found)] == [b"plain", b"later"]
    assert [row[3] for row in rows_of(columns_of(data))] == [b"aborted", b"plain", b"later"]
    assert walked(data, 0)[1] == 5


def test_a_cut_last_batch_waits_for_the_next_fetch() -> None:
    first, second = make_batch(0, [(b"a", b"b", 0, [])]), make_batch(1, [(b"c", b"d" * 50, 0, [])])
    for cut in (1, 20, 70, len(second) - 1):
        batches, next_position = walked(first + second[:cut], 0)
        assert (len(batches), next_position) == (1, 1)


def test_compacted_batches_pass_the_position_over_what_is_gone() -> None:
    data = make_batch(0, [(b"a", b"b", 0, [])], last_delta=9) + make_batch(10, [], last_delta=4)
    assert walked(data, 3)[1] == 15
    assert columns_of(data, 3) == []


def test_a_wrong_checksum_is_named_and_may_be_ignored() -> None:
    data = bytearray(make_batch(7, [(b"key", b"value", 0, [])]))
    data[-2] ^= 1
    with pytest.raises(KafkaError, match=r"t-0.*offset 7.*checksum") as caught:
        columns_of(bytes(data))
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert len(columns_of(bytes(data), check_crcs=False)[0]) == 1


@given(st.lists(rows, min_size=1, max_size=6), st.data())
def test_corrupt_bytes_are_refused_or_read_as_the_plain_decoder_reads_them(
    found: list[Any], data: st.DataObject
) -> None:
    raw = bytearray(make_batch(0, found))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(wire.HEADER_SIZE, len(raw) - 1))
        raw[place] = data.draw(st.integers(0, 255))
    damaged = bytes(raw)
    try:
        expected = plain_rows(damaged)
    except ProtocolError:
        with pytest.raises(KafkaError) as caught:
            columns_of(damaged, check_crcs=False)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
        return
    offsets = [row[0] for row in plain_rows(damaged, -(2**63))]
    inside = all(0 <= offset < len(found) for offset in offsets)
    if offsets != sorted(set(offsets)) or not inside:  # only the columns' decoder minds
        with pytest.raises(KafkaError, match="offset"):
            columns_of(damaged, check_crcs=False)
    else:
        assert rows_of(columns_of(damaged, check_crcs=False)) == expected


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_broken_compressed_data_is_a_corrupt_message(codec: int) -> None:
    raw = bytearray(make_batch(0, [(b"k", b"v" * 500, 0, [])], codec=codec))
    raw[wire.HEADER_SIZE : wire.HEADER_SIZE + 12] = b"\xff" * 12
    with pytest.raises(KafkaError) as caught:
        columns_of(bytes(raw), check_crcs=False)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_count_its_bytes_cannot_hold_costs_no_memory() -> None:
    raw = bytearray(make_batch(0, [(b"k", b"v", 0, [])]))
    raw[wire.RECORD_COUNT_AT : wire.RECORD_COUNT_AT + 4] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(KafkaError, match="2147483647 records in"):
        columns_of(bytes(raw), check_crcs=False)


def test_large_areas_come_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.client.consume.taken.AREA_BYTES_MAX", 100)
    data = b"".join(make_batch(index, [(b"k", b"v" * 60, 0, [])]) for index in range(5))
    found = columns_of(data)
    assert [len(columns) for columns in found] == [1, 1, 1, 1, 1]
    assert rows_of(found) == plain_rows(data)


def parts_of(*described: tuple[int, bytes, int]) -> list[Taken]:
    return [
        Taken(TopicPartition("t", partition), position, -1, memoryview(raw), check_crcs=False)
        for partition, raw, position in described
    ]


def test_partitions_decoded_together_come_apart_again() -> None:
    first = make_batch(7, [(b"k", b"v%d" % index, index, [("h", b"1")]) for index in range(5)])
    second = make_batch(3, [(None, b"w%d" % index, index, []) for index in range(9)], attributes=wire.LOG_APPEND_TIME)
    found = decoded(parts_of((0, first, 9), (1, second, 0), (2, first, 12), (3, b"", 0)))
    assert [(columns.partition, len(columns)) for columns in found] == [(0, 3), (1, 9)]
    assert rows_of(found[:1]) == plain_rows(first, 9)
    assert found[1].value.to_pylist() == [b"w%d" % index for index in range(9)]
    assert found[1].timestamp_type.to_pylist() == [1] * 9
    assert found[0].timestamp_type.to_pylist() == [0] * 3


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_partitions_of_one_frame_in_any_order(order: tuple[int, ...]) -> None:
    raws = [make_batch(number, [(b"k%d" % number, b"v%d" % number, 0, [])] * 5) for number in range(3)]
    frame = memoryview(bytes(7) + b"".join(raws))
    parts = []
    for number in order:
        start = 7 + sum(map(len, raws[:number]))
        parts.append(Taken(TopicPartition("t", number), number, -1, frame[start : start + len(raws[number])]))
    found = decoded(parts)
    assert [each.partition for each in found] == list(order)
    for each in found:
        number = each.partition
        assert each.key.to_pylist() == [b"k%d" % number] * 5
        assert each.value.to_pylist() == [b"v%d" % number] * 5
        assert each.offset.to_pylist() == list(range(number, number + 5))


def test_a_corrupt_partition_does_not_hide_those_before_it() -> None:
    whole = make_batch(0, [(b"k", b"v", 0, [])])
    broken = bytearray(whole)
    broken[wire.HEADER_SIZE] = 2 * 50
    found, left, error = decode_taken(parts_of((0, whole, 0), (1, bytes(broken), 0), (2, whole, 0)))
    assert [columns.partition for columns in found] == [0]
    assert [each.where.partition for each in left] == [1, 2]
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.CORRUPT_MESSAGE
    assert "t-1, at or after offset 0" in str(error)


def test_batches_of_one_size_and_count_need_not_be_built_alike() -> None:
    data = make_batch(0, [(b"", b"v" * 20, 0, []), (b"", b"w" * 50, 0, [])])
    data += make_batch(2, [(b"", b"v" * 50, 0, []), (b"", b"w" * 20, 0, [])])
    assert rows_of(columns_of(data)) == plain_rows(data)


def test_short_batches_built_like_the_beginning_of_a_long_one() -> None:
    alike: list[Any] = [(None, b"v" * 100, index // 90, []) for index in range(400)]
    data, offset = b"", 0
    for count in (70, 400, 1, 65, 64, 399, 2):
        data += make_batch(offset, alike[:count])
        offset += count
    data += make_batch(offset, [(None, b"v" * 90, 0, []), (None, b"v" * 110, 0, [])])
    assert rows_of(columns_of(data)) == plain_rows(data)


@given(
    st.lists(rows, min_size=1, max_size=12),
    st.sets(st.sampled_from(["key", "value", "timestamp"])),
    st.booleans(),
)
def test_only_the_columns_that_are_wanted_hold_anything(found: list[Any], only: set[str], headers: bool) -> None:
    taken = [Taken(TopicPartition("t", 0), 0, -1, memoryview(make_batch(0, found)))]
    (whole,), _, _ = decode_taken(taken, headers=True)
    (narrow,), left, error = decode_taken(taken, headers=headers, only=only)
    assert not left
    assert error is None
    for name in ("key", "value", "timestamp"):
        column, all_of_it = getattr(narrow, name), getattr(whole, name)
        assert column.type == all_of_it.type
        assert len(column) == len(all_of_it)
        assert column.equals(all_of_it) if name in only else column.null_count == len(column)
    assert narrow.offset.equals(whole.offset)
    assert (narrow.headers is not None) == headers


def test_what_nobody_wants_is_checked_all_the_same() -> None:
    broken = bytearray(make_batch(0, [(b"key", b"value", 0, [])]))
    broken[-len(b"\x0avalue\x00")] = 0x7F  # the value's length: longer than its record
    taken = [Taken(TopicPartition("t", 0), 0, -1, memoryview(broken), check_crcs=False)]
    found, _, error = decode_taken(taken, only=())
    assert not found
    assert error is not None
