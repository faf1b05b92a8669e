"""The streaming job, two queries: what each hour was like, and every flight with the weather of its hour.

The first joins both topics in Spark's state, one row per airport and hour of the year: a flight and the weather meet
under the same key, whichever comes first; each micro-batch hands out the rows it changed, and the driver keeps the
newest of each. The second looks each flight's weather up in the topic `weather` as it is then, and writes the flight to
a topic.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.demo.dataset import ENRICHED, FLIGHTS, WEATHER
from barnabas.protocol.errors import BarnabasError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FIELDS: Final = (
    "origin string, time_hour timestamp, hour int, dep_delay double, temp double, wind_speed double, precip double, "
    "visib double"
)
FLIGHT: Final = (
    "origin string, time_hour timestamp, hour int, minute int, dest string, carrier string, flight int, "
    "tailnum string, distance int, dep_delay double, arr_delay double"
)
WEATHER_OF_HOUR: Final = (
    "origin string, time_hour timestamp, temp double, wind_speed double, precip double, visib double"
)
LATE_MINUTES: Final = 15
"""A flight counts as late from here on (the airlines' own definition)."""


@dataclass
class Hourly:
    """What the job knows: `rows` by (airport, hour of the year). Written by Spark's callback thread."""

    rows: dict[tuple[str, Any], dict[str, Any]] = field(default_factory=dict)
    batches: int = 0
    events: int = 0
    latencies_ms: list[float] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, batch: DataFrame, _: int) -> None:
        """One micro-batch's changed rows."""
        found = batch.toArrow().to_pylist()
        now_ms = time.time() * 1000
        with self.changed:
            for row in found:
                key = (row["origin"], row["time_hour"])
                before = self.rows.get(key)
                self.events += row["events"] - (before["events"] if before else 0)
                self.rows[key] = row
                self.latencies_ms.append(now_ms - row["newest"].timestamp() * 1000)
            self.batches += bool(found)
            self.changed.notify_all()

    def wait_for(self, events: int, seconds: float) -> bool:
        """Whether so many events have been through within the time."""
        with self.changed:
            return self.changed.wait_for(lambda: self.events >= events, seconds)


class TooBusy(BarnabasError):
    """Spark gave up one of its own processes."""


def check_runs(query: StreamingQuery) -> None:
    """Nobody waits for a query that has ended.

    Raises:
        TooBusy: because its planner was not up in time, which starting it again may mend.
        RuntimeError: for another reason.
    """
    if query.isActive:
        return
    why = str(query.exception())
    if "failed to connect back" in why:
        raise TooBusy(
            "Spark gives each of its Python processes ten seconds to start, and this machine is too busy for that: end "
            "what else runs here, and start the demo again"
        )
    raise RuntimeError(f"the Spark job ended early: {why}")


def start_query(spark: SparkSession, servers: str, checkpoint: Path, hourly: Hourly) -> StreamingQuery:
    """Starts the job from the beginning of both topics."""
    from pyspark.sql import functions as f

    events = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", f"{FLIGHTS},{WEATHER}")
        .option("startingOffsets", "earliest")
        .load()
        .select("topic", "timestamp", f.from_json(f.col("value").cast("string"), FIELDS).alias("event"))
        .select("topic", "timestamp", "event.*")
    )
    is_flight = f.col("topic") == FLIGHTS
    late = is_flight & (f.col("dep_delay") >= LATE_MINUTES)
    table = events.groupBy("origin", "time_hour").agg(
        f.max("hour").alias("hour"),
        f.count("*").alias("events"),
        f.count(f.when(is_flight, 1)).alias("flights"),
        f.count("dep_delay").alias("departed"),
        f.sum("dep_delay").alias("delay"),
        f.count(f.when(late, 1)).alias("late"),
        f.max("temp").alias("temp"),
        f.max("wind_speed").alias("wind_speed"),
        f.max("precip").alias("precip"),
        f.max("visib").alias("visib"),
        f.max("timestamp").alias("newest"),
    )
    return (
        table.writeStream.outputMode("update")
        .foreachBatch(hourly.take)
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def start_enriching(spark: SparkSession, servers: str, checkpoint: Path) -> StreamingQuery:
    """Starts writing every flight with the weather of its hour to the topic `flights-with-weather`."""
    from pyspark.sql import functions as f

    kafka = {"kafka.bootstrap.servers": servers}

    def parsed(rows: DataFrame, fields: str) -> DataFrame:
        return rows.select("key", f.from_json(f.col("value").cast("string"), fields).alias("event"))

    flights = spark.readStream.format("barnabas").options(**kafka, subscribe=FLIGHTS, startingOffsets="earliest").load()
    # Read anew for each micro-batch. The hour that the clocks go back has its weather twice.
    weather = parsed(spark.read.format("barnabas").options(**kafka, subscribe=WEATHER).load(), WEATHER_OF_HOUR)
    weather = weather.select("event.*").dropDuplicates(["origin", "time_hour"])
    joined = (
        parsed(flights, FLIGHT).select("key", "event.*").join(f.broadcast(weather), ["origin", "time_hour"], "left")
    )
    records = joined.select(
        "key", f.to_json(f.struct(*(name for name in joined.columns if name != "key"))).alias("value")
    )
    return (
        records.writeStream.format("barnabas")
        .options(**kafka, topic=ENRICHED)
        .option("kafka.compression.type", "lz4")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
