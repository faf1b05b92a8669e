"""What is handed over is checked there, waits that would never end are refused, poison can be passed over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas import Broker, Consumer, Producer, TopicPartition, aio
from barnabas.client.errors import InvalidRecord, SerializationFailed
from barnabas.net.errors import ClientTimeout, ConfigError, WaitRefused

WAIT = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def producer(broker: Broker) -> Iterator[Producer]:
    with Producer(broker.bootstrap_servers, linger_ms=0) as producer:
        producer.send("checked", b"first").result(WAIT)
        yield producer


NO_RECORDS: list[tuple[dict[str, Any], str]] = [
    ({"topic": None}, r"topic: None \(NoneType\)"),
    ({"topic": b"checked"}, r"topic: b'checked' \(bytes\) is no name of a topic; give a string"),
    ({"topic": {"a": 1}}, r"topic: \{'a': ...\} is a mapping, not a topic"),
    ({"topic": ""}, "topic: ''"),
    ({"partition": "0"}, r"partition: '0' \(str\) is no whole number"),
    ({"partition": 0.0}, r"partition: 0.0 \(float\)"),
    ({"partition": True}, r"partition: True \(bool\)"),
    ({"partition": -1}, "partition -1 is negative"),
    ({"timestamp_ms": 1.5}, r"timestamp_ms: 1.5 \(float\)"),
    ({"timestamp_ms": "now"}, r"timestamp_ms: 'now' \(str\)"),
    ({"timestamp_ms": -5}, r"timestamp_ms: -5 \(int\)"),
    ({"timestamp_ms": 2**63}, "timestamp_ms: 9223372036854775808"),
    ({"headers": {"a": b"b"}}, r"headers: a mapping.*give list\(headers.items\(\)\)"),
    ({"headers": [("a",)]}, "headers: .* are no pairs"),
    ({"headers": 7}, r"headers: 7 \(int\) are no pairs"),
    ({"headers": [(b"a", b"b")]}, r"headers: the name b'a' \(bytes\) is no string"),
    ({"headers": [("\ud800", b"b")]}, "headers: the name .* cannot be written as UTF-8"),
    ({"headers": [("a", "b")]}, r"headers: the value 'b' \(str\) of 'a' is no bytes"),
    ({"on_delivery": "x"}, r"on_delivery: 'x' \(str\) is no function; give one that takes \(metadata, error\)"),
    ({"on_delivery": [print]}, "on_delivery: .* is no function"),
    ({"key": "k"}, "topic checked, key: bytes wanted, not str"),
    ({"value": "v"}, "topic checked, value: bytes wanted, not str"),
]


@pytest.mark.parametrize(("fields", "why"), NO_RECORDS)
def test_what_is_no_record_is_refused_at_once_and_poisons_nothing(
    producer: Producer, fields: dict[str, Any], why: str
) -> None:
    record = {"topic": "checked", "value": b"x", **fields}
    beside = producer.send("checked", b"beside")
    with pytest.raises((InvalidRecord, SerializationFailed), match=why):
        producer.send(**record)
    assert beside.result(WAIT).offset >= 0
    assert producer.send("checked", b"after").result(WAIT).offset >= 0


@pytest.mark.parametrize(("fields", "why"), NO_RECORDS)
async def test_coroutines_are_refused_alike(broker: Broker, fields: dict[str, Any], why: str) -> None:
    async with aio.Producer(broker.bootstrap_servers) as producer:
        with pytest.raises((InvalidRecord, SerializationFailed), match=why):
            await producer.send(**{"topic": "checked", "value": b"x", **fields})
        assert (await producer.send_and_wait("checked", b"after")).offset >= 0


def test_no_headers_may_be_none(producer: Producer) -> None:
    unset: Any = None
    assert producer.send("checked", b"x", headers=unset).result(WAIT).offset >= 0


def test_of_a_record_whose_callback_is_none_nothing_is_sent(broker: Broker) -> None:
    wrong: Any = "x"
    with Producer(broker.bootstrap_servers, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        first = producer.send("uncalled", b"1", partition=0)
        with pytest.raises(InvalidRecord, match="is no function"):  # there is a batch with room for it
            producer.send("uncalled", b"2", partition=0, on_delivery=wrong)
        last = producer.send("uncalled", b"3", partition=0)
        producer.flush(WAIT)
    assert (first.result(0).offset, last.result(0).offset) == (0, 1)
    with (
        Producer(broker.bootstrap_servers, value_serializer="string") as producer,
        pytest.raises(InvalidRecord, match="is no function"),
    ):
        producer.send("uncalled", "4", on_delivery=wrong)


def test_a_serializer_that_refuses_names_the_topic(broker: Broker) -> None:
    with Producer(broker.bootstrap_servers, value_serializer="json") as producer:
        with pytest.raises(SerializationFailed, match=r"topic checked, value: .*set.* is not JSON") as caught:
            producer.send("checked", {1, 2})
        assert caught.value.topic == "checked"


def test_a_poison_pill_is_told_after_what_is_good_and_can_be_passed_over(broker: Broker, producer: Producer) -> None:
    for value in (b"0", b"1", b"pill", b"3"):
        producer.send("poisoned", value, partition=0)
    producer.flush(WAIT)
    settings = {"auto.offset.reset": "earliest", "value.deserializer": int}
    found: list[int] = []
    refused: list[Any] = []
    with Consumer("poisoned", config=settings, bootstrap_servers=broker.bootstrap_servers) as consumer:
        while len(found) < 3:
            try:
                found += [record.value for record in consumer.poll(60)]
            except SerializationFailed as error:
                refused.append((error.topic, error.partition, error.offset, tuple(found)))
                consumer.seek(TopicPartition(error.topic, error.partition), error.offset + 1)
    assert found == [0, 1, 3]
    assert refused == [("poisoned", 0, 2, (0, 1))]


def test_waiting_in_a_delivery_callback_is_refused(producer: Producer) -> None:
    refused: list[str] = []
    done = threading.Event()

    def delivered(metadata: Any, error: Any) -> None:
        waits: list[Any] = [
            producer.flush,
            lambda: producer.partitions_for("checked"),
            lambda: producer.send("checked", b"later").result(),
            lambda: producer.send("checked", b"later").exception(),
        ]
        for wait in waits:
            try:
                wait()
            except WaitRefused as problem:
                refused.append(str(problem))
        done.set()

    producer.send("checked", b"x", on_delivery=delivered)
    assert done.wait(WAIT)
    assert len(refused) == 4
    assert all("inside a delivery callback would wait for the thread it runs on" in each for each in refused)
    producer.flush(WAIT)


def test_flush_returns_after_the_callbacks(producer: Producer) -> None:
    begun, go, told = threading.Event(), threading.Event(), list[int]()

    def delivered(metadata: Any, error: Any) -> None:
        begun.set()
        go.wait(WAIT)
        told.append(metadata.offset)

    producer.send("checked", b"x", on_delivery=delivered)
    assert begun.wait(WAIT)  # the record has its outcome
    with pytest.raises(ClientTimeout, match="a delivery callback still runs"):
        producer.flush(0.01)
    assert not told
    go.set()
    producer.flush(WAIT)
    assert len(told) == 1


def test_a_callback_that_does_not_end_keeps_no_close_waiting(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()

    def delivered(metadata: Any, error: Any) -> None:
        begun.set()
        go.wait(WAIT)
        ended.set()

    producer = Producer(broker.bootstrap_servers)
    producer.send("checked", b"x", on_delivery=delivered)
    assert begun.wait(WAIT)
    producer.close(0)
    assert not ended.is_set()
    assert "a delivery callback still runs" in caplog.text
    go.set()
    assert ended.wait(WAIT)
    producer.close()


@pytest.mark.parametrize("limit", [0, -1])
def test_a_poll_for_no_records_is_refused(broker: Broker, limit: int) -> None:
    with Consumer("checked", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        with pytest.raises(ConfigError, match=f"max_records: {limit} is below its minimum 1"):
            consumer.poll(60, max_records=limit)
        assert consumer.poll(60, max_records=1)


def test_a_record_that_cannot_be_read_says_what_of_it(broker: Broker) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        producer.send("unread", b"no JSON", key=b"7", partition=0)
        producer.send("unread", b"8", key=b"no JSON", partition=0).result(WAIT)
    settings = {"auto.offset.reset": "earliest", "key.deserializer": "json", "value.deserializer": "json"}
    with Consumer("unread", config=settings, bootstrap_servers=broker.bootstrap_servers) as consumer:
        for offset, what in enumerate(("value", "key")):
            why = f"^unread-0, offset {offset}, {what}: .*; seek behind it to go on, or set another deserializer$"
            with pytest.raises(SerializationFailed, match=why) as caught:
                consumer.poll(60)
            consumer.seek(TopicPartition(caught.value.topic, caught.value.partition), caught.value.offset + 1)


def test_what_is_no_topic_or_partition_is_not_consumed(broker: Broker) -> None:
    topic: Any
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        for topic in (["checked"], b"checked", ""):
            with pytest.raises(ConfigError, match=r"is no name of a topic|are several; give them one by one"):
                consumer.subscribe(topic)
        for where in ("ab", ("checked", "0"), ("checked", -1), ("checked",)):
            wanted: Any = [where]
            with pytest.raises(ConfigError, match="is no partition"):
                consumer.assign(wanted)
        consumer.assign([("checked", 0)])
        assert consumer.assignment() == [("checked", 0)]
