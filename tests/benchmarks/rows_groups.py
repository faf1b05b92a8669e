"""Rows of consumer groups: joining, one that leaves, heartbeats, commits, and the first group of a fresh broker.

Members are raw (`groups.c`): what a client library costs is not in the figures. `net` is the time in which the server
owed somebody an answer that brings the group on: a rebalance waits for heartbeats that are not due yet, and whoever
waits with it is owed nothing. What the generator itself takes is told beside it. Ours and, where asked, Apache Kafka
have no initial delay (`group.initial.rebalance.delay.ms=0`).
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tests.benchmarks import group_load, load, servers
from tests.benchmarks.group_load import Beats, Cycle, Cycles, First, Phase, Refused, medians
from tests.benchmarks.report import Row
from tests.benchmarks.rows_bulk import shares
from tests.benchmarks.servers import Peers, Server

NO_DELAY: Final = ("--set", "group.initial.rebalance.delay.ms=0")
PROTOCOLS: Final = ("classic", "consumer")
TOPIC: Final = "shared"
PARTITIONS: Final = 1000
FEW, MANY = 100, 1000
ROUNDS_OF_CYCLES, CYCLES = 3, 3
"""Groups come and go on one server, then on the other, and so on: what the machine does besides falls on both."""
CYCLES_OF_MANY = 3
WARM_CYCLES = {"ours": 1, "kafka": 8}
"""Before those that count: ours loads what it needs, Apache Kafka compiles for some eight seconds."""
FIRSTS = 5
RETRY_MS: Final = 100
"""`retry.backoff.ms` of Kafka's own clients."""
SECONDS = 1.5
ROUNDS = 5
COMMITS = {"sync": (1, 1), "deep": (16, 8)}


def _first(server: Server) -> First:
    return group_load.first(server, "first", TOPIC, RETRY_MS)


def _firsts(kafka: First | None) -> Iterator[Row]:
    """The first group of fresh brokers, and what their memory has grown by when it has its assignment and is gone."""
    found: list[tuple[First, float]] = []
    with tempfile.TemporaryDirectory() as compiled:
        for _ in range(1 + FIRSTS):  # the very first compiles
            with servers.barnabas(*NO_DELAY, environment=servers.installed(compiled)) as server:
                load.create_topic(server, TOPIC, 1)
                before = server.resident_mb()
                one = _first(server)
                found.append((one, server.resident_mb() - before))
    del found[0]
    times = sorted(one.elapsed for one, _ in found)
    middle = statistics.median(times)
    cpu = statistics.median(one.cpu for one, _ in found)
    notes = [f"of {FIRSTS}: {times[0]:.0f} to {times[-1]:.0f} ms; server CPU {cpu:.0f} ms"]
    notes.append(f"FindCoordinator asked {max(one.asked for one, _ in found)} times, {RETRY_MS} ms apart")
    if kafka:
        notes.append(f"kafka: {kafka.elapsed:.0f} ms, FindCoordinator asked {kafka.asked} times")
    name = "first group of a fresh broker, to its assignment"
    yield Row(name, "ms", middle, must=150, aim=50, better="less", notes=notes)
    grown = statistics.median(grown for _, grown in found)
    yield Row("memory that the first group takes", "MB", grown, must=3, aim=1.5, better="less")


def _cycles(protocol: str, ours: Server, kafka: Server | None) -> Iterator[Row]:
    """A group of 100, in turn with Apache Kafka's; then one of 1,000, whose members are to cost no more each."""
    name = f"group of {FEW}, {protocol}"
    running = [ours, *filter(None, [kafka])]
    found: dict[str, list[Cycle]] = {server.name: [] for server in running}
    try:
        for server in running:
            warm = WARM_CYCLES[server.name]
            group_load.cycles(server, protocol, f"warm-{protocol}", TOPIC, PARTITIONS, FEW, warm)
        for number in range(ROUNDS_OF_CYCLES):
            for server in running:
                group = f"few-{protocol}-{number}"
                found[server.name] += group_load.cycles(server, protocol, group, TOPIC, PARTITIONS, FEW, CYCLES)
    except Refused as refusal:
        yield Row(f"{name}: all join, net", "ms", None, notes=[str(refusal)])
        return
    mine, theirs = medians(found["ours"]), medians(found["kafka"]) if kafka else None
    yield _played(f"{name}: all join, net", mine.join, theirs.join if theirs else None)
    yield _played(f"{name}: one leaves, net", mine.leave, theirs.leave if theirs else None)
    yield from _many(protocol, ours, mine)


def _played(name: str, mine: Phase, theirs: Phase | None) -> Row:
    row = Row(name, "ms", mine.net, better="less", notes=[_spent("ours", mine)])
    if theirs:
        row.peer_name, row.peer, row.must, row.aim = "kafka", theirs.net, 0.5, 0.25
        row.notes.append(_spent("kafka", theirs))
    return row


def _spent(name: str, phase: Phase) -> str:
    cpu = f"server CPU {phase.cpu:.1f} ms, generator CPU {phase.own:.1f} ms"
    return f"{name}: {phase.all:.0f} ms in all, {cpu}"


