"""One client's work in a process of its own.

`python -m tests.benchmarks.peers.clients MODE BOOTSTRAP TOPIC COUNT BYTES` prints
`seconds cpu_seconds` of the work alone; connecting and the first metadata are not counted.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

PARTITIONS = 4
LINGER_MS = 5
BATCH_BYTES = 65536
BUFFER_BYTES = 64 * 1024 * 1024


class Stopwatch:
    """Wall and CPU seconds since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def show(self) -> None:
        """Print both."""
        print(time.perf_counter() - self._wall, time.process_time() - self._cpu)


def ours_produce(bootstrap: str, topic: str, count: int, size: int) -> None:
    """The blocking producer, from one thread."""
    _produce(bootstrap, topic, count, size)


def ours_produce_told(bootstrap: str, topic: str, count: int, size: int) -> None:
    """The same with a delivery callback for each record, which does nothing."""
    _produce(bootstrap, topic, count, size, lambda metadata, error: None)


def _produce(bootstrap: str, topic: str, count: int, size: int, told: Callable[[Any, Any], None] | None = None) -> None:
    from barnabas import Producer

    value = b"x" * size
    settings = {
        "bootstrap.servers": bootstrap,
        "linger.ms": LINGER_MS,
        "batch.size": BATCH_BYTES,
        "buffer.memory": BUFFER_BYTES,
    }
    with Producer(settings) as producer:
        producer.send(topic, value, partition=0).result(10)
        watch = Stopwatch()
        if told is None:  # both as one writes them: no arguments that are passed on
            for index in range(count):
                producer.send(topic, value, partition=index % PARTITIONS)
        else:
            for index in range(count):
                producer.send(topic, value, partition=index % PARTITIONS, on_delivery=told)
        producer.flush()
        watch.show()


def ours_send_columns(bootstrap: str, topic: str, count: int, size: int) -> None:
    """The blocking producer, a table of values at once."""
    import pyarrow as pa

    from barnabas import Producer

    table = pa.table({"value": pa.array([b"x" * size] * count, pa.binary())})
    settings = {"bootstrap.servers": bootstrap, "linger.ms": LINGER_MS, "buffer.memory": BUFFER_BYTES}
    with Producer(settings) as producer:
        producer.send_columns(topic, table.slice(0, 1)).result(10)
        watch = Stopwatch()
        producer.send_columns(topic, table)
        producer.flush()
        watch.show()


async def aiokafka_produce(bootstrap: str, topic: str, count: int, size: int) -> None:
    """The peer: `send` without awaiting each delivery, as its documentation advises for throughput."""
    from aiokafka import AIOKafkaProducer

    value = b"x" * size
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        linger_ms=LINGER_MS,
        max_batch_size=BATCH_BYTES,
        acks="all",
        enable_idempotence=True,
    )
    await producer.start()
    await producer.send_and_wait(topic, value, partition=0)
    watch = Stopwatch()
    for index in range(count):
        await producer.send(topic, value, partition=index % PARTITIONS)
    await producer.flush()
    watch.show()
    await producer.stop()


def ours_consume(bootstrap: str, topic: str, count: int, _size: int) -> None:
    """Record by record, the blocking consumer."""
    from barnabas import Consumer

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=5000) as consumer:
        consumer.assign([(topic, partition) for partition in range(PARTITIONS)])
        seen = total = 0
        watch = Stopwatch()
        while seen < count:
            for record in consumer.poll(1):
                total += len(record.value)
                seen += 1
        watch.show()


def ours_columns(bootstrap: str, topic: str, count: int, _size: int) -> None:
    """Columnar batches: no object per record. The libraries are loaded beforehand, as in a process that goes on."""
    import pyarrow.compute as pc

    from barnabas import Consumer

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, partition) for partition in range(PARTITIONS)])
        seen = total = 0
        watch = Stopwatch()
        while seen < count:
            for columns in consumer.poll_columns(1):
                seen += len(columns.offset)
                total += pc.sum(pc.binary_length(columns.value)).as_py()
        watch.show()


async def aiokafka_consume(bootstrap: str, topic: str, count: int, _size: int) -> None:
    """The peer, in batches of `getmany`."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
    await consumer.seek_to_beginning()
    seen = total = 0
    watch = Stopwatch()
    while seen < count:
        for records in (await consumer.getmany(timeout_ms=1000, max_records=5000)).values():
            for record in records:
                total += len(record.value)
                seen += 1
    watch.show()
    await consumer.stop()


MODES: dict[str, Callable[[str, str, int, int], Awaitable[None] | None]] = {
    each.__name__: each
    for each in (
        ours_produce,
        ours_produce_told,
        ours_send_columns,
        aiokafka_produce,
        ours_consume,
        ours_columns,
        aiokafka_consume,
    )
}


def main(mode: str, bootstrap: str, topic: str, count: str, size: str) -> None:
    """Run one mode."""
    work = MODES[mode](bootstrap, topic, int(count), int(size))
    if work is not None:
        asyncio.run(work)  # type: ignore[arg-type]  # the asyncio modes are coroutine functions


if __name__ == "__main__":
    main(*sys.argv[1:])
