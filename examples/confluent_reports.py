"""confluent-kafka: a producer that learns from delivery reports what arrived where, and what was refused.

    python examples/confluent_reports.py [bootstrap servers of any Kafka]

Prints:
    readings-0 took 34 records
    readings-1 took 33 records
    readings-2 took 33 records
    refused: {b'number 100': 'MSG_SIZE_TOO_LARGE'}
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from barnabas import Broker

PARTITIONS = 3


class Reports:
    """What became of every record: called within `poll` and `flush`."""

    def __init__(self) -> None:
        self.taken: Counter[int | None] = Counter()
        self.refused: dict[bytes | None, str] = {}

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Note one report."""
        if error is None:
            self.taken[message.partition()] += 1
        else:
            self.refused[message.key()] = error.name()


def main(servers: str) -> None:
    """A hundred readings, and one that is larger than the topic takes."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic("readings", PARTITIONS, config={"max.message.bytes": "2000"})])["readings"].result()
    reports = Reports()
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5})
    for number in range(100):
        producer.produce("readings", b"x", f"number {number}", number % PARTITIONS, on_delivery=reports)
        producer.poll(0)  # serves the reports that have come
    producer.flush()  # what is too large comes by itself: a batch is refused as a whole
    producer.produce("readings", b"x" * 3000, "number 100", on_delivery=reports)
    producer.flush()
    for partition in range(PARTITIONS):
        print(f"readings-{partition} took {reports.taken[partition]} records")
    print(f"refused: {reports.refused}")


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        main(sys.argv[1] if len(sys.argv) > 1 else stack.enter_context(Broker()).bootstrap_servers)
