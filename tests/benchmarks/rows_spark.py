"""Rows of the PySpark source against Spark's own Kafka connector, on our broker and in one session.

Two sessions, one after the other: the plain one, which `SparkSession.builder.getOrCreate()` gives, and our tuned one.
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
SESSIONS = ("plain", "tuned")
SINKS = {
    "memory": "aggregated into a memory sink",
    "noop": "all columns into a noop sink",
    "grouped": "grouped into a memory sink",
}
BARS = {
    ("plain", "memory", "batch", 100): (3.0, 4.0),
    ("plain", "memory", "batch", 1024): (1.8, 2.5),
    ("plain", "memory", "stream", 100): (1.8, 2.5),
    ("plain", "memory", "stream", 1024): (1.2, 1.8),
    ("tuned", "noop", "batch", 100): (2.0, 3.0),
    ("tuned", "noop", "stream", 100): (2.0, 3.0),
    ("tuned", "noop", "batch", 1024): (1.2, 2.0),
    ("tuned", "noop", "stream", 1024): (1.2, 2.0),
}
"""Must and aim by session, sink, way and size. Of the rest, the row says what it is and judges nothing."""
LATENCY_MS_BARS = (90.0, 60.0)
LATENCY_RATIO_BARS = (1.0, 0.7)
SECONDS_MAX = 280


def _fill(server: Server, size: int) -> str:
    topic = f"spark-{size}"
    load.create_topic(server, topic, PARTITIONS)
    subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.peers.clients", "ours_produce", server.bootstrap, topic,
         str(COUNTS[size] - 1), str(size)],  # the client sends one before it counts
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return f"{topic}:{COUNTS[size]}"


def _measured(kind: str, jars: str) -> list[dict[str, Any]]:
    """All figures of one session, as far as it came, and what went wrong if anything did."""
    with servers.barnabas() as server:
        topics = [_fill(server, size) for size in COUNTS]
        command = [sys.executable, "-m", "tests.benchmarks.peers.spark", kind, server.bootstrap, jars, *topics]
        try:
            run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired as error:
            said, trouble = error.stdout or b"", f"Spark took longer than {SECONDS_MAX} s"
            lines = said.decode() if isinstance(said, bytes) else said
        else:
            lines, trouble = run.stdout, "" if run.returncode == 0 else (run.stderr.strip().splitlines() or ["?"])[-1]
    figures = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
    return [*figures, *([{"trouble": trouble}] if trouble else [])]


def rows(_peers: Peers) -> Iterator[Row]:
    """Batch and streaming reads of 100-byte and 1 KB records, and one record to `foreachBatch`, in both sessions."""
    notes: list[str] = []
    try:
        jars = connector()
    except ConnectorUnavailable as error:
        jars, notes = "", [str(error)]  # our figures stand alone then
    for kind in SESSIONS:
        figures = _measured(kind, jars)
        told = [*notes, *(figure["trouble"] for figure in figures if "trouble" in figure)]
        yield from _reads(kind, figures, told)
        yield _latency(kind, figures, told)


def _reads(kind: str, figures: list[dict[str, Any]], notes: list[str]) -> Iterator[Row]:
    rates = {
        (each["sink"], each["read"], each["topic"], each["format"]): each["rows_per_s"]
        for each in figures
        if "read" in each
    }
    wanted = [(sink, way, size) for sink in ("memory", "noop") for size in COUNTS for way in ("batch", "stream")]
    for sink, way, size in [*wanted, ("grouped", "stream", min(COUNTS))]:
        ours, theirs = (rates.get((sink, way, f"spark-{size}", name)) for name in ("barnabas", "kafka"))
        must, aim = BARS.get((kind, sink, way, size), (None, None))
        name = f"Spark {way} {LABELS[size]}, {kind} session, {SINKS[sink]}"
        yield Row(name, "rows/s", ours, "Spark's connector", theirs, must, aim, notes=list(notes))


def _latency(kind: str, figures: list[dict[str, Any]], notes: list[str]) -> Row:
    waits = {each["format"]: each["latency_ms"] for each in figures if "latency_ms" in each}
    told = [f"{name}: p50 {statistics.median(found):.0f} ms, p90 {statistics.quantiles(found, n=10)[-1]:.0f} ms, "
            f"slowest {max(found):.0f} ms" for name, found in waits.items()]  # fmt: skip
    ours, theirs = (statistics.median(waits[name]) if name in waits else None for name in ("barnabas", "kafka"))
    name = f"one record to foreachBatch p50, {kind} session"
    if kind == "tuned":
        must, aim = LATENCY_MS_BARS
        return Row(name, "ms", ours, must=must, aim=aim, better="less", notes=[*told, *notes])
    must, aim = LATENCY_RATIO_BARS
    return Row(name, "ms", ours, "Spark's connector", theirs, must, aim, better="less", notes=[*told, *notes])
