"""The consumer, asyncio and blocking, in three settings: this broker in both dialects, and Apache Kafka."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import barnabas.client.consumer as blocking
from barnabas import Consumer, Producer, aio
from barnabas.client import async_consumer
from barnabas.client.consume import taken
from barnabas.client.consume.taken import decode_taken
from barnabas.net.errors import ClientClosed, ClientTimeout, ConfigError
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from tests.client.served import Served

START = 1_900_000_000_000


@pytest.fixture(scope="module")
def producer(served: Served) -> Iterator[Producer]:
    with Producer(**served.settings, linger_ms=0) as producer:
        yield producer


@pytest.fixture
def topic(served: Served, producer: Producer) -> str:
    """A topic of two partitions with the numbers 0 to 9, even ones in partition 0."""
    name = served.topic(2)
    put(producer, name, range(10))
    return name


def put(producer: Producer, topic: str, numbers: range) -> None:
    futures = [
        producer.send(topic, b"%d" % number, partition=number % 2, timestamp_ms=START + number, headers=[("n", b"1")])
        for number in numbers
    ]
    for future in futures:
        future.result(30)


@pytest.fixture
async def consumer(served: Served) -> AsyncIterator[aio.Consumer]:
    settings = {"auto.offset.reset": "earliest", "fetch.max.wait.ms": 50}
    async with aio.Consumer(config=settings, **served.settings) as consumer:
        yield consumer


async def numbers(consumer: aio.Consumer, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        records = await consumer.poll(60)
        assert records, f"{len(found)} of {count} records came"
        found += [int(record.value) for record in records]
    return found


async def test_topics_by_name_are_read_whole(consumer: aio.Consumer, topic: str) -> None:
    await consumer.subscribe(topic)
    assert consumer.assignment() == [(topic, 0), (topic, 1)]
    assert sorted(await numbers(consumer, 10)) == list(range(10))
    assert await consumer.position(TopicPartition(topic, 0)) == 5
    assert await consumer.poll(0.001) == []


async def test_a_record_carries_what_was_sent(consumer: aio.Consumer, topic: str) -> None:
    consumer.assign([(topic, 1)])
    record = (await consumer.poll(60))[0]
    assert record == (topic, 1, 0, START + 1, 0, None, b"1", (("n", b"1"),))
    assert consumer.high_watermark(TopicPartition(topic, 1)) == 5


async def test_seeks_and_positions(consumer: aio.Consumer, topic: str) -> None:
    even = TopicPartition(topic, 0)
    consumer.assign([even])
    consumer.seek(even, 3)
    assert await numbers(consumer, 2) == [6, 8]
    consumer.seek_to_beginning()
    assert await consumer.position(even) == 0
    consumer.seek_to_end(even)
    assert await consumer.position(even) == 5
    with pytest.raises(ConfigError, match="not negative"):
        consumer.seek(even, -1)
    with pytest.raises(ConfigError, match="not assigned"):
        consumer.seek(TopicPartition("absent", 0), 1)


async def test_seeks_look_at_no_other_partition(
    consumer: aio.Consumer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2,000 seeks of 2,000 partitions were 4 million looks: 15 s."""
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    consumer.assign(both)
    pumps = 0
    with monkeypatch.context() as patched:

        def counted() -> None:
            nonlocal pumps
            pumps += 1

        patched.setattr(consumer._client, "pump", counted)
        for where in both:
            consumer.seek(where, 4)
    assert pumps == 0
    assert sorted(await numbers(consumer, 2)) == [8, 9]


async def test_a_seek_is_followed_by_who_waits_already(consumer: aio.Consumer, topic: str) -> None:
    even = TopicPartition(topic, 0)
    consumer.assign([even])
    await numbers(consumer, 5)
    waiting = asyncio.ensure_future(consumer.poll(60))
    await asyncio.sleep(0)
    assert consumer._waiter is not None
    assert not consumer._waiter.done()
    consumer.seek(even, 3)
    assert [int(record.value) for record in await waiting] == [6, 8]


async def test_offsets_by_place_and_time(consumer: aio.Consumer, topic: str) -> None:
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert await consumer.beginning_offsets(both) == {both[0]: 0, both[1]: 0}
    assert await consumer.end_offsets(both) == {both[0]: 5, both[1]: 5}
    found = await consumer.offsets_for_times({both[0]: START + 3, both[1]: START + 99})
    assert found == {both[0]: (2, START + 4), both[1]: None}
    with pytest.raises(ConfigError, match="negative"):
        await consumer.offsets_for_times({both[0]: -1})


