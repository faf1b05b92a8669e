"""Rows of the PySpark source against Spark's own Kafka connector, on our broker and in one session.

Where the connector cannot be had, our figures stand alone and say why.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from tests.benchmarks import load, servers
from tests.benchmarks.peers.clients import PARTITIONS
from tests.benchmarks.report import Row
from tests.benchmarks.servers import Peers, Server
from tests.oracle.spark_connector import ConnectorUnavailable, connector

COUNTS = {100: 3_000_000, 1024: 600_000}
LABELS = {100: "100 B", 1024: "1 KB"}
BARS = {100: (2.0, 3.0), 1024: (1.2, 2.0)}
LATENCY_MS_BARS = (150.0, 90.0)
SECONDS_MAX = 200


def _fill(server: Server, size: int) -> str:
    topic = f"spark-{size}"
    load.create_topic(server, topic, PARTITIONS)
    subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.peers.clients", "ours_produce", server.bootstrap, topic,
         str(COUNTS[size] - 1), str(size)],  # the client sends one before it counts
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return f"{topic}:{COUNTS[size]}"


def _measured(server: Server, jars: str) -> list[dict[str, Any]]:
    """All figures of one session, as far as it came, and what went wrong if anything did."""
    topics = [_fill(server, size) for size in COUNTS]
    command = [sys.executable, "-m", "tests.benchmarks.peers.spark", server.bootstrap, jars, *topics]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired as error:
        said, trouble = error.stdout or b"", f"Spark took longer than {SECONDS_MAX} s"
        lines = said.decode() if isinstance(said, bytes) else said
    else:
        lines, trouble = run.stdout, "" if run.returncode == 0 else (run.stderr.strip().splitlines() or ["?"])[-1]
    figures = [json.loads(line) for line in lines.splitlines()]
    return [*figures, *([{"trouble": trouble}] if trouble else [])]


def rows(_peers: Peers) -> Iterator[Row]:
    """Batch and streaming reads of 100-byte and 1 KB records, and one record to `foreachBatch`."""
    notes = []
    try:
        jars = connector()
    except ConnectorUnavailable as error:
        jars, notes = "", [str(error)]  # our figures stand alone then
    with servers.barnabas() as server:
        figures = _measured(server, jars)
    notes += [figure["trouble"] for figure in figures if "trouble" in figure]
    rates = {(each["read"], each["topic"], each["format"]): each["rows_per_s"] for each in figures if "read" in each}
    for size, label in LABELS.items():
        for way in ("batch", "stream"):
            ours, theirs = (rates.get((way, f"spark-{size}", name)) for name in ("barnabas", "kafka"))
            must, aim = BARS[size]
            yield Row(
                f"Spark {way} read {label}", "rows/s", ours, "Spark's connector", theirs, must, aim, notes=list(notes)
            )
    waits = {each["format"]: each["latency_ms"] for each in figures if "latency_ms" in each}
    must, aim = LATENCY_MS_BARS
    told = [f"{name}: p50 {statistics.median(found):.0f} ms, p90 {statistics.quantiles(found, n=10)[-1]:.0f} ms, "
            f"slowest {max(found):.0f} ms" for name, found in waits.items()]  # fmt: skip
    ours = statistics.median(waits["barnabas"]) if "barnabas" in waits else None
    yield Row(
        "one record to foreachBatch p50, tuned session", "ms", ours, must=must, aim=aim, better="less",
        notes=[*told, *notes],
    )  # fmt: skip
