"""Bulk rows: produce and consume of 1 KB records, in MB/s and in server CPU seconds per GB."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from tests.benchmarks import frames, load, servers
from tests.benchmarks.report import Row
from tests.benchmarks.servers import Server

SECONDS = 5.0
PARTITIONS = 40
CONSUME_BYTES = 0.8e9
FETCH_BYTES = 1_048_576
BATCH_RECORDS = 64


def shares(name: str, measured: load.Load) -> str:
    """Who was busy: a generator above 90 % of a core says nothing about the server's best."""
    note = f"{name}: server CPU {measured.server_share:.0%}, generator CPU {measured.generator_share:.0%}"
    return note + (" (the generator is the limit)" if measured.generator_share > 0.9 else "")


def _produce(server: Server) -> load.Load:
    load.create_topic(server, "bulk", PARTITIONS)
    load.librdkafka_produce(server, "bulk", 1024, servers.warm_up_s(server), PARTITIONS)
    return load.librdkafka_produce(server, "bulk", 1024, SECONDS, PARTITIONS)


def _consume(server: Server) -> load.Load:
    load.create_topic(server, "read", 1)
    load.fill(server, "read", frames.produce("read", 0, frames.batch(BATCH_RECORDS, 1000)), 3.0)
    load.consume(server, "read", FETCH_BYTES, CONSUME_BYTES)
    return load.consume(server, "read", FETCH_BYTES, CONSUME_BYTES)


def rows(kafka: Server | None) -> Iterator[Row]:
    """Measure ours, then each peer."""
    with servers.barnabas() as ours:
        produced, consumed = _produce(ours), _consume(ours)
    with servers.mock(f"bulk:{PARTITIONS}") as mock:
        mocked = _produce(mock)
    yield Row("produce 1 KB against librdkafka's mock", "MB/s", produced.mb_per_s, "mock", mocked.mb_per_s, 0.65, 0.95,
              notes=[shares("ours", produced), shares("mock", mocked)])  # fmt: skip
    yield Row("server CPU, produce 1 KB", "s/GB", produced.server_cpu_s_per_gb, must=0.8, aim=0.55, better="less")
    yield Row("server CPU, consume 1 KB", "s/GB", consumed.server_cpu_s_per_gb, must=0.45, aim=0.25, better="less")

    one = frames.batch(BATCH_RECORDS, 1000)
    with tempfile.NamedTemporaryFile(prefix="streams-") as file:
        for _ in range(int(CONSUME_BYTES // len(one))):
            file.write(one)
        file.flush()
        with servers.streams(file.name, len(one), BATCH_RECORDS) as streams:
            load.consume(streams, "read", FETCH_BYTES, CONSUME_BYTES)
            plain = load.consume(streams, "read", FETCH_BYTES, CONSUME_BYTES)
    notes = [shares("ours", consumed), shares("streams", plain)]
    name = "consume 1 KB against asyncio streams + pread"
    yield Row(name, "MB/s", consumed.mb_per_s, "streams", plain.mb_per_s, 1.5, 2.0, notes=notes)
    if kafka:
        theirs, read = _produce(kafka), _consume(kafka)
        yield Row("produce 1 KB against Apache Kafka", "MB/s", produced.mb_per_s, "kafka", theirs.mb_per_s, 2.0, 3.5,
                  notes=[shares("kafka", theirs)])  # fmt: skip
        yield Row("consume 1 KB against Apache Kafka", "MB/s", consumed.mb_per_s, "kafka", read.mb_per_s, 0.8, 1.1,
                  notes=[shares("kafka", read)])  # fmt: skip
