"""kafka-python: every codec, offsets, groups with each of its assignors, its admin client."""

from __future__ import annotations

import gc
import itertools
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.wire.conftest import SECONDS_MAX, VALUES, stored_codecs, until
from tests.wire.joining import poll
from tests.wire.tried import KAFKA_PYTHON

kafka = pytest.importorskip("kafka", reason="kafka-python is not installed: pip install kafka-python")
admin = pytest.importorskip("kafka.admin")
errors = pytest.importorskip("kafka.errors")

assignors = "kafka.coordinator.assignors"
MADE = [
    pytest.importorskip(f"{assignors}.range").RangePartitionAssignor,
    pytest.importorskip(f"{assignors}.roundrobin").RoundRobinPartitionAssignor,
    pytest.importorskip(f"{assignors}.sticky.sticky_assignor").StickyPartitionAssignor,
    pytest.importorskip(f"{assignors}.cooperative_sticky").CooperativeStickyAssignor,
]
ASSIGNORS = {each.name: each for each in MADE}
# Now and then it leaves a socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

PARTITIONS = 4
Place = kafka.TopicPartition
ANY_RESOURCE = admin.ResourcePatternFilter(admin.ResourceType.ANY, None, admin.ACLResourcePatternType.ANY)


@pytest.fixture(scope="module", autouse=True)
def what_it_left() -> Iterator[None]:
    """Collected here, where a socket is excused."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def manager(address: str) -> Iterator[Any]:
    made = admin.KafkaAdminClient(bootstrap_servers=address)
    yield made
    made.close()


@pytest.fixture
def topic(manager: Any, fresh: Callable[[], str]) -> str:
    name = fresh()
    manager.create_topics({name: {"num_partitions": PARTITIONS, "replication_factor": 1}}, wait_for_metadata=True)
    return name


@pytest.fixture
def member(address: str) -> Iterator[Callable[..., Any]]:
    """Makes consumers; closes at the end those that the test did not."""
    members: list[Any] = []

    def make(group: str | None, **settings: Any) -> Any:
        common = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 100}
        if group is not None:
            common |= {"heartbeat_interval_ms": 100}
        members.append(kafka.KafkaConsumer(bootstrap_servers=address, group_id=group, **{**common, **settings}))
        return members[-1]

    yield make
    for each in members:
        each.close(autocommit=False)


@pytest.fixture
def subscribed(member: Callable[..., Any], topic: str) -> Callable[..., Any]:
    """Makes members of the group of the topic's name."""

    def make(**settings: Any) -> Any:
        made = member(topic, **settings)
        # A leader that has no metadata yet assigns nothing, and kafka-python 3.0 may not join again when it comes.
        assert made.partitions_for_topic(topic) == set(range(PARTITIONS))
        made.subscribe([topic])
        return made

    return make


def send(address: str, topic: str, values: list[bytes], partition: int = 0, **settings: Any) -> list[int]:
    """The offsets of what was produced."""
    producer = kafka.KafkaProducer(bootstrap_servers=address, **settings)
    try:
        sent = [producer.send(topic, value, key=b"k", partition=partition) for value in values]
        return [each.get(SECONDS_MAX).offset for each in sent]
    finally:
        producer.close()


def fill(address: str, topic: str, count: int = 10) -> None:
    """So many records to each partition."""
    for partition in range(PARTITIONS):
        send(address, topic, VALUES[:count], partition)


def take(consumer: Any, topic: str, count: int, offset: int = 0, partition: int = 0) -> list[Any]:
    """This many records from this offset on."""
    place = Place(topic, partition)
    consumer.assign([place])
    consumer.seek(place, offset)
    return got([consumer], count)


def got(consumers: list[Any], count: int) -> list[Any]:
    """So many records of what these are given."""
    records: list[Any] = []
    poll_until(consumers, lambda: len(records) >= count, records)
    assert len(records) == count
    return records


