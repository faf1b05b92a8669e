"""Spark's own connector, `format("kafka")`, on our broker: it reads and writes, and our source reads the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas import Consumer
from tests.examples.loading import example, promised
from tests.oracle.spark_connector import kept_connector
from tests.spark.conftest import Cluster, Job

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not kept_connector(), reason="Spark's own connector is not here: ./dev tools brings it"),
]

START = 1_700_000_000_000


@pytest.fixture(scope="module")
def sample(cluster: Cluster) -> str:
    """Forty numbers in two partitions, a second between one four and the next."""
    topic = cluster.topic()
    for index in range(10):
        cluster.put(topic, range(index * 4, index * 4 + 4), timestamp_ms=START + index * 1000)
    return topic


@pytest.fixture
def kafka_job(spark: Any, cluster: Cluster, tmp_path: Path) -> Callable[[str], Job]:
    return lambda topic: Job(spark, cluster.servers, topic, tmp_path / "checkpoint", source="kafka")


def records(cluster: Cluster, topic: str, count: int) -> list[Any]:
    """So many records of a topic, as our client reads them."""
    with Consumer(topic, bootstrap_servers=cluster.servers, auto_offset_reset="earliest") as consumer:
        found: list[Any] = []
        while len(found) < count:
            found += consumer.poll(30)
        return found


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"subscribe": "%s", "kafka.isolation.level": "read_committed"}, 40),
        ({"subscribePattern": "%s", "minPartitions": "7", "includeHeaders": "true"}, 40),
        ({"assign": '{"%s":[1]}'}, 20),
        ({"subscribe": "%s", "startingOffsets": '{"%s":{"0":3,"1":-2}}', "endingOffsets": '{"%s":{"0":7,"1":-1}}'}, 24),
        ({"subscribe": "%s", "startingTimestamp": str(START + 2500)}, 28),
        ({"subscribe": "%s", "endingOffsetsByTimestamp": '{"%s":{"0":1700000001000,"1":1700000099000}}'}, 22),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else "",
)
def test_both_sources_read_the_same(
    spark: Any, cluster: Cluster, sample: str, options: dict[str, str], count: int
) -> None:
    given = {name: text.replace("%s", sample) for name, text in options.items()}
    theirs, ours = (
        spark.read.format(name).option("kafka.bootstrap.servers", cluster.servers).options(**given).load()
        for name in ("kafka", "barnabas")
    )
    assert theirs.schema == ours.schema
    rows = sorted(theirs.collect(), key=lambda row: (row.partition, row.offset))
    assert len(rows) == count
    assert rows == sorted(ours.collect(), key=lambda row: (row.partition, row.offset))


def test_both_sources_cut_the_same_tasks(spark: Any, cluster: Cluster) -> None:
    """The shares of `minPartitions`, whatever they round to."""
    topic = cluster.topic(3)
    for partition, count in enumerate((61, 30, 7)):
        cluster.put(topic, range(partition, 3 * count, 3), partitions=3)

    def sizes(name: str, least: int) -> list[tuple[int, int, int]]:
        reader = spark.read.format(name).option("kafka.bootstrap.servers", cluster.servers).option("subscribe", topic)
        pieces = reader.option("minPartitions", least).load().selectExpr("spark_partition_id() AS task", "*")
        rows = pieces.groupBy("task", "partition").agg({"offset": "min", "*": "count"}).collect()
        return sorted((row.partition, row["min(offset)"], row["count(1)"]) for row in rows)

    for least in (3, 5, 9, 14):
        assert sizes("barnabas", least) == sizes("kafka", least)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_sink_writes_keys_headers_and_tombstones(spark: Any, cluster: Cluster, compression: str) -> None:
    topic, other = cluster.topic(), cluster.topic()
    rows = [
        (topic, "a", "1", 1, [("source", bytearray(b"EWR"))]),
        (topic, "b", None, 1, None),
        (other, None, "3", 0, [("x", None)]),
    ]
    columns = "topic string, key string, value string, partition int, headers array<struct<key: string, value: binary>>"
    writer = spark.createDataFrame(rows, columns).coalesce(1).write.format("kafka").option("includeHeaders", "true")
    writer.option("kafka.bootstrap.servers", cluster.servers).option("kafka.compression.type", compression).save()
    first, second = records(cluster, topic, 2)
    assert (first.key, first.value, first.partition, list(first.headers)) == (b"a", b"1", 1, [("source", b"EWR")])
    assert (second.key, second.value, second.partition, list(second.headers)) == (b"b", None, 1, [])
    (third,) = records(cluster, other, 1)
    assert (third.key, third.value, list(third.headers)) == (None, b"3", [("x", None)])


def test_a_crash_neither_loses_nor_repeats(kafka_job: Callable[[str], Job], cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.put(topic, range(6))
    stream = kafka_job(topic)
    stream.run(startingOffsets="earliest")
    cluster.put(topic, range(6, 12))
    stream.run(crash=True)
    cluster.put(topic, range(12, 18))
    stream.run()
    assert sorted(stream.seen) == list(range(18))
    assert stream.sizes == [6, 6, 6]


def test_a_checkpoint_goes_from_one_source_to_the_other_and_back(
    job: Callable[[str], Job], kafka_job: Callable[[str], Job], cluster: Cluster
) -> None:
    """In the midst of batches, too: what one has planned the other reads."""
    topic = cluster.topic()
    ours, theirs = job(topic), kafka_job(topic)
    cluster.put(topic, range(10))
    ours.run(startingOffsets="earliest")
    for count, (one, other) in enumerate([(ours, theirs), (theirs, ours)]):
        first = 10 + 20 * count
        cluster.put(topic, range(first, first + 10))
        one.run(crash=True)
        cluster.put(topic, range(first + 10, first + 20))
        other.run()
    assert sorted(ours.seen + theirs.seen) == list(range(50))
    assert (ours.sizes, theirs.sizes) == ([10, 10, 10], [10, 10])


def test_a_limit_new_partitions_and_what_is_gone(kafka_job: Callable[[str], Job], cluster: Cluster) -> None:
    from barnabas.protocol.ids import TopicPartition

    topic = cluster.topic(1)
    cluster.put(topic, range(20), partitions=1)
    stream = kafka_job(topic)
    stream.run(startingOffsets="earliest", maxOffsetsPerTrigger=8)
    assert stream.sizes == [8, 8, 4]
    assert json.loads(stream.progress["sources"][0]["endOffset"]) == {topic: {"0": 20}}
    cluster.admin.create_partitions(topic, 2)
    cluster.put(topic, range(20, 30))
    stream.run()
    assert sorted(stream.seen) == list(range(30))
    cluster.put(topic, range(30, 40))
    cluster.admin.delete_records({TopicPartition(topic, 0): 28})
    with pytest.raises(Exception, match=r"(?i)data may have been lost|failOnDataLoss"):
        stream.run()
    stream.run(failOnDataLoss="false")
    assert sorted(stream.seen)[30:] == [31, 33, 35, 36, 37, 38, 39]


def test_a_stream_from_topic_to_topic(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    source, target = cluster.topic(), cluster.topic()

    def run() -> None:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", cluster.servers)
        frame = reader.option("subscribe", source).option("startingOffsets", "earliest").load()
        doubled = frame.selectExpr("key", "CAST(2 * CAST(CAST(value AS STRING) AS INT) AS STRING) AS value")
        writer = doubled.writeStream.format("kafka").option("kafka.bootstrap.servers", cluster.servers)
        writer = writer.option("topic", target).option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert writer.trigger(availableNow=True).start().awaitTermination(240)

    cluster.put(source, range(10))
    run()
    cluster.put(source, range(10, 20))
    run()
    found = records(cluster, target, 20)
    assert sorted((int(record.key[1:]), int(record.value)) for record in found) == [(n, 2 * n) for n in range(20)]


def test_offsets_are_found_through_a_group_too(
    spark: Any, kafka_job: Callable[[str], Job], cluster: Cluster, sample: str
) -> None:
    """The older way: the driver subscribes as a member of a group instead of asking as an administrator."""
    spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
    try:
        stream = kafka_job(sample)
        options: dict[str, Any] = {"startingOffsets": "earliest", "kafka.group.id": "of-the-driver"}
        stream.run(**options)
    finally:
        spark.conf.unset("spark.sql.streaming.kafka.useDeprecatedOffsetFetching")
    assert sorted(stream.seen) == list(range(40))
    assert "of-the-driver" in {group.name for group in cluster.admin.list_groups()}


def test_the_example_prints_what_it_promises(
    spark: Any, cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = example("spark_kafka")
    job.main(cluster.servers, str(tmp_path))
    assert capsys.readouterr().out == promised(job.__doc__)
