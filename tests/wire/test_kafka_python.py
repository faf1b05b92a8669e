"""kafka-python: produce, subscribe in a group of two, one leaves, the admin client."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

kafka = pytest.importorskip("kafka", reason="kafka-python is not installed: pip install kafka-python")
admin = pytest.importorskip("kafka.admin")

SECONDS_MAX = 30.0
PARTITIONS = 4


@pytest.fixture
def topic(address: str, fresh: Callable[[], str]) -> str:
    """A topic of four partitions with ten records in each."""
    name = fresh()
    manager = admin.KafkaAdminClient(bootstrap_servers=address)
    manager.create_topics({name: {"num_partitions": PARTITIONS, "replication_factor": 1}})
    manager.close()
    producer = kafka.KafkaProducer(bootstrap_servers=address)
    sent = [
        producer.send(name, b"%d" % number, partition=partition)
        for partition in range(PARTITIONS)
        for number in range(10)
    ]
    for one in sent:
        one.get(SECONDS_MAX)
    producer.close()
    return name


def poll_until(consumers: list[Any], done: Callable[[], bool], seen: list[Any]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not done():
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]
        for consumer in consumers:
            for records in consumer.poll(timeout_ms=50).values():
                seen.extend((one.partition, one.offset) for one in records)


def test_two_members_share_and_one_that_leaves_gives_back(address: str, topic: str) -> None:
    def member() -> Any:
        made = kafka.KafkaConsumer(
            bootstrap_servers=address,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
        )
        # A leader that has no metadata yet assigns nothing, and kafka-python 3.0 may not join again when it comes.
        assert made.partitions_for_topic(topic) == set(range(PARTITIONS))
        made.subscribe([topic])
        return made

    first = member()
    seen: list[Any] = []
    poll_until([first], lambda: len(seen) == 10 * PARTITIONS, seen)
    assert sorted(seen) == [(partition, offset) for partition in range(PARTITIONS) for offset in range(10)]
    first.commit()
    second = member()
    poll_until([first, second], lambda: len(first.assignment()) == len(second.assignment()) == 2, seen)
    assert not first.assignment() & second.assignment()
    manager = admin.KafkaAdminClient(bootstrap_servers=address)
    told = manager.describe_groups([topic])[topic]
    assert (told["group_state"], len(told["members"])) == ("Stable", 2)
    manager.close()
    first.close()
    poll_until([second], lambda: len(second.assignment()) == PARTITIONS, seen)
    (one,) = [one for one in second.assignment() if one.partition == 0]
    assert second.committed(one) == 10
    second.close()
    assert len(seen) == 10 * PARTITIONS, "what was committed does not come again"
