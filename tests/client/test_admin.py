"""The admin client against a real broker in memory."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas import Admin, Broker, ConfigError, Consumer, NewTopic, Producer, aio
from barnabas.client.admin import BROKER
from barnabas.net import network
from barnabas.net.errors import ClientTimeout
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult
from barnabas.protocol.requests.create_topics import CreatableTopicResult, CreateTopicsResponse
from barnabas.protocol.requests.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from barnabas.protocol.requests.describe_groups import DescribeGroupsResponse
from barnabas.protocol.requests.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.protocol.requests.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.client.scripted import ScriptedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        yield admin


def test_topics_are_made_grown_listed_and_deleted(admin: Admin) -> None:
    admin.create_topic("made", partitions=2, config={"retention.ms": 1000, "cleanup.policy": "compact"})
    assert "made" in admin.list_topics()
    admin.create_partitions("made", 3)
    info = admin.describe_topics("made")["made"]
    assert [part.partition for part in info.partitions] == [0, 1, 2]
    assert all(part.leader >= 0 for part in info.partitions)
    assert admin.describe_configs("made")["retention.ms"] == "1000"
    admin.delete_topic("made")
    assert "made" not in admin.list_topics()


def test_topics_in_one_call_have_an_answer_each(admin: Admin) -> None:
    wanted = (NewTopic("batch-a", partitions=2), "batch-b", NewTopic("batch-c", config={"retention.ms": "x"}), "a/b")
    dry = admin.create_topics(*wanted, validate_only=True)
    assert not {"batch-a", "batch-b"} & set(admin.list_topics())
    answers = admin.create_topics(*wanted)
    for told in (dry, answers):
        assert {name: error and error.code for name, error in told.items()} == {
            "batch-a": None,
            "batch-b": None,
            "batch-c": ErrorCode.INVALID_CONFIG,
            "a/b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }
    assert [len(info.partitions) for info in admin.describe_topics("batch-a", "batch-b").values()] == [2, 1]
    gone = admin.delete_topics("batch-a", "batch-c", "batch-b")
    assert {name: error and error.code for name, error in gone.items()} == {
        "batch-a": None,
        "batch-b": None,
        "batch-c": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert not {"batch-a", "batch-b"} & set(admin.list_topics())
    assert (admin.create_topics(), admin.delete_topics(), admin.describe_topics()) == ({}, {}, {})


def test_what_the_quota_of_mutations_holds_back_is_asked_for_again() -> None:
    quota = {"barnabas.controller.mutation.burst": 1, "barnabas.controller.mutation.rate": 100}
    with Broker(config=quota) as broker, Admin(broker.bootstrap_servers, retry_backoff_ms=1) as admin:
        names = [f"many-{number}" for number in range(5)]
        assert admin.create_topics(*(NewTopic(name, partitions=4) for name in names)) == dict.fromkeys(names)
        admin.create_topic("one", partitions=4)
        admin.create_partitions("one", 6)
        assert admin.delete_topics(*names) == dict.fromkeys(names)
        admin.delete_topic("one")
        assert admin.list_topics() == []


def test_what_the_quota_holds_back_for_too_long_says_which_setting_does() -> None:
    quota = {"barnabas.controller.mutation.burst": 1, "barnabas.controller.mutation.rate": 1}
    with Broker(config=quota) as broker, Admin(broker.bootstrap_servers) as admin:
        answers = admin.create_topics(NewTopic("first", partitions=100), "second")
        assert answers["first"] is None
        told = answers["second"]
        assert told is not None
        assert told.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert "raise barnabas.controller.mutation.burst" in str(told)


def test_what_is_only_validated_changes_nothing(admin: Admin) -> None:
    admin.create_topic("dry", validate_only=True)
    assert "dry" not in admin.list_topics()
    admin.create_topic("dry", partitions=1)
    with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topic("dry", validate_only=True)
    admin.create_topic("dry", validate_only=True, if_absent=True)
    admin.create_partitions("dry", 5, validate_only=True)
    with pytest.raises(KafkaError, match="INVALID_PARTITIONS"):
        admin.create_partitions("dry", 1, validate_only=True)
    assert len(admin.describe_topics("dry")["dry"].partitions) == 1
    before = admin.describe_configs("dry")
    admin.alter_configs("dry", {"retention.ms": 77}, validate_only=True)
    with pytest.raises(KafkaError, match="INVALID_CONFIG"):
        admin.alter_configs("dry", {"retention.ms": "x"}, validate_only=True)
    assert admin.describe_configs("dry") == before
    with pytest.raises(ConfigError, match=r"reset: 'retention.ms' is one name; give a list of them"):
        admin.alter_configs("dry", reset="retention.ms")


def test_lag_is_what_lies_before_the_end(admin: Admin, broker: Broker) -> None:
    admin.create_topic("lagging", partitions=2)
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(5):
            producer.send("lagging", b"%d" % number, partition=0).result(30)
    here, there = TopicPartition("lagging", 0), TopicPartition("lagging", 1)
    assert admin.lag({here: 2, there: 0}) == {here: 3, there: 0}
    assert admin.lag({here: 7}, isolation_level="read_committed") == {here: -2}
    with pytest.raises(ConfigError, match="isolation_level: 'latest' is none of"):
        admin.lag({here: 0}, isolation_level="latest")
    with Consumer("lagging", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.pause(there)
        assert len(consumer.poll(30, max_records=4)) == 4
        assert admin.lag({where: consumer.position(where, 30) for where in consumer.assignment()}) == {
            here: 1,
            there: 0,
        }


def test_making_a_topic_brings_no_deleted_one_back(admin: Admin) -> None:
    admin.create_topic("gone")
    admin.delete_topic("gone")
    admin.create_topic("made")  # renews what is known of "gone", too, and a broker makes what it is asked for
    assert "made" in admin.list_topics()
    assert "gone" not in admin.list_topics()


def test_what_a_broker_refuses_is_raised_with_its_number(admin: Admin) -> None:
    admin.create_topic("twice")
    admin.create_topic("twice", if_absent=True)
    for call, code in (
        (lambda: admin.create_topic("twice"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (lambda: admin.create_topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (lambda: admin.create_topic("bad", config={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
        (lambda: admin.delete_topic("absent"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda: admin.describe_topics("absent"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda: admin.create_partitions("twice", 1), ErrorCode.INVALID_PARTITIONS),
        (lambda: admin.delete_records({TopicPartition("absent", 0): 1}), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        with pytest.raises(KafkaError) as caught:
            call()
        assert caught.value.code == code


def test_settings_are_changed_and_reset(admin: Admin) -> None:
    admin.create_topic("set")
    before = admin.describe_configs("set")["max.message.bytes"]
    admin.alter_configs("set", {"max.message.bytes": 5000})
    assert admin.describe_configs("set")["max.message.bytes"] == "5000"
    admin.alter_configs("set", reset=["max.message.bytes"])
    assert admin.describe_configs("set")["max.message.bytes"] == before


def test_records_are_deleted_up_to_an_offset(admin: Admin, broker: Broker) -> None:
    admin.create_topic("shrinking", partitions=1)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(5):
            producer.send("shrinking", b"%d" % number).result(30)
    where = TopicPartition("shrinking", 0)
    assert admin.delete_records({where: 3}) == {where: 3}
    assert admin.delete_records({where: -1}) == {where: 5}
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        admin.delete_records({where: 9})


def test_partitions_of_pairs_are_taken_and_one_that_is_missing_is_named(admin: Admin, broker: Broker) -> None:
    admin.create_topic("pairs")
    assert admin.delete_records({("pairs", 0): 0}) == {TopicPartition("pairs", 0): 0}  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match=r"delete_records: 'pairs' \(str\) is no partition"):
        admin.delete_records({"pairs": 0})  # type: ignore[dict-item]
    with Admin(broker.bootstrap_servers) as hasty:
        assert hasty.lag({TopicPartition("pairs", 0): 0})
        hasty._inner.config.default_api_timeout_ms = 300
        missing = r"no offsets of pairs-7 within 300 ms: .*topic pairs has no partition 7; it has 1, from 0 on"
        with pytest.raises(ClientTimeout, match=missing):
            hasty.lag({TopicPartition("pairs", 7): 0})


async def test_the_cluster_is_described(broker: Broker) -> None:
    async with aio.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        cluster = await admin.describe_cluster()
        ((node, host, port),) = cluster.brokers
        assert cluster.controller_id == node
        assert f"{host}:{port}" == broker.bootstrap_servers
        assert cluster.cluster_id
        assert "num.partitions" in await admin.describe_configs(str(node), kind=BROKER)


def test_settings_tell_where_their_values_come_from(admin: Admin) -> None:
    admin.create_topic("told", config={"segment.bytes": 2_000_000})
    entries = {entry.name: entry for entry in admin.config_entries("told", keys=["segment.bytes", "cleanup.policy"])}
    assert sorted(entries) == ["cleanup.policy", "segment.bytes"]
    segment = entries["segment.bytes"]
    assert (segment.value, segment.source, segment.read_only) == ("2000000", "topic", False)
    assert segment.synonyms == (
        ("segment.bytes", "2000000", "topic"),
        ("log.segment.bytes", "1073741824", "default"),
    )
    assert entries["cleanup.policy"].source == "default"
    admin.alter_configs("told", append={"cleanup.policy": "compact"})
    assert sorted(str(admin.describe_configs("told")["cleanup.policy"]).split(",")) == ["compact", "delete"]
    admin.alter_configs("told", subtract={"cleanup.policy": "delete"})
    assert admin.describe_configs("told")["cleanup.policy"] == "compact"


def test_all_brokers_together_have_settings(admin: Admin) -> None:
    admin.alter_configs("", {"log.retention.ms": "123456"}, kind=BROKER)
    try:
        (entry,) = admin.config_entries("", kind=BROKER)
        assert (entry.name, entry.value, entry.source) == ("log.retention.ms", "123456", "all brokers")
    finally:
        admin.alter_configs("", reset=["log.retention.ms"], kind=BROKER)


@pytest.mark.parametrize("name", ["x", " ", "-1", "1.5", "\u0661"])
def test_what_is_no_broker_is_told_so(admin: Admin, name: str) -> None:
    for call in (
        lambda: admin.describe_configs(name, kind=BROKER),
        lambda: admin.alter_configs(name, {"log.retention.ms": 5}, kind=BROKER),
    ):
        with pytest.raises(ConfigError, match=r"kind=BROKER: .* is no broker's id; describe_cluster\(\).brokers has"):
            call()
    with pytest.raises(ConfigError, match=r"kind: 'topic' \(str\) is no kind of settings; give TOPIC, BROKER or GROUP"):
        admin.describe_configs("ready", kind="topic")  # type: ignore[arg-type]


TWICE = r"the connection was lost before the first answer and this was asked again: the first may have done it"


@pytest.mark.parametrize("dry", [False, True])
async def test_a_request_that_had_to_be_asked_twice_says_so(dry: bool) -> None:
    asked: list[str] = []

    def lost_first(answer: Any) -> Any:
        def handle(request: Any) -> Any:
            asked.append(type(request).__name__)
            if asked.count(asked[-1]) == 1:
                raise ConnectionError  # carried out, perhaps, and never answered
            return answer

        return handle

    exists = CreatableTopicResult("t", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="there is one")
    invalid = CreatePartitionsTopicResult("t", error_code=ErrorCode.INVALID_PARTITIONS, error_message="it has 3")
    async with ScriptedBroker() as broker, aio.Admin(broker.servers) as admin:
        broker.handlers[ApiKey.CREATE_TOPICS] = lost_first(CreateTopicsResponse(topics=[exists]))
        broker.handlers[ApiKey.CREATE_PARTITIONS] = lost_first(CreatePartitionsResponse(results=[invalid]))
        errors = [(await admin.create_topics("t", validate_only=dry))["t"]]
        with pytest.raises(KafkaError) as caught:
            await admin.create_partitions("t", 3, validate_only=dry)
        errors.append(caught.value)
        if not dry:
            gone = DeletableTopicResult("t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            broker.handlers[ApiKey.DELETE_TOPICS] = lost_first(DeleteTopicsResponse(responses=[gone]))
            errors.append((await admin.delete_topics("t"))["t"])
            assert (await admin.delete_topics("t"))["t"] is not None
            assert TWICE not in str((await admin.delete_topics("t"))["t"])  # asked once
    assert [TWICE in str(error) for error in errors] == [not dry] * len(errors)
    assert "there is one" in str(errors[0])


async def test_who_finds_no_controller_asks_until_there_is_one() -> None:
    refused = CreateTopicsResponse(topics=[CreatableTopicResult("t", error_code=ErrorCode.NOT_CONTROLLER)])
    answers = [refused, refused, refused, CreateTopicsResponse(topics=[CreatableTopicResult("t")])]
    async with ScriptedBroker() as broker, aio.Admin(broker.servers, retry_backoff_ms=1) as admin:
        broker.handlers[ApiKey.CREATE_TOPICS] = lambda _: answers.pop(0)
        assert await admin.create_topics("t") == {"t": None}
    assert not answers


async def test_a_topic_has_grown_once_that_is_told() -> None:
    """The broker that is asked for metadata hears of it later than the one that did it."""
    told: list[int] = []

    async with ScriptedBroker() as broker, aio.Admin(broker.servers, retry_backoff_ms=1) as admin:

        def metadata(request: Any) -> Any:
            answer = broker.metadata(request)
            told.append(1 if len(told) < 3 else 2)
            for topic in answer.topics:
                topic.partitions = [
                    MetadataResponsePartition(partition_index=number, leader_id=1) for number in range(told[-1])
                ]
            return answer

        broker.handlers[ApiKey.METADATA] = metadata
        grown = CreatePartitionsTopicResult("t", error_code=0)
        broker.handlers[ApiKey.CREATE_PARTITIONS] = lambda _: CreatePartitionsResponse(results=[grown])
        await admin.create_partitions("t", 2)
        assert told[-1] == 2


async def test_offsets_are_set_of_a_partition_that_is_told_of_a_moment_later() -> None:
    """The next question, for the coordinator, is refused here: it was asked."""
    told: list[int] = []
    async with ScriptedBroker() as broker, aio.Admin(broker.servers, retry_backoff_ms=1) as admin:

        def metadata(request: Any) -> Any:
            answer = broker.metadata(request)
            for topic in answer.topics:
                told.append(len(told))
                topic.partitions = topic.partitions if len(told) > 2 else []
            return answer

        broker.handlers[ApiKey.METADATA] = metadata
        broker.handlers[ApiKey.FIND_COORDINATOR] = lambda _: FindCoordinatorResponse(
            coordinators=[Coordinator("g", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)]
        )
        with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
            await admin.alter_group_offsets("g", {TopicPartition("t", 0): 1})


async def test_who_reaches_no_broker_hears_why() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, never listening: every connection is refused
        port = nobody.getsockname()[1]
        admin = aio.Admin(bootstrap_servers=f"127.0.0.1:{port}", default_api_timeout_ms=200)
        with pytest.raises(ClientTimeout, match=rf"cannot connect to 127.0.0.1:{port}: Connection refused \("):
            async with admin:
                await admin.list_topics()
        await admin.close()


async def test_an_answer_about_no_group_is_an_error() -> None:
    async with ScriptedBroker() as broker, aio.Admin(broker.servers) as admin:
        broker.handlers[ApiKey.FIND_COORDINATOR] = lambda _: FindCoordinatorResponse(
            coordinators=[Coordinator("g", 1, "127.0.0.1", broker.port)]
        )
        broker.handlers[ApiKey.DESCRIBE_GROUPS] = lambda _: DescribeGroupsResponse()
        with pytest.raises(KafkaError, match="a question about one group has 0 answers"):
            await admin.describe_groups("g")
        with pytest.raises(ConfigError, match=r"describe_groups: 5 .* is no name of a group"):
            await admin.describe_groups(5)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="states: 'Stable' is one word; give a list"):
            await admin.list_groups(states="Stable")


async def test_what_any_broker_can_tell_is_asked_of_the_next_where_one_is_gone() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        async with ScriptedBroker() as broker:
            told_of_others(broker, port, port, port)
            for _ in range(10):  # which one is asked first is drawn
                async with aio.Admin(broker.servers) as admin:
                    assert await admin.list_topics() is not None


async def test_what_any_broker_can_tell_is_asked_of_the_next_where_one_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network, "SLOW_MS", 20)
    async with ScriptedBroker(silent=True) as paused, ScriptedBroker() as broker:
        told_of_others(broker, paused.port)
        async with aio.Admin(broker.servers, default_api_timeout_ms=3000) as admin:
            admin._client.network._random = lambda: 0.9  # the second is asked first
            assert await admin.list_topics() == []
            assert 2 in admin._client.network.connections.nodes


def told_of_others(broker: ScriptedBroker, *ports: int) -> None:
    """Has a broker tell of others, 2 and on, at these ports."""

    def metadata(request: Any) -> Any:
        answer = broker.metadata(request)
        answer.brokers += [MetadataResponseBroker(node, "127.0.0.1", port) for node, port in enumerate(ports, 2)]
        return answer

    broker.handlers[ApiKey.METADATA] = metadata


def made(request: Any) -> Any:
    return CreateTopicsResponse(0, [CreatableTopicResult(each.name) for each in request.topics])


async def test_a_topic_that_was_made_is_known_to_whoever_is_asked_next() -> None:
    async with ScriptedBroker() as behind, ScriptedBroker() as broker:
        told_of_others(broker, behind.port)
        broker.handlers[ApiKey.CREATE_TOPICS] = made
        asked = 0

        def metadata(request: Any) -> Any:
            nonlocal asked
            asked += 1
            answer = broker.handlers[ApiKey.METADATA](request)
            if asked <= 2:
                for topic in answer.topics:
                    topic.error_code, topic.partitions = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []
            return answer

        async with aio.Admin(broker.servers, retry_backoff_ms=1) as admin:
            admin._client.network._random = lambda: 0.0  # the first is asked where any will do
            behind.handlers[ApiKey.METADATA] = metadata
            await admin.create_topic("new")
            assert asked == 3


@pytest.mark.parametrize("silent", [True, False], ids=["silent", "never hears"])
async def test_a_broker_that_does_not_say_that_it_knows_a_topic_is_not_waited_for(
    silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "SLOW_MS", 20)
    async with ScriptedBroker(silent=silent) as other, ScriptedBroker() as broker:
        told_of_others(broker, other.port)
        broker.handlers[ApiKey.CREATE_TOPICS] = made
        other.handlers[ApiKey.METADATA] = lambda request: MetadataResponse(
            topics=[MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, each.name) for each in request.topics]
        )
        async with aio.Admin(broker.servers, retry_backoff_ms=1) as admin:
            admin._client.network._random = lambda: 0.0
            await asyncio.wait_for(admin.create_topic("new"), 8)  # of 10 s that a connection may take
            assert admin._client.network.connections.nodes[2].attempts, "it was asked"


async def test_of_hundreds_of_brokers_some_are_asked_at_a_time_whether_they_know_a_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each connection that is under way is looked at in every step: 500 at once held up the program for a second."""
    monkeypatch.setattr(network, "SLOW_MS", 20)
    async with ScriptedBroker(silent=True) as other, ScriptedBroker() as broker:
        told_of_others(broker, *[other.port] * 298)
        broker.handlers[ApiKey.CREATE_TOPICS] = made
        async with aio.Admin(broker.servers) as admin:
            await admin.create_topic("new")
            tried = [one for one in admin._client.network.connections.nodes.values() if one.attempts]
            assert len(tried) <= 12


async def test_brokers_that_are_gone_keep_none_from_being_asked_whether_it_knows_a_topic() -> None:
    async with ScriptedBroker() as behind, ScriptedBroker() as broker:
        told_of_others(broker, *[1] * 18, behind.port)
        broker.handlers[ApiKey.CREATE_TOPICS] = made
        asked = 0

        def known(request: Any) -> Any:
            nonlocal asked
            asked += 1
            return broker.handlers[ApiKey.METADATA](request)

        behind.handlers[ApiKey.METADATA] = known
        async with aio.Admin(broker.servers) as admin:
            admin._client.network._random = lambda: 0.0
            await admin.create_topic("new")
            assert asked == 1
