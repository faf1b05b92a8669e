"""`send_columns` of both producers against an embedded broker, in both dialects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas import Broker, Consumer, Producer
from barnabas.client.errors import BufferExhausted, InvalidRecord, RecordTooLarge
from barnabas.client.producer import AsyncProducer
from barnabas.net.errors import ClientClosed, ClientTimeout, WaitRefused
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import TopicPartition

pa = pytest.importorskip("pyarrow")

BOTH = pytest.mark.parametrize("dialect", ["kafka", "native"])
WAIT = 60.0


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker(config={"num.partitions": 4}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "".join(c if c.isalnum() else "-" for c in request.node.name)


def records_of(servers: str, topic: str, count: int) -> dict[tuple[int, int], Any]:
    found: dict[tuple[int, int], Any] = {}
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(4)])
        while len(found) < count:
            for record in consumer.poll():
                found[record.partition, record.offset] = record
    return found


@BOTH
def test_every_row_lies_where_its_outcome_says(servers: str, topic: str, dialect: Any) -> None:
    count = 20_000
    keys = [None if index % 3 == 0 else b"%d" % (index % 500) for index in range(count)]
    values = [b"%d" % index for index in range(count)]
    with Producer(servers, dialect=dialect, batch_size=2000, buffer_memory=600_000) as producer:
        sent = producer.send_columns(topic, pa.table({"key": keys, "value": values}))
        assert len(sent) == count
        places = sent.result(WAIT).to_pydict()
        assert sent.done()
    found = records_of(servers, topic, count)
    for index in range(count):
        record = found[places["partition"][index], places["offset"][index]]
        assert (record.key, record.value) == (keys[index], values[index])


@BOTH
def test_coroutines_send_columns_too(servers: str, topic: str, dialect: Any) -> None:
    async def main() -> Any:
        async with AsyncProducer(servers, dialect=dialect) as producer:
            sent = await producer.send_columns(topic, {"value": ["a", "b"]}, partition=3)
            return (await sent).to_pydict(), (await sent.outcome()).to_pydict()

    places, outcome = asyncio.run(main())
    assert places == {"partition": [3, 3], "offset": [0, 1]}
    assert outcome == {**places, "error": [None, None]}


def test_what_a_consumer_reads_as_columns_is_sent_on_as_it_is(servers: str, topic: str) -> None:
    headers = [("h", b"1"), ("n", None)]
    with Producer(servers) as producer:
        producer.send(topic, b"v", key=b"k", headers=headers, partition=1, timestamp_ms=77).result(WAIT)
        with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 1)])
            while not (heard := consumer.poll_columns(headers=True)):
                pass
        producer.send_columns(topic, heard[0]).result(WAIT)
    again = records_of(servers, topic, 2)[1, 1]
    assert (again.key, again.value, again.timestamp, list(again.headers)) == (b"k", b"v", 77, headers)


def test_a_batch_that_is_too_large_for_the_topic_is_split_and_each_row_found(topic: str) -> None:
    with (
        Broker(config={"num.partitions": 1, "message.max.bytes": 20_000}) as broker,
        Producer(broker.bootstrap_servers) as producer,
    ):
        sent = producer.send_columns(topic, {"value": [b"%04d" % index * 50 for index in range(1000)]})
        assert sent.result(WAIT)["offset"].to_pylist() == list(range(1000))
        refused = producer.send_columns(topic, {"value": [b"a", b"b" * 30_000, b"c"]})
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            refused.result(WAIT)
        outcome = refused.outcome(WAIT).to_pydict()
        assert [error is None for error in outcome["error"]] == [offset >= 0 for offset in outcome["offset"]]
        assert "MESSAGE_TOO_LARGE" in outcome["error"][1]


def test_nothing_is_sent_of_what_is_refused(servers: str, topic: str) -> None:
    with Producer(servers, max_request_size=5000) as producer:
        with pytest.raises(RecordTooLarge, match="row 1"):
            producer.send_columns(topic, {"value": [b"a", b"b" * 6000]})
        with pytest.raises(InvalidRecord, match="no part of a record"):
            producer.send_columns(topic, {"value": [b"a"], "price": [1]})
        with pytest.raises(InvalidRecord, match="no name of a topic"):
            producer.send_columns(7, {"value": [b"a"]})  # type: ignore[arg-type]
        assert producer.send_columns(topic, {"value": [b"first"]}, partition=0).result(WAIT)["offset"].to_pylist() == [
            0
        ]
    with pytest.raises(ClientClosed):
        producer.send_columns(topic, {"value": [b"a"]})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"value_serializer": "json"}, "value.serializer"),
        ({"partitioner_class": lambda *_: 0}, "partitioner.class"),
    ],
)
def test_settings_that_work_on_single_records_are_refused(
    servers: str, topic: str, settings: dict[str, Any], words: str
) -> None:
    with Producer(servers, **settings) as producer, pytest.raises(InvalidRecord, match=words):
        producer.send_columns(topic, {"value": ["a"]})


def test_rows_without_a_place_tell_why_and_the_others_are_written(servers: str, topic: str) -> None:
    with Producer(servers) as producer:
        producer.send(topic, b"x").result(WAIT)
        producer.config.max_block_ms = 1
        sent = producer.send_columns(topic, {"value": [b"a"]}, partition=9)
        with pytest.raises(ClientTimeout, match="partition 9"):
            sent.result(WAIT)
        assert "partition 9" in sent.outcome(WAIT)["error"][0].as_py()
    with Producer("127.0.0.1:1", max_block_ms=1) as producer:
        with pytest.raises(ClientTimeout):
            producer.send_columns(topic, {"value": [b"a"]}).result(WAIT)
        assert len(producer.send_columns(topic, {"value": pa.array([], pa.binary())}).outcome()) == 0


def test_memory_that_does_not_come_ends_the_rest_of_the_rows(servers: str, topic: str) -> None:
    with Producer(servers, buffer_memory=40_000, batch_size=20_000) as producer:
        producer.send(topic, b"x").result(WAIT)
        producer.config.max_block_ms = 1
        with producer._lock:  # nothing leaves meanwhile
            sent = producer.send_columns(topic, {"value": [b"v" * 9000] * 9}, partition=0)
        outcome = sent.outcome(WAIT).to_pydict()
    errors = outcome["error"]
    assert errors[0] is None
    assert "buffer.memory" in errors[-1]
    assert isinstance(sent.error, BufferExhausted)


def test_waiting_in_a_callback_is_refused(servers: str, topic: str) -> None:
    found: list[BaseException] = []
    with Producer(servers) as producer:

        def on_delivery(_metadata: Any, _error: Any) -> None:
            try:
                producer.send_columns(topic, {"value": [b"b"]}).result()
            except WaitRefused as refused:
                found.append(refused)

        producer.send(topic, b"a", on_delivery=on_delivery).result(WAIT)
        producer.flush(WAIT)
    assert len(found) == 1