def poll_until(consumers: list[Any], done: Callable[[], bool], seen: list[Any] | None = None) -> None:
    """Poll all of them at once until it is so.

    kafka-python forgets an answer to its join that comes when its poll has just ended, and joins once more: for two
    that are polled in turn, and shortly, that may go on for ever on a busy machine. So each poll is longer.
    """
    patience_ms = itertools.chain((50, 50, 100, 200, 400, 800), itertools.repeat(1600))

    def step() -> None:
        wait_ms = next(patience_ms)
        for found in threads.map(lambda consumer: poll(consumer, wait_ms), consumers):
            for records in found.values():
                if seen is not None:
                    seen.extend(records)

    with ThreadPoolExecutor(len(consumers)) as threads:
        until(done, step, lambda: [consumer.assignment() for consumer in consumers])


def commit(consumer: Any, offsets: dict[Any, Any] | None = None) -> None:
    """Commit, also when the client has seen partitions come and joins once more: then it wants to be polled first."""
    done = False

    def step() -> None:
        nonlocal done
        try:
            consumer.commit(offsets)
            done = True
        except errors.RebalanceInProgressError:
            assert poll(consumer, 50) == {}, "all was read before"

    until(lambda: done, step)


def places(records: list[Any]) -> list[tuple[int, int]]:
    return sorted((record.partition, record.offset) for record in records)


def grid(count: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in range(PARTITIONS) for offset in range(count)]


@pytest.mark.parametrize("compression", KAFKA_PYTHON.codecs)
def test_what_is_produced_is_consumed_with_every_compression(
    address: str, topic: str, member: Callable[..., Any], compression: str
) -> None:
    codec = None if compression == "none" else compression
    assert send(address, topic, VALUES, compression_type=codec) == list(range(len(VALUES)))
    assert stored_codecs(address, topic) == {compression}
    records = take(member(None), topic, len(VALUES))
    assert [record.value for record in records] == VALUES
    assert [record.offset for record in records] == list(range(len(VALUES)))


@pytest.mark.parametrize("idempotent", [True, False])
def test_order_and_number_are_kept(address: str, topic: str, member: Callable[..., Any], idempotent: bool) -> None:
    values = [b"%d" % number for number in range(500)]
    assert send(address, topic, values, enable_idempotence=idempotent, batch_size=400) == list(range(500))
    assert [record.value for record in take(member(None), topic, 500)] == values


def test_keys_headers_timestamps_and_tombstones_come_back(address: str, topic: str, member: Callable[..., Any]) -> None:
    headers = [("a", b"1"), ("a", b"2")]
    producer = kafka.KafkaProducer(bootstrap_servers=address)
    sent = producer.send(topic, b"v", key=b"key", partition=1, headers=headers).get(SECONDS_MAX)
    producer.send(topic, None, key=b"gone", partition=1).get(SECONDS_MAX)
    producer.close()
    first, second = take(member(None), topic, 2, partition=1)
    assert (first.key, first.value, list(first.headers)) == (b"key", b"v", headers)
    assert first.timestamp == sent.timestamp
    assert (second.key, second.value) == (b"gone", None)


def test_explicit_offsets_ends_and_times(address: str, topic: str, member: Callable[..., Any]) -> None:
    send(address, topic, VALUES)
    consumer = member(None, max_poll_records=5)
    place = Place(topic, 0)
    records = take(consumer, topic, 5, offset=42)
    assert [record.offset for record in records] == [42, 43, 44, 45, 46]
    assert consumer.position(place) == 47
    assert consumer.beginning_offsets([place]) == {place: 0}
    assert consumer.end_offsets([place]) == {place: len(VALUES)}
    found = consumer.offsets_for_times({place: records[0].timestamp})[place]
    assert found.timestamp >= records[0].timestamp
    assert found.offset <= 42
    consumer.seek_to_beginning(place)
    assert consumer.position(place) == 0
    consumer.seek_to_end(place)
    assert consumer.position(place) == len(VALUES)


