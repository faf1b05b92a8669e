"""One Spark session that reads through our source and through Spark's own Kafka connector, in turns.

`python -m tests.benchmarks.peers.spark SESSION BOOTSTRAP JARS TOPIC:COUNT...` prints one line of JSON for each figure:
`{"read": "batch", "sink": "noop", "topic": ..., "format": ..., "rows_per_s": ...}` or `{"latency_ms": [...], ...}`.
SESSION is `plain`, what `SparkSession.builder.getOrCreate()` gives, or `tuned`, ours; both formats run under the same
settings. JARS is a comma list, empty without the connector.

Sinks: `noop` takes all columns and drops them; `memory` keeps an aggregation of all records (`TOTALS`), as a job does;
`grouped` one for each partition, whose state a plain session spreads over 200 stores, whoever reads.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from barnabas import Admin, Producer
from barnabas.spark_bridge import session
from barnabas.spark_bridge.java import find_java_home

RUNS = 3
WARM_RECORDS, RECORDS = 10, 40
QUIET_S = 0.05
RECORD_SECONDS_MAX = 30
QUERY_SECONDS_MAX = 100
TOTALS = ("count(*) AS records", "sum(length(value)) AS bytes", "max(offset) AS last")


def main(kind: str, bootstrap: str, jars: str, *topics: str) -> None:
    """Measure every topic in all ways and in all formats that are there."""
    with tempfile.TemporaryDirectory(prefix="barnabas-spark-") as directory:
        spark = plain_session(directory, jars) if kind == "plain" else tuned_session(directory, jars)
        formats = ["barnabas", "kafka"] if jars else ["barnabas"]
        for each in formats:
            tell(format=each, latency_ms=latency(spark, each, bootstrap, directory))
        for topic, count in (text.split(":") for text in topics):
            for sink, way in (("memory", batch), ("memory", stream), ("noop", batch), ("noop", stream)):
                compare(spark, formats, bootstrap, topic, int(count), f"{directory}/{topic}", sink, way)
        topic, count = topics[0].split(":")
        compare(spark, formats, bootstrap, topic, int(count), f"{directory}/{topic}", "grouped", stream)
        spark.stop()


def compare(
    spark: Any, formats: list[str], bootstrap: str, topic: str, count: int, directory: str, sink: str, way: Any
) -> None:
    """The best of some runs in turns, after one that warms up; grouping tells enough in one."""
    best = dict.fromkeys(formats, 0.0)
    for run in range(2 if sink == "grouped" else RUNS + 1):
        for each in formats:
            rate = count / way(spark, each, bootstrap, topic, f"{directory}-{way.__name__}-{sink}-{each}-{run}", sink)
            best[each] = max(best[each], rate if run else 0.0)
    for each in formats:
        tell(read=way.__name__, sink=sink, topic=topic, format=each, rows_per_s=best[each])


def settings_of(directory: str, jars: str) -> dict[str, str]:
    """What a benchmark needs, and no query notices."""
    conf = {"spark.ui.showConsoleProgress": "false", "spark.sql.warehouse.dir": f"{directory}/warehouse"}
    return {**conf, "spark.jars": jars} if jars else conf


def plain_session(directory: str, jars: str) -> Any:
    """The session that people have, with this Python, as an activated environment gives it."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JAVA_HOME"] = str(find_java_home())
    builder: Any = SparkSession.builder
    for key, value in settings_of(directory, jars).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def tuned_session(directory: str, jars: str) -> Any:
    """Ours."""
    return session("bench", master="local[2]", conf=settings_of(directory, jars), log_file=Path(directory, "spark.log"))


def tell(**figure: Any) -> None:
    """One line for whoever started this."""
    print(json.dumps(figure), flush=True)


def loaded(reader: Any, each: str, bootstrap: str, topic: str, starting: str) -> Any:
    """The same options for both: that is the point of ours."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": starting}
    return reader.format(each).options(**options).load()


def totals(frame: Any, sink: str) -> Any:
    """The aggregation: of all records, or for each partition."""
    return (frame.groupBy("partition") if sink == "grouped" else frame.groupBy()).agg(*map(_expression, TOTALS))


def _expression(text: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(text)


def batch(spark: Any, each: str, bootstrap: str, topic: str, _: str, sink: str) -> float:
    """Seconds to read the whole topic."""
    begun = time.perf_counter()
    frame = loaded(spark.read, each, bootstrap, topic, "earliest")
    if sink == "noop":
        frame.write.format("noop").mode("overwrite").save()
    else:
        totals(frame, sink).collect()
    return time.perf_counter() - begun


def stream(spark: Any, each: str, bootstrap: str, topic: str, checkpoint: str, sink: str) -> float:
    """Seconds of a query that takes all there is and ends."""
    frame = loaded(spark.readStream, each, bootstrap, topic, "earliest")
    if sink == "noop":
        writer = frame.writeStream.format("noop")
    else:
        name = "".join(letter if letter.isalnum() else "_" for letter in Path(checkpoint).name)
        writer = totals(frame, sink).writeStream.format("memory").queryName(name).outputMode("complete")
    begun = time.perf_counter()
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    if not query.awaitTermination(QUERY_SECONDS_MAX):
        raise TimeoutError(f"{each} did not read {topic} in {QUERY_SECONDS_MAX} s")
    return time.perf_counter() - begun


def latency(spark: Any, each: str, bootstrap: str, directory: str) -> list[float]:
    """Milliseconds from a record's send until a foreachBatch has its value, one after the other."""
    topic = f"latency-{each}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(topic, partitions=1)
    arrived: dict[int, float] = {}
    changed = threading.Condition()

    def take(rows: Any, _: int) -> None:
        values = [int(row.value) for row in rows.select("value").collect()]
        with changed:
            arrived.update(dict.fromkeys(values, time.perf_counter()))
            changed.notify_all()

    frame = loaded(spark.readStream, each, bootstrap, topic, "earliest")
    query = frame.writeStream.foreachBatch(take).option("checkpointLocation", f"{directory}/{topic}").start()
    found = []
    with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        for number in range(WARM_RECORDS + RECORDS):
            sent = time.perf_counter()
            producer.send(topic, b"%d" % number)
            with changed:
                if not changed.wait_for(partial(arrived.__contains__, number), RECORD_SECONDS_MAX):
                    raise TimeoutError(f"{each}: record {number} never came: {query.exception()}")
            found.append((arrived[number] - sent) * 1000)
            time.sleep(QUIET_S)  # the query is idle again when the next one comes
    query.stop()
    return found[WARM_RECORDS:]


if __name__ == "__main__":
    main(*sys.argv[1:])
