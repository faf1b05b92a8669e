"""What Spark itself refuses every Python source and sink, in its words, as docs/SPARK.md tells them with a remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import Cluster

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[2] / "docs" / "SPARK.md").read_text()


def stream(spark: Any, cluster: Cluster) -> Any:
    reader = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", cluster.servers)
    return reader.option("subscribe", cluster.topic(1)).load()


def unknown_format(spark: Any, cluster: Cluster) -> None:
    spark.read.format("barnabas2").load()


def save_without_a_mode(spark: Any, cluster: Cluster) -> None:
    writer = spark.range(1).selectExpr("'a' AS value").write.format("barnabas")
    writer.option("kafka.bootstrap.servers", cluster.servers).option("topic", "t").save()


def update_mode(spark: Any, cluster: Cluster) -> None:
    counts = stream(spark, cluster).groupBy("key").count().selectExpr("CAST(count AS string) AS value")
    writer = counts.writeStream.format("barnabas").outputMode("update").option("topic", "t")
    writer.option("kafka.bootstrap.servers", cluster.servers).trigger(availableNow=True).start().awaitTermination()


def continuous(spark: Any, cluster: Cluster) -> None:
    stream(spark, cluster).writeStream.format("console").trigger(continuous="1 second").start()


def refused_by_us(spark: Any, cluster: Cluster) -> None:
    spark.read.format("barnabas").load().count()


@pytest.mark.parametrize(
    ("fails", "words"),
    [
        (unknown_format, "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: barnabas"),
        (
            save_without_a_mode,
            '[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "barnabas" cannot be written in the "ErrorIfExists" '
            "mode",
        ),
        (update_mode, "barnabas does not support Update mode"),
        (continuous, "barnabas does not support continuous processing"),
        (refused_by_us, "[PYTHON_DATA_SOURCE_ERROR]"),
    ],
)
def test_spark_says_what_the_page_says_it_says(
    spark: Any, cluster: Cluster, tmp_path: Path, fails: Callable[[Any, Cluster], None], words: str
) -> None:
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        with pytest.raises(Exception) as caught:
            fails(spark, cluster)
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    assert words in str(caught.value)
    assert f"`{words}" in PAGE


def test_the_remedy_of_update_mode_writes(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    source, target = cluster.topic(1), cluster.topic(1)
    cluster.put(source, range(4), partitions=1)
    kafka = {"kafka.bootstrap.servers": cluster.servers}
    reader = spark.readStream.format("barnabas").options(**kafka, subscribe=source, startingOffsets="earliest")
    counts = reader.load().groupBy("topic").count().selectExpr("CAST(count AS string) AS value")

    def take(rows: Any, _: int) -> None:
        rows.write.format("barnabas").options(**kafka, topic=target).mode("append").save()

    writer = counts.writeStream.outputMode("update").foreachBatch(take).option("checkpointLocation", str(tmp_path))
    assert writer.trigger(availableNow=True).start().awaitTermination(240)
    rows = spark.read.format("barnabas").options(**kafka, subscribe=target).load().collect()
    assert [bytes(row.value) for row in rows] == [b"4"]