@pytest.mark.parametrize("reset", ["earliest", "none"])
def test_a_position_before_the_log_is_reset_as_the_setting_says(
    address: str, topic: str, manager: Any, member: Callable[..., Any], reset: str
) -> None:
    send(address, topic, VALUES[:10])
    assert manager.delete_records({Place(topic, 0): 6})[Place(topic, 0)]["low_watermark"] == 6
    consumer = member(None, auto_offset_reset=reset)
    if reset == "none":
        with pytest.raises(errors.OffsetOutOfRangeError):
            take(consumer, topic, 1, offset=2)
    else:
        assert [record.offset for record in take(consumer, topic, 4, offset=2)] == [6, 7, 8, 9]


@pytest.mark.parametrize("assignor", KAFKA_PYTHON.classic)
def test_two_members_share_and_one_that_leaves_gives_back(
    address: str, topic: str, manager: Any, subscribed: Callable[..., Any], assignor: str
) -> None:
    settings = {"partition_assignment_strategy": [ASSIGNORS[assignor]]}
    fill(address, topic)
    first = subscribed(**settings)
    assert places(got([first], 10 * PARTITIONS)) == grid(10)
    commit(first)
    second = subscribed(**settings)
    again: list[Any] = []
    poll_until([first, second], lambda: len(first.assignment()) == len(second.assignment()) == 2, again)
    assert not first.assignment() & second.assignment()

    def told() -> tuple[str, int]:
        group = manager.describe_groups([topic])[topic]
        return group["group_state"], len(group["members"])

    poll_until([first, second], lambda: told() == ("Stable", 2), again)
    first.close()
    poll_until([second], lambda: len(second.assignment()) == PARTITIONS, again)
    fill(address, topic, 1)
    poll_until([second], lambda: len(again) >= PARTITIONS, again)
    assert places(again) == [(number, 10) for number in range(PARTITIONS)], "what was committed does not come again"


def test_a_member_goes_on_where_the_last_one_committed(
    address: str, topic: str, subscribed: Callable[..., Any]
) -> None:
    fill(address, topic)
    place = Place(topic, 0)
    first = subscribed()
    got([first], 10 * PARTITIONS)
    commit(first, {place: kafka.OffsetAndMetadata(4, "as far as four", -1)})
    first.close(autocommit=False)
    second = subscribed(enable_auto_commit=True)
    assert second.committed(place, metadata=True)[:2] == (4, "as far as four")
    assert places(got([second], 6 + 30))[0] == (0, 4)
    second.close()  # commits what was read
    assert subscribed().committed(place) == 10


def test_a_static_member_comes_back_to_its_partitions(topic: str, subscribed: Callable[..., Any]) -> None:
    first, second = subscribed(group_instance_id="a"), subscribed(group_instance_id="b")
    poll_until([first, second], lambda: len(first.assignment()) == len(second.assignment()) == 2)
    had = second.assignment()
    second.close()
    third = subscribed(group_instance_id="b")
    poll_until([first, third], lambda: third.assignment() == had and len(first.assignment()) == 2)


def test_admin_creates_grows_and_deletes(manager: Any, fresh: Callable[[], str]) -> None:
    name = fresh()
    made = {name: {"num_partitions": 1, "replication_factor": 1}}
    manager.create_topics(made, validate_only=True)
    assert name not in manager.list_topics()
    manager.create_topics(made, wait_for_metadata=True)
    with pytest.raises(errors.TopicAlreadyExistsError):
        manager.create_topics(made)
    manager.create_partitions({name: 3})
    until(lambda: len(manager.describe_topics([name])[0]["partitions"]) == 3, lambda: None)
    (described,) = manager.describe_topics([name])
    page = manager.describe_topic_partitions([name], response_partition_limit=2)
    assert [each["partition_index"] for each in page["topics"][0]["partitions"]] == [0, 1]
    assert page["next_cursor"] == {"topic_name": name, "partition_index": 2}
    manager.delete_topics([uuid.UUID(described["topic_id"])])
    until(lambda: name not in manager.list_topics(), lambda: None)