async def test_paused_partitions_wait(consumer: aio.Consumer, topic: str) -> None:
    odd = TopicPartition(topic, 1)
    consumer.assign([(topic, 0), odd])
    consumer.pause(odd)
    assert consumer.paused() == [odd]
    assert sorted(await numbers(consumer, 5)) == [0, 2, 4, 6, 8]
    assert await consumer.poll(0.001) == []
    consumer.resume(odd)
    assert sorted(await numbers(consumer, 5)) == [1, 3, 5, 7, 9]


async def test_records_given_back_come_again_once_unless_paused_or_unassigned(
    consumer: aio.Consumer, topic: str
) -> None:
    even, odd = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer.assign([even])
    records = await consumer.poll(60)
    assert len(records) == 5
    consumer.give_records_back(records)
    assert await consumer.position(even) == 0
    consumer.pause(even)
    assert await consumer.poll(0.001) == []
    consumer.resume(even)
    assert await consumer.poll(60, max_records=2) == records[:2]
    assert await consumer.poll(60) == records[2:]
    assert await consumer.poll(0.001) == []
    consumer.assign([odd])
    consumer.give_records_back(records)
    assert sorted(await numbers(consumer, 5)) == [1, 3, 5, 7, 9]


async def test_records_given_back_wake_who_waits(consumer: aio.Consumer, topic: str) -> None:
    even = TopicPartition(topic, 0)
    consumer.assign([even])
    records = await consumer.poll(60)
    consumer._client.pump = lambda: None  # type: ignore[method-assign]  # no fetch, so nothing else wakes
    waiting = asyncio.ensure_future(consumer.poll(60))
    await asyncio.sleep(0)
    consumer.give_records_back(records)
    for _ in range(5):
        await asyncio.sleep(0)
    assert waiting.done()
    assert waiting.result() == records


async def test_iteration_waits_for_what_is_still_to_come(
    consumer: aio.Consumer, topic: str, producer: Producer
) -> None:
    consumer.assign([(topic, 0)])
    consumer.seek(TopicPartition(topic, 0), 4)
    records = aiter(consumer)
    assert (await anext(records)).value == b"8"
    coming = asyncio.ensure_future(anext(records))
    await asyncio.to_thread(put, producer, topic, range(10, 13))
    assert (await asyncio.wait_for(coming, 60)).value == b"10"
    assert await consumer.position(TopicPartition(topic, 0)) in (6, 7)


async def test_a_seek_forgets_what_an_iteration_holds(consumer: aio.Consumer, topic: str) -> None:
    even = TopicPartition(topic, 0)
    consumer.assign([even])
    records = aiter(consumer)
    assert (await anext(records)).offset == 0
    consumer.seek(even, 4)
    assert await consumer.position(even) == 4
    assert (await anext(records)).offset == 4


async def test_columns_come_by_partition(consumer: aio.Consumer, topic: str) -> None:
    pytest.importorskip("pyarrow")
    consumer.assign([(topic, 0), (topic, 1)])
    found: dict[int, list[int]] = {0: [], 1: []}
    while sum(map(len, found.values())) < 10:
        for columns in await consumer.poll_columns(10):
            found[columns.partition] += [int(value) for value in columns.value.to_pylist()]
    assert found == {0: [0, 2, 4, 6, 8], 1: [1, 3, 5, 7, 9]}


async def test_waiting_for_data_ends_with_news(consumer: aio.Consumer, topic: str, producer: Producer) -> None:
    even = TopicPartition(topic, 0)
    await consumer.partitions_for(topic)
    assert await consumer.wait_for_data({even: 4}, 10)
    assert not await consumer.wait_for_data({even: 5}, 0.02)
    waiting = asyncio.ensure_future(consumer.wait_for_data({even: 5}, 10))
    await asyncio.to_thread(put, producer, topic, range(10, 12))
    assert await asyncio.wait_for(waiting, 60)


