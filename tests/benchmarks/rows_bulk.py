"""Bulk rows: produce and consume of 1 KB records, in MB/s and in server CPU seconds per GB.

Each figure is the best of a few rounds.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator

from tests.benchmarks import frames, load, servers
from tests.benchmarks.report import Row
from tests.benchmarks.servers import Server

ROUNDS = 3
SECONDS = 1.0
TOUCHED_BYTES = 3_000_000_000  # more than is produced in so many seconds
FILL_SECONDS = 1.0
PARTITIONS = 40
CONSUME_BYTES = 0.8e9
FETCH_BYTES = 1_048_576  # Kafka's own max.partition.fetch.bytes
FETCH_PARTITIONS = 8
BATCH_RECORDS = 64


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


def _consumed(kafka: Server | None) -> dict[str, load.Load]:
    """Ours, the peers on asyncio streams and Apache Kafka side by side, in turn; a fetch asks for all partitions."""
    one = frames.batch(BATCH_RECORDS, 1000)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(tempfile.NamedTemporaryFile(prefix="streams-"))
        for _ in range(int(CONSUME_BYTES / FETCH_PARTITIONS // len(one))):
            file.write(one)
        file.flush()
        running = [stack.enter_context(servers.barnabas()), *filter(None, [kafka])]
        for server in running:
            load.create_topic(server, "read", FETCH_PARTITIONS)
            for partition in range(FETCH_PARTITIONS):
                load.fill(server, frames.produce("read", partition, one), FILL_SECONDS / FETCH_PARTITIONS)
        running += [
            stack.enter_context(servers.streams(file.name, len(one), BATCH_RECORDS, joined=joined))
            for joined in (True, False)
        ]
        return _best(running, lambda server: load.consume(server, "read", FETCH_BYTES, CONSUME_BYTES, FETCH_PARTITIONS))


def rows(kafka: Server | None) -> Iterator[Row]:
    """Measure ours and each peer."""
    with servers.barnabas() as ours:
        produced = {"ours": _produced(ours)}
    with servers.mock(f"bulk:{PARTITIONS}") as mock:
        produced["mock"] = _produced(mock)
    if kafka:
        produced["kafka"] = _produced(kafka)
    consumed = _consumed(kafka)
    mine, read = produced["ours"], consumed["barnabas"]
    bars = {"mock": (0.65, 0.95), "kafka": (2.0, 3.5)}
    for peer, (must, aim) in bars.items():
        if peer in produced:
            notes = [shares("ours", mine), shares(peer, produced[peer])]
            name = f"produce 1 KB against {peer}"
            yield Row(name, "MB/s", mine.mb_per_s, peer, produced[peer].mb_per_s, must, aim, notes=notes)
    yield Row("server CPU, produce 1 KB", "s/GB", mine.server_cpu_s_per_gb, must=0.8, aim=0.55, better="less")
    yield Row("server CPU, consume 1 KB", "s/GB", read.server_cpu_s_per_gb, must=0.45, aim=0.25, better="less")
    reading: dict[str, tuple[float | None, float | None]] = {
        "streams": (1.5, 2.0),
        "streams piecewise": (None, None),
        "kafka": (0.8, 1.1),
    }
    for peer, (least, wanted) in reading.items():
        if peer in consumed:
            notes = [shares("ours", read), shares(peer, consumed[peer])]
            name = f"consume 1 KB against {peer}"
            yield Row(name, "MB/s", read.mb_per_s, peer, consumed[peer].mb_per_s, least, wanted, notes=notes)