def test_admin_reads_and_changes_settings(manager: Any, topic: str) -> None:
    def resource(**configs: Any) -> Any:
        return admin.ConfigResource("topic", topic, {name.replace("_", "."): each for name, each in configs.items()})

    def changed_are(wanted: dict[str, str]) -> None:
        """Apache Kafka takes a moment until it tells a change."""
        until(lambda: changed() == wanted, lambda: None, changed)

    def changed() -> dict[str, str]:
        told = manager.describe_configs([admin.ConfigResource("topic", topic)])["topic"][topic]
        return {name: each["value"] for name, each in told.items()}

    changed_are({})
    manager.alter_configs([resource(retention_ms="70000", cleanup_policy=("append", "compact"))])
    changed_are({"retention.ms": "70000", "cleanup.policy": "delete,compact"})
    manager.reset_configs([resource(cleanup_policy=None)])
    changed_are({"retention.ms": "70000"})
    told = manager.alter_configs([resource(retention_ms="long")])["topic"][topic]
    assert "InvalidConfig" in told
    assert topic in manager.list_config_resources(["topic"])["topic"]


def test_admin_sees_the_cluster(address: str, topic: str, manager: Any) -> None:
    send(address, topic, VALUES[:10])
    cluster = manager.describe_cluster()
    (broker,) = [each["broker_id"] for each in cluster["brokers"]]
    assert cluster["controller_id"] == broker
    (told,) = manager.describe_log_dirs([topic])
    (directory,) = told["log_dirs"]
    sizes = {each["partition_index"]: each["partition_size"] for each in directory["topics"][0]["partitions"]}
    assert sorted(sizes) == list(range(PARTITIONS))
    assert sizes[0] > sizes[1] == 0
    (metadata,) = manager.describe_metadata_quorum()["topics"]
    assert metadata["partitions"][0]["leader_id"] == broker
    assert manager.describe_features()["metadata.version"]["finalized"][1] > 0
    found = manager.list_partition_offsets({Place(topic, 0): admin.OffsetSpec.MAX_TIMESTAMP})[Place(topic, 0)]
    assert 0 <= found.offset < 10
    assert manager.list_partition_reassignments() == {}
    everything = admin.ACLFilter(None, None, admin.ACLOperation.ANY, admin.ACLPermissionType.ANY, ANY_RESOURCE)
    with pytest.raises(errors.SecurityDisabledError):
        manager.describe_acls(everything)


def test_admin_sees_resets_and_deletes_groups(
    address: str, topic: str, manager: Any, subscribed: Callable[..., Any]
) -> None:
    fill(address, topic)
    consumer = subscribed()
    got([consumer], 10 * PARTITIONS)
    commit(consumer)
    assert topic in {each["group_id"] for each in manager.list_groups(states_filter=["stable"])}
    assert topic not in {each["group_id"] for each in manager.list_groups(types_filter=["consumer"])}
    assert manager.delete_groups([topic]) == {topic: "NonEmptyGroupError"}
    (one,) = manager.describe_groups([topic])[topic]["members"]
    assert list(manager.remove_group_members(topic, [admin.MemberToRemove(one["member_id"])]).values()) == [
        errors.NoError
    ]
    asked = {Place(topic, 0): admin.OffsetSpec.EARLIEST, Place(topic, 1): 7, Place(topic, 2): 99}
    done = manager.reset_group_offsets(topic, asked)
    assert {place.partition: (each["error"], each["offset"]) for place, each in done.items()} == {
        0: (errors.NoError, 0),
        1: (errors.NoError, 7),
        2: (errors.NoError, 10),
    }
    assert manager.delete_group_offsets(topic, [Place(topic, 3)]) == {Place(topic, 3): errors.NoError}
    told = manager.list_group_offsets(topic)[topic]
    assert {place.partition: each.offset for place, each in told.items()} == {0: 0, 1: 7, 2: 10}
    assert manager.delete_groups([topic]) == {topic: "OK"}
    assert topic not in {each["group_id"] for each in manager.list_groups()}
