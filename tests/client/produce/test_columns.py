"""Columns into batches: every record as the one-by-one way writes it, and every refusal with name, value and remedy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.errors import InvalidRecord, RecordTooLarge
from barnabas.client.produce.batch import ProducerBatch
from barnabas.client.produce.columns.murmur2 import murmur2_of
from barnabas.client.produce.columns.rows import CHOSEN, Chunk, Rows
from barnabas.client.produce.partitioner import murmur2, partition_for_key
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import decode_records

pa = pytest.importorskip("pyarrow")

NOW_MS = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

octets = st.none() | st.binary(max_size=20) | st.sampled_from([b"x" * 63, b"y" * 64, b"z" * 300])
header = st.tuples(st.text(st.characters(codec="utf-8"), max_size=4), st.none() | st.binary(max_size=4))
row = st.tuples(
    octets,
    octets,
    st.none() | st.integers(0, 2**40) | st.just(2**62),
    st.none() | st.integers(0, 3),
    st.lists(header, max_size=2),
)


def batch_of(chunk: Chunk) -> bytes:
    batch = ProducerBatch(TopicPartition("t", 0), bytearray(chunk.size), 0)
    batch.fill(chunk.area, len(chunk.rows), chunk.base_timestamp_ms, chunk.max_timestamp_ms)
    return bytes(memoryview(batch.seal(0)[0]))


def table_of(rows: list[Any]) -> Any:
    key, value, stamp, partition, headers = zip(*rows, strict=True)
    return pa.table(
        {
            "key": pa.array(key, pa.binary()),
            "value": pa.array(value, pa.binary()),
            "timestamp": pa.array(stamp, pa.int64()),
            "partition": pa.array(partition, pa.int32()),
            "headers": pa.array([[{"key": name, "value": data} for name, data in each] for each in headers], HEADERS),
        }
    )


@given(st.lists(row, min_size=1, max_size=40), st.integers(1, 7), st.sampled_from([100, 1000, 100_000]))
def test_every_record_is_what_was_given(rows: list[Any], partitions: int, batch_bytes: int) -> None:
    found: dict[int, Any] = {}
    order: dict[int, list[int]] = {}
    for chunk in Rows(table_of(rows), None, NOW_MS).chunks(partitions, batch_bytes):
        assert chunk.size <= batch_bytes or len(chunk.rows) == 1
        records = list(decode_records(batch_of(chunk)))
        assert [record.offset for record in records] == list(range(len(chunk.rows)))
        order.setdefault(chunk.partition, []).extend(chunk.rows.tolist())
        for place, record in zip(chunk.rows.tolist(), records, strict=True):
            found[place] = (record.key, record.value, record.timestamp, chunk.partition, list(record.headers))
    for index, (key, value, stamp, partition, headers) in enumerate(rows):
        where = partition
        if where is None:
            where = CHOSEN if key is None else partition_for_key(key, partitions)
        assert found[index] == (key, value, NOW_MS if stamp is None else stamp, where, headers)
    assert len(found) == len(rows)
    assert all(places == sorted(places) for places in order.values())


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=50))
def test_a_column_of_keys_is_hashed_as_each_key(keys: list[bytes]) -> None:
    array = pa.array([b"before", *keys], pa.binary())[1:]
    assert murmur2_of(array).tolist() == [murmur2(key) & 0xFFFFFFFF for key in keys]


def test_many_rows_are_encoded_in_parts_and_none_is_missing() -> None:
    values = [b"%d" % index for index in range(100_000)]
    chunks = list(Rows({"value": values}, 2, NOW_MS).chunks(4, 16_384))
    assert {chunk.partition for chunk in chunks} == {2}
    assert [value for chunk in chunks for value in (each.value for each in decode_records(batch_of(chunk)))] == values


def test_large_rows_are_encoded_a_few_at_a_time() -> None:
    chunks = Rows({"value": [b"v" * 3_000_000] * 9}, 0, NOW_MS).chunks(1, 262_144)
    assert [chunk.rows.tolist() for chunk in chunks] == [[index] for index in range(9)]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", None, "ö"], pa.string()),
        pa.array(["a", None, "ö"], pa.large_string()),
        pa.array([b"a", None, "ö".encode()], pa.large_binary()),
        pa.array(["a", None, "ö"]).dictionary_encode(),
        pa.chunked_array([["a"], [None, "ö"]], pa.string()),
        ["a", None, "ö"],
    ],
)
def test_text_and_bytes_of_every_kind_are_taken(values: Any) -> None:
    [chunk] = Rows({"value": values}, 0, NOW_MS).chunks(1, 1000)
    assert [record.value for record in decode_records(batch_of(chunk))] == [b"a", None, "ö".encode()]


def test_a_frame_of_pandas_and_columns_of_a_consumer_are_taken() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"key": ["k", None], "value": ["a", "b"], "timestamp": pandas.to_datetime([5, 7], unit="ms")}
    )
    [chunk] = Rows(frame, 0, NOW_MS).chunks(1, 1000)
    records = list(decode_records(batch_of(chunk)))
    assert [(each.key, each.value, each.timestamp) for each in records] == [(b"k", b"a", 5), (None, b"b", 7)]
    heard = pa.RecordBatch.from_pydict({"value": [b"v"], "topic": ["t"], "offset": [7], "timestamp_type": [0]})
    assert [len(chunk.rows) for chunk in Rows(heard, 0, NOW_MS).chunks(1, 1000)] == [1]


def test_no_rows_are_no_chunks() -> None:
    rows = Rows(pa.table({"value": pa.array([], pa.binary())}), None, NOW_MS)
    rows.check_sizes({"max.request.size": 10})
    assert list(rows.chunks(4, 1000)) == []


@pytest.mark.parametrize(
    ("columns", "partition", "words"),
    [
        ([1, 2], None, "list is no table; give a pyarrow Table"),
        ({"value": [1, 2]}, None, "column 'value': int64 is neither bytes nor text; encode it, or cast it"),
        ({"value": [b"a", 1]}, None, "column 'value': "),
        (
            {"value": [b"a"], "colour": [b"a"]},
            None,
            "'colour' is no part of a record (value, key, timestamp, partition",
        ),
        ({"timestamp": [1]}, None, 'there is neither "value" nor "key"'),
        ({"value": [b"a"], "key": [b"a", b"b"]}, None, "of different lengths: {'value': 1, 'key': 2}"),
        ({"value": [b"a"], "timestamp": [-5]}, None, "column 'timestamp': -5 is not between 0 and"),
        ({"value": [b"a"], "timestamp": ["now"]}, None, "column 'timestamp': string is no time"),
        ({"value": [b"a"], "partition": [-1]}, None, "column 'partition': -1 is not between 0 and 2147483647"),
        ({"value": [b"a"], "partition": [1.5]}, None, "column 'partition': double holds no whole numbers"),
        ({"value": [b"a"], "partition": [1]}, 1, "given as an argument and as a column"),
        ({"value": [b"a"]}, -3, "partition -3 is negative"),
        ({"value": [b"a"], "headers": [["a"]]}, None, "column 'headers': list<"),
    ],
)
def test_what_is_no_record_is_refused_by_name(columns: Any, partition: int | None, words: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        Rows(columns, partition, NOW_MS)
    assert words in str(refused.value)


def test_a_row_that_can_never_leave_is_named() -> None:
    rows = Rows({"value": [b"a"] * 40_000 + [b"b" * 2000]}, None, NOW_MS)
    with pytest.raises(
        RecordTooLarge, match=r"row 40000: a record of up to 2\d\d\d bytes is larger than max.request.size"
    ):
        rows.check_sizes({"buffer.memory": 5000, "max.request.size": 2000})
