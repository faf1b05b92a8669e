"""Exactly once, proven: each batch's rows are written down by its number, and one that runs again must bring the same.
`python -m tests.spark.ledger` runs such a query in a driver of its own, for tests that kill it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from barnabas import Producer

PARTITIONS = 2
WAIT_S = 240
"""No more than anything here may ever take; nothing waits for it to pass."""


class Ledger:
    """The rows of each batch in a file of its own, which survives its driver."""

    def __init__(self, directory: Path, told: Callable[[int], None] = lambda _: None) -> None:
        directory.mkdir(exist_ok=True)
        self._directory, self._told = directory, told
        self._changed = threading.Condition()
        self.repeats = 0
        self.rows = len(self.all())

    def take(self, batch: Any, number: int) -> None:
        """For `foreachBatch`."""
        columns = batch.select("partition", "offset", "value").collect()
        text = json.dumps(sorted((row.partition, row.offset, int(row.value)) for row in columns))
        place = self._directory / f"{number}.json"
        if place.exists():
            assert place.read_text() == text, f"batch {number} ran again and is another"
            self.repeats += 1
        else:
            draft = place.with_suffix(".draft")
            draft.write_text(text)
            draft.rename(place)
            with self._changed:
                self.rows += len(columns)
                self._changed.notify_all()
        self._told(self.rows)

    def wait_for(self, rows: int, query: Any) -> None:
        """Returns once so many rows are written down."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.rows >= rows, WAIT_S), (self.rows, rows, query.exception())

    def all(self) -> list[tuple[int, int, int]]:
        """Partition, offset and value of every row."""
        return [tuple(row) for place in self._directory.glob("*.json") for row in json.loads(place.read_text())]

    def check(self, count: int) -> None:
        """Each offset once, without a gap, and each value once: `count` of them, and their checksum."""
        rows = self.all()
        for partition in range(PARTITIONS):
            offsets = sorted(offset for where, offset, _ in rows if where == partition)
            assert offsets == list(range(len(offsets))), f"partition {partition}"
        assert len(rows) == count
        assert checksum(sorted(value for _, _, value in rows)) == checksum(list(range(count)))


def checksum(values: list[int]) -> int:
    return zlib.crc32(json.dumps(values).encode())


class Load:
    """Numbers from 0 on, dealt to the partitions in turn, until `stop`, which returns how many are acknowledged."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers, self._topic = servers, topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._count = 0

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> int:
        self._stop.set()
        self._thread.join()
        return self._count

    def _run(self) -> None:
        with Producer(bootstrap_servers=self._servers, enable_idempotence=True) as producer:
            while not self._stop.wait(0.01):
                numbers = range(self._count, self._count + 20)
                sent = [producer.send(self._topic, b"%d" % each, partition=each % PARTITIONS) for each in numbers]
                producer.flush()
                for future in sent:
                    future.result()
                self._count += len(sent)


IN_TASKS = {"minPartitions": 2}
"""Read by tasks, however little there is: a planner reads no batch itself that is to be so many."""


def start(spark: Any, servers: str, topic: str, directory: Path, ledger: Ledger, **options: Any) -> Any:
    """A query over the topic, whose checkpoint lies beside the ledger."""
    reader = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", servers)
    stream = reader.options(**{"subscribe": topic, "startingOffsets": "earliest", **options}).load()
    writer = stream.writeStream.foreachBatch(ledger.take).option("checkpointLocation", str(directory / "checkpoint"))
    return writer.start()


# ---- processes ------------------------------------------------------------------------------------------------------


PLANNER = "-m pyspark.sql.streaming.python_streaming_source_runner"
WORKER = "-m pyspark.daemon pyspark.worker"
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def below(pid: int) -> dict[int, tuple[int, str]]:
    """All processes that descend from one, with their parents and command lines (Linux)."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(place.name))
    found: dict[int, tuple[int, str]] = {}
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        for child in children.get(parent, []):
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[child] = parent, command
            waiting.append(child)
    return found


def found(pid: int, kind: str) -> list[int]:
    """Spark's planners, workers or executors below a process; of workers those that work, not what they come from."""
    present = {each: (parent, command) for each, (parent, command) in below(pid).items() if kind in command}
    if kind == EXECUTOR:  # a shell may have started it
        return [each for each, (_, command) in present.items() if command.split()[0].endswith("java")]
    return [each for each, (parent, _) in present.items() if kind == PLANNER or parent in present]


def end_with(query: Any) -> None:
    """Nobody shall wait for batches of a query that has ended."""
    with contextlib.suppress(Exception):  # it is in the log
        query.awaitTermination()
    os._exit(1)


def main(servers: str, topic: str, directory: Path, master: str) -> None:
    """A driver: tells after each batch how many rows there are, and runs until it is killed or its input ends."""
    from barnabas.spark_bridge import session

    ledger = Ledger(directory / "ledger", lambda rows: print(rows, flush=True))
    settings = {"spark.sql.shuffle.partitions": "2", "spark.executor.memory": "512m"}
    for side in ("driver", "executor"):
        settings[f"spark.{side}.extraJavaOptions"] = f"-Djava.io.tmpdir={tempfile.gettempdir()}"
    spark = session("killed", master=master, conf=settings, log_file=directory / "driver.log")
    query = start(spark, servers, topic, directory, ledger, **IN_TASKS)
    threading.Thread(target=end_with, args=(query,), daemon=True).start()
    sys.stdin.read()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
