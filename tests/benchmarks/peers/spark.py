"""One Spark session that reads through our source and through Spark's own Kafka connector, in turns.

`python -m tests.benchmarks.peers.spark BOOTSTRAP JARS TOPIC:COUNT...` prints one line of JSON for each figure:
`{"read": "batch", "topic": ..., "format": ..., "rows_per_s": ...}` or `{"latency_ms": [...], "format": ...}`.
JARS is a comma list, empty without the connector. Both run under the same settings, those of our tuned session.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from barnabas import Admin, Producer
from barnabas.spark_bridge import session

RUNS = 3
WARM_RECORDS, RECORDS = 10, 40
QUIET_S = 0.05
RECORD_SECONDS_MAX = 30
QUERY_SECONDS_MAX = 100


def main(bootstrap: str, jars: str, *topics: str) -> None:
    """Measure every topic in both ways and in all formats that are there."""
    with tempfile.TemporaryDirectory(prefix="barnabas-spark-") as directory:
        conf = {"spark.ui.showConsoleProgress": "false", "spark.sql.warehouse.dir": f"{directory}/warehouse"}
        if jars:
            conf["spark.jars"] = jars
        spark = session("bench", master="local[2]", conf=conf, log_file=Path(directory, "spark.log"))
        formats = ["barnabas", "kafka"] if jars else ["barnabas"]
        for topic, count in (text.split(":") for text in topics):
            for name, read in (("batch", batch), ("stream", stream)):
                best = dict.fromkeys(formats, 0.0)
                for run in range(RUNS + 1):  # the first is to warm up
                    for each in formats:
                        rate = int(count) / read(spark, each, bootstrap, topic, f"{directory}/{name}{each}{topic}{run}")
                        best[each] = max(best[each], rate if run else 0.0)
                for each in formats:
                    tell(read=name, topic=topic, format=each, rows_per_s=best[each])
        for each in formats:
            tell(format=each, latency_ms=latency(spark, each, bootstrap, directory))
        spark.stop()


def tell(**figure: Any) -> None:
    """One line for whoever started this."""
    print(json.dumps(figure), flush=True)


def loaded(reader: Any, each: str, bootstrap: str, topic: str, starting: str) -> Any:
    """The same options for both: that is the point of ours."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": starting}
    return reader.format(each).options(**options).load()


def batch(spark: Any, each: str, bootstrap: str, topic: str, _: str) -> float:
    """Seconds to read the whole topic, all columns."""
    begun = time.perf_counter()
    loaded(spark.read, each, bootstrap, topic, "earliest").write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun


def stream(spark: Any, each: str, bootstrap: str, topic: str, checkpoint: str) -> float:
    """Seconds of a query that takes all there is and ends."""
    frame = loaded(spark.readStream, each, bootstrap, topic, "earliest")
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
    begun = time.perf_counter()
    query = writer.start()
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