def _many(protocol: str, ours: Server, few: Cycles) -> Iterator[Row]:
    """Then once more, while somebody else asks for something small all the time: that CPU is none of the group's.

    A large group takes longer to come, and heartbeats meanwhile are none of its join's work: as many a second as of the
    small one are said. The second time each member says them as often as there.
    """
    seldom_ms = group_load.BEAT_MS * MANY // FEW
    found = group_load.cycles(
        ours, protocol, f"many-{protocol}", TOPIC, PARTITIONS, MANY, CYCLES_OF_MANY, beat_ms=seldom_ms
    )
    many = medians(found)
    with ThreadPoolExecutor(1) as beside:
        pinged = beside.submit(load.ping, ours, 4.0)
        group_load.cycles(ours, protocol, f"beside-{protocol}", TOPIC, PARTITIONS, MANY, CYCLES_OF_MANY)
        slowest_ms = pinged.result().max_us / 1e3
    growth = (many.join.cpu / MANY) / (few.join.cpu / FEW)
    notes = [
        f"{what}: {one.all:.0f} ms, net {one.net:.0f}, server CPU {one.cpu / MANY:.2f} ms a member"
        for what, one in (("all join", many.join), ("one leaves", many.leave))
    ]
    counts = f"{many.requests / MANY:.2f} requests a member, {few.requests / FEW:.2f} of {FEW}"
    notes.append(f"{few.join.cpu / FEW:.2f} ms a member of {FEW}; {counts}")
    name = f"group of {MANY:,}, {protocol}"
    yield Row(f"{name}: CPU of a join against {FEW}", "x", growth, must=1.5, aim=1.1, better="less", notes=notes)
    yield Row(f"slowest answer to a bystander, {name}", "ms", slowest_ms, must=200, aim=50, better="less")


def _beats(protocol: str, ours: Server, kafka: Server | None) -> Iterator[Row]:
    """Heartbeats of 1,000 members, in turn with Apache Kafka's; one of 1,000 is to cost as much as one of 100."""
    name = f"heartbeats of {MANY:,} members, {protocol}"

    def measured(server: Server, members: int, group: str) -> Beats:
        return group_load.beats(server, protocol, f"{group}-{protocol}", TOPIC, PARTITIONS, members, SECONDS)

    try:
        theirs = measured(kafka, MANY, "warm") if kafka else None
        few, many = measured(ours, FEW, "beat-few"), measured(ours, MANY, "beat-many")
        if kafka:
            theirs = measured(kafka, MANY, "beat-many")
    except Refused as refusal:
        yield Row(name, "per s", None, notes=[str(refusal)])
        return
    row = Row(name, "per s", many.per_s, notes=[_said("ours", many)])
    if theirs:
        row.peer_name, row.peer = "kafka", theirs.per_s
        row.notes.append(_said("kafka", theirs))
    yield row
    growth = many.server_cpu_us / few.server_cpu_us
    notes = [_said(f"{FEW} members", few)]
    yield Row(f"{name}: CPU of one against {FEW}", "x", growth, must=1.5, aim=1.1, better="less", notes=notes)


def _said(name: str, found: Beats) -> str:
    times = f"p50 {found.p50_us / 1e3:.1f} ms, p99 {found.p99_us / 1e3:.1f} ms"
    return f"{name}: {times}, server CPU {found.server_cpu_us:.1f} µs each, generator CPU {found.generator_share:.0%}"


def _commits(running: list[Server]) -> Iterator[Row]:
    """One after the other, and 16 connections with eight under way each; the best of some rounds, in turn."""
    best: dict[tuple[str, str], load.Load] = {}
    for server in running:
        load.commits(server, "commits", TOPIC, *COMMITS["deep"], servers.warm_up_s(server))
    for _ in range(ROUNDS):
        for kind, (connections, depth) in COMMITS.items():
            for server in running:
                found = load.commits(server, "commits", TOPIC, connections, depth, SECONDS)
                key = kind, server.name
                if key not in best or found.p50_us < best[key].p50_us:
                    best[key] = found
    theirs = {kind: best.get((kind, "kafka")) for kind in COMMITS}
    sync, deep = best["sync", "ours"], best["deep", "ours"]
    for word in ("p50", "p99"):
        yield _commit_row(f"commit, one at a time, {word}", "µs", word, sync, theirs["sync"])
    yield _commit_row("commits, 16 connections x 8 deep", "per s", "rate", deep, theirs["deep"])


def _commit_row(name: str, unit: str, word: str, mine: load.Load, theirs: load.Load | None) -> Row:
    figures = {"p50": lambda one: one.p50_us, "p99": lambda one: one.p99_us, "rate": lambda one: one.per_s}
    figure = figures[word]
    cpu = f"server CPU {mine.server_cpu_s * 1e6 / mine.count:.1f} µs each"
    row = Row(name, unit, figure(mine), better="more" if word == "rate" else "less", notes=[shares("ours", mine), cpu])
    if theirs:
        row.peer_name, row.peer = "kafka", figure(theirs)
        row.must, row.aim = (2.0, 4.0) if word == "rate" else (0.5, 0.25)
        row.notes.append(shares("kafka", theirs))
    return row


def rows(peers: Peers) -> Iterator[Row]:
    """Measure ours and, where asked, Apache Kafka: its first group first."""
    kafka = peers.kafka
    if kafka:
        load.create_topic(kafka, TOPIC, PARTITIONS)
    yield from _firsts(_first(kafka) if kafka else None)
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(servers.barnabas(*NO_DELAY))
        load.create_topic(ours, TOPIC, PARTITIONS)
        for protocol in PROTOCOLS:
            yield from _cycles(protocol, ours, kafka)
            yield from _beats(protocol, ours, kafka)
        yield from _commits([ours, *filter(None, [kafka])])