async def test_partitions_of_a_topic(consumer: aio.Consumer, topic: str) -> None:
    assert await consumer.partitions_for(topic) == [0, 1]
    with pytest.raises(KafkaError) as caught:
        await consumer.subscribe("not/a/topic")
    assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_deserializers_and_a_closed_consumer(served: Served, producer: Producer) -> None:
    name = served.name("texts")
    producer.send(name, b'{"a":1}', b"key", partition=0).result(30)
    settings = {"key.deserializer": "string", "value.deserializer": "json", "auto.offset.reset": "earliest"}
    async with aio.Consumer(name, config=settings, bootstrap_servers=served.servers) as consumer:
        (record,) = await consumer.poll(60)
        assert (record.key, record.value) == ("key", {"a": 1})
        waiting = asyncio.ensure_future(consumer.poll())
        await asyncio.sleep(0)
    with pytest.raises(ClientClosed):
        await waiting


NOTHING = "nothing to read: no topic or partition was named; subscribe"


async def test_who_named_nothing_to_read_does_not_wait_for_it(served: Served, consumer: aio.Consumer) -> None:
    for call in (consumer.poll, consumer.poll_columns, lambda: anext(aiter(consumer))):
        with pytest.raises(ConfigError, match=NOTHING):
            await asyncio.wait_for(call(), 60)
    with Consumer(config=served.servers) as blocking:
        calls: list[Any] = [blocking.poll, blocking.poll_columns, lambda: next(iter(blocking))]
        for call in calls:
            with pytest.raises(ConfigError, match=NOTHING):
                await asyncio.wait_for(asyncio.to_thread(call), 60)


async def test_who_waits_while_all_is_taken_away_goes_on_with_what_comes_next(
    consumer: aio.Consumer, topic: str
) -> None:
    consumer.assign([TopicPartition("elsewhere", 0)])
    waiting = asyncio.ensure_future(consumer.poll())
    await asyncio.sleep(0)
    consumer.assign([])
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek(TopicPartition(topic, 0), 0)
    assert [record.topic for record in await asyncio.wait_for(waiting, 30)][:1] == [topic]


async def test_nobody_there_is_told_in_time() -> None:
    with pytest.raises(ClientTimeout, match=r"127\.0\.0\.1:1"):
        async with aio.Consumer("t", bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=50):
            pass


def test_the_blocking_form_does_the_same(served: Served, topic: str, producer: Producer) -> None:
    even = TopicPartition(topic, 0)
    servers = served.servers
    with Consumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest", fetch_max_wait_ms=50) as consumer:
        found = [int(record.value) for record in itertools.islice(consumer, 10)]
        assert sorted(found) == list(range(10))
        consumer.assign([even])
        consumer.seek(even, 1)
        record = next(iter(consumer))
        assert record.offset == 1
        assert consumer.position(even) == 2
        consumer.seek_to_end()
        assert consumer.position(even) == 5
        assert consumer.poll(0.001) == []
        assert consumer.end_offsets([even]) == {even: 5}
        assert consumer.partitions_for(topic) == [0, 1]
        put(producer, topic, range(10, 12))
        assert [record.value for record in consumer.poll(60)] == [b"10"]
    with pytest.raises(ClientClosed):
        consumer.poll(0.001)
    consumer.close()


