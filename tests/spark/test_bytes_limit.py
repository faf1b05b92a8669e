"""`maxBytesPerTrigger` and the bytes a query is behind: what the headers of the next batches tell of a log."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from barnabas import Consumer
from barnabas.client.sizes import BatchSize, sizes_in
from barnabas.protocol import batch as wire
from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge.bytes_limit import byte_count, bytes_between, limit_bytes
from barnabas.spark_bridge.errors import OptionError
from barnabas.spark_bridge.options import read_options
from barnabas.spark_bridge.source import StreamReader
from tests.spark.conftest import Cluster, Job

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


# ---- pure -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "count"),
    [("1", 1), ("1000", 1000), ("64k", 65536), ("10m", 10 << 20), ("1gb", 1 << 30), (" 2T ", 2 << 40), ("7b", 7)],
)
def test_sizes_are_spelt_as_spark_spells_them(text: str, count: int) -> None:
    assert byte_count(text) == count


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5m", "k", "10 m", "1x", "1bb"])
def test_what_is_no_size_is_refused(text: str) -> None:
    given = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", "maxBytesPerTrigger": text}
    with pytest.raises(OptionError, match=r"maxBytesPerTrigger: .* is no size of at least one byte: write"):
        read_options(given, "stream")


def test_what_is_looked_at_counts_exactly_and_the_rest_is_taken_to_be_like_it() -> None:
    sizes = {A: [BatchSize(10, 1000), BatchSize(20, 3000)]}
    assert bytes_between({A: 0}, {A: 10}, sizes) == {A: 1000}
    assert bytes_between({A: 0}, {A: 20}, sizes) == {A: 4000}
    assert bytes_between({A: 0}, {A: 120}, sizes) == {A: 24_000}
    assert bytes_between({A: 0, B: 5}, {A: 20, B: 25}, sizes) == {A: 4000, B: 4000}, "B is like the rest"
    assert bytes_between({A: 7}, {A: 7}, {}) == {}


def test_a_batch_ends_where_the_bytes_do() -> None:
    sizes = {A: [BatchSize(10, 1000), BatchSize(20, 1000), BatchSize(30, 1000)]}
    assert limit_bytes({A: 0}, {A: 30}, 3000, sizes) == {A: 30}
    assert limit_bytes({A: 0}, {A: 30}, 2999, sizes) == {A: 20}
    assert limit_bytes({A: 0}, {A: 30}, 1000, sizes) == {A: 10}
    assert limit_bytes({A: 0}, {A: 30}, 1, sizes) == {A: 10}, "a batch larger than the limit is read all the same"
    assert limit_bytes({A: 0}, {A: 1000}, 10_000, sizes) == {A: 100}, "seven batches more, if they are like those"


def test_partitions_share_the_bytes_in_proportion() -> None:
    even = {where: [BatchSize(at, 100) for at in range(1, 11)] for where in (A, B)}
    assert limit_bytes({A: 0, B: 0}, {A: 100, B: 300}, 4000, even) == {A: 10, B: 30}
    assert limit_bytes({A: 0, B: 0}, {A: 100, B: 0}, 4000, {A: even[A]}) == {A: 40, B: 0}


offsets = st.integers(0, 1000)


@given(st.data(), st.integers(1, 100_000))
def test_every_limited_batch_gets_on_and_ends_within_the_log(data: st.DataObject, bytes_max: int) -> None:
    start, end, sizes = {}, {}, {}
    for where in (A, B):
        start[where] = data.draw(offsets)
        end[where] = start[where] + data.draw(offsets)
        at, found = start[where], []
        for step, size in data.draw(st.lists(st.tuples(st.integers(1, 50), st.integers(61, 5000)), max_size=5)):
            at += step
            found.append(BatchSize(at, size))
        if found:
            sizes[where] = found
    limited = limit_bytes(start, end, bytes_max, sizes)
    for where in (A, B):
        assert start[where] <= limited[where] <= end[where]
        assert limited[where] > start[where] or end[where] == start[where]


def test_a_batch_that_is_cut_behind_its_header_tells_its_size() -> None:
    header = wire.BatchHeader(5, 300 - wire.LENGTH_AT - 4, 0, 2, 0, 0, 9, 0, 0, -1, -1, -1, 10)
    whole = bytearray(300)
    wire.write_header(whole, 0, header)
    assert list(sizes_in(bytes(whole))) == [BatchSize(15, 300)]
    assert list(sizes_in(bytes(whole[:61]))) == [BatchSize(15, 300)]
    assert list(sizes_in(bytes(whole) + bytes(whole[:60]))) == [BatchSize(15, 300)]
    assert list(sizes_in(bytes(100))) == [], "what is no batch is for its reader to complain about"


# ---- against a broker -----------------------------------------------------------------------------------------------


def test_the_broker_s_batches_tell_their_sizes(cluster: Cluster) -> None:
    topic = cluster.topic(2)
    for size in (10, 5000, 100_000, 20):
        cluster.put_one(topic, b"a" * size, None, [])
    first, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Consumer(bootstrap_servers=cluster.servers) as consumer:
        consumer.partitions_for(topic)
        found = consumer.batch_sizes({first: 0, empty: 0, TopicPartition("absent", 0): 0}, 64 * 1024)
        assert list(found) == [first]
        assert [each.next_offset for each in found[first]] == [1, 2, 3], "the last one it can see is cut"
        for each, size in zip(found[first], (10, 5000, 100_000), strict=True):
            assert size < each.bytes < size + 100
        assert consumer.batch_sizes({first: 4}, 64 * 1024) == {}
        assert consumer.batch_sizes({}, 64 * 1024) == {}


def reader_of(cluster: Cluster, topic: str, **options: str) -> StreamReader:
    given = {"kafka.bootstrap.servers": cluster.servers, "subscribe": topic, "startingOffsets": "earliest"}
    return StreamReader(read_options({**given, **options}, "stream"))


def test_batches_keep_to_about_so_many_bytes(cluster: Cluster) -> None:
    topic = cluster.topic(1)
    for _ in range(10):
        cluster.put_one(topic, b"a" * 1000, None, [])
    reader = reader_of(cluster, topic, maxBytesPerTrigger="3300")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxBytes(3300)
    offset, ends, behind = reader.initialOffset(), [], []
    while (later := reader.latestOffset(offset, limit)) != offset:
        offset = later
        ends.append(offset[topic]["0"])
        report = reader.reportLatestOffset()
        assert report is not None
        behind.append(int(report["$metrics"]["estimatedTotalBytesBehindLatest"]))
    assert ends == [3, 6, 9, 10]
    each = behind[0] / 7
    assert 1000 < each < 1100
    assert behind == [7 * each, 4 * each, each, 0]
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable())[topic] == {"0": 10}, "trigger once"
    reader.stop()


def test_the_smaller_of_two_limits_counts(cluster: Cluster) -> None:
    topic = cluster.topic(1)
    for _ in range(10):
        cluster.put_one(topic, b"a" * 1000, None, [])
    for rows, size, end in (("2", "8k", 2), ("8", "3300", 3)):
        reader = reader_of(cluster, topic, maxOffsetsPerTrigger=rows, maxBytesPerTrigger=size)
        limit = reader.getDefaultReadLimit()
        assert limit == ReadMaxRows(int(rows))
        assert reader.latestOffset(reader.initialOffset(), limit)[topic] == {"0": end}
        reader.stop()


@pytest.mark.spark
def test_a_query_reads_so_many_bytes_a_trigger(job: Callable[[str], Job], cluster: Cluster) -> None:
    topic = cluster.topic(1)
    for number in range(5):
        cluster.put_one(topic, b"%04d" % number + b" " * 1000, None, [])
    stream = job(topic)
    stream.run(startingOffsets="earliest", maxBytesPerTrigger="2300")
    assert stream.sizes == [2, 2, 1]
    assert sorted(stream.seen) == list(range(5))
    metrics = json.loads(stream.progress["sources"][0]["latestOffset"])["$metrics"]
    assert metrics["estimatedTotalBytesBehindLatest"] == "0"
