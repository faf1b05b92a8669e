"""Rows of small requests: throughput over 16 connections, the synchronous round trip, and waking a waiting consumer.

All servers run side by side and are measured in turn, several rounds, each figure the best of its rounds: what the
machine does meanwhile falls on all of them alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from tests.benchmarks import load, servers
from tests.benchmarks.report import Row
from tests.benchmarks.rows_bulk import shares
from tests.benchmarks.servers import Server

ROUNDS = 5
SECONDS = 1.5
WAKES = 500
SHAPES = {"deep": (16, 8), "flat": (16, 1), "sync": (1, 1)}
LABELS = {"deep": "small requests, 16 connections x 8 deep", "flat": "small requests, 16 connections x 1"}
BARS = {
    ("deep", "mock"): (0.6, 1.2),
    ("deep", "kafka"): (2.0, 5.0),
    ("flat", "mock"): (0.45, 0.7),
    ("flat", "kafka"): (1.2, 2.0),
    ("sync", "mock"): (2.0, 1.2),
    ("sync", "kafka"): (0.9, 0.6),
}
Measured = dict[tuple[str, str], load.Load]


def _small(running: list[Server]) -> Measured:
    for server in running:
        load.create_topic(server, "small", 1)
        load.small_requests(server, "small", 16, 8, servers.warm_up_s(server))
    better: dict[str, Callable[[load.Load], float]] = {
        "deep": lambda found: found.per_s,
        "flat": lambda found: found.per_s,
        "sync": lambda found: -found.p50_us,
    }
    best: Measured = {}
    for _ in range(ROUNDS):
        for kind, (connections, depth) in SHAPES.items():
            for server in running:
                found = load.small_requests(server, "small", connections, depth, SECONDS)
                key = kind, server.name
                if key not in best or better[kind](found) > better[kind](best[key]):
                    best[key] = found
    return best


def _wakes(running: list[Server]) -> dict[str, load.Load]:
    best: dict[str, load.Load] = {}
    for server in running:
        load.create_topic(server, "wake", 1)
        load.wake(server, "wake", 0, WAKES)
    for turn in range(1, ROUNDS + 1):
        for server in running:
            found = load.wake(server, "wake", turn * WAKES, WAKES)
            if server.name not in best or found.p50_us < best[server.name].p50_us:
                best[server.name] = found
    return best


def rows(kafka: Server | None) -> Iterator[Row]:
    """Measure ours, the mock and, where asked, Apache Kafka."""
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(servers.barnabas())
        peers = [stack.enter_context(servers.mock("small:1")), *filter(None, [kafka])]
        small = _small([ours, *peers])
        wakes = _wakes([ours, *filter(None, [kafka])])
    for (kind, peer), (must, aim) in BARS.items():
        if (kind, peer) not in small:
            continue
        mine, theirs = small[kind, ours.name], small[kind, peer]
        notes = [shares("ours", mine), shares(peer, theirs)]
        if kind == "sync":
            notes.append(f"p99: ours {mine.p99_us:.0f} µs, {peer} {theirs.p99_us:.0f} µs")
            yield Row(
                f"synchronous produce p50, {peer}", "µs", mine.p50_us, peer, theirs.p50_us, must, aim, "less", notes
            )
        else:
            yield Row(f"{LABELS[kind]}, {peer}", "per s", mine.per_s, peer, theirs.per_s, must, aim, notes=notes)
    woken = wakes[ours.name]
    if kafka:
        theirs = wakes[kafka.name]
        yield Row("produce to waiting consumer p50", "µs", woken.p50_us, "kafka", theirs.p50_us, 0.9, 0.5, "less")
        yield Row("produce to waiting consumer p99", "µs", woken.p99_us, "kafka", theirs.p99_us, 0.5, 0.2, "less")
    else:
        yield Row("produce to waiting consumer p50", "µs", woken.p50_us, notes=[f"p99 {woken.p99_us:.0f} µs"])
