"""Rows of small requests: throughput over 16 connections, the synchronous round trip, and waking a waiting consumer.

All servers run side by side and are measured in turn, several rounds, each figure the best of its rounds: what the
machine does meanwhile falls on all of them alike. Ours stands there in both modes of `barnabas.validate.records`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from tests.benchmarks import load, servers
from tests.benchmarks.report import Row
from tests.benchmarks.rows_bulk import shares
from tests.benchmarks.servers import MODES, Peers, Server

ROUNDS = 5
SECONDS = 1.5
WAKES = 500
SHAPES = {"deep": (16, 8), "flat": (16, 1), "sync": (1, 1)}
LABELS = {
    "deep": "small requests, 16 connections x 8 deep",
    "flat": "small requests, 16 connections x 1",
    "sync": "synchronous produce p50",
}
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
        warm = servers.warm_rounds(server)
        for turn in range(warm + ROUNDS):
            found = load.wake(server, "wake", turn * WAKES, WAKES)
            if turn >= warm and (server.name not in best or found.p50_us < best[server.name].p50_us):
                best[server.name] = found
    return best


def rows(peers: Peers) -> Iterator[Row]:
    """Measure ours in both modes, the mock and, where asked, Apache Kafka."""
    with contextlib.ExitStack() as stack:
        ours = [stack.enter_context(servers.barnabas(mode=mode)) for mode in MODES]
        mock = [stack.enter_context(servers.mock("small:1"))] if peers.others else []
        small = _small([*ours, *mock, *filter(None, [peers.kafka])])
        wakes = _wakes([*ours, *filter(None, [peers.kafka])])
    for mode, server in zip(MODES, ours, strict=True):
        for kind in SHAPES:
            mine = small[kind, server.name]
            against = [(peer, small[kind, peer]) for peer in ("mock", "kafka") if (kind, peer) in small]
            yield from (_row(kind, mode, mine, peer, theirs) for peer, theirs in against)
            if not against:
                yield _row(kind, mode, mine)
        yield from _woken(mode, wakes[server.name], wakes.get("kafka"))


def _row(kind: str, mode: str, mine: load.Load, peer: str = "", theirs: load.Load | None = None) -> Row:
    name = f"{LABELS[kind]}, records {mode}" + (f", {peer}" if peer else "")
    row = Row(name, "per s", mine.per_s, peer, notes=[shares("ours", mine)])
    if kind == "sync":
        row.unit, row.ours, row.better = "µs", mine.p50_us, "less"
        row.notes.append(f"p99: ours {mine.p99_us:.0f} µs" + (f", {peer} {theirs.p99_us:.0f} µs" if theirs else ""))
    if theirs:
        row.must, row.aim = BARS[kind, peer]
        row.peer = theirs.p50_us if kind == "sync" else theirs.per_s
        row.notes.append(shares(peer, theirs))
    return row


def _woken(mode: str, mine: load.Load, theirs: load.Load | None) -> Iterator[Row]:
    name = f"produce to waiting consumer, records {mode},"
    if theirs is None:
        yield Row(f"{name} p50", "µs", mine.p50_us, better="less", notes=[f"p99 {mine.p99_us:.0f} µs"])
        return
    yield Row(f"{name} p50", "µs", mine.p50_us, "kafka", theirs.p50_us, 0.9, 0.5, "less")
    yield Row(f"{name} p99", "µs", mine.p99_us, "kafka", theirs.p99_us, 0.5, 0.2, "less")
