"""The same jobs through `format("kafka")`, Spark's own connector, and through ours: the same rows, on both brokers.

Every job is written once, with the format's name as an argument; the brokers are Barnabas and a real Apache Kafka.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from barnabas import Broker, Consumer
from barnabas.client.produce.partitioner import murmur2
from barnabas.protocol.ids import TopicPartition
from tests.oracle.kafka import Kafka, kept_libs
from tests.oracle.spark_connector import kept_connector
from tests.spark.conftest import Cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not kept_connector(), reason="Spark's own connector is not here: ./dev tools brings it"),
]

START = 1_700_000_000_000
FORMATS = ("kafka", "barnabas")


class Here(Cluster):
    """A broker of either kind, with its own topics of forty numbers."""

    def __init__(self, servers: str) -> None:
        super().__init__(type("Address", (), {"bootstrap_servers": servers})())
        self.sample = self.topic()
        for index in range(10):
            self.put(self.sample, range(index * 4, index * 4 + 4), timestamp_ms=START + index * 1000)
        self.put_one(self.sample, None, None, [("source", b"EWR"), ("source", None), ("", b"")])


@pytest.fixture(scope="module", params=["barnabas", "apache kafka"])
def here(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    with contextlib.ExitStack() as stack:
        if request.param == "barnabas":
            servers = stack.enter_context(Broker()).bootstrap_servers
        elif kept_libs().is_dir():
            directory = tmp_path_factory.mktemp("kafka")
            servers = f"127.0.0.1:{stack.enter_context(Kafka(directory, quick=True)).port}"
        else:
            pytest.skip("Apache Kafka is not here: ./dev tools brings it")
        cluster = Here(servers)
        yield cluster
        cluster.close()


def table(rows: Any) -> list[Any]:
    return sorted(rows.collect(), key=repr)


def both(job: Callable[[str], Any]) -> Any:
    """What the job gives, which must be the same through both formats: rows, or that it is refused."""
    found = []
    for name in FORMATS:
        try:
            found.append(job(name))
        except Exception as error:  # either side's own words differ; that it is refused must not
            del error
            found.append("refused")
    theirs, ours = found
    assert ours == theirs
    return ours


# ---- batches --------------------------------------------------------------------------------------------------------

ON_KAFKA_TOO = 9
BATCHES: list[tuple[dict[str, str], int | str]] = [
    # these on both brokers
    ({"subscribe": "%s", "includeHeaders": "true", "maxRecordsPerPartition": "7", "minPartitions": "9"}, 41),
    ({"subscribePattern": "%s", "minPartitions": "7"}, 41),
    ({"subscribePattern": "nothing.*"}, 0),
    ({"assign": '{"%s":[1,9]}'}, 20),
    ({"assign": '{"absent":[0]}'}, "refused"),
    ({"subscribe": "absent"}, "refused"),
    ({"subscribe": "%s", "startingOffsets": '{"%s":{"0":3,"1":-2}}', "endingOffsets": '{"%s":{"0":7,"1":-1}}'}, 24),
    ({"subscribe": "%s", "startingTimestamp": str(START + 2500), "endingTimestamp": str(START + 4500)}, 8),
    ({"subscribe": "%s", "kafka.isolation.level": "read_committed", "kafka.fetch.max.bytes": "1000"}, 41),
    # and these on ours
    ({"subscribe": "%s"}, 41),
    ({"subscribe": " %s , %s"}, 41),
    ({"subscribePattern": r"\Q%s\E"}, 41),
    ({"assign": '{"%s":[1]}'}, 20),
    ({"assign": '{"%s":[9]}'}, 0),
    ({"subscribe": "%s", "startingOffsets": '{"%s":{"0":3}}'}, "refused"),
    ({"subscribe": "%s", "startingOffsets": "latest"}, "refused"),
    ({"subscribe": "%s", "endingOffsets": "earliest"}, "refused"),
    ({"subscribe": "%s", "startingTimestamp": str(START * 2)}, "refused"),
    ({"subscribe": "%s", "startingTimestamp": str(START * 2), "startingOffsetsByTimestampStrategy": "latest"}, 0),
    ({"subscribe": "%s", "startingOffsetsByTimestamp": '{"%s":{"0":1700000005000,"1":0}}'}, 31),
    ({"subscribe": "%s", "endingOffsetsByTimestamp": '{"%s":{"0":1700000001000,"1":1700000099000}}'}, 22),
    ({"subscribe": "%s", "maxOffsetsPerTrigger": "1", "groupIdPrefix": "mine", "kafka.client.id": "me"}, 41),
    ({"subscribe": "%s", "kafka.auto.offset.reset": "latest"}, "refused"),
    ({"subscribe": "%s", "kafka.group.id": "mine", "kafka.acks": "all", "kafka.metric.reporters": ""}, 41),
    ({"subscribe": "%s", "assign": '{"%s":[1]}'}, "refused"),
    ({}, "refused"),
]


def of_here(cases: list[Any], on_kafka_too: int) -> list[Any]:
    """Cases of both brokers, and those that one broker is enough for."""
    return [("barnabas", *case) for case in cases] + [("apache kafka", *case) for case in cases[:on_kafka_too]]


@pytest.mark.parametrize(("here", "options", "count"), of_here(BATCHES, ON_KAFKA_TOO), indirect=["here"])
def test_a_batch_has_the_same_rows(spark: Any, here: Here, options: dict[str, str], count: int | str) -> None:
    given = {name: text.replace("%s", here.sample) for name, text in options.items()}

    def job(name: str) -> Any:
        frame = spark.read.format(name).option("kafka.bootstrap.servers", here.servers).options(**given).load()
        return frame.schema.simpleString(), table(frame)

    found = both(job)
    assert found == count if isinstance(count, str) else len(found[1]) == count


def test_a_batch_that_is_written_is_the_same(spark: Any, here: Here) -> None:
    """Keys, nulls, headers, given partitions; and each key goes to the partition that Kafka's own client gives it."""
    rows = [(f"k{n}" if n % 5 else None, f"v{n}" if n % 7 else None, n % 3 if n % 5 == 0 else None) for n in range(60)]
    headers = "CASE WHEN value IS NOT NULL THEN array(named_struct('key', 'h', 'value', CAST(value AS binary))) END"

    def job(name: str) -> Any:
        target = here.topic(3)
        frame = spark.createDataFrame(rows, "key string, value string, partition int")
        frame = frame.selectExpr("key", "value", "partition", f"{headers} AS headers", "'unused' AS note")
        writer = frame.repartition(1).write.format(name).option("kafka.bootstrap.servers", here.servers)
        writer.options(topic=target, **{"kafka.compression.type": "gzip"}).mode("append").save()
        return [(r.partition, r.key, r.value, list(r.headers)) for r in records(here, target, 60)]

    found = both(job)
    assert {part for part, *_ in found} == {0, 1, 2}
    assert all(part == (murmur2(key) & 0x7FFFFFFF) % 3 for part, key, *_ in found if key)


