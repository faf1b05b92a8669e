"""Filters on partition, offset and timestamp: they spare reading, and change no result."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as f

from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge.filters import Narrowed, narrowed
from barnabas.spark_bridge.options import read_options
from barnabas.spark_bridge.source import BatchReader, FilteringReader
from tests.spark.conftest import Cluster

START = 1_700_000_000_000
OFFSET, PARTITION, TIMESTAMP = ("offset",), ("partition",), ("timestamp",)

comparisons = st.sampled_from(
    [f.EqualTo, f.EqualNullSafe, f.GreaterThan, f.GreaterThanOrEqual, f.LessThan, f.LessThanOrEqual]
)
filters = st.one_of(
    st.builds(lambda kind, path, value: kind(path, value), comparisons, st.sampled_from([OFFSET, PARTITION]),
              st.integers(-2, 9)),
    st.builds(lambda path, value: f.In(path, tuple(value)), st.sampled_from([OFFSET, PARTITION]),
              st.lists(st.integers(0, 9), max_size=3)),
    st.builds(lambda path: f.IsNotNull(path), st.sampled_from([OFFSET, PARTITION])),
    st.builds(lambda value: f.Not(f.EqualTo(OFFSET, value)), st.integers(0, 9)),
)  # fmt: skip


def lets_through(each: Any, partition: int, offset: int) -> bool:
    """What Spark makes of a filter."""
    if isinstance(each, f.Not):
        return not lets_through(each.child, partition, offset)
    found = offset if each.attribute == OFFSET else partition
    if isinstance(each, f.IsNotNull):
        return True
    if isinstance(each, f.In):
        return found in each.value
    answers: dict[str, bool] = {
        "EqualTo": found == each.value,
        "EqualNullSafe": found == each.value,
        "GreaterThan": found > each.value,
        "GreaterThanOrEqual": found >= each.value,
        "LessThan": found < each.value,
        "LessThanOrEqual": found <= each.value,
    }
    return answers[type(each).__name__]


@given(st.lists(filters, max_size=4))
def test_nothing_that_is_wanted_is_left_out(given_filters: list[Any]) -> None:
    where = [TopicPartition("t", number) for number in range(4)]
    start, end = narrowed(given_filters).clip(dict.fromkeys(where, 1), dict.fromkeys(where, 8))
    for each in where:
        assert 1 <= start[each] <= end[each]
        for offset in range(1, 8):
            wanted = all(lets_through(one, each.partition, offset) for one in given_filters)
            assert not wanted or start[each] <= offset < end[each]


def test_bounds_leave_nothing_to_read_that_they_exclude() -> None:
    two, three = TopicPartition("t", 2), TopicPartition("t", 3)
    found = narrowed([f.GreaterThan(OFFSET, 3), f.LessThanOrEqual(OFFSET, 5), f.In(PARTITION, (1, 3))])
    assert found.clip({two: 0, three: 0}, {two: 9, three: 9}) == ({two: 4, three: 4}, {two: 4, three: 6})


def test_of_timestamps_a_lower_bound_counts() -> None:
    noon = datetime(2026, 1, 1, 12, 0, 0, 1500, UTC)
    assert narrowed([f.GreaterThanOrEqual(TIMESTAMP, noon)]).since_ms == 1_767_268_800_001
    assert narrowed([f.LessThan(TIMESTAMP, noon)]) == Narrowed()
    assert narrowed([f.GreaterThan(TIMESTAMP, noon.replace(tzinfo=None))]) == Narrowed(), "whose noon is that?"
    assert narrowed([f.EqualTo(("value",), 3), f.StringStartsWith(("topic",), "a")]) == Narrowed()


def test_filters_are_pushed_only_where_they_are_asked_for() -> None:
    given_options = {"kafka.bootstrap.servers": "a:1", "subscribe": "t"}
    assert not read_options(given_options, "batch").push_filters
    assert read_options({**given_options, "pushFilters": "true"}, "batch").push_filters
    assert BatchReader.pushFilters is f.DataSourceReader.pushFilters, "PySpark refuses any read of one that has it"


@pytest.fixture
def reader(cluster: Cluster) -> FilteringReader:
    topic = cluster.topic(2)
    for second in range(5):
        cluster.put(topic, range(second * 4, second * 4 + 4), timestamp_ms=START + second * 1000)
    given_options = {"kafka.bootstrap.servers": cluster.servers, "subscribe": topic, "pushFilters": "true"}
    return FilteringReader(read_options(given_options, "batch"))


@pytest.mark.parametrize(
    ("given_filters", "spans"),
    [
        ([], [(0, 0, 10), (1, 0, 10)]),
        ([f.EqualTo(PARTITION, 1), f.LessThan(OFFSET, 4)], [(1, 0, 4)]),
        ([f.GreaterThan(TIMESTAMP, datetime.fromtimestamp(START / 1000 + 2.5, UTC))], [(0, 6, 10), (1, 6, 10)]),
        ([f.GreaterThan(TIMESTAMP, datetime.fromtimestamp(START / 1000 + 99, UTC))], [(0, 0, 0)]),
    ],
)
def test_less_is_read(
    reader: FilteringReader,
    given_filters: list[Any],
    spans: list[tuple[int, int, int]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert reader.pushFilters(given_filters) is given_filters, "Spark applies them again"
    assert ("load a DataFrame for each query" in caplog.text) == bool(given_filters)
    tasks: list[Any] = list(reader.partitions())
    assert [(task.partition, task.start, task.end) for task in tasks] == spans


@pytest.mark.spark
def test_a_query_with_filters_has_the_same_rows(spark: Any, cluster: Cluster) -> None:
    topic = cluster.topic(2)
    for second in range(5):
        cluster.put(topic, range(second * 4, second * 4 + 4), timestamp_ms=START + second * 1000)
    options = {"kafka.bootstrap.servers": cluster.servers, "subscribe": topic}
    wanted = f"partition = 1 AND offset >= 2 AND timestamp > timestamp_millis({START + 2500}) AND value <> '19'"
    plain = spark.read.format("barnabas").options(**options).load().where(wanted).orderBy("offset").collect()
    assert [bytes(row.value) for row in plain] == [b"13", b"15", b"17"]
    asked = spark.read.format("barnabas").options(**options, pushFilters="true")
    with pytest.raises(Exception, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
        asked.load().where(wanted).collect()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        assert asked.load().where(wanted).orderBy("offset").collect() == plain
        frame = asked.load()
        uses = [frame.where("partition = 0").count(), frame.count(), asked.load().count()]
        assert uses == [10, 10, 20], "20 in the middle: Spark keeps no plan any more, docs/SPARK.md can say so"
        ours = [asked.load().where(f"partition = {number}") for number in (0, 1)]
        assert ours[0].union(ours[1]).count() == 20
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
