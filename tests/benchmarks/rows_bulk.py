"""Bulk rows: produce and consume of 1 KB records, in MB/s and in server CPU seconds per GB.

Each figure is the best of a few rounds, peers warm. Produce stands there in both modes of `barnabas.validate.records`.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator

from tests.benchmarks import frames, load, servers
from tests.benchmarks.report import Row
from tests.benchmarks.servers import MODES, Peers, Server

ROUNDS = 3
SECONDS = 1.0
TOUCHED_BYTES = 3_000_000_000  # more than is produced in so many seconds
PARTITIONS = 40
CONSUME_BYTES = 0.8e9
FETCH_BYTES = 1_048_576  # Kafka's own max.partition.fetch.bytes
FETCH_PARTITIONS = 8
BATCH_RECORDS = 64
PRODUCE_BARS: dict[str, tuple[float, float]] = {"mock": (0.65, 0.95), "kafka": (2.0, 3.5)}
CONSUME_BARS: dict[str, tuple[float, float]] = {"streams": (1.5, 2.0), "kafka": (0.8, 1.1)}


def shares(name: str, measured: load.Load) -> str:
    """Who was busy: a generator above 90 % of a core says nothing about the server's best."""
    note = f"{name}: server CPU {measured.server_share:.0%}, generator CPU {measured.generator_share:.0%}"
    return note + (" (the generator is the limit)" if measured.generator_share > 0.9 else "")


def _best(running: list[Server], measure: Callable[[Server], load.Load]) -> dict[str, load.Load]:
    best: dict[str, load.Load] = {}
    for _ in range(ROUNDS):
        for server in running:
            found = measure(server)
            if server.name not in best or found.mb_per_s > best[server.name].mb_per_s:
                best[server.name] = found
    return best


def _produced(server: Server) -> load.Load:
    """One server alone, into memory that has been written to: what the page cache takes new costs more than it does."""
    load.create_topic(server, "bulk", PARTITIONS)
    load.librdkafka_produce(server, "bulk", 1024, servers.warm_up_s(server), PARTITIONS)

    def once(one: Server) -> load.Load:
        load.touch(TOUCHED_BYTES)
        return load.librdkafka_produce(one, "bulk", 1024, SECONDS, PARTITIONS)

    return _best([server], once)[server.name]


def _consumed(peers: Peers) -> tuple[dict[str, load.Load], Row]:
    """Ours, the peers on asyncio streams and Apache Kafka side by side, in turn; a fetch asks for all partitions.

    All logs hold the same bytes. The row says what of ours' memory is resident after so much was read through maps.
    """
    one = frames.batch(BATCH_RECORDS, 1000)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(tempfile.NamedTemporaryFile(prefix="streams-"))
        for _ in range(int(CONSUME_BYTES / FETCH_PARTITIONS // len(one))):
            file.write(one)
        file.flush()
        ours = stack.enter_context(servers.barnabas())
        running = [ours, *filter(None, [peers.kafka])]
        for server in running:
            load.create_topic(server, "read", FETCH_PARTITIONS)
            for partition in range(FETCH_PARTITIONS):
                load.fill(server, frames.produce("read", partition, one), CONSUME_BYTES / FETCH_PARTITIONS)
        running += [
            stack.enter_context(servers.streams(file.name, len(one), BATCH_RECORDS, joined=joined))
            for joined in ((True, False) if peers.others else ())
        ]

        def once(server: Server) -> load.Load:
            return load.consume(server, "read", FETCH_BYTES, CONSUME_BYTES, FETCH_PARTITIONS)

        for server in running:
            for _ in range(servers.warm_rounds(server)):
                once(server)
        best = _best(running, once)
        own = f"{ours.own_mb():.0f} MB of it the process' own, the rest pages of the log that are mapped"
        return best, Row("resident memory after 0.8 GB was read", "MB", ours.resident_mb(), notes=[own])


def rows(peers: Peers) -> Iterator[Row]:
    """Measure ours and each peer."""
    produced: dict[str, load.Load] = {}
    for mode in MODES:
        with servers.barnabas(mode=mode) as ours:
            produced[mode] = _produced(ours)
    if peers.others:
        with servers.mock(f"bulk:{PARTITIONS}") as mock:
            produced["mock"] = _produced(mock)
    if peers.kafka:
        produced["kafka"] = _produced(peers.kafka)
    for mode in MODES:
        mine, name = produced[mode], f"produce 1 KB, records {mode}"
        for peer, (must, aim) in PRODUCE_BARS.items():
            if peer in produced:
                notes = [shares("ours", mine), shares(peer, produced[peer])]
                theirs = produced[peer].mb_per_s
                yield Row(f"{name}, against {peer}", "MB/s", mine.mb_per_s, peer, theirs, must, aim, notes=notes)
        if not peers.others:
            yield Row(name, "MB/s", mine.mb_per_s, notes=[shares("ours", mine)])
        cost = mine.server_cpu_s_per_gb
        yield Row(f"server CPU, produce 1 KB, records {mode}", "s/GB", cost, must=0.8, aim=0.55, better="less")
    yield from _consume_rows(peers)


def _consume_rows(peers: Peers) -> Iterator[Row]:
    consumed, memory = _consumed(peers)
    read = consumed["ours"]
    cost = read.server_cpu_s_per_gb
    yield Row("server CPU, consume 1 KB", "s/GB", cost, must=0.45, aim=0.25, better="less")
    # The bar stands against the stronger of the two forms: which it is depends on the Python (3.12 joins no more).
    forms = [name for name in consumed if name.startswith("streams")]
    chosen = {max(forms, key=lambda name: consumed[name].mb_per_s): "streams"} if forms else {}
    for peer, bars in {**chosen, **({"kafka": "kafka"} if peers.kafka else {})}.items():
        must, aim = CONSUME_BARS[bars]
        notes = [shares("ours", read), shares(peer, consumed[peer])]
        weaker = [name for name in forms if peer in forms and name != peer]
        notes += [f"{name}: {consumed[name].mb_per_s:,.0f} MB/s" for name in weaker]
        theirs = consumed[peer].mb_per_s
        yield Row(f"consume 1 KB against {bars}", "MB/s", read.mb_per_s, peer, theirs, must, aim, notes=notes)
    if not peers.others:
        yield Row("consume 1 KB", "MB/s", read.mb_per_s, notes=[shares("ours", read)])
    yield memory