REFUSED = [
    ("CAST(1 AS int) AS value", {"topic": "t"}),
    ("'a' AS key", {"topic": "t"}),
    ("'a' AS value", {}),
    ("'a' AS value, CAST(NULL AS string) AS topic", {}),
    ("'a' AS value, map('a', CAST('b' AS binary)) AS headers", {"topic": "t"}),
    ("'a' AS value, CAST(1 AS bigint) AS partition", {"topic": "t"}),
    ("'a' AS value", {"topic": "t", "kafka.key.serializer": "x"}),
    ("'a' AS value", {"topic": "t", "kafka.acks": "7"}),
    ("'a' AS value", {"topic": "not a name"}),
]


@pytest.mark.parametrize(("here", "columns", "options"), of_here(REFUSED, 0), indirect=["here"])
def test_what_cannot_be_written_is_refused_by_both(
    spark: Any, here: Here, columns: str, options: dict[str, str]
) -> None:
    def job(name: str) -> None:
        writer = spark.range(1).selectExpr(*split(columns)).write.format(name)
        writer.option("kafka.bootstrap.servers", here.servers).options(**options).mode("append").save()

    assert both(job) == "refused"


def split(columns: str) -> list[str]:
    """Expressions of a list; commas within brackets are theirs."""
    found, depth = [""], 0
    for letter in columns:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return found


def records(here: Here, topic: str, count: int) -> list[Any]:
    with Consumer(topic, bootstrap_servers=here.servers, auto_offset_reset="earliest") as consumer:
        found: list[Any] = []
        while len(found) < count:
            found += consumer.poll(30)
    return sorted(found, key=lambda record: (record.partition, record.offset))


# ---- streams --------------------------------------------------------------------------------------------------------


class Streams:
    """One streaming job with a checkpoint, through one format, run after run until nothing is left."""

    def __init__(self, spark: Any, here: Here, name: str, checkpoint: Path) -> None:
        self.spark, self.here, self.name, self.checkpoint = spark, here, name, checkpoint
        self.end: dict[str, Any] = {}

    def read(self, **options: Any) -> Any:
        reader = self.spark.readStream.format(self.name).option("kafka.bootstrap.servers", self.here.servers)
        return reader.options(**options).load()

    def run(self, frame: Any, mode: str = "append") -> list[list[Any]]:
        """The rows of each micro-batch of this run."""
        out: list[list[Any]] = []
        writer = frame.writeStream.foreachBatch(lambda rows, _: out.append(table(rows))).outputMode(mode)
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(240)
        (source,) = query.lastProgress["sources"]
        self.end = json.loads(source["endOffset"])
        return [rows for rows in out if rows]


@pytest.fixture
def streams(spark: Any, here: Here, tmp_path: Path) -> Callable[[str], Streams]:
    return lambda name: Streams(spark, here, name, tmp_path / name)


