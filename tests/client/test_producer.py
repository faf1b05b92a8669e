"""Both producers in three settings (this broker in both dialects, Apache Kafka): futures, callbacks, threads, ends."""

import asyncio
import multiprocessing
import socket
import sys
import threading
from typing import Any

import pytest

from barnabas import Admin, Broker
from barnabas.client.errors import BufferExhausted, RecordTooLarge, SerializationFailed
from barnabas.client.futures import BlockingRecordFuture
from barnabas.client.produce.interceptors import ProducerInterceptor
from barnabas.client.producer import AsyncProducer, Producer
from barnabas.net.config import ClientConfig
from barnabas.net.errors import ClientClosed, ClientTimeout, ConfigError
from barnabas.net.host.connection import Client
from barnabas.net.host.surroundings import REAL
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import decode_records
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.client.served import Served

WAIT = 60.0


@pytest.fixture
def servers(served: Served) -> str:
    return served.servers


@pytest.fixture
def dialect(served: Served) -> str:
    return served.dialect


@pytest.fixture
def topic(served: Served) -> str:
    """It is made when it is first used, with 4 partitions.

    Apache Kafka is asked for it before. A partition that becomes led between two requests refuses the first and takes
    the second, whose sequence it cannot know to be too high; the first is out of order from then on.
    """
    name = served.name("sent")
    if served.apache:
        with Admin(**served.settings) as admin:
            admin.create_topic(name, partitions=4)
            admin.lag({TopicPartition(name, number): 0 for number in range(4)})
    return name


async def read(servers: str, topic: str, partitions: int = 4) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
    """All records of a topic as (key, value), straight from the wire."""
    client = Client(ClientConfig.of(servers))
    await client.start()
    cluster = await client.refresh_metadata([topic])
    found: dict[int, list[tuple[bytes | None, bytes | None]]] = {}
    for index in range(len(cluster.partitions_for(topic))):
        found[index] = []
        while True:
            part = FetchPartition(partition=index, fetch_offset=len(found[index]), partition_max_bytes=1 << 20)
            asked = FetchTopic(topic=topic, topic_id=cluster.topic_id(topic), partitions=[part])
            request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[asked])
            node = cluster.partitions_for(topic)[index].leader
            answer = (await client.send(node, request)).responses[0].partitions[0]
            data = bytes(answer.records or b"")
            if not data:
                break
            for record in decode_records(data):
                if record.offset >= len(found[index]):
                    found[index].append((record.key, record.value))
    await client.close()
    return found


def values(servers: str, topic: str) -> list[bytes | None]:
    return [value for records in asyncio.run(read(servers, topic)).values() for _, value in records]


def test_records_come_to_lie_where_the_future_says(servers: str, topic: str, dialect: Any) -> None:
    with Producer(servers, dialect=dialect) as producer:
        futures = [producer.send(topic, b"%d" % n, partition=n % 4) for n in range(100)]
        told = [future.result(WAIT) for future in futures]
    stored = asyncio.run(read(servers, topic))
    for n, metadata in enumerate(told):
        assert metadata.topic == topic
        assert stored[metadata.partition][metadata.offset] == (None, b"%d" % n)
        assert metadata.timestamp > 1_600_000_000_000


def test_an_explicit_timestamp_and_headers_are_kept(servers: str, topic: str) -> None:
    with Producer(servers) as producer:
        sent = producer.send(topic, b"v", key=b"k", headers=[("h", b"1"), ("n", None)], timestamp_ms=1_700_000_000_123)
        assert sent.result(WAIT).timestamp == 1_700_000_000_123


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_taken(servers: str, topic: str, codec: Any) -> None:
    sent = [b"value %d " % n * 20 for n in range(100)]
    with Producer(servers, compression_type=codec) as producer:
        for value in sent:
            producer.send(topic, value, partition=0)
    assert values(servers, topic) == sent