async def test_columns_of_nothing_are_passed_over(
    consumer: aio.Consumer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts may hold markers and aborted records alone."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(async_consumer, "decode_or_give_back", FirstNothing())
    consumer.assign([(topic, 0)])
    assert sum(map(len, await consumer.poll_columns(10))) == 5


def test_columns_of_nothing_are_passed_over_by_a_blocked_thread_within_its_time(
    served: Served, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(blocking, "decode_or_give_back", FirstNothing())
    with Consumer(bootstrap_servers=served.servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        assert sum(map(len, consumer.poll_columns(10))) == 5
        assert consumer.poll_columns(0) == []


@pytest.fixture
def one_record_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were more than fits into one call's columns."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(taken, "GROUP_RECORDS_MAX", 1)
    monkeypatch.setattr(taken, "CALL_RECORDS_MAX", 1)


@pytest.mark.usefixtures("one_record_a_call")
async def test_columns_too_many_for_one_call_come_with_the_next(consumer: aio.Consumer, topic: str) -> None:
    consumer.assign([(topic, 0), (topic, 1)])
    found: list[list[int]] = [[], []]
    while sum(map(len, found)) < 10:
        columns = await consumer.poll_columns(10)
        assert columns, f"nothing comes after {found}"
        for each in columns:
            found[each.partition] += each.offset.to_pylist()
    assert found == [list(range(5)), list(range(5))]


@pytest.mark.usefixtures("one_record_a_call")
def test_columns_too_many_for_one_call_of_a_blocked_thread_come_with_the_next(served: Served, topic: str) -> None:
    with Consumer(bootstrap_servers=served.servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        found: list[int] = []
        while len(found) < 5:
            columns = consumer.poll_columns(10)
            assert columns, f"nothing comes after {found}"
            found += [offset for each in columns for offset in each.offset.to_pylist()]
    assert found == list(range(5))


class FirstNothing:
    """Decodes, but finds nothing the first time."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, parts: Any, give_back: Any, headers: bool, only: Any) -> list[Any]:
        self.asked += 1
        if self.asked == 1:
            give_back(parts, None)
            return []
        return decode_taken(parts, headers=headers, only=only)[0]


@pytest.mark.parametrize("found", [[], [1]])
def test_what_cannot_be_decoded_goes_back_and_is_told_unless_something_could(
    found: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = KafkaError(ErrorCode.CORRUPT_MESSAGE, "t-1")
    back: list[Any] = []
    monkeypatch.setattr(async_consumer, "decode_taken", lambda parts, headers, only: (found, parts[1:], error))
    parts: Any = ["a", "b", "c"]
    if found:
        assert async_consumer.decode_or_give_back(parts, lambda *given: back.append(given), False) == found
    else:
        with pytest.raises(KafkaError, match="t-1"):
            async_consumer.decode_or_give_back(parts, lambda *given: back.append(given), False)
    assert back == [(["b", "c"], error)]


def test_what_an_interrupted_thread_was_decoding_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    back: list[Any] = []
    monkeypatch.setattr(async_consumer, "decode_taken", interrupted)
    parts: Any = ["a", "b"]
    with pytest.raises(KeyboardInterrupt):
        async_consumer.decode_or_give_back(parts, lambda *given: back.append(given), False)
    assert back == [(parts, None)]


def test_a_thread_that_polls_again_and_again_leaves_nothing_behind(served: Served, topic: str) -> None:
    with Consumer(topic, bootstrap_servers=served.servers) as consumer:
        consumer.pause(*consumer.assignment())
        for _ in range(50):
            assert consumer.poll(0) == []
        assert len(consumer._inner._asked) <= 1


def test_a_time_that_is_none_is_refused(served: Served) -> None:
    with Consumer(bootstrap_servers=served.servers) as consumer, pytest.raises(ConfigError):
        consumer.poll("100")  # type: ignore[arg-type]


async def test_an_iteration_takes_nothing_from_the_other_ways(consumer: aio.Consumer, topic: str) -> None:
    pytest.importorskip("pyarrow")
    even = TopicPartition(topic, 0)
    consumer.assign([even])
    iteration = aiter(consumer)
    assert (await anext(iteration)).offset == 0
    consumer.pause(even)
    assert await consumer.poll(0.001) == []
    assert await consumer.position(even) == 1
    consumer.resume(even)
    assert (await anext(iteration)).offset == 1
    offsets: list[int] = []
    while len(offsets) < 3:
        offsets += [offset for columns in await consumer.poll_columns(10) for offset in columns.offset.to_pylist()]
    assert offsets == [2, 3, 4]


def test_a_blocking_iteration_takes_nothing_from_the_other_ways(served: Served, topic: str) -> None:
    pytest.importorskip("pyarrow")
    even = TopicPartition(topic, 0)
    settings = {"bootstrap_servers": served.servers, "auto_offset_reset": "earliest"}
    with Consumer(config=settings) as consumer:
        consumer.assign([even])
        iteration = iter(consumer)
        assert next(iteration).offset == 0
        consumer.pause(even)
        assert consumer.poll(0.001) == []
        assert consumer.position(even) == 1
        consumer.resume(even)
        assert next(iteration).offset == 1
        consumer.subscribe(topic)
        consumer.pause(TopicPartition(topic, 1))
        offsets: list[int] = []
        while len(offsets) < 3:
            offsets += [offset for columns in consumer.poll_columns(10) for offset in columns.offset.to_pylist()]
        assert offsets == [2, 3, 4]
