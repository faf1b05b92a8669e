"""aiokafka: assigned partitions, explicit offsets, no groups; its admin client."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from tests.wire.conftest import stored_codecs

aiokafka = pytest.importorskip("aiokafka", reason="aiokafka is not installed: pip install aiokafka")
admin = pytest.importorskip("aiokafka.admin")

SECONDS_MAX = 20.0
VALUES = [b"%d " % number + b"x" * 50 for number in range(100)]


@pytest_asyncio.fixture
async def topic(address: str, fresh: Callable[[], str]) -> str:
    name = fresh()
    manager = admin.AIOKafkaAdminClient(bootstrap_servers=address)
    await manager.start()
    try:
        await manager.create_topics([admin.NewTopic(name, num_partitions=2, replication_factor=1)])
    finally:
        await manager.close()
    return name


@pytest_asyncio.fixture
async def consumer(address: str) -> AsyncIterator[Any]:
    made = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=address, group_id=None, enable_auto_commit=False, fetch_max_wait_ms=100
    )
    await made.start()
    yield made
    await made.stop()


async def send(address: str, topic: str, values: list[bytes], **settings: Any) -> list[int]:
    """Produce to partition 0; the offsets."""
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=address, **settings)
    await producer.start()
    try:
        futures = [await producer.send(topic, value, key=b"k", partition=0) for value in values]
        return [(await asyncio.wait_for(future, SECONDS_MAX)).offset for future in futures]
    finally:
        await producer.stop()


async def take(consumer: Any, topic: str, count: int, offset: int = 0, partition: int = 0) -> list[Any]:
    """This many records from this offset on."""
    place = aiokafka.TopicPartition(topic, partition)
    consumer.assign([place])
    consumer.seek(place, offset)
    records: list[Any] = []
    async with asyncio.timeout(SECONDS_MAX):
        while len(records) < count:
            batches = await consumer.getmany(timeout_ms=200, max_records=count - len(records))
            records += [record for batch in batches.values() for record in batch]
    return records


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_what_is_produced_is_consumed_with_every_compression(
    address: str, topic: str, consumer: Any, compression: str | None
) -> None:
    assert await send(address, topic, VALUES, compression_type=compression) == list(range(len(VALUES)))
    assert stored_codecs(address, topic) == {compression or "none"}
    got = await take(consumer, topic, len(VALUES))
    assert [record.value for record in got] == VALUES
    assert [record.offset for record in got] == list(range(len(VALUES)))


async def test_an_idempotent_producer_keeps_order_and_number(address: str, topic: str, consumer: Any) -> None:
    values = [b"%d" % number for number in range(500)]
    assert await send(address, topic, values, enable_idempotence=True, max_batch_size=400) == list(range(500))
    assert [record.value for record in await take(consumer, topic, 500)] == values


async def test_keys_headers_and_timestamps_come_back(address: str, topic: str, consumer: Any) -> None:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=address)
    await producer.start()
    headers = [("a", b"1"), ("a", b"2")]
    sent = await producer.send_and_wait(topic, b"v", key=b"key", partition=1, headers=headers)
    await producer.stop()
    (record,) = await take(consumer, topic, 1, partition=1)
    assert (record.key, record.value, list(record.headers)) == (b"key", b"v", headers)
    assert record.timestamp == sent.timestamp


async def test_explicit_offsets_ends_and_times(address: str, topic: str, consumer: Any) -> None:
    await send(address, topic, VALUES)
    got = await take(consumer, topic, 5, offset=42)
    assert [record.offset for record in got] == [42, 43, 44, 45, 46]
    place = aiokafka.TopicPartition(topic, 0)
    assert await consumer.beginning_offsets([place]) == {place: 0}
    assert await consumer.end_offsets([place]) == {place: len(VALUES)}
    found = (await consumer.offsets_for_times({place: got[0].timestamp}))[place]
    assert found.timestamp >= got[0].timestamp
    assert found.offset <= 42


async def test_a_waiting_consumer_is_woken(address: str, topic: str, consumer: Any) -> None:
    place = aiokafka.TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    waiting = asyncio.create_task(consumer.getone())
    await send(address, topic, [b"news"])
    assert (await asyncio.wait_for(waiting, SECONDS_MAX)).value == b"news"


async def test_admin_creates_grows_and_deletes(address: str, fresh: Callable[[], str]) -> None:
    name = fresh()
    manager = admin.AIOKafkaAdminClient(bootstrap_servers=address)
    await manager.start()
    try:
        await manager.create_topics([admin.NewTopic(name, num_partitions=1, replication_factor=1)])
        assert name in await manager.list_topics()
        await manager.create_partitions({name: admin.NewPartitions(total_count=3)})
        (described,) = await manager.describe_topics([name])
        assert len(described["partitions"]) == 3
        await manager.delete_topics([name])
        assert name not in await manager.list_topics()
    finally:
        await manager.close()
