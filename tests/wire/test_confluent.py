"""confluent-kafka (librdkafka): every codec and ack, offsets, groups of each protocol it knows, its admin client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.wire.conftest import SECONDS_MAX, VALUES, stored_codecs, until
from tests.wire.tried import CONFLUENT

confluent_kafka = pytest.importorskip(
    "confluent_kafka", reason="confluent-kafka is not installed: pip install confluent-kafka"
)
admin = pytest.importorskip("confluent_kafka.admin")

PARTITIONS = 4
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])  # the second is that of KIP-848
Place = confluent_kafka.TopicPartition


@pytest.fixture(scope="module")
def manager(address: str) -> Any:
    return admin.AdminClient({"bootstrap.servers": address})


@pytest.fixture
def topic(manager: Any, fresh: Callable[[], str]) -> str:
    name = fresh()
    create(manager, name, PARTITIONS)
    return name


def create(manager: Any, name: str, partitions: int = 1, **settings: Any) -> None:
    """Make a topic, and wait until it is known (Apache Kafka says that it is made a little earlier)."""
    made = admin.NewTopic(name, num_partitions=partitions, replication_factor=1, **settings)
    manager.create_topics([made])[name].result(SECONDS_MAX)
    until(lambda: name in manager.list_topics(timeout=SECONDS_MAX).topics, lambda: None)


@pytest.fixture
def member(address: str) -> Iterator[Callable[..., Any]]:
    """Makes consumers of a group; closes at the end those that the test did not."""
    members: list[Any] = []

    def make(group: str, **settings: Any) -> Any:
        common = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "fetch.wait.max.ms": 100}
        if settings.get("group.protocol") != "consumer":  # there the broker says how often
            common["heartbeat.interval.ms"] = 100
        members.append(
            confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": group, **common, **settings})
        )
        return members[-1]

    yield make
    for each in members:
        each.close()


@pytest.fixture
def consumer(member: Callable[..., Any]) -> Any:
    """One that is told its partitions: it must have a group, of which nothing is asked."""
    return member("none")


def send(
    address: str, topic: str, values: list[bytes], compression: str = "none", partition: int = 0, **settings: Any
) -> list[Any]:
    """Produce and return the reports, which must all be good."""
    reports: list[Any] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "linger.ms": 5, "compression.type": compression, **settings}
    )
    for value in values:
        producer.produce(topic, value, b"k", partition, on_delivery=lambda *report: reports.append(report))
    assert producer.flush(SECONDS_MAX) == 0
    assert [error for error, _ in reports if error] == []
    return [message for _, message in reports]


def fill(address: str, topic: str, count: int = 10) -> None:
    """So many records to each partition."""
    for partition in range(PARTITIONS):
        send(address, topic, VALUES[:count], partition=partition)


def take(consumer: Any, topic: str, count: int, offset: int = 0, partition: int = 0) -> list[Any]:
    """This many messages from this offset on."""
    consumer.assign([Place(topic, partition, offset)])
    messages: list[Any] = []
    until(lambda: len(messages) == count, lambda: messages.extend(consumer.consume(count - len(messages), 0.2)))
    assert [message.error() for message in messages if message.error()] == []
    return messages


def poll_until(consumers: list[Any], done: Callable[[], bool], seen: list[tuple[int, int]] | None = None) -> None:
    """Poll all of them in turn until it is so."""

    def step() -> None:
        for consumer in consumers:
            message = consumer.poll(0.05)
            if message is not None:
                assert message.error() is None, message.error()
                if seen is not None:
                    seen.append((message.partition(), message.offset()))

    until(done, step, lambda: [consumer.assignment() for consumer in consumers])


def numbers(consumer: Any) -> set[int]:
    return {place.partition for place in consumer.assignment()}


def grid(count: int, start: int = 0) -> list[tuple[int, int]]:
    """(partition, offset) of these records of every partition."""
    return [(partition, offset) for partition in range(PARTITIONS) for offset in range(start, start + count)]


@pytest.mark.parametrize("compression", CONFLUENT.codecs)
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
    send(address, topic, VALUES[:1])  # with acks=0 nobody would hear of a leader that is not ready
    send(address, topic, VALUES[1:10], acks=acks)
    assert [message.value() for message in take(consumer, topic, 10)] == VALUES[:10]


def test_an_idempotent_producer_keeps_order_and_number(address: str, topic: str, consumer: Any) -> None:
    values = [b"%d" % number for number in range(2000)]
    settings: dict[str, Any] = {"enable.idempotence": True, "batch.num.messages": 20}
    send(address, topic, values, **settings)
    assert [message.value() for message in take(consumer, topic, len(values))] == values


def test_keys_headers_timestamps_and_tombstones_come_back(address: str, topic: str, consumer: Any) -> None:
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
    place = Place(topic, 0, 7)
    consumer.seek(place)
    seen: list[tuple[int, int]] = []
    poll_until([consumer], lambda: bool(seen), seen)
    assert seen == [(0, 7)]
    assert [each.offset for each in consumer.position([place])] == [8]
    assert consumer.get_watermark_offsets(place, timeout=SECONDS_MAX) == (0, len(VALUES))


def test_offsets_by_time(address: str, topic: str, consumer: Any) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    now = int(time.time() * 1000)
    for number in range(10):
        producer.produce(topic, b"v", partition=0, timestamp=now - 10_000 + number * 1000)
    assert producer.flush(SECONDS_MAX) == 0
    asked = [Place(topic, 0, now - 10_000 + 3500)]
    assert [found.offset for found in consumer.offsets_for_times(asked, timeout=SECONDS_MAX)] == [4]


def test_a_waiting_consumer_is_woken(address: str, topic: str, consumer: Any) -> None:
    consumer.assign([Place(topic, 0, 0)])
    assert consumer.poll(0.3) is None
    send(address, topic, [b"news"])
    message = consumer.poll(SECONDS_MAX)
    assert message is not None
    assert message.value() == b"news"


def test_a_position_before_the_log_is_reset_as_the_setting_says(
    address: str, topic: str, manager: Any, member: Callable[..., Any]
) -> None:
    send(address, topic, VALUES[:10])
    manager.delete_records([Place(topic, 0, 6)])[Place(topic, 0)].result(SECONDS_MAX)
    assert [each.offset() for each in take(member("earliest"), topic, 4, offset=2)] == [6, 7, 8, 9]
    refusing = member("error", **{"auto.offset.reset": "error"})
    refusing.assign([Place(topic, 0, 2)])
    message = refusing.poll(SECONDS_MAX)
    assert message.error().code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET


@pytest.mark.parametrize(("protocol", "assignor"), CONFLUENT.groups)
def test_two_members_share_and_one_that_leaves_gives_back(
    address: str, topic: str, member: Callable[..., Any], protocol: str, assignor: str
) -> None:
    setting = "partition.assignment.strategy" if protocol == "classic" else "group.remote.assignor"
    settings = {"group.protocol": protocol, setting: assignor}
    fill(address, topic)
    first = member(topic, **settings)
    first.subscribe([topic])
    seen: list[tuple[int, int]] = []
    poll_until([first], lambda: len(seen) == 10 * PARTITIONS, seen)
    assert sorted(seen) == grid(10)
    first.commit(asynchronous=False)
    second = member(topic, **settings)
    second.subscribe([topic])
    poll_until([first, second], lambda: len(numbers(first)) == len(numbers(second)) == 2, seen)
    assert numbers(first) | numbers(second) == set(range(PARTITIONS))
    first.close()
    poll_until([second], lambda: len(numbers(second)) == PARTITIONS, seen)
    fill(address, topic, 1)
    poll_until([second], lambda: len(seen) == 11 * PARTITIONS, seen)
    assert sorted(seen[10 * PARTITIONS :]) == grid(1, start=10)


@PROTOCOLS
def test_listeners_are_told_what_comes_and_goes(topic: str, member: Callable[..., Any], protocol: str) -> None:
    told: list[tuple[str, list[int]]] = []

    def note(what: str) -> Callable[[Any, list[Any]], None]:
        return lambda _, places: told.append((what, sorted(place.partition for place in places)))

    settings = {"group.protocol": protocol}
    if protocol == "classic":
        settings["partition.assignment.strategy"] = "cooperative-sticky"
    first, second = member(topic, **settings), member(topic, **settings)
    first.subscribe(["^" + topic + "$"], on_assign=note("assigned"), on_revoke=note("revoked"))
    poll_until([first], lambda: bool(told))
    second.subscribe([topic])
    poll_until([first, second], lambda: len(numbers(first)) == len(numbers(second)) == 2)
    assert told[:2] == [("assigned", [0, 1, 2, 3]), ("revoked", sorted(numbers(second)))]
    first.unsubscribe()
    poll_until([first, second], lambda: len(numbers(second)) == PARTITIONS)
    assert [what for what, _ in told].count("revoked") == 2


def test_a_member_goes_on_where_the_last_one_committed(address: str, topic: str, member: Callable[..., Any]) -> None:
    fill(address, topic)
    first = member(topic)
    first.subscribe([topic])
    seen: list[tuple[int, int]] = []
    poll_until([first], lambda: len(seen) == 10 * PARTITIONS, seen)
    first.commit(offsets=[Place(topic, 0, 4, "as far as four")], asynchronous=False)
    first.close()
    second = member(topic)
    second.subscribe([topic])
    again: list[tuple[int, int]] = []
    poll_until([second], lambda: len(again) == 6 + 30, again)
    assert sorted(again)[0] == (0, 4)
    (committed,) = second.committed([Place(topic, 0)], SECONDS_MAX)
    assert (committed.offset, committed.metadata) == (4, "as far as four")


def test_what_is_stored_is_committed_by_itself(address: str, topic: str, member: Callable[..., Any]) -> None:
    fill(address, topic)
    done: list[Any] = []
    settings: dict[str, Any] = {"enable.auto.commit": True, "enable.auto.offset.store": False}
    first = member(topic, on_commit=lambda error, places: done.append((error, places)), **settings)
    first.subscribe([topic])
    seen: list[tuple[int, int]] = []
    poll_until([first], lambda: len(seen) == 10 * PARTITIONS, seen)
    first.store_offsets(offsets=[Place(topic, 2, 5)])
    first.close()
    second = member(topic)
    told = second.committed([Place(topic, 2), Place(topic, 3)], SECONDS_MAX)
    assert [place.offset for place in told] == [5, confluent_kafka.OFFSET_INVALID]
    assert [error for error, _ in done] == [None]


@PROTOCOLS
def test_a_static_member_comes_back_to_its_partitions(topic: str, member: Callable[..., Any], protocol: str) -> None:
    first = member(topic, **{"group.instance.id": "a", "group.protocol": protocol})
    second = member(topic, **{"group.instance.id": "b", "group.protocol": protocol})
    for each in (first, second):
        each.subscribe([topic])
    poll_until([first, second], lambda: len(numbers(first)) == len(numbers(second)) == 2)
    had = numbers(second)
    second.close()  # a static member does not leave
    third = member(topic, **{"group.instance.id": "b", "group.protocol": protocol})
    third.subscribe([topic])
    poll_until([first, third], lambda: numbers(third) == had)
    assert len(numbers(first)) == 2


def test_admin_creates_describes_grows_and_deletes(manager: Any, fresh: Callable[[], str]) -> None:
    name = fresh()
    made = admin.NewTopic(name, num_partitions=1, replication_factor=1)
    manager.create_topics([made], validate_only=True)[name].result(SECONDS_MAX)
    assert name not in manager.list_topics(timeout=SECONDS_MAX).topics
    create(manager, name)
    with pytest.raises(confluent_kafka.KafkaException, match="TOPIC_ALREADY_EXISTS"):
        manager.create_topics([made])[name].result(SECONDS_MAX)
    many = admin.NewTopic(fresh(), num_partitions=1, replication_factor=3)
    with pytest.raises(confluent_kafka.KafkaException, match="INVALID_REPLICATION_FACTOR"):
        manager.create_topics([many])[many.topic].result(SECONDS_MAX)
    manager.create_partitions([admin.NewPartitions(name, 3)])[name].result(SECONDS_MAX)

    def described() -> Any:
        return manager.describe_topics(confluent_kafka.TopicCollection([name]))[name].result(SECONDS_MAX)

    until(lambda: len(described().partitions) == 3, lambda: None, described)
    assert [each.id for each in described().partitions] == [0, 1, 2]
    assert not described().is_internal
    manager.delete_topics([name])[name].result(SECONDS_MAX)
    until(lambda: name not in manager.list_topics(timeout=SECONDS_MAX).topics, lambda: None)


def test_admin_reads_and_changes_settings(manager: Any, fresh: Callable[[], str]) -> None:
    name = fresh()
    create(manager, name, config={"retention.ms": "60000"})
    operation, kind = admin.AlterConfigOpType, admin.ConfigResource.Type
    resource = admin.ConfigResource(kind.TOPIC, name)

    def described() -> dict[str, str]:
        found = manager.describe_configs([resource])[resource].result(SECONDS_MAX)
        return {key: found[key].value for key in ("retention.ms", "cleanup.policy")}

    def now(retention: str, policy: str) -> None:
        """Apache Kafka takes a moment until it tells a change."""
        wanted = {"retention.ms": retention, "cleanup.policy": policy}
        until(lambda: described() == wanted, lambda: None, described)

    def alter(key: str, value: str | None, how: Any) -> None:
        entry = admin.ConfigEntry(key, value, incremental_operation=how)
        change = admin.ConfigResource(kind.TOPIC, name, incremental_configs=[entry])
        next(iter(manager.incremental_alter_configs([change]).values())).result(SECONDS_MAX)

    now("60000", "delete")
    alter("retention.ms", "70000", operation.SET)
    alter("cleanup.policy", "compact", operation.APPEND)
    now("70000", "delete,compact")
    alter("cleanup.policy", "delete", operation.SUBTRACT)
    alter("retention.ms", None, operation.DELETE)
    now("604800000", "compact")
    with pytest.raises(confluent_kafka.KafkaException, match="INVALID_CONFIG"):
        alter("retention.ms", "long", operation.SET)
    node = manager.describe_cluster().result(SECONDS_MAX).nodes[0]
    broker = admin.ConfigResource(kind.BROKER, node.id_string)
    assert manager.describe_configs([broker])[broker].result(SECONDS_MAX)["num.partitions"].value == "1"


def test_admin_deletes_records_and_lists_offsets(address: str, manager: Any, topic: str) -> None:
    send(address, topic, VALUES[:10])
    place = Place(topic, 0, 4)
    assert manager.delete_records([place])[place].result(SECONDS_MAX).low_watermark == 4
    spec = admin.OffsetSpec
    for asked, offset in ((spec.earliest(), 4), (spec.latest(), 10), (spec.for_timestamp(0), 4)):
        assert manager.list_offsets({place: asked})[place].result(SECONDS_MAX).offset == offset


def test_admin_sees_the_cluster(manager: Any, topic: str) -> None:
    cluster = manager.describe_cluster().result(SECONDS_MAX)
    assert len(cluster.nodes) == 1
    assert cluster.controller is not None
    assert cluster.cluster_id
    (elected,) = manager.elect_leaders(confluent_kafka.ElectionType.PREFERRED, [Place(topic, 0)]).result().values()
    assert elected.name() == "ELECTION_NOT_NEEDED"


@PROTOCOLS
def test_admin_sees_resets_and_deletes_groups(
    address: str, topic: str, manager: Any, member: Callable[..., Any], protocol: str
) -> None:
    fill(address, topic)
    consumer = member(topic, **{"group.protocol": protocol})
    consumer.subscribe([topic])
    seen: list[tuple[int, int]] = []
    poll_until([consumer], lambda: len(seen) == 10 * PARTITIONS, seen)
    consumer.commit(asynchronous=False)
    described = manager.describe_consumer_groups([topic])[topic].result(SECONDS_MAX)
    assert described.state == confluent_kafka.ConsumerGroupState.STABLE
    assert {place.partition for place in described.members[0].assignment.topic_partitions} == set(range(PARTITIONS))

    def listed(**filters: Any) -> set[str]:
        return {each.group_id for each in manager.list_consumer_groups(**filters).result(SECONDS_MAX).valid}

    assert topic in listed(states={confluent_kafka.ConsumerGroupState.STABLE})
    assert topic in listed(types={confluent_kafka.ConsumerGroupType[protocol.upper()]})
    assert topic not in listed(states={confluent_kafka.ConsumerGroupState.EMPTY})
    with pytest.raises(confluent_kafka.KafkaException, match="NON_EMPTY_GROUP"):
        manager.delete_consumer_groups([topic])[topic].result(SECONDS_MAX)
    consumer.close()
    asked = confluent_kafka.ConsumerGroupTopicPartitions(topic)

    def offsets() -> dict[int, int]:
        told = manager.list_consumer_group_offsets([asked])[topic].result(SECONDS_MAX)
        return {place.partition: place.offset for place in told.topic_partitions}

    assert offsets() == dict.fromkeys(range(PARTITIONS), 10)
    reset = confluent_kafka.ConsumerGroupTopicPartitions(topic, [Place(topic, 1, 3)])
    manager.alter_consumer_group_offsets([reset])[topic].result(SECONDS_MAX)
    assert offsets() == {0: 10, 1: 3, 2: 10, 3: 10}
    manager.delete_consumer_groups([topic])[topic].result(SECONDS_MAX)
    assert topic not in listed()