def test_many_threads_lose_nothing_and_keep_their_own_order(servers: str, topic: str) -> None:
    with Producer(servers, batch_size=2000, buffer_memory=20_000) as producer:

        def work(me: int) -> None:
            for n in range(500):
                producer.send(topic, b"%d:%04d" % (me, n), key=b"%d" % me)

        threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush(WAIT)
        pool = producer._core.accumulator.pool
        assert pool.available_bytes == pool.total_bytes
    stored = values(servers, topic)
    for me in range(4):
        mine = [value for value in stored if value is not None and value.startswith(b"%d:" % me)]
        assert mine == [b"%d:%04d" % (me, n) for n in range(500)]


def test_threads_that_append_to_one_batch_do_not_write_over_each_other(servers: str, topic: str) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with Producer(servers, linger_ms=20) as producer:
            producer.send(topic, b"first", partition=0).result(WAIT)
            start = threading.Barrier(6)
            told: dict[int, list[int]] = {me: [] for me in range(6)}

            def work(me: int) -> None:
                start.wait(WAIT)
                futures = [producer.send(topic, b"%d:%04d" % (me, n), partition=0) for n in range(400)]
                told[me] = [future.result(WAIT).offset for future in futures]

            threads = [threading.Thread(target=work, args=(me,)) for me in told]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
    stored = values(servers, topic)
    assert len(stored) == 1 + 6 * 400
    for me, offsets in told.items():
        assert offsets == sorted(offsets)
        assert [stored[offset] for offset in offsets] == [b"%d:%04d" % (me, n) for n in range(400)]


def test_callbacks_and_interceptors_see_every_outcome(servers: str, topic: str) -> None:
    seen: list[str] = []

    class Stamp(ProducerInterceptor):
        def on_send(self, record):
            record.value = record.value + b"!"
            return record

        def on_acknowledgement(self, metadata, error):
            seen.append("refused" if error else "stored")

        def close(self):
            seen.append("closed")

    class Broken(ProducerInterceptor):
        def on_send(self, record):
            raise RuntimeError("boom")

    told: list[object] = []
    with Producer(servers, interceptor_classes=[Stamp, Broken()], max_request_size=10_000) as producer:
        producer.send(topic, b"a", on_delivery=lambda metadata, error: told.append(metadata)).result(WAIT)
        producer.send(topic, bytes(20_000), on_delivery=lambda metadata, error: told.append(error))
        producer.flush(WAIT)
    assert sorted(seen[:2]) == ["refused", "stored"]
    assert seen[2:] == ["closed"]
    assert {type(each) for each in told} == {type(told[0]), RecordTooLarge}
    assert values(servers, topic) == [b"a!"]


def test_a_callback_may_send_and_one_that_raises_harms_nobody(servers: str, topic: str) -> None:
    done = threading.Event()
    with Producer(servers) as producer:

        def again(metadata: object, error: object) -> None:
            producer.send(topic, b"second", on_delivery=lambda *told: done.set())
            raise RuntimeError("boom")

        producer.send(topic, b"first", on_delivery=again)
        assert done.wait(WAIT)
    assert sorted(values(servers, topic), key=str) == [b"first", b"second"]


def test_serializers_by_name(servers: str, topic: str) -> None:
    with Producer(servers, value_serializer="json", key_serializer="string") as producer:
        producer.send(topic, {"a": 1}, key="k").result(WAIT)
        producer.send(topic, None, key="k").result(WAIT)
        with pytest.raises(SerializationFailed, match="value"):
            producer.send(topic, object())
    records = [each for part in asyncio.run(read(servers, topic)).values() for each in part]
    assert records == [(b"k", b'{"a":1}'), (b"k", None)]


def test_what_is_no_bytes_is_refused_by_name(servers: str, topic: str) -> None:
    with Producer(servers) as producer, pytest.raises(SerializationFailed, match="bytes wanted, not str"):
        producer.send(topic, "text")


