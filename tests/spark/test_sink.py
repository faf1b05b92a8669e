"""Writing topics: by writers as tasks call them, and by Spark's batches and streams."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from barnabas import Consumer
from barnabas.spark_bridge import sink
from barnabas.spark_bridge.sink import BatchWriter, SinkError, Written
from barnabas.spark_bridge.sink_options import SinkOptions
from tests.spark.conftest import Cluster

pytestmark = pytest.mark.spark


def records(cluster: Cluster, topic: str, count: int) -> list[Any]:
    """So many records of a topic, by partition and offset."""
    with Consumer(topic, bootstrap_servers=cluster.servers, auto_offset_reset="earliest") as consumer:
        found: list[Any] = []
        while len(found) < count:
            found += consumer.poll(30)
    return sorted(found, key=lambda record: (record.partition, record.offset))


def numbers_in(cluster: Cluster, topic: str) -> list[int]:
    """All numbers of a topic, as they are now."""
    with Consumer(bootstrap_servers=cluster.servers) as consumer:
        ends = consumer.end_offsets([*_partitions(cluster, topic)])
    return [int(record.value) for record in records(cluster, topic, sum(ends.values()))]


def _partitions(cluster: Cluster, topic: str) -> list[Any]:
    from barnabas.protocol.ids import TopicPartition

    (info,) = cluster.admin.describe_topics(topic).values()
    return [TopicPartition(topic, each.partition) for each in info.partitions]


# ---- as a task calls it ---------------------------------------------------------------------------------------------


def writer(cluster: Cluster, topic: str | None, *columns: str, **settings: Any) -> BatchWriter:
    client = {"bootstrap.servers": cluster.servers, **{name.replace("_", "."): v for name, v in settings.items()}}
    return cast("BatchWriter", pickle.loads(pickle.dumps(BatchWriter(SinkOptions(client, topic, columns)))))


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"value": [str(value) for value in values]})


def test_a_task_that_ends_has_written_everything(cluster: Cluster) -> None:
    topic = cluster.topic(1)
    message = writer(cluster, topic, "value").write(iter([numbers(1, 2), numbers(), numbers(3)]))
    assert message == Written(3)
    assert numbers_in(cluster, topic) == [1, 2, 3]
    assert writer(cluster, topic, "value").write(iter([])) == Written(0)


def test_the_next_task_takes_the_producer_of_the_last(cluster: Cluster) -> None:
    topic = cluster.topic(1)
    kept = []
    for number in (1, 2):
        job = writer(cluster, topic, "value", client_id="kept")
        job.write(iter([numbers(number)]))
        producer = sink._idle.take(job.options.client)
        assert producer is not None
        sink._idle.put(job.options.client, producer)
        kept.append(producer)
    first, second = kept
    assert first is second
    assert first.config.enable_idempotence


def test_a_topic_that_is_made_anew_between_two_tasks_is_written_on(cluster: Cluster) -> None:
    """The producer that was kept knows the old one."""
    topic = cluster.topic(2)
    for rows in (range(10), range(10, 15)):
        writer(cluster, topic, "value", client_id="anew").write(iter([numbers(*rows)]))
        if not rows.start:
            cluster.admin.delete_topic(topic)
            cluster.admin.create_topic(topic, partitions=2)
    assert sorted(numbers_in(cluster, topic)) == list(range(10, 15))


def test_a_task_that_is_tried_again_repeats_its_own_rows_alone(cluster: Cluster) -> None:
    topic = cluster.topic(1)
    writer(cluster, topic, "value").write(iter([numbers(1, 2)]))

    def fails_on_the_way() -> Iterator[pa.RecordBatch]:
        yield numbers(3, 4)
        raise RuntimeError("the worker's input broke")

    with pytest.raises(RuntimeError, match="broke"):
        writer(cluster, topic, "value").write(fails_on_the_way())
    writer(cluster, topic, "value").write(iter([numbers(3, 4), numbers(5)]))
    found = numbers_in(cluster, topic)
    assert found[:2] == [1, 2]
    assert found[-3:] == [3, 4, 5]
    assert found[2:-3] in ([], [3, 4]), "of the first try, whole batches or nothing"


def test_what_cannot_be_written_names_the_topic(cluster: Cluster) -> None:
    topic = cluster.topic(1)
    beyond = pa.record_batch({"value": [b"x"], "partition": pa.array([7], pa.int32())})
    with pytest.raises(SinkError, match=rf"topic {topic}: row 0 .*: partition 7 .*has no partition 7; it has 1"):
        writer(cluster, topic, "value", "partition", max_block_ms=200).write(iter([beyond]))


@pytest.mark.parametrize("by_column", [False, True], ids=["option", "column"])
def test_a_record_too_large_is_named_by_its_row_in_the_task_and_its_key(cluster: Cluster, by_column: bool) -> None:
    """Not by its place in whatever batch of rows Spark handed over."""
    topic, other = cluster.topic(1, **{"max.message.bytes": 1500}), cluster.topic(1)

    def rows(count: int, **large: int) -> pa.RecordBatch:
        keys = [f"k{number}" for number in range(count)]
        topics = [topic if number % 2 or not by_column else other for number in range(count)]
        return pa.record_batch({"topic": topics, "key": keys, "value": [b"x" * large.get(key, 1) for key in keys]})

    named = rf"topic {topic}: row 15 of its task \(counted from 0\), key '?k5'?: "
    batches = [rows(10), rows(10, k5=2000)]
    where = None if by_column else topic
    columns = ("topic", "key", "value")
    with pytest.raises(SinkError, match=named + r".* larger than max\.request\.size \(1000\)\. Raise"):
        writer(cluster, where, *columns, max_request_size=1000).write(iter(batches))
    with pytest.raises(SinkError, match=named + ".*MESSAGE_TOO_LARGE"):  # the broker refuses it, and it alone
        writer(cluster, where, *columns).write(iter(batches))


def test_a_broker_that_refuses_is_heard_of_while_rows_come(cluster: Cluster) -> None:
    """A task of many rows does not send all of them before it fails."""
    topic = cluster.topic(1, **{"max.message.bytes": 100})
    room = 20  # rows that the producer's buffer holds
    asked = 0

    def many() -> Iterator[pa.RecordBatch]:
        nonlocal asked
        while asked < 10 * room:
            asked += 1
            yield pa.record_batch({"value": [os.urandom(5000)]})

    with pytest.raises(SinkError, match=f"topic {topic}: "):
        writer(cluster, topic, "value", buffer_memory=room * 5000).write(many())
    assert asked <= 2 * room, "what fills the buffer anew comes after a refusal"


# ---- through Spark --------------------------------------------------------------------------------------------------


def write(frame: Any, cluster: Cluster, **options: Any) -> None:
    writer = frame.write.format("barnabas").option("kafka.bootstrap.servers", cluster.servers)
    writer.options(**options).mode("append").save()


def test_keys_headers_partitions_tombstones_and_topics(spark: Any, cluster: Cluster) -> None:
    topic, other = cluster.topic(), cluster.topic()
    rows = [
        (topic, "a", "1", 1, [("source", bytearray(b"EWR")), ("source", None)], 7),
        (topic, "b", None, 1, None, 7),
        (other, None, "3", 0, [("x", None)], 7),
        (other, "", "", 0, [], 7),
    ]
    columns = "topic string, key string, value string, partition int, headers array<struct<key: string, value: binary>>"
    frame = spark.createDataFrame(rows, f"{columns}, note int").coalesce(1)
    write(frame, cluster)
    first, second = records(cluster, topic, 2)
    assert (first.key, first.value, first.partition) == (b"a", b"1", 1)
    assert list(first.headers) == [("source", b"EWR"), ("source", None)]
    assert (second.key, second.value, second.partition, list(second.headers)) == (b"b", None, 1, [])
    third, fourth = records(cluster, other, 2)
    assert (third.key, third.value, list(third.headers)) == (None, b"3", [("x", None)])
    assert (fourth.key, fourth.value, list(fourth.headers)) == (b"", b"", [])
    write(frame.drop("headers"), cluster, topic=topic, **{"kafka.compression.type": "zstd"})
    assert len(records(cluster, topic, 6)) == 6, "the option wins over the column"


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("CAST(value AS int) AS value", {}, "the column value is int: cast it to binary or string"),
        ("value", {"topic": ""}, "the option topic is empty"),
        ("value, CAST(NULL AS string) AS topic", {"topic": None}, "a row has null in its column topic"),
    ],
)
def test_what_spark_shows_of_a_refusal(
    spark: Any, cluster: Cluster, columns: str, options: dict[str, Any], message: str
) -> None:
    frame = spark.createDataFrame([("1",)], "value string").selectExpr(*columns.split(", "))
    given = {name: value for name, value in {"topic": "t", **options}.items() if value is not None}
    with pytest.raises(Exception, match=message) as caught:
        write(frame, cluster, **given)
    assert "Traceback" not in str(caught.value)


class Stage:
    """A query from topic to topic that can crash inside a micro-batch, after its rows were written or before."""

    def __init__(self, spark: Any, cluster: Cluster, source: str, target: str, checkpoint: Path) -> None:
        self.spark, self.cluster, self.source, self.target = spark, cluster, source, target
        self.checkpoint = checkpoint

    def run(self, mode: str = "append", **limits: Any) -> Any:
        reader = self.spark.readStream.format("barnabas").option("kafka.bootstrap.servers", self.cluster.servers)
        rows = reader.options(subscribe=self.source, startingOffsets="earliest", **limits).load()
        if mode == "complete":
            rows = rows.groupBy().count().selectExpr("CAST(count AS string) AS value")
        writer = rows.select("value").writeStream.format("barnabas").outputMode(mode)
        writer = writer.options(**{"kafka.bootstrap.servers": self.cluster.servers}, topic=self.target)
        writer = writer.option("checkpointLocation", str(self.checkpoint)).queryName("a name")
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(240)
        return query.lastProgress

    def forget_commit(self, batch: int) -> None:
        """As after a crash between the sink's last record and Spark's own note of it."""
        (self.checkpoint / "commits" / str(batch)).unlink()
        for crc in (self.checkpoint / "commits").glob(f".{batch}.crc"):
            crc.unlink()


@pytest.fixture
def stage(spark: Any, cluster: Cluster, tmp_path: Path) -> Callable[[], Stage]:
    return lambda: Stage(spark, cluster, cluster.topic(), cluster.topic(), tmp_path / "checkpoint")


def test_a_stream_from_topic_to_topic(stage: Callable[[], Stage], cluster: Cluster) -> None:
    job = stage()
    cluster.put(job.source, range(10))
    job.run(maxOffsetsPerTrigger=4)
    cluster.put(job.source, range(10, 20))
    job.run()
    assert sorted(numbers_in(cluster, job.target)) == list(range(20))


def test_a_query_that_starts_again_repeats_its_last_micro_batch_alone(
    stage: Callable[[], Stage], cluster: Cluster
) -> None:
    job = stage()
    cluster.put(job.source, range(6))
    job.run()
    cluster.put(job.source, range(6, 10))
    job.run()
    job.forget_commit(1)
    cluster.put(job.source, range(10, 12))
    job.run()
    assert sorted(numbers_in(cluster, job.target)) == sorted([*range(12), *range(6, 10)])


def test_complete_mode_writes_the_whole_result_each_time(stage: Callable[[], Stage], cluster: Cluster) -> None:
    job = stage()
    for first in (0, 4):
        cluster.put(job.source, range(first, first + 4))
        job.run("complete")
    assert sorted(numbers_in(cluster, job.target)) == [4, 8]


def test_a_broker_that_refuses_ends_the_query_with_its_reason(stage: Callable[[], Stage], cluster: Cluster) -> None:
    job = stage()
    job.target = "no such topic"
    cluster.put(job.source, range(2))
    with pytest.raises(Exception, match="topic no such topic: "):
        job.run()
