"""The admin client in three settings: this broker in both dialects, and a real Apache Kafka."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from barnabas import (
    Admin,
    ConfigError,
    Consumer,
    ErrorCode,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from barnabas.client.admin import BROKER, GROUP, TOPIC, ConfigEntry
from tests.client.served import WAIT, Served


@pytest.fixture(scope="module")
def admin(served: Served) -> Iterator[Admin]:
    with Admin(**served.settings) as admin:
        yield admin


def until(so: Callable[[], bool]) -> None:
    """A broker of a real one hears of what its controller decided a moment later."""
    for _ in range(WAIT * 20):
        if so():
            return
        threading.Event().wait(0.05)
    raise AssertionError("it does not come to be so")


def code_of(error: KafkaError | None) -> int:
    assert error is not None
    return error.code


# ---- topics and records ---------------------------------------------------------------------------------------------


def test_topics_are_made_grown_described_and_deleted(served: Served, admin: Admin) -> None:
    one, two, bad = served.name("made"), served.name("made"), served.name("made")
    wanted = (NewTopic(one, partitions=2), NewTopic(two, 1), NewTopic(bad, config={"retention.ms": "x"}), "a/b")
    answers = admin.create_topics(*wanted)
    assert {name: error and error.code for name, error in answers.items()} == {
        one: None,
        two: None,
        bad: ErrorCode.INVALID_CONFIG,
        "a/b": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topic(one)
    admin.create_partitions(one, 5)
    with pytest.raises(KafkaError, match="INVALID_PARTITIONS"):
        admin.create_partitions(one, 5)
    assert {one, two} <= set(admin.list_topics())
    described = admin.describe_topics(one, two)
    assert [len(each.partitions) for each in described.values()] == [5, 1]
    for page in (1, 2, 6, 2000):
        assert admin.describe_partitions(two, one, page=page) == described
    for call in (admin.describe_topics, admin.describe_partitions, admin.delete_topic):
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            call(bad)
    assert admin.delete_topics(one, two) == {one: None, two: None}
    until(lambda: not {one, two} & set(admin.list_topics()))


def test_partitions_are_put_where_they_are_to_be(served: Served, admin: Admin) -> None:
    one, two = served.name("put"), served.name("put")
    ((node, _, _),) = admin.describe_cluster().brokers
    assert admin.create_topics(NewTopic(one, replicas=[[node], [node]])) == {one: None}
    admin.create_partitions(one, 3, replicas=[[node]])
    assert [part.replicas for part in admin.describe_topics(one)[one].partitions] == [(node,)] * 3
    with pytest.raises(KafkaError, match=r"INVALID_REPLICA_ASSIGNMENT.*broker 77"):
        admin.create_topic(two, replicas=[[77]])
    with pytest.raises(KafkaError, match=r"INVALID_REPLICA_ASSIGNMENT.*broker 77"):
        admin.create_partitions(one, 4, replicas=[[77]])
    with pytest.raises(KafkaError, match=r"INVALID_REQUEST.*artitions was not set to -1"):
        admin.create_topic(two, partitions=1, replicas=[[node]])
    admin.delete_topic(one)


def test_pages_of_nothing_are_refused(admin: Admin) -> None:
    with pytest.raises(ConfigError, match="a page of 0 partitions; give 1 or more"):
        admin.describe_partitions("t", page=0)
    assert admin.describe_partitions() == {}


def test_offsets_are_listed_and_records_deleted(served: Served, admin: Admin) -> None:
    topic = served.topic(1)
    where = TopicPartition(topic, 0)
    with Producer(**served.settings) as producer:
        for number in range(4):
            producer.send(topic, b"x", timestamp_ms=1000 + number).result(WAIT)
    for timestamp, offset in ((-2, 0), (-1, 4), (1002, 2), (5000, -1), (-3, 3)):
        assert admin.list_offsets({where: timestamp})[where].offset == offset
    assert admin.list_offsets({where: 1002}, isolation_level="read_committed")[where].timestamp == 1002
    assert admin.lag({where: 1}) == {where: 3}
    assert admin.delete_records({where: 3}) == {where: 3}
    assert admin.list_offsets({where: -2})[where].offset == 3
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        admin.delete_records({where: 9})


# ---- settings -------------------------------------------------------------------------------------------------------


def entry(admin: Admin, name: str, key: str, kind: int = TOPIC) -> ConfigEntry:
    (found,) = admin.config_entries(name, kind=kind, keys=[key])
    return found


def test_settings_tell_where_they_come_from(served: Served, admin: Admin) -> None:
    topic = served.topic(1)
    assert entry(admin, topic, "retention.ms").source == "default"
    admin.alter_configs(topic, {"retention.ms": 5000})
    until(lambda: admin.describe_configs(topic)["retention.ms"] == "5000")
    told = entry(admin, topic, "retention.ms")
    assert (told.value, told.source) == ("5000", "topic")
    assert told.synonyms[0] == ("retention.ms", "5000", "topic")
    with pytest.raises(KafkaError, match="INVALID_CONFIG"):
        admin.alter_configs(topic, {"retention.ms": "x"}, validate_only=True)
    admin.alter_configs(topic, reset=["retention.ms"])
    until(lambda: entry(admin, topic, "retention.ms").source == "default")


def test_settings_of_one_broker_and_of_all(admin: Admin) -> None:
    node = str(admin.describe_cluster().brokers[0][0])
    admin.alter_configs("", {"log.retention.ms": 7_000_000}, kind=BROKER)
    until(lambda: admin.describe_configs("", kind=BROKER).get("log.retention.ms") == "7000000")
    told = entry(admin, node, "log.retention.ms", BROKER)
    assert (told.value, told.source) == ("7000000", "all brokers")
    admin.alter_configs("", reset=["log.retention.ms"], kind=BROKER)
    until(lambda: "log.retention.ms" not in admin.describe_configs("", kind=BROKER))


def test_settings_of_a_group(served: Served, admin: Admin) -> None:
    group = served.group()
    admin.alter_configs(group, {"consumer.session.timeout.ms": 50_000}, kind=GROUP)
    until(lambda: entry(admin, group, "consumer.session.timeout.ms", GROUP).value == "50000")
    assert entry(admin, group, "consumer.session.timeout.ms", GROUP).source == "group"
    until(lambda: (GROUP, group) in admin.list_config_resources(GROUP))
    admin.alter_configs(group, reset=["consumer.session.timeout.ms"], kind=GROUP)
    until(lambda: (GROUP, group) not in admin.list_config_resources(GROUP))


def test_what_has_settings_is_listed(served: Served, admin: Admin) -> None:
    topic = served.topic(1)
    node = str(admin.describe_cluster().brokers[0][0])
    assert (TOPIC, topic) in admin.list_config_resources(TOPIC)
    assert admin.list_config_resources(BROKER) == [(BROKER, node)]
    assert {(TOPIC, topic), (BROKER, node)} <= set(admin.list_config_resources())
    with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION"):
        admin.list_config_resources(99)


# ---- the cluster ----------------------------------------------------------------------------------------------------


def test_the_cluster_is_described(admin: Admin) -> None:
    cluster = admin.describe_cluster()
    ((node, _, port),) = cluster.brokers
    assert cluster.controller_id == node
    assert cluster.cluster_id
    assert port > 0
    quorum = admin.describe_quorum()
    assert quorum.leader_id == node
    assert [each.replica_id for each in quorum.voters] == [node]
    assert quorum.observers == ()
    assert 0 < quorum.high_watermark <= quorum.voters[0].log_end_offset


def test_features_are_described_and_set(admin: Admin) -> None:
    features = admin.describe_features()
    level = features.finalized["metadata.version"]
    least, most = features.supported["metadata.version"]
    assert least <= level <= most
    assert features.epoch >= 0
    admin.update_features({"metadata.version": level}, validate_only=True)
    admin.update_features({"group.version": 0}, downgrade=True, validate_only=True)
    with pytest.raises(KafkaError, match="Can't downgrade"):
        admin.update_features({"group.version": 0}, validate_only=True)
    with pytest.raises(KafkaError, match="INVALID_UPDATE_VERSION"):
        admin.update_features({"metadata.version": most + 1000})
    after = admin.describe_features()
    assert (after.finalized, after.supported) == (features.finalized, features.supported)


def test_directories_tell_what_partitions_take(served: Served, admin: Admin) -> None:
    topic = served.topic(2, 10)
    ((node, dirs),) = admin.describe_log_dirs().items()
    assert node == admin.describe_cluster().brokers[0][0]
    sizes = {where: each for one in dirs for where, each in one.replicas.items() if where.topic == topic}
    assert sorted(sizes) == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert all(each.size_bytes > 100 and each.offset_lag == 0 and not each.is_future for each in sizes.values())


def test_producers_of_a_partition_are_described(served: Served, admin: Admin) -> None:
    topic = served.topic(2, 6)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    found = admin.describe_producers(zero, one)
    for where in (zero, one):
        (state,) = found[where]
        assert (state.producer_epoch, state.last_sequence, state.transaction_start_offset) == (0, 2, None)
        assert state.last_timestamp_ms > 0
    assert found[zero][0].producer_id == found[one][0].producer_id
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        admin.describe_producers(TopicPartition(topic, 7))


def test_leaders_that_lead_already_need_no_election(served: Served, admin: Admin) -> None:
    topic = served.topic(1)
    where, unknown = TopicPartition(topic, 0), TopicPartition(topic, 5)
    for unclean in (False, True):
        answers = admin.elect_leaders(where, unknown, unclean=unclean)
        assert code_of(answers[where]) == ErrorCode.ELECTION_NOT_NEEDED
        assert code_of(answers[unknown]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert admin.elect_leaders() == {}


def test_partitions_stay_where_they_are_if_there_is_nowhere_to_go(served: Served, admin: Admin) -> None:
    topic = served.topic(3)
    here, given_up, away = (TopicPartition(topic, number) for number in range(3))
    node = admin.describe_topics(topic)[topic].partitions[0].leader
    answers = admin.alter_partition_reassignments({here: [node], given_up: None, away: [node, node + 7]})
    assert answers[here] is None
    assert code_of(answers[given_up]) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert code_of(answers[away]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert admin.alter_partition_reassignments({here: [node]}, may_resize=False) == {here: None}
    with pytest.raises(KafkaError, match="BROKER_ID_NOT_REGISTERED"):
        admin.unregister_broker(node + 7)


def test_what_is_empty_or_disabled_is_told_so(admin: Admin) -> None:
    assert admin.list_partition_reassignments() == {}
    assert admin.list_transactions() == []
    assert admin.list_transactions(states=["Ongoing"]) == []
    assert admin.describe_client_quotas() == []
    assert admin.describe_user_scram_credentials() == {}
    with pytest.raises(KafkaError, match="SECURITY_DISABLED"):
        admin.describe_acls()
    with pytest.raises(ConfigError, match="states: 'Ongoing' is one word"):
        admin.list_transactions(states="Ongoing")


# ---- groups ---------------------------------------------------------------------------------------------------------


def test_groups_are_listed_by_state_and_kind_and_members_removed(served: Served, admin: Admin) -> None:
    topic, group = served.topic(1, 3), served.group()
    with Consumer(topic, group_id=group, **served.settings, **served.quick) as consumer:
        while not consumer.poll(WAIT):
            pass
        assert group in [each.name for each in admin.list_groups(states=["Stable"], kinds=["classic"])]
        assert group not in [each.name for each in admin.list_groups(kinds=["consumer"])]
        (member,) = admin.describe_groups(group)[group].members
        assert admin.remove_group_members(group, member) == {member.member_id: None}
        gone = admin.remove_group_members(group, member)
        assert code_of(gone[member.member_id]) == ErrorCode.UNKNOWN_MEMBER_ID
    assert admin.remove_group_members(group) == {}
    with pytest.raises(ConfigError, match="kinds: 'classic' is one word"):
        admin.list_groups(kinds="classic")


def test_offsets_of_a_group_are_set_and_forgotten(served: Served, admin: Admin) -> None:
    topic, group = served.topic(2, 4), served.group()
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin.alter_group_offsets(group, {zero: 1, one: 2})
    assert admin.group_lag(group) == {zero: 1, one: 0}
    with pytest.raises(KafkaError, match=rf"OFFSET_METADATA_TOO_LARGE\(12\): group {group}: commit of {one}"):
        admin.alter_group_offsets(group, {zero: 1, one: OffsetAndMetadata(2, "x" * 5000)})
    admin.delete_group_offsets(group, zero)
    assert list(admin.group_offsets(group)) == [one]
    answers = admin.delete_groups(group, "nobody")
    assert answers[group] is None
    assert code_of(answers["nobody"]) == ErrorCode.GROUP_ID_NOT_FOUND