def test_a_record_too_large_fails_through_its_future(servers: str, topic: str) -> None:
    with Producer(servers, max_request_size=1000) as producer:
        assert isinstance(producer.send(topic, bytes(2000)).exception(WAIT), RecordTooLarge)
        with pytest.raises(RecordTooLarge, match=r"max\.request\.size"):
            producer.send(topic, bytes(2000)).result(WAIT)


def test_a_batch_above_the_brokers_limit_is_split(servers: str) -> None:
    with Broker(topics={"t": 1}, config={"message.max.bytes": 3000}) as broker:
        sent = [b"%03d" % n * 100 for n in range(60)]
        with Producer(broker.bootstrap_servers, linger_ms=50) as producer:
            futures = [producer.send("t", value) for value in sent]
            assert [future.result(WAIT).offset for future in futures] == list(range(60))
            too_large = producer.send("t", bytes(4000)).exception(WAIT)
            assert isinstance(too_large, KafkaError)
            assert too_large.code.name == "MESSAGE_TOO_LARGE"
        assert values(broker.bootstrap_servers, "t") == sent


def test_an_invalid_topic_is_refused_at_once(servers: str) -> None:
    with Producer(servers) as producer:
        error = producer.send("no good", b"x").exception(WAIT)
        assert isinstance(error, KafkaError)
        assert error.code == 17
        with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):  # it was waited for
            producer.partitions_for("no good", WAIT)


def test_a_partition_that_does_not_exist_times_out(servers: str, topic: str) -> None:
    with Producer(servers) as producer:
        producer.partitions_for(topic)
        producer.config.max_block_ms = 400
        error = producer.send(topic, b"x", partition=99).exception(WAIT)
    assert isinstance(error, ClientTimeout)
    assert f"partition 99 of topic {topic}" in str(error)


def test_without_a_broker_send_fails_after_max_block() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with Producer(f"127.0.0.1:{nobody.getsockname()[1]}", max_block_ms=50) as producer:
            error = producer.send("t", b"x").exception(WAIT)
            with pytest.raises(ClientTimeout, match=r"topic t is not in the metadata after timeout \(20 ms\)"):
                producer.partitions_for("t", 0.02)
    assert isinstance(error, ClientTimeout)
    assert "topic t is not in the metadata after max.block.ms (50 ms)" in str(error)


def test_memory_runs_out_while_the_broker_is_gone_and_earlier_records_expire() -> None:  # C02
    broker = Broker(topics={"t": 1})
    settings: dict[str, Any] = {
        "buffer_memory": 32768,
        "max_block_ms": 100,
        "delivery_timeout_ms": 2000,  # none expires while the buffer is filled
        "request_timeout_ms": 1900,
    }
    producer = Producer(broker.bootstrap_servers, linger_ms=0, **settings)
    for _ in range(100):  # a busy machine may not learn of the topic within max.block.ms
        try:
            producer.partitions_for("t")
        except ClientTimeout:
            continue
        break
    broker.close()
    sent: list[BlockingRecordFuture] = []
    while not sent or not sent[-1].done():
        assert len(sent) <= 33  # two batches hold 32
        sent.append(producer.send("t", bytes(1000)))
    assert isinstance(sent.pop().exception(0), BufferExhausted)
    assert all(isinstance(future.exception(WAIT), ClientTimeout) for future in sent)
    producer.close(0)
    pool = producer._core.accumulator.pool
    assert pool.available_bytes == pool.total_bytes


def test_acks_0_tells_no_offset(servers: str, topic: str) -> None:
    with Producer(servers, acks=0) as producer:
        assert producer.send(topic, b"x").result(WAIT).offset == -1
        producer.flush(WAIT)
    with Producer(servers) as producer:
        producer.flush(WAIT)  # nothing to do


def test_close_sends_what_is_left_and_refuses_what_follows(servers: str, topic: str) -> None:
    producer = Producer(servers, linger_ms=10_000)
    future = producer.send(topic, b"x")
    producer.close(WAIT)
    assert future.result(0).offset == 0
    with pytest.raises(ClientClosed):
        producer.send(topic, b"y")
    producer.close()
    assert not producer._thread.is_alive()