def test_a_stream_with_a_limit_has_the_same_micro_batches(streams: Callable[[str], Streams], here: Here) -> None:
    """The offsets that Spark shows have one form, too; beside them stand ours, whose names no topic can have."""

    def job(name: str) -> Any:
        stream = streams(name)
        rows = stream.run(stream.read(subscribe=here.sample, startingOffsets="earliest", maxOffsetsPerTrigger=15))
        return rows, {topic: offsets for topic, offsets in stream.end.items() if not topic.startswith("$")}

    batches, end = both(job)
    assert [len(rows) for rows in batches] == [14, 14, 13]
    assert end == {here.sample: {"0": 21, "1": 20}}


def test_a_stream_that_goes_on_after_changes_has_the_same_rows(streams: Callable[[str], Streams], here: Here) -> None:
    """Restarts with other options, a partition and a topic that come later, records that are gone."""

    def job(name: str) -> Any:
        base = f"grows-{name}-"
        here.admin.create_topic(f"{base}1", partitions=1, config={"retention.ms": -1})
        here.put(f"{base}1", range(5), partitions=1, timestamp_ms=START)
        stream = streams(name)
        chosen = {"subscribePattern": f"{base}.*", "failOnDataLoss": "false"}
        seen = [stream.run(stream.read(**chosen, startingOffsets="earliest").select("partition", "offset", "value"))]
        here.admin.create_partitions(f"{base}1", 2)
        here.admin.create_topic(f"{base}2", partitions=1, config={"retention.ms": -1})
        here.put(f"{base}1", range(5, 15), timestamp_ms=START)
        here.put(f"{base}2", range(20, 24), partitions=1, timestamp_ms=START)
        here.admin.delete_records({TopicPartition(f"{base}1", 0): 7})
        changed = stream.read(**chosen, startingOffsets="latest", minPartitions=5).select(
            "partition", "offset", "value"
        )
        return [*seen, stream.run(changed)]

    (first,), (second,) = both(job)
    assert len(first) == 5
    assert sorted(int(row.value) for row in second) == [5, 7, *range(9, 15), *range(20, 24)]


def test_state_gives_the_same_results(streams: Callable[[str], Streams], here: Here) -> None:
    """A join with a table, and totals kept from micro-batch to micro-batch."""

    def job(name: str) -> Any:
        stream = streams(name)
        rows = stream.read(subscribe=here.sample, startingOffsets="earliest", maxOffsetsPerTrigger=20)
        rows = rows.selectExpr("timestamp", "CAST(CAST(value AS string) AS int) AS n", "partition").where(
            "n IS NOT NULL"
        )
        table_ = rows.sparkSession.range(0, 40, 3).withColumnRenamed("id", "n")
        counted = rows.join(table_, "n").groupBy("partition").agg({"n": "sum", "timestamp": "max"})
        return stream.run(counted, "complete")[-1]

    assert sum(row["sum(n)"] for row in both(job)) == sum(range(0, 40, 3))


def test_from_topic_to_topic_the_same(spark: Any, streams: Callable[[str], Streams], here: Here) -> None:
    def job(name: str) -> Any:
        target = here.topic(2)
        for _ in range(2):  # the second run has nothing to do
            rows = streams(name).read(subscribe=here.sample, startingOffsets="earliest", includeHeaders="true")
            rows = rows.selectExpr("key", "upper(CAST(value AS string)) AS value", "headers", f"'{target}' AS topic")
            writer = rows.writeStream.format(name).option("kafka.bootstrap.servers", here.servers)
            writer = writer.option("checkpointLocation", str(streams(name).checkpoint)).trigger(availableNow=True)
            assert writer.start().awaitTermination(240)
        return sorted(
            (r.key or b"", r.value or b"", list(r.headers), r.partition if r.key else -1)
            for r in records(here, target, 41)
        )

    assert len(both(job)) == 41


@pytest.mark.parametrize("here", ["apache kafka"], indirect=True)
def test_transactions_are_read_as_the_isolation_level_says(streams: Callable[[str], Streams], here: Here) -> None:
    """Committed, aborted, and one that is open: its records, and those behind it, wait for its end."""
    topic = here.topic(1)
    producer = confluent_kafka.Producer({"bootstrap.servers": here.servers, "transactional.id": topic})
    producer.init_transactions(60)
    for number, end in enumerate([producer.commit_transaction, producer.abort_transaction] * 2 + [producer.flush]):
        producer.begin_transaction()
        for value in range(number * 10, number * 10 + 3):
            producer.produce(topic, b"%d" % value, partition=0)
        producer.flush(60)
        end(60)

    def job(name: str) -> Any:
        found = []
        for level in ("read_committed", "read_uncommitted"):
            stream = streams(f"{name}-{level}")
            options = {"kafka.isolation.level": level, "maxOffsetsPerTrigger": "5"}
            stream.name = name
            (*batches,) = stream.run(stream.read(subscribe=topic, startingOffsets="earliest", **options))
            found.append([[int(row.value) for row in rows] for rows in batches])
        return found

    committed, all_of_them = both(job)
    producer.abort_transaction(60)
    assert [n for rows in committed for n in rows] == [0, 1, 2, 20, 21, 22]
    assert len([n for rows in all_of_them for n in rows]) == 15
