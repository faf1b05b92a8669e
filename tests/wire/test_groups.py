"""Groups of the classic protocol as clients have them: subscribe, share, leave, go on where the last one stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

confluent_kafka = pytest.importorskip(
    "confluent_kafka", reason="confluent-kafka is not installed: pip install confluent-kafka"
)
admin = pytest.importorskip("confluent_kafka.admin")
aiokafka = pytest.importorskip("aiokafka", reason="aiokafka is not installed: pip install aiokafka")

SECONDS_MAX = 30.0
PARTITIONS = 4


@pytest.fixture
def topic(address: str, fresh: Callable[[], str]) -> str:
    """A topic of four partitions with ten records in each."""
    name = fresh()
    manager = admin.AdminClient({"bootstrap.servers": address})
    for future in manager.create_topics(
        [admin.NewTopic(name, num_partitions=PARTITIONS, replication_factor=1)]
    ).values():
        future.result(SECONDS_MAX)
    produce(address, name, 10)
    return name


def produce(address: str, topic: str, count: int) -> None:
    """So many records to each partition."""
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    for partition in range(PARTITIONS):
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(SECONDS_MAX) == 0


def member(address: str, topic: str, group: str, **settings: Any) -> Any:
    """A consumer that has subscribed."""
    made = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 100,
            "fetch.wait.max.ms": 100,
            **settings,
        }
    )
    made.subscribe([topic])
    return made


def poll_until(consumers: list[Any], done: Callable[[], bool], seen: list[Any] | None = None) -> None:
    """Poll all of them in turn until it is so."""
    deadline = time.monotonic() + SECONDS_MAX
    while not done():
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]
        for consumer in consumers:
            message = consumer.poll(0.05)
            if message is not None:
                assert message.error() is None, message.error()
                if seen is not None:
                    seen.append((message.partition(), message.offset()))


def numbers(consumer: Any) -> set[int]:
    return {one.partition for one in consumer.assignment()}


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_two_members_share_and_one_that_leaves_gives_back(address: str, topic: str, strategy: str) -> None:
    settings = {"partition.assignment.strategy": strategy}
    group = f"{topic}-{strategy}"
    first = member(address, topic, group, **settings)
    seen: list[Any] = []
    poll_until([first], lambda: len(seen) == 10 * PARTITIONS, seen)
    assert sorted(seen) == [(partition, offset) for partition in range(PARTITIONS) for offset in range(10)]
    first.commit(asynchronous=False)
    second = member(address, topic, group, **settings)
    poll_until([first, second], lambda: len(numbers(first)) == len(numbers(second)) == 2, seen)
    assert numbers(first) | numbers(second) == set(range(PARTITIONS))
    first.close()
    poll_until([second], lambda: len(numbers(second)) == PARTITIONS, seen)
    produce(address, topic, 1)
    poll_until([second], lambda: len(seen) == 11 * PARTITIONS, seen)
    assert sorted(seen[10 * PARTITIONS :]) == [(partition, 10) for partition in range(PARTITIONS)]
    second.close()


def test_a_member_goes_on_where_the_last_one_committed(address: str, topic: str) -> None:
    first = member(address, topic, topic)
    seen: list[Any] = []
    poll_until([first], lambda: len(seen) == 10 * PARTITIONS, seen)
    partition = confluent_kafka.TopicPartition
    first.commit(offsets=[partition(topic, 0, 4)], asynchronous=False)
    first.close()
    second = member(address, topic, topic)
    again: list[Any] = []
    poll_until([second], lambda: len(again) == 6 + 30, again)
    assert sorted(again)[0] == (0, 4)
    (committed,) = second.committed([partition(topic, 0)], SECONDS_MAX)
    assert committed.offset == 4
    second.close()


def test_a_static_member_comes_back_to_its_partitions(address: str, topic: str) -> None:
    first = member(address, topic, topic, **{"group.instance.id": "a"})
    second = member(address, topic, topic, **{"group.instance.id": "b"})
    poll_until([first, second], lambda: len(numbers(first)) == len(numbers(second)) == 2)
    had = numbers(second)
    second.close()  # a static member does not leave
    third = member(address, topic, topic, **{"group.instance.id": "b"})
    poll_until([first, third], lambda: numbers(third) == had)
    assert len(numbers(first)) == 2
    for each in (first, third):
        each.close()


def test_an_administrator_sees_deletes_and_resets(address: str, topic: str) -> None:
    manager = admin.AdminClient({"bootstrap.servers": address})
    consumer = member(address, topic, topic)
    seen: list[Any] = []
    poll_until([consumer], lambda: len(seen) == 10 * PARTITIONS, seen)
    consumer.commit(asynchronous=False)
    described = manager.describe_consumer_groups([topic], request_timeout=SECONDS_MAX)[topic].result()
    assert described.state == confluent_kafka.ConsumerGroupState.STABLE
    assert {one.partition for one in described.members[0].assignment.topic_partitions} == set(range(PARTITIONS))
    listed = manager.list_consumer_groups(request_timeout=SECONDS_MAX).result().valid
    assert topic in {one.group_id for one in listed}
    with pytest.raises(confluent_kafka.KafkaException):
        manager.delete_consumer_groups([topic], request_timeout=SECONDS_MAX)[topic].result()
    consumer.close()
    asked = confluent_kafka.ConsumerGroupTopicPartitions(topic)
    told = manager.list_consumer_group_offsets([asked])[topic].result()
    assert {one.partition: one.offset for one in told.topic_partitions} == dict.fromkeys(range(PARTITIONS), 10)
    reset = confluent_kafka.ConsumerGroupTopicPartitions(topic, [confluent_kafka.TopicPartition(topic, 1, 3)])
    manager.alter_consumer_group_offsets([reset])[topic].result()
    told = manager.list_consumer_group_offsets([asked])[topic].result()
    assert {one.partition: one.offset for one in told.topic_partitions}[1] == 3
    manager.delete_consumer_groups([topic], request_timeout=SECONDS_MAX)[topic].result()
    listed = manager.list_consumer_groups(request_timeout=SECONDS_MAX).result().valid
    assert topic not in {one.group_id for one in listed}


async def test_aiokafka_shares_and_gives_back(address: str, topic: str) -> None:
    changed = asyncio.Event()

    class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc, name-defined]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            """Nothing is to be done."""

        async def on_partitions_assigned(self, assigned: Any) -> None:
            changed.set()

    def made() -> Any:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=address,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
        )
        consumer.subscribe([topic], listener=Listener())
        return consumer

    async def until(done: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS_MAX):
            while not done():
                changed.clear()
                await changed.wait()

    first = made()
    await first.start()
    seen = [await first.getone() for _ in range(10 * PARTITIONS)]
    assert len({(one.partition, one.offset) for one in seen}) == 10 * PARTITIONS
    await first.commit()
    second = made()
    await second.start()
    await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
    await second.stop()
    await until(lambda: len(first.assignment()) == PARTITIONS)
    (one,) = [one for one in first.assignment() if one.partition == 0]
    assert await first.committed(one) == 10
    await first.stop()
