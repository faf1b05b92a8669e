"""Rows of small requests: throughput over 16 connections, the synchronous round trip, and waking a waiting consumer."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks import load, servers
from tests.benchmarks.report import Row
from tests.benchmarks.rows_bulk import shares
from tests.benchmarks.servers import Server

SECONDS = 3.0
WAKES = 500


def _small(server: Server) -> dict[str, load.Load]:
    load.create_topic(server, "small", 1)
    load.small_requests(server, "small", 16, 8, servers.warm_up_s(server))
    return {
        "deep": load.small_requests(server, "small", 16, 8, SECONDS),
        "flat": load.small_requests(server, "small", 16, 1, SECONDS),
        "sync": load.small_requests(server, "small", 1, 1, SECONDS),
    }


def _wake(server: Server) -> load.Load:
    load.create_topic(server, "wake", 1)
    load.wake(server, "wake", 0, 50)
    return load.wake(server, "wake", 50, WAKES)


def rows(kafka: Server | None) -> Iterator[Row]:
    """Measure ours, the mock and, where asked, Apache Kafka."""
    with servers.barnabas() as server:
        ours, woken = _small(server), _wake(server)
    with servers.mock("small:1") as server:
        peers = {"mock": _small(server)}
    if kafka:
        peers["kafka"] = _small(kafka)
    bars = {
        ("deep", "mock"): (0.6, 1.2),
        ("deep", "kafka"): (2.0, 5.0),
        ("flat", "mock"): (0.45, 0.7),
        ("flat", "kafka"): (1.2, 2.0),
        ("sync", "mock"): (2.0, 1.2),
        ("sync", "kafka"): (0.9, 0.6),
    }
    labels = {"deep": "small requests, 16 connections x 8 deep", "flat": "small requests, 16 connections x 1"}
    for (kind, peer), (must, aim) in bars.items():
        if peer not in peers:
            continue
        mine, theirs = ours[kind], peers[peer][kind]
        notes = [shares("ours", mine), shares(peer, theirs)]
        if kind == "sync":
            notes.append(f"p99: ours {mine.p99_us:.0f} µs, {peer} {theirs.p99_us:.0f} µs")
            yield Row(
                f"synchronous produce p50, {peer}", "µs", mine.p50_us, peer, theirs.p50_us, must, aim, "less", notes
            )
        else:
            yield Row(f"{labels[kind]}, {peer}", "per s", mine.per_s, peer, theirs.per_s, must, aim, notes=notes)
    if kafka:
        theirs = _wake(kafka)
        yield Row("produce to waiting consumer p50", "µs", woken.p50_us, "kafka", theirs.p50_us, 0.9, 0.5, "less")
        yield Row("produce to waiting consumer p99", "µs", woken.p99_us, "kafka", theirs.p99_us, 0.5, 0.2, "less")
    else:
        yield Row("produce to waiting consumer p50", "µs", woken.p50_us, notes=[f"p99 {woken.p99_us:.0f} µs"])