def test_a_close_without_patience_fails_what_is_left(servers: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, answers nothing
        producer = Producer(f"127.0.0.1:{silent.getsockname()[1]}", max_block_ms=60_000)
        failed: list[BaseException] = []

        def blocked() -> None:
            try:
                producer.send("t", b"x")
            except ClientClosed as error:
                failed.append(error)

        thread = threading.Thread(target=blocked)
        thread.start()
        producer.close(0)
        thread.join(WAIT)
    assert len(failed) == 1


def test_closing_from_a_callback_does_not_hang(servers: str, topic: str) -> None:
    producer = Producer(servers)
    producer.send(topic, b"x", on_delivery=lambda metadata, error: producer.close())
    producer._thread.join(WAIT)
    assert not producer._thread.is_alive()


def _in_child(producer: Producer, topic: str, pipe: object) -> None:
    try:
        producer.send(topic, b"from the child")
    except ClientClosed as error:
        pipe.send(str(error))  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12 warns whoever forks beside threads
def test_the_child_of_a_fork_is_told_to_make_its_own(servers: str, topic: str) -> None:
    with Producer(servers) as producer:
        producer.send(topic, b"x").result(WAIT)
        here, there = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(target=_in_child, args=(producer, topic, there))
        child.start()
        assert here.poll(WAIT)
        assert "after fork" in here.recv()
        child.join(WAIT)
        assert child.exitcode == 0
        assert producer.send(topic, b"y").result(WAIT).offset >= 0
    here.close()
    there.close()


def test_unknown_settings_are_refused_before_anything_starts() -> None:
    before = set(threading.enumerate())
    with pytest.raises(ConfigError, match=r"did you mean 'linger\.ms'"):
        Producer({"linger.mss": 1})
    assert set(threading.enumerate()) <= before


async def test_the_asyncio_producer(servers: str, topic: str, dialect: Any) -> None:
    async with AsyncProducer(servers, dialect=dialect) as producer:
        assert len(await producer.partitions_for(topic)) == 4
        futures = [await producer.send(topic, b"%d" % n, partition=0) for n in range(100)]
        assert [(await future).offset for future in futures] == list(range(100))
        assert (await producer.send_and_wait(topic, b"last", partition=0)).offset == 100
        late = await producer.send(topic, b"flushed")
        await producer.flush()
        assert late.done()
        assert late.result().offset >= 0
        assert late.exception() is None
    with pytest.raises(ClientClosed):
        await producer.send(topic, b"x")


async def test_an_async_send_waits_for_memory_and_gets_it(servers: str, topic: str) -> None:
    async with AsyncProducer(servers, buffer_memory=2000, batch_size=1000) as producer:
        futures = [await producer.send(topic, bytes(700)) for _ in range(50)]
        for future in futures:
            await future
        assert producer._core.accumulator.pool.available_bytes == 2000


async def test_an_async_send_fails_after_max_block() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        async with AsyncProducer(f"127.0.0.1:{nobody.getsockname()[1]}", max_block_ms=50) as producer:
            future = await producer.send("t", b"x")
            with pytest.raises(ClientTimeout, match="topic t"):
                await future
            with pytest.raises(ClientTimeout, match=r"topic t is not in the metadata after timeout \(20 ms\)"):
                await producer.partitions_for("t", 0.02)


async def test_a_future_without_an_outcome_says_so(servers: str, topic: str) -> None:
    async with AsyncProducer(servers, linger_ms=1000) as producer:
        await producer.partitions_for(topic)
        future = await producer.send(topic, b"x")
        with pytest.raises(asyncio.InvalidStateError):
            future.result()
        await producer.flush()
        assert future.result().offset == 0


def test_times_and_chance_come_from_outside(servers: str, topic: str) -> None:
    with Producer(servers, surroundings=REAL._replace(wall_ms=lambda: 1_234_567)) as producer:
        assert producer.send(topic, b"x").result(WAIT).timestamp == 1_234_567
