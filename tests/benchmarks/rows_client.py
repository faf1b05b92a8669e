"""Rows of the bundled client against aiokafka: same broker, same settings, each client in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from tests.benchmarks import load, servers
from tests.benchmarks.peers.clients import PARTITIONS
from tests.benchmarks.report import Row
from tests.benchmarks.servers import Server

COUNTS = {100: 300_000, 1024: 100_000}
RUNS = 3


def _rate(server: Server, mode: str, topic: str, count: int, size: int) -> float:
    """Records per second, the best of a few runs (the machine is shared, a client is not faster than it is)."""
    best = 0.0
    for _ in range(RUNS):
        arguments = [
            sys.executable,
            "-m",
            "tests.benchmarks.peers.clients",
            mode,
            server.bootstrap,
            topic,
            str(count),
            str(size),
        ]
        done = subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=180)
        seconds = float(done.stdout.split()[0])
        best = max(best, count / seconds)
    return best


def rows(_kafka: Server | None) -> Iterator[Row]:
    """100-byte and 1 KB records: produce, consume by record, consume by columnar batch."""
    with servers.barnabas() as server:
        for size, count in COUNTS.items():
            label = f"{size} B" if size < 1024 else "1 KB"
            for topic in (f"ours-{size}", f"theirs-{size}"):
                load.create_topic(server, topic, PARTITIONS)
            ours = _rate(server, "ours_produce", f"ours-{size}", count, size)
            theirs = _rate(server, "aiokafka_produce", f"theirs-{size}", count, size)
            yield Row(f"client produce {label}", "rec/s", ours, "aiokafka", theirs, 2.0, 4.0)
            stored = RUNS * count  # every run of the producer added its own
            ours = _rate(server, "ours_consume", f"ours-{size}", stored, size)
            columns = _rate(server, "ours_columns", f"ours-{size}", stored, size)
            theirs = _rate(server, "aiokafka_consume", f"ours-{size}", stored, size)
            yield Row(f"client consume by record {label}", "rec/s", ours, "aiokafka", theirs, 0.7, 1.0)
            yield Row(f"client consume by columnar batch {label}", "rec/s", columns, "aiokafka", theirs, 5.0, 10.0)
