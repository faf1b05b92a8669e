"""One run of `./dev demo --mqtt`: this machine's own figures, MQTT to topic to a PySpark window aggregation."""

from __future__ import annotations

import statistics
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from barnabas import Admin, Broker
from barnabas.demo.job import check_runs
from barnabas.demo.live import TOPIC, Live
from barnabas.demo.machine_picture import draw
from barnabas.demo.place import Place
from barnabas.demo.run import STILL_SECONDS_MAX, end_jvm, quietly
from barnabas.demo.screen import Screen
from barnabas.spark_bridge import session
from barnabas.spark_bridge.java import find_java_home

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WINDOW_SECONDS: Final = 1
Row = dict[str, Any]


class Windows:
    """What the job knows: the newest row of each metric and window. Written by Spark's callback thread."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, Any], Row] = {}
        self.events = 0
        self.batches = 0
        self.latencies_ms: list[float] = []
        self.changed = threading.Condition()

    def take(self, batch: DataFrame, _: int) -> None:
        """One micro-batch's changed windows."""
        found = batch.toArrow().to_pylist()
        now_ms = time.time() * 1000
        with self.changed:
            for row in found:
                key = (row["metric"], row["begin"])
                before = self.rows.get(key)
                self.events += row["events"] - (before["events"] if before else 0)
                self.rows[key] = row
                self.latencies_ms.append(now_ms - row["newest_ms"])
            self.batches += bool(found)
            self.changed.notify_all()

    def wait_for(self, events: int, seconds: float) -> bool:
        """Whether so many events have been through within the time."""
        with self.changed:
            return self.changed.wait_for(lambda: self.events >= events, seconds)


def start_query(spark: SparkSession, servers: str, checkpoint: Path, windows: Windows) -> StreamingQuery:
    """Starts the job from the topic's beginning."""
    from pyspark.sql import functions as f

    fields = f.from_json(f.col("value").cast("string"), "value double, sent_ms bigint")
    events = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .load()
        .select(f.col("key").cast("string").alias("metric"), "timestamp", fields.alias("told"))
    )
    table = events.groupBy("metric", f.window("timestamp", f"{WINDOW_SECONDS} second")).agg(
        f.count("*").alias("events"),
        f.avg("told.value").alias("mean"),
        f.max("told.value").alias("most"),
        f.max("told.sent_ms").alias("newest_ms"),
    )
    return (
        table.select("metric", f.col("window.start").alias("begin"), "events", "mean", "most", "newest_ms")
        .writeStream.outputMode("update")
        .foreachBatch(windows.take)
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


class MachineDemo:
    """Everything a run holds; `close` leaves nothing behind, wherever it stood."""

    def __init__(self, place: Place, seconds: float, screen: Screen) -> None:
        self.place, self.seconds, self.screen = place, seconds, screen
        self.windows = Windows()
        self.spark_is_starting = False
        self._broker: Broker | None = None
        self._live: Live | None = None
        self._spark: SparkSession | None = None
        self._query: StreamingQuery | None = None

    def run(self, *, watch: bool) -> None:
        """The whole story; with `watch` it goes on until Ctrl-C, with a table each second."""
        find_java_home()
        screen = self.screen
        self._broker = Broker(data_dir=self.place.broker_dir)
        servers = self._broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topic(TOPIC, partitions=2)
        screen.step(f"broker up at {servers}")
        self._live = live = Live(servers)
        live.start()
        screen.step(f"MQTT broker (amqtt) at {live.address}; bridge up: barnabas top {live.looking_in}")
        screen.step(f"this machine publishes what it does; starting Spark (its words go to {self.place.log_file})")
        self._start_spark()
        assert self._spark is not None
        self._query = start_query(self._spark, servers, self.place.checkpoint, self.windows)
        screen.step(f"PySpark counts windows of {WINDOW_SECONDS} s; {self.seconds:.0f} seconds from the first of them")
        self._wait_for(1)
        self.windows.latencies_ms.clear()
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < self.seconds or watch:
            self.windows.wait_for(self.windows.events + 1, 0.25)
            self._check()
            behind = live.published - self.windows.events
            text = f"{live.published:>6,} messages  Spark {behind:>4,} behind"
            screen.progress(min(elapsed / self.seconds, 1.0), text)
        live.hush()
        self._wait_for(live.published)
        screen.step("everything has been through")
        self._report(live)

    def _start_spark(self) -> None:
        self.spark_is_starting = True
        try:
            conf = {"spark.ui.showConsoleProgress": "false", "spark.sql.warehouse.dir": str(self.place.warehouse)}
            self._spark = session("barnabas-demo-mqtt", conf=conf, log_file=self.place.log_file)
        finally:
            self.spark_is_starting = False

    def _check(self) -> None:
        assert self._query is not None
        assert self._live is not None
        self._live.check()
        check_runs(self._query)

    def _wait_for(self, count: int) -> None:
        end = time.monotonic() + STILL_SECONDS_MAX
        while not self.windows.wait_for(count, 0.5):
            self._check()
            if time.monotonic() > end:
                raise RuntimeError(f"Spark stands at {self.windows.events} of {count} messages")

    def _report(self, live: Live) -> None:
        rows = list(self.windows.rows.values())
        latencies = self.windows.latencies_ms
        shares = statistics.quantiles(latencies, n=20) if len(latencies) > 1 else [0.0] * 19
        took = live.state["took_ms"]
        figures = (
            f"{live.published:,} messages at QoS 1, MQTT to acknowledged record "
            f"p50 {took['p50']} ms, p99 {took['p99']} ms; "
            f"{self.windows.batches} micro-batches, to the window p50 {shares[9]:.0f} ms, p95 {shares[18]:.0f} ms"
        )
        draw(rows, self.place.directory / "machine.png", figures)
        self.place.keep_picture = True
        self.screen.table("This machine while it was looked at", table(rows))
        self.screen.step(figures)
        self.screen.step(f"picture: {self.place.directory / 'machine.png'}")

    def close(self) -> None:
        """Ends the job, the JVM, the bridge and the broker, in this order; each is given a bounded time."""
        if self._query is not None:
            quietly(self._query.stop)
        end_jvm(self._spark)
        if self._live is not None:
            self._live.close()
        if self._broker is not None:
            self._broker.close()


def table(rows: list[Row]) -> list[dict[str, str]]:
    """A line for each metric: messages, mean, most."""
    lines = []
    for metric in sorted({row["metric"] for row in rows}):
        mine = [row for row in rows if row["metric"] == metric]
        events = sum(row["events"] for row in mine)
        mean = sum(row["mean"] * row["events"] for row in mine) / events
        lines.append(
            {
                "metric": metric,
                "messages": f"{events:,}",
                "windows": f"{len(mine)}",
                "mean": f"{mean:.1f}",
                "most": f"{max(row['most'] for row in mine):.1f}",
            }
        )
    return lines or [{"metric": "none yet"}]
