"""`spark.read.format("barnabas")` against a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.spark_bridge.schema import TYPES, arrow_schema, names_of
from tests.spark.conftest import Cluster

pytestmark = pytest.mark.spark

START = 1_700_000_000_000


def numbers(frame: Any) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def test_the_schema_and_the_values_are_those_of_kafka_s_source(read: Callable[..., Any], cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.put(topic, range(4), timestamp_ms=START)
    frame = read(topic)
    assert [(field.name, field.dataType.simpleString(), field.nullable) for field in frame.schema] == [
        ("key", "binary", True),
        ("value", "binary", True),
        ("topic", "string", True),
        ("partition", "int", True),
        ("offset", "bigint", True),
        ("timestamp", "timestamp", True),
        ("timestampType", "int", True),
    ]
    rows = frame.orderBy("partition", "offset").collect()
    assert [(bytes(row.key), bytes(row.value), row.topic, row.partition, row.offset) for row in rows] == [
        (b"k0", b"0", topic, 0, 0),
        (b"k2", b"2", topic, 0, 1),
        (b"k1", b"1", topic, 1, 0),
        (b"k3", b"3", topic, 1, 1),
    ]
    assert {row.timestamp.timestamp() * 1000 for row in rows} == {START}
    assert {row.timestampType for row in rows} == {0}


def test_headers_and_nulls(read: Callable[..., Any], cluster: Cluster) -> None:
    topic = cluster.topic(1)
    cluster.put_one(topic, None, None, [("a", b"1"), ("a", None)])
    cluster.put_one(topic, b"v", b"", [])
    rows = read(topic, includeHeaders="true").orderBy("offset").collect()
    assert [(row.key, row.value) for row in rows] == [(None, None), (bytearray(b""), bytearray(b"v"))]
    assert [(entry.key, entry.value) for entry in rows[0].headers] == [("a", bytearray(b"1")), ("a", None)]
    assert rows[1].headers is None


def test_arrow_batches_have_exactly_the_schema_that_spark_expects(read: Callable[..., Any], cluster: Cluster) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    topic = cluster.topic(1)
    for headers in (False, True):
        frame = read(topic, includeHeaders=str(headers))
        expected = to_arrow_schema(frame.schema, timezone="UTC", prefers_large_types=False)
        assert arrow_schema(names_of(headers)) == expected


def test_offsets_and_timestamps_bound_a_batch(read: Callable[..., Any], cluster: Cluster) -> None:
    topic = cluster.topic()
    for index in range(5):
        cluster.put(topic, range(index * 2, index * 2 + 2), timestamp_ms=START + index * 1000)
    offsets = json.dumps({topic: {"0": 1, "1": -2}}), json.dumps({topic: {"0": 3, "1": -1}})
    assert numbers(read(topic, startingOffsets=offsets[0], endingOffsets=offsets[1])) == [1, 2, 3, 4, 5, 7, 9]
    assert numbers(read(topic, startingTimestamp=START + 2500)) == [6, 7, 8, 9]
    times = json.dumps({topic: {"0": START + 1000, "1": START + 9000}})
    assert numbers(read(topic, endingOffsetsByTimestamp=times)) == [0, 1, 3, 5, 7, 9]
    latest = {"startingTimestamp": START + 99_000, "startingOffsetsByTimestampStrategy": "latest"}
    assert numbers(read(topic, **latest)) == []


def test_assign_pattern_and_split_tasks(read: Callable[..., Any], spark: Any, cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.put(topic, range(100))
    reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", cluster.servers)
    assert numbers(reader.option("assign", json.dumps({topic: [1]})).load()) == list(range(1, 100, 2))
    reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", cluster.servers)
    assert numbers(reader.option("subscribePattern", f"{topic[:-1]}[{topic[-1]}]").load()) == list(range(100))
    assert read(topic).rdd.getNumPartitions() == 2
    split = read(topic, maxRecordsPerPartition=20)
    assert split.rdd.getNumPartitions() == 6
    assert numbers(split) == list(range(100))
    assert read(topic, minPartitions=8).rdd.getNumPartitions() == 8


def test_a_pattern_without_a_match_and_partitions_that_are_not_there_give_no_rows(spark: Any, cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.put(topic, range(4))
    reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", cluster.servers)
    assert numbers(reader.option("subscribePattern", "nothing-is-called-so.*").load()) == []
    for assigned, expected in (([0, 7], [0, 2]), ([7], [])):
        reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", cluster.servers)
        assert numbers(reader.option("assign", json.dumps({topic: assigned})).load()) == expected


def test_sql_finds_the_format_by_its_name(spark: Any, cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.put(topic, range(10))
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW flights USING barnabas "
        f"OPTIONS (`kafka.bootstrap.servers` '{cluster.servers}', subscribe '{topic}')"
    )
    assert spark.sql("SELECT count(*) AS n FROM flights").collect()[0].n == 10


def test_a_table_without_its_options_is_told_of_the_view(spark: Any, cluster: Cluster) -> None:
    """Spark hands a reader none of what CREATE TABLE was given."""
    topic = cluster.topic(1)
    spark.sql(
        f"CREATE TABLE lost USING barnabas OPTIONS('kafka.bootstrap.servers' '{cluster.servers}', subscribe '{topic}')"
    )
    try:
        with pytest.raises(Exception, match=r"none was given. If this is a table, .*: use CREATE TEMPORARY VIEW"):
            spark.table("lost").collect()
    finally:
        spark.sql("DROP TABLE lost")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "absent"}, "does not have absent: create the topic"),
        ({"startingOffsets": "latest"}, "a batch cannot start at latest"),
        ({"endingOffsets": "earliest"}, "a batch cannot end at earliest"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset is not supported"),
        ({"path": "flights"}, "reads topics, not the path 'flights'"),
        (
            {"startingOffsets": '{"%s":{"0":7}}'},
            "startingOffsets lies beyond the end of the log: topic-.* ends at 1, not 7",
        ),
        ({"kafka.fetch.min.byte": "1"}, "unknown setting 'fetch.min.byte'; did you mean 'fetch.min.bytes'"),
        ({"assign": "{}"}, "exactly one of the options"),
        ({"startingTimestamp": str(START * 2)}, "as young as the starting timestamp"),
        ({"subscribe": "a b"}, "a b, asked for by the option subscribe. A topic's name has letters, digits"),
    ],
)
def test_refused_options_say_why(
    read: Callable[..., Any], cluster: Cluster, options: dict[str, str], message: str
) -> None:
    topic = cluster.topic(1)
    cluster.put(topic, range(1), partitions=1)
    named = {name: text.replace("%s", topic) for name, text in options.items()}
    with pytest.raises(Exception, match=message):
        read(topic, **named).collect()


def test_records_that_are_gone_fail_the_batch_or_are_passed(read: Callable[..., Any], cluster: Cluster) -> None:
    from barnabas.protocol.ids import TopicPartition

    topic = cluster.topic(1)
    cluster.put(topic, range(10), partitions=1)
    frame = {"startingOffsets": json.dumps({topic: {"0": 2}})}
    cluster.admin.delete_records({TopicPartition(topic, 0): 5})
    with pytest.raises(Exception, match="failOnDataLoss"):
        read(topic, **frame).collect()
    assert numbers(read(topic, failOnDataLoss="false", **frame)) == [5, 6, 7, 8, 9]


def test_a_frame_reads_up_to_where_the_logs_ended_when_it_was_used_first(
    read: Callable[..., Any], cluster: Cluster
) -> None:
    """Spark asks a Python source for one plan a frame, its own source for one each time."""
    topic = cluster.topic(1)
    cluster.put(topic, range(3), partitions=1)
    frame = read(topic)
    assert frame.count() == 3
    cluster.put(topic, range(3, 5), partitions=1)
    assert frame.count() == 3
    assert read(topic).count() == 5


@pytest.mark.parametrize(
    "names",
    [
        ["value"],
        ["offset", "value", "partition"],
        ["timestamp"],
        ["topic", "timestampType"],
        ["headers"],
        ["partition"],
        list(reversed(TYPES)),
    ],
    ids="-".join,
)
def test_a_narrower_schema_reads_the_same_values(spark: Any, cluster: Cluster, names: list[str]) -> None:
    topic = cluster.topic(1)
    for key, value, headers in ((b"k", b"v", [("a", b"1")]), (None, b"", []), (b"", None, [("b", None)])):
        cluster.put_one(topic, value, key, headers)
    options = {"kafka.bootstrap.servers": cluster.servers, "subscribe": topic}
    whole = spark.read.format("barnabas").options(**options, includeHeaders="true").load()
    wanted = whole.orderBy("offset").select(*names)
    schema = ", ".join(f"{name} {TYPES[name]}" for name in names)
    narrow = spark.read.format("barnabas").options(**options).schema(schema).load()
    assert narrow.schema == wanted.schema
    assert narrow.collect() == wanted.collect()
    assert narrow.count() == 3


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("a int", "a column 'a', which no record has"),
        ("values binary", "did you mean 'value'"),
        ("value string", "value as string, but it is binary"),
        ("value binary, value binary", "names value twice"),
        ("value binary NOT NULL", "NOT NULL of value"),
    ],
)
def test_a_schema_of_what_is_not_there_is_refused(spark: Any, cluster: Cluster, schema: str, message: str) -> None:
    reader = spark.read.format("barnabas").option("kafka.bootstrap.servers", cluster.servers)
    with pytest.raises(Exception, match=message):
        reader.option("subscribe", cluster.topic(1)).schema(schema).load().collect()
