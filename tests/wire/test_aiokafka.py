"""aiokafka: every codec, offsets, groups with each of its assignors, its admin client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from tests.wire.conftest import SECONDS_MAX, VALUES, stored_codecs
from tests.wire.tried import AIOKAFKA

aiokafka = pytest.importorskip("aiokafka", reason="aiokafka is not installed: pip install aiokafka")
admin = pytest.importorskip("aiokafka.admin")
config_resource = pytest.importorskip("aiokafka.admin.config_resource")
errors = pytest.importorskip("aiokafka.errors")

assignors = "aiokafka.coordinator.assignors"
MADE = [
    pytest.importorskip(f"{assignors}.range").RangePartitionAssignor,
    pytest.importorskip(f"{assignors}.roundrobin").RoundRobinPartitionAssignor,
    pytest.importorskip(f"{assignors}.sticky.sticky_assignor").StickyPartitionAssignor,
]
ASSIGNORS = {each.name: each for each in MADE}
PARTITIONS = 4
Place = aiokafka.TopicPartition


@pytest_asyncio.fixture
async def manager(address: str) -> AsyncIterator[Any]:
    made = admin.AIOKafkaAdminClient(bootstrap_servers=address)
    await made.start()
    yield made
    await made.close()


@pytest_asyncio.fixture
async def topic(manager: Any, fresh: Callable[[], str]) -> str:
    name = fresh()
    await manager.create_topics([admin.NewTopic(name, num_partitions=PARTITIONS, replication_factor=1)])
    return name


@pytest_asyncio.fixture
async def consumer(address: str) -> AsyncIterator[Any]:
    """One that is told its partitions and is in no group."""
    made = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=address, group_id=None, enable_auto_commit=False, fetch_max_wait_ms=100
    )
    await made.start()
    yield made
    await made.stop()


class Members:
    """Consumers of one group, and a way to wait until their partitions are as they should be."""

    def __init__(self, address: str, group: str) -> None:
        self._address, self._group = address, group
        self._made: list[Any] = []
        self._changed = asyncio.Event()

    async def join(self, topic: str, **settings: Any) -> Any:
        changed = self._changed

        class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc, name-defined]
            async def on_partitions_revoked(self, revoked: Any) -> None:
                """Nothing is to be done."""

            async def on_partitions_assigned(self, assigned: Any) -> None:
                changed.set()

        made = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self._address,
            group_id=self._group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
            **{"enable_auto_commit": False, **settings},
        )
        made.subscribe([topic], listener=Listener())
        await made.start()
        self._made.append(made)
        return made

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS_MAX):
            while not done():
                self._changed.clear()
                await self._changed.wait()

    async def stop(self) -> None:
        for each in self._made:
            await each.stop()


@pytest_asyncio.fixture
async def members(address: str, topic: str) -> AsyncIterator[Members]:
    made = Members(address, topic)
    yield made
    await made.stop()


async def send(address: str, topic: str, values: list[bytes], partition: int = 0, **settings: Any) -> list[int]:
    """The offsets of what was produced."""
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=address, **settings)
    await producer.start()
    try:
        futures = [await producer.send(topic, value, key=b"k", partition=partition) for value in values]
        return [(await asyncio.wait_for(future, SECONDS_MAX)).offset for future in futures]
    finally:
        await producer.stop()


async def fill(address: str, topic: str, count: int = 10) -> None:
    """So many records to each partition."""
    for partition in range(PARTITIONS):
        await send(address, topic, VALUES[:count], partition)


async def take(consumer: Any, topic: str, count: int, offset: int = 0, partition: int = 0) -> list[Any]:
    """This many records from this offset on."""
    place = Place(topic, partition)
    consumer.assign([place])
    consumer.seek(place, offset)
    return await got(consumer, count)


async def got(consumer: Any, count: int) -> list[Any]:
    """So many records of what a consumer is given."""
    records: list[Any] = []
    async with asyncio.timeout(SECONDS_MAX):
        while len(records) < count:
            batches = await consumer.getmany(timeout_ms=200, max_records=count - len(records))
            records += [record for batch in batches.values() for record in batch]
    return records


def places(records: list[Any]) -> list[tuple[int, int]]:
    return sorted((record.partition, record.offset) for record in records)


def grid(count: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in range(PARTITIONS) for offset in range(count)]


@pytest.mark.parametrize("compression", AIOKAFKA.codecs)
async def test_what_is_produced_is_consumed_with_every_compression(
    address: str, topic: str, consumer: Any, compression: str
) -> None:
    codec = None if compression == "none" else compression
    assert await send(address, topic, VALUES, compression_type=codec) == list(range(len(VALUES)))
    assert stored_codecs(address, topic) == {compression}
    records = await take(consumer, topic, len(VALUES))
    assert [record.value for record in records] == VALUES
    assert [record.offset for record in records] == list(range(len(VALUES)))


async def test_an_idempotent_producer_keeps_order_and_number(address: str, topic: str, consumer: Any) -> None:
    values = [b"%d" % number for number in range(500)]
    assert await send(address, topic, values, enable_idempotence=True, max_batch_size=400) == list(range(500))
    assert [record.value for record in await take(consumer, topic, 500)] == values


async def test_keys_headers_timestamps_and_tombstones_come_back(address: str, topic: str, consumer: Any) -> None:
    headers = [("a", b"1"), ("a", b"2")]
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=address) as producer:
        sent = await producer.send_and_wait(topic, b"v", key=b"key", partition=1, headers=headers)
        await producer.send_and_wait(topic, None, key=b"gone", partition=1)
    first, second = await take(consumer, topic, 2, partition=1)
    assert (first.key, first.value, list(first.headers)) == (b"key", b"v", headers)
    assert first.timestamp == sent.timestamp
    assert (second.key, second.value) == (b"gone", None)


async def test_explicit_offsets_ends_and_times(address: str, topic: str, consumer: Any) -> None:
    await send(address, topic, VALUES)
    records = await take(consumer, topic, 5, offset=42)
    assert [record.offset for record in records] == [42, 43, 44, 45, 46]
    place = Place(topic, 0)
    assert await consumer.position(place) == 47
    assert await consumer.beginning_offsets([place]) == {place: 0}
    assert await consumer.end_offsets([place]) == {place: len(VALUES)}
    found = (await consumer.offsets_for_times({place: records[0].timestamp}))[place]
    assert found.timestamp >= records[0].timestamp
    assert found.offset <= 42
    await consumer.seek_to_beginning(place)
    assert (await consumer.getone()).offset == 0
    await consumer.seek_to_end(place)
    assert await consumer.position(place) == len(VALUES)


async def test_a_waiting_consumer_is_woken(address: str, topic: str, consumer: Any) -> None:
    place = Place(topic, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    waiting = asyncio.create_task(consumer.getone())
    await send(address, topic, [b"news"])
    assert (await asyncio.wait_for(waiting, SECONDS_MAX)).value == b"news"


@pytest.mark.parametrize("reset", ["earliest", "none"])
async def test_a_position_before_the_log_is_reset_as_the_setting_says(
    address: str, topic: str, manager: Any, reset: str
) -> None:
    await send(address, topic, VALUES[:10])
    place = Place(topic, 0)
    await manager.delete_records({place: admin.RecordsToDelete(before_offset=6)})
    async with aiokafka.AIOKafkaConsumer(bootstrap_servers=address, group_id=None, auto_offset_reset=reset) as consumer:
        if reset == "none":
            with pytest.raises(errors.OffsetOutOfRangeError):
                await take(consumer, topic, 1, offset=2)
        else:
            assert [record.offset for record in await take(consumer, topic, 4, offset=2)] == [6, 7, 8, 9]


@pytest.mark.parametrize("assignor", AIOKAFKA.classic)
async def test_two_members_share_and_one_that_leaves_gives_back(
    address: str, topic: str, members: Members, assignor: str
) -> None:
    settings = {"partition_assignment_strategy": [ASSIGNORS[assignor]]}
    await fill(address, topic)
    first = await members.join(topic, **settings)
    assert places(await got(first, 10 * PARTITIONS)) == grid(10)
    await first.commit()
    second = await members.join(topic, **settings)
    await members.until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
    assert first.assignment() | second.assignment() == {Place(topic, number) for number in range(PARTITIONS)}
    await second.stop()
    await members.until(lambda: len(first.assignment()) == PARTITIONS)
    await fill(address, topic, 1)
    assert places(await got(first, PARTITIONS)) == [(number, 10) for number in range(PARTITIONS)]


async def test_a_member_goes_on_where_the_last_one_committed(address: str, topic: str, members: Members) -> None:
    await fill(address, topic)
    place = Place(topic, 0)
    first = await members.join(topic)
    await got(first, 10 * PARTITIONS)
    await first.commit({place: (4, "as far as four")})
    await first.stop()
    second = await members.join(topic, enable_auto_commit=True)
    assert await second.committed(place) == 4
    assert places(await got(second, 6 + 30))[0] == (0, 4)
    await second.stop()  # commits what was read
    third = await members.join(topic)
    assert await third.committed(place) == 10


async def test_a_static_member_comes_back_to_its_partitions(topic: str, members: Members) -> None:
    first = await members.join(topic, group_instance_id="a")
    second = await members.join(topic, group_instance_id="b")
    await members.until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
    had = second.assignment()
    await second.stop()
    third = await members.join(topic, group_instance_id="b")
    await members.until(lambda: third.assignment() == had)
    assert len(first.assignment()) == 2


async def test_admin_creates_changes_grows_and_deletes(manager: Any, fresh: Callable[[], str]) -> None:
    name = fresh()
    made = admin.NewTopic(name, 1, 1, topic_configs={"retention.ms": "60000"})
    await manager.create_topics([made])
    await until(manager.list_topics, lambda names: name in names)
    again = await manager.create_topics([made])
    assert again.topic_errors[0][:2] == (name, errors.TopicAlreadyExistsError.errno)
    resource = config_resource.ConfigResource("topic", name, {"retention.ms": "70000"})
    await until(partial(manager.describe_configs, [resource]), lambda answers: setting(answers) == "60000")
    await manager.alter_configs([resource])
    await until(partial(manager.describe_configs, [resource]), lambda answers: setting(answers) == "70000")
    await manager.create_partitions({name: admin.NewPartitions(total_count=3)})
    await until(partial(manager.describe_topics, [name]), lambda topics: len(topics[0]["partitions"]) == 3)
    await manager.delete_topics([name])
    await until(manager.list_topics, lambda names: name not in names)


async def until(ask: Callable[[], Awaitable[Any]], done: Callable[[Any], bool]) -> None:
    """Ask until the answer is so: Apache Kafka takes a moment until it tells a change."""
    async with asyncio.timeout(SECONDS_MAX):
        while not done(await ask()):
            pass


def setting(answers: Any) -> str:
    """The value of the one setting that was asked for."""
    (answer,) = answers
    ((_, _, _, _, ((_, value, *_),)),) = answer.resources
    return str(value)


async def test_admin_sees_the_cluster_and_its_groups(address: str, topic: str, manager: Any, members: Members) -> None:
    assert len((await manager.describe_cluster())["brokers"]) == 1
    await fill(address, topic)
    consumer = await members.join(topic)
    await got(consumer, 10 * PARTITIONS)
    await consumer.commit()
    assert (topic, "consumer") in {tuple(each[:2]) for each in await manager.list_consumer_groups()}
    (described,) = await manager.describe_consumer_groups([topic])
    (group,) = described.to_object()["groups"]
    assert (group["group"], group["state"], len(group["members"])) == (topic, "Stable", 1)
    told = await manager.list_consumer_group_offsets(topic)
    assert {place.partition: each.offset for place, each in told.items()} == dict.fromkeys(range(PARTITIONS), 10)
