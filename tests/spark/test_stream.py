"""`spark.readStream.format("barnabas")`: every record exactly once in the batches, whatever crashes in between."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.functions import window

from tests.spark.conftest import Cluster, Job

pytestmark = pytest.mark.spark


def test_a_crash_in_batch_0_neither_loses_nor_repeats(job: Callable[[str], Job], cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.put(topic, range(10))
    stream = job(topic)
    stream.run(startingOffsets="latest")  # batch 0 of a query that starts at latest is empty
    assert stream.seen == []
    cluster.put(topic, range(10, 20))
    stream.run(startingOffsets="latest")
    assert sorted(stream.seen) == list(range(10, 20))


def test_records_that_come_after_a_crash_in_batch_0_are_not_skipped(
    job: Callable[[str], Job], cluster: Cluster, tmp_path: Path
) -> None:
    topic = cluster.topic()
    cluster.put(topic, range(4))
    stream = job(topic)
    stream.run(crash=True, startingOffsets="latest")
    # Were `latest` asked for again after the restart, these would be lost.
    cluster.put(topic, range(4, 12))
    stream.run(startingOffsets="latest")
    assert sorted(stream.seen) == list(range(4, 12))


def test_a_crash_in_a_later_batch_repeats_that_batch_only(job: Callable[[str], Job], cluster: Cluster) -> None:
    topic = cluster.topic()
    stream = job(topic)
    cluster.put(topic, range(6))
    stream.run(startingOffsets="earliest")
    cluster.put(topic, range(6, 12))
    stream.run(crash=True)
    cluster.put(topic, range(12, 18))
    stream.run()
    assert sorted(stream.seen) == list(range(18))
    assert stream.sizes == [6, 6, 6]


def test_a_limit_is_shared_in_proportion(job: Callable[[str], Job], cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.put(topic, range(60))
    stream = job(topic)
    stream.run(startingOffsets="earliest", maxOffsetsPerTrigger=20)
    assert sorted(stream.seen) == list(range(60))
    assert stream.sizes == [20, 20, 20]
    source = stream.progress["sources"][0]
    assert json.loads(source["endOffset"])[topic] == {"0": 30, "1": 30}
    assert '"maxOffsetsBehindLatest": "0"' in source["latestOffset"]


def test_new_partitions_are_read_from_their_beginning(job: Callable[[str], Job], cluster: Cluster) -> None:
    topic = cluster.topic(1)
    cluster.put(topic, range(3), partitions=1)
    stream = job(topic)
    stream.run(startingOffsets="latest")
    cluster.admin.create_partitions(topic, 2)
    cluster.put(topic, range(3, 9))
    stream.run()
    assert sorted(stream.seen) == list(range(3, 9))


def test_a_running_query_sees_what_is_produced(job: Callable[[str], Job], cluster: Cluster) -> None:
    topic = cluster.topic()
    seen: list[int] = []
    changed = threading.Condition()

    def take(batch: Any, _: int) -> None:
        values = [int(row.value) for row in batch.select("value").collect()]
        with changed:
            seen.extend(values)
            changed.notify_all()

    query = job(topic).start(take, {}, startingOffsets="earliest")
    try:
        for first in range(0, 30, 10):
            cluster.put(topic, range(first, first + 10))
            wanted = first + 10
            with changed:
                assert changed.wait_for(lambda: len(seen) >= wanted, 240), query.exception()  # noqa: B023
    finally:
        query.stop()
    assert sorted(seen) == list(range(30))


def test_a_recreated_topic_is_noticed(job: Callable[[str], Job], cluster: Cluster) -> None:
    topic = cluster.topic(1)
    cluster.put(topic, range(5), partitions=1)
    stream = job(topic)
    stream.run(startingOffsets="earliest")
    cluster.admin.delete_topic(topic)
    cluster.admin.create_topic(topic, partitions=1)
    with pytest.raises(Exception, match=f"the topic {topic} was deleted and created again .* Set onRecreatedTopic"):
        stream.run()
    cluster.put(topic, range(10, 12), partitions=1)
    stream.run(onRecreatedTopic="earliest")
    assert sorted(stream.seen) == [*range(5), 10, 11]


@pytest.mark.parametrize(
    ("trigger", "sizes"),
    [
        # Once takes all and looks at no limit; availableNow keeps the maximum and takes what is left below the minimum.
        ({"once": True}, [22]),
        ({"availableNow": True}, [10, 10, 2]),
        # One that goes on waits for the minimum (an hour long, here): the two last records stay for later.
        ({"processingTime": "50 milliseconds"}, [10, 10]),
    ],
)
def test_triggers_and_limits(
    job: Callable[[str], Job], cluster: Cluster, trigger: dict[str, Any], sizes: list[int]
) -> None:
    topic = cluster.topic()
    cluster.put(topic, range(22))
    limits = {"minOffsetsPerTrigger": 5, "maxOffsetsPerTrigger": 10, "maxTriggerDelay": "1h"}
    found: list[int] = []
    query = job(topic).start(lambda rows, _: found.append(rows.count()), trigger, startingOffsets="earliest", **limits)
    query.processAllAvailable()
    query.stop()
    assert found == sizes


def test_a_watermark_closes_its_windows_without_further_records(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    """As in a plain session: no setting that makes one fast may keep rows back until more records come."""
    topic = cluster.topic()
    for minute in range(3):
        cluster.put(topic, range(2), timestamp_ms=1_700_000_040_000 + minute * 60_000)  # a whole minute
    options = {"kafka.bootstrap.servers": cluster.servers, "subscribe": topic, "startingOffsets": "earliest"}
    stream = spark.readStream.format("barnabas").options(**options).load()
    counts = stream.withWatermark("timestamp", "0 seconds").groupBy(window("timestamp", "1 minute")).count()
    writer = counts.writeStream.outputMode("append").format("memory").queryName("closed_windows")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    assert [row["count"] for row in spark.table("closed_windows").collect()] == [2, 2]


def test_a_continuous_trigger_is_refused(spark: Any, cluster: Cluster) -> None:
    reader = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", cluster.servers)
    stream = reader.option("subscribe", cluster.topic(1)).load()
    with pytest.raises(Exception, match="barnabas does not support continuous processing"):
        stream.writeStream.format("console").trigger(continuous="1 second").start()


def test_a_restart_keeps_its_position_whatever_the_options_say_now(job: Callable[[str], Job], cluster: Cluster) -> None:
    topic, other = cluster.topic(1), cluster.topic(1)
    cluster.put(topic, range(4), partitions=1)
    cluster.put(other, range(100, 102), partitions=1)
    stream = job(topic)
    stream.run(startingOffsets="earliest")
    cluster.put(topic, range(4, 6), partitions=1)
    stream.run(startingOffsets="latest", subscribe=f"{topic},{other}", minPartitions=3)
    assert sorted(stream.seen) == [0, 1, 2, 3, 4, 5, 100, 101]


def test_a_crash_between_two_batches_neither_loses_nor_repeats(
    job: Callable[[str], Job], cluster: Cluster, tmp_path: Path
) -> None:
    topic = cluster.topic()
    cluster.put(topic, range(6))
    stream = job(topic)
    stream.run(startingOffsets="earliest")
    # Batch 0 was done, and the process died before it said so: it runs again, to the same end, and is asked for first.
    (commit,) = (each for each in (tmp_path / "checkpoint" / "commits").iterdir() if each.name == "0")
    commit.unlink()
    cluster.put(topic, range(6, 10))
    stream.run()
    assert stream.sizes == [6, 6, 4]
    assert sorted(stream.seen) == sorted([*range(6), *range(10)])


def test_options_of_batches_are_refused(job: Callable[[str], Job], cluster: Cluster) -> None:
    with pytest.raises(Exception, match="endingOffsets does not apply to a streaming query") as raised:
        job(cluster.topic(1)).run(endingOffsets="latest")
    assert "Traceback" not in str(raised.value), "one sentence of ours, and nothing of what Python passed through"
