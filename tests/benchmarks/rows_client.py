"""Rows of the bundled client against aiokafka: same broker, same settings, each client in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from tests.benchmarks import load, servers
from tests.benchmarks.peers.clients import PARTITIONS
from tests.benchmarks.report import Row
from tests.benchmarks.servers import Peers, Server

COUNTS = {100: 600_000, 1024: 200_000}  # enough that connecting and the first answer are little of a run
PRODUCE_ROUNDS = 3
CONSUME_ROUNDS = 5


def _rate(server: Server, mode: str, topic: str, count: int, size: int) -> float:
    """Records per second of one run."""
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
    return count / float(done.stdout.split()[0])


def _rates(server: Server, rounds: int, modes: dict[str, str], count: int, size: int) -> list[float]:
    """Records per second of each mode on its topic: the best of some rounds in which the modes take turns.

    The machine is shared: a client is not faster than it is, and what slows one down shall meet the other, too.
    """
    best = dict.fromkeys(modes, 0.0)
    for _ in range(rounds):
        for mode, topic in modes.items():
            best[mode] = max(best[mode], _rate(server, mode, topic, count, size))
    return list(best.values())


def rows(_peers: Peers) -> Iterator[Row]:
    """100-byte and 1 KB records: produce by record, with callbacks, by table; consume by record, by columnar batch."""
    with servers.barnabas() as server:
        for size, count in COUNTS.items():
            label = f"{size} B" if size < 1024 else "1 KB"
            mine, peers, tables = f"ours-{size}", f"theirs-{size}", f"tables-{size}"
            for topic in (mine, peers, tables):
                load.create_topic(server, topic, PARTITIONS)
            modes = {
                "ours_produce": mine,
                "ours_produce_told": mine,
                "aiokafka_produce": peers,
                "ours_send_columns": tables,
            }
            ours, told, theirs, sent = _rates(server, PRODUCE_ROUNDS, modes, count, size)
            yield Row(f"client produce {label}", "rec/s", ours, "aiokafka", theirs, 2.0, 4.0)
            yield Row(f"client produce {label}, a callback for each", "rec/s", told, "without", ours, 0.85, 0.95)
            yield Row(f"client send_columns {label}", "rows/s", sent, "send", ours, 5.0, 8.0)
            stored = 2 * PRODUCE_ROUNDS * count  # every run of a producer added its own
            modes = dict.fromkeys(("ours_consume", "ours_columns", "aiokafka_consume"), mine)
            ours, columns, theirs = _rates(server, CONSUME_ROUNDS, modes, stored, size)
            yield Row(f"client consume by record {label}", "rec/s", ours, "aiokafka", theirs, 0.7, 1.0)
            yield Row(f"client consume by columnar batch {label}", "rec/s", columns, "aiokafka", theirs, 5.0, 10.0)
