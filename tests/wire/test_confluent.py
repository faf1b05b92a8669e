"""confluent-kafka (librdkafka): assigned partitions, explicit offsets, no groups; its admin client."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.wire.conftest import stored_codecs

confluent_kafka = pytest.importorskip(
    "confluent_kafka", reason="confluent-kafka is not installed: pip install confluent-kafka"
)
admin = pytest.importorskip("confluent_kafka.admin")

SECONDS_MAX = 20.0
VALUES = [b"%d " % number + b"x" * 50 for number in range(100)]


@pytest.fixture(scope="module")
def manager(address: str) -> Any:
    return admin.AdminClient({"bootstrap.servers": address})


@pytest.fixture
def topic(manager: Any, fresh: Callable[[], str]) -> str:
    name = fresh()
    for future in manager.create_topics([admin.NewTopic(name, num_partitions=2, replication_factor=1)]).values():
        future.result(SECONDS_MAX)
    return name


@pytest.fixture
def consumer(address: str) -> Iterator[Any]:
    settings = {
        "bootstrap.servers": address,
        "group.id": "none",  # it must have one; nothing is asked of it
        "enable.auto.commit": False,
        "enable.partition.eof": False,
        "fetch.wait.max.ms": 100,
    }
    made = confluent_kafka.Consumer(settings)
    yield made
    made.close()


def send(address: str, topic: str, values: list[bytes], compression: str = "none", **settings: Any) -> list[Any]:
    """Produce to partition 0 and return the reports, which must all be good."""
    reports: list[Any] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "linger.ms": 5, "compression.type": compression, **settings}
    )
    for value in values:
        producer.produce(topic, value, key=b"k", partition=0, on_delivery=lambda *report: reports.append(report))
    assert producer.flush(SECONDS_MAX) == 0
    assert [error for error, _ in reports if error] == []
    return [message for _, message in reports]


def take(consumer: Any, topic: str, count: int, offset: int = 0, partition: int = 0) -> list[Any]:
    """This many messages from this offset on."""
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
    messages: list[Any] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(messages) < count and time.monotonic() < deadline:
        messages += [message for message in consumer.consume(count - len(messages), 0.2) if not message.error()]
    return messages


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed_with_every_compression(
    address: str, topic: str, consumer: Any, compression: str
) -> None:
    sent = send(address, topic, VALUES, compression=compression)
    assert [message.offset() for message in sent] == list(range(len(VALUES)))
    assert stored_codecs(address, topic) == {compression}
    got = take(consumer, topic, len(VALUES))
    assert [message.value() for message in got] == VALUES
    assert [message.offset() for message in got] == list(range(len(VALUES)))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks(address: str, topic: str, consumer: Any, acks: str) -> None:
    send(address, topic, VALUES[:10], acks=acks)
    assert [message.value() for message in take(consumer, topic, 10)] == VALUES[:10]


def test_an_idempotent_producer_keeps_order_and_number(address: str, topic: str, consumer: Any) -> None:
    values = [b"%d" % number for number in range(2000)]
    settings: dict[str, Any] = {"enable.idempotence": True, "batch.num.messages": 20}
    send(address, topic, values, **settings)
    assert [message.value() for message in take(consumer, topic, len(values))] == values


def test_keys_headers_and_timestamps_come_back(address: str, topic: str, consumer: Any) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    headers = [("a", b"1"), ("a", b"2"), ("none", None)]
    stamp = int(time.time() * 1000) - 5000
    producer.produce(topic, b"v", key=b"key", partition=1, headers=headers, timestamp=stamp)
    producer.produce(topic, None, key=b"gone", partition=1)
    assert producer.flush(SECONDS_MAX) == 0
    first, second = take(consumer, topic, 2, partition=1)
    assert (first.key(), first.value(), first.headers(), first.timestamp()[1]) == (b"key", b"v", headers, stamp)
    assert (second.key(), second.value()) == (b"gone", None)


def test_explicit_offsets_seek_and_watermarks(address: str, topic: str, consumer: Any) -> None:
    send(address, topic, VALUES)
    assert [message.offset() for message in take(consumer, topic, 5, offset=42)] == [42, 43, 44, 45, 46]
    place = confluent_kafka.TopicPartition(topic, 0, 7)
    consumer.seek(place)
    deadline = time.monotonic() + SECONDS_MAX
    message = None
    while message is None and time.monotonic() < deadline:
        message = consumer.poll(0.2)
    assert message is not None
    assert message.offset() == 7
    assert consumer.get_watermark_offsets(place, timeout=SECONDS_MAX) == (0, len(VALUES))
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_END)])


def test_offsets_by_time(address: str, topic: str, consumer: Any) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    now = int(time.time() * 1000)
    for number in range(10):
        producer.produce(topic, b"v", partition=0, timestamp=now - 10_000 + number * 1000)
    assert producer.flush(SECONDS_MAX) == 0
    asked = [confluent_kafka.TopicPartition(topic, 0, now - 10_000 + 3500)]
    assert [found.offset for found in consumer.offsets_for_times(asked, timeout=SECONDS_MAX)] == [4]


def test_a_waiting_consumer_is_woken(address: str, topic: str, consumer: Any) -> None:
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    assert consumer.poll(0.3) is None
    send(address, topic, [b"news"])
    message = consumer.poll(SECONDS_MAX)
    assert message is not None
    assert message.value() == b"news"


def test_admin_creates_describes_alters_grows_and_deletes(manager: Any, fresh: Callable[[], str]) -> None:
    name = fresh()
    made = admin.NewTopic(name, num_partitions=1, replication_factor=1, config={"retention.ms": "60000"})
    manager.create_topics([made])[name].result(SECONDS_MAX)
    with pytest.raises(confluent_kafka.KafkaException, match="TOPIC_ALREADY_EXISTS"):
        manager.create_topics([made])[name].result(SECONDS_MAX)
    resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, name)
    described = manager.describe_configs([resource])[resource].result(SECONDS_MAX)
    assert described["retention.ms"].value == "60000"
    assert described["cleanup.policy"].value == "delete"
    entry = admin.ConfigEntry("retention.ms", "70000", incremental_operation=admin.AlterConfigOpType.SET)
    change = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    next(iter(manager.incremental_alter_configs([change]).values())).result(SECONDS_MAX)
    assert manager.describe_configs([resource])[resource].result(SECONDS_MAX)["retention.ms"].value == "70000"
    manager.create_partitions([admin.NewPartitions(name, 3)])[name].result(SECONDS_MAX)
    assert len(manager.list_topics(name, timeout=SECONDS_MAX).topics[name].partitions) == 3
    manager.delete_topics([name])[name].result(SECONDS_MAX)
    assert name not in manager.list_topics(timeout=SECONDS_MAX).topics


def test_admin_deletes_records_and_lists_offsets(address: str, manager: Any, topic: str) -> None:
    send(address, topic, VALUES[:10])
    place = confluent_kafka.TopicPartition(topic, 0, 4)
    assert next(iter(manager.delete_records([place]).values())).result(SECONDS_MAX).low_watermark == 4
    asked = {confluent_kafka.TopicPartition(topic, 0): admin.OffsetSpec.earliest()}
    assert next(iter(manager.list_offsets(asked).values())).result(SECONDS_MAX).offset == 4


def test_admin_describes_the_cluster(manager: Any) -> None:
    cluster = manager.describe_cluster().result(SECONDS_MAX)
    assert len(cluster.nodes) == 1
    assert cluster.controller is not None
    assert cluster.cluster_id
