"""The scenarios M, and what else asks or changes topics and settings, through the whole core."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.context import Connection
from barnabas.protocol.api import VERSIONS
from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    incremental_alter_configs,
    init_producer_id,
    metadata,
    offset_for_leader_epoch,
)
from tests.broker.node.world import World, api_versions, batch


@pytest.fixture
def world() -> World:
    return World()


def test_m01_an_unknown_topic_is_created_on_first_use(world: World) -> None:
    first = world.describe("t", create=True).topics[0]
    assert (first.error_code, first.partitions) == (3, [])
    world.advance(1000)
    second = world.describe("t", create=True).topics[0]
    assert (second.error_code, second.partitions[0].leader_id) == (0, 1)
    for _ in range(2):
        assert world.describe("other", create=False).topics[0].error_code == 3
        world.advance(1000)


@pytest.mark.parametrize("name", ["", ".", "..", "x y", "x" * 250, "ä"])
def test_names_no_topic_can_have_are_told_at_once(world: World, name: str) -> None:
    assert world.describe(name, create=True).topics[0].error_code == 17
    assert world.core.image.topics == {}


def create(world: World, name: str, partitions: int = 1, rf: int = 1, **more: Any) -> Any:
    topic = create_topics.CreatableTopic(name, partitions, rf, **more)
    return world.ask(create_topics.CreateTopicsRequest([topic]), 7).topics[0]


def test_m02_what_cannot_be_created(world: World) -> None:
    assert create(world, "a.b").error_code == 0
    codes = [
        create(world, *arguments).error_code
        for arguments in (("a_b",), ("x y",), ("x" * 250,), ("t", 1, 9), ("t", 0), ("a.b",), ("t", 1, 0))
    ]
    assert codes == [17, 17, 17, 38, 37, 36, 38]


def test_created_topics_are_described(world: World) -> None:
    setting = create_topics.CreatableTopicConfig("retention.ms", "1000")
    result = create(world, "t", -1, -1, configs=[setting])
    assert (result.num_partitions, result.replication_factor, result.error_message) == (1, 1, None)
    assert result.topic_id != ZERO_UUID
    told = {one.name: (one.value, one.config_source) for one in result.configs}
    assert told["retention.ms"] == ("1000", 1)
    assert told["segment.bytes"] == ("1073741824", 5)


def test_manual_assignments(world: World) -> None:
    def assigned(*replicas: list[int]) -> list[create_topics.CreatableReplicaAssignment]:
        return [create_topics.CreatableReplicaAssignment(index, one) for index, one in enumerate(replicas)]

    assert create(world, "t", 1, 1, assignments=assigned([1])).error_code == 42
    assert create(world, "t", -1, -1, assignments=assigned([7])).error_code == 39
    assert create(world, "t", -1, -1, assignments=assigned([1, 1])).error_code == 39
    good = create(world, "t", -1, -1, assignments=assigned([1], [1]))
    assert (good.error_code, good.num_partitions) == (0, 2)


def test_creating_many_at_once(world: World) -> None:
    def ask(*names: str, only: bool = False, partitions: int = 1) -> list[tuple[str, int]]:
        topics = [create_topics.CreatableTopic(name, partitions, 1) for name in names]
        response = world.ask(create_topics.CreateTopicsRequest(topics, validate_only=only), 7)
        return [(one.name, one.error_code) for one in response.topics]

    assert ask("a", "b", "b") == [("a", 0), ("b", 42)]
    assert ask("x.y", "x_y") == [("x.y", 0), ("x_y", 17)]
    assert ask("v", only=True) == [("v", 0)]
    assert ask("huge", partitions=2**31 - 1) == [("huge", 44)]
    assert sorted(world.core.image.topics) == ["a", "x.y"]


def test_deleting(world: World) -> None:
    topic_id = world.create("t")
    world.create("other")

    def ask(*states: tuple[str | None, bytes], version: int = 6) -> list[int]:
        request = delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState(*one) for one in states])
        return [one.error_code for one in world.ask(request, version).responses]

    assert ask(("nope", ZERO_UUID), (None, b"\x05" * 16), ("t", topic_id), (None, ZERO_UUID)) == [3, 100, 42, 42]
    assert ask((None, topic_id)) == [0]
    assert world.describe("t").topics[0].error_code == 3
    names = world.ask(delete_topics.DeleteTopicsRequest(topic_names=["other", "nope"]), 5).responses
    assert [(one.name, one.error_code) for one in names] == [("other", 0), ("nope", 3)]
    assert world.create("t") != topic_id
    assert world.put(batch(b"new life")).base_offset == 0


def test_deletion_can_be_disabled() -> None:
    world = World(delete_topic_enable=False)
    world.create()
    assert world.delete() == 73
    names = delete_topics.DeleteTopicsRequest(topic_names=["t"])
    assert world.ask(names, 1).responses[0].error_code == 42


def test_growing(world: World) -> None:
    world.create(partitions=2)

    def grow(name: str, count: int, assignments: Any = None, only: bool = False) -> int:
        topic = create_partitions.CreatePartitionsTopic(name, count, assignments)
        request = create_partitions.CreatePartitionsRequest([topic], 1000, only)
        return int(world.ask(request, 3).results[0].error_code)

    to_broker_1 = [create_partitions.CreatePartitionsAssignment([1])]
    assert [grow("nope", 3), grow("t", 2), grow("t", 1), grow("t", 3, [])] == [3, 37, 37, 39]
    assert grow("t", 3, [create_partitions.CreatePartitionsAssignment([9])]) == 39
    assert grow("t", 3, only=True) == 0
    assert len(world.describe("t").topics[0].partitions) == 2
    assert grow("t", 3, to_broker_1) == 0
    assert [part.leader_id for part in world.describe("t").topics[0].partitions] == [1, 1, 1]
    assert world.put(batch(b"x"), partition=2).error_code == 0


@pytest.mark.parametrize("version", range(5))
def test_m03_versions_of_every_api(world: World, version: int) -> None:
    response = world.ask(api_versions(version), version)
    ranges = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    assert ranges[0] == (0, 13)
    assert ranges[18] == (0, 4)
    telemetry = {71, 72}
    assert list(ranges) == sorted(set(VERSIONS) - telemetry)
    levels = {"eligible.leader.replicas.version": 1, "group.version": 1, "metadata.version": 30}
    assert {one.name: one.max_version_level for one in response.finalized_features} == levels
    told = {one.name: (one.min_version, one.max_version) for one in response.supported_features}
    at_zero = {"eligible.leader.replicas.version": (0, 1), "group.version": (0, 1)}
    assert told == {"metadata.version": (7, 30)} | (at_zero if version == 4 else {})


def test_what_all_are_told_of_versions_is_made_once_and_anew_when_it_changes(world: World) -> None:
    """It was made and written for each who asked: of a moment's 4,900 the last waited half as long again for it."""
    first = world.ask(api_versions(3), 3)
    assert world.ask(api_versions(3), 3) is first
    assert world.ask(api_versions(0), 0) is first, "codecs say it in each version's words"
    world.create("t")
    later = world.ask(api_versions(3), 3)
    assert later.finalized_features_epoch > first.finalized_features_epoch


def test_a_client_must_name_its_software_as_kafka_wants(world: World) -> None:
    request = api_versions(3)
    request.client_software_name = "-bad-"
    assert world.ask(request, 3).error_code == 42


def test_of_the_name_of_a_client_s_software_so_much_is_kept(world: World) -> None:
    """Nobody is charged with it: 600 connections of the native dialect held 1 GB of such names."""
    request = api_versions(3)
    request.client_software_name, request.client_software_version = "a" * 900_000, "1" * 900_000
    connection = Connection(77, "PLAINTEXT", "127.0.0.1", "native", 0)
    answer = world.send(request, 3, connection=connection)
    assert answer.response.error_code == 0
    assert connection.client_software_name == "a" * 255
    assert connection.client_software_version == "1" * 255


def test_metadata_by_id_and_for_all(world: World) -> None:
    topic_id = world.create("t")
    by_id = metadata.MetadataRequest([metadata.MetadataRequestTopic(topic_id, None)], False)
    assert world.ask(by_id, 12).topics[0].name == "t"
    unknown = metadata.MetadataRequest([metadata.MetadataRequestTopic(b"\x09" * 16, None)], False)
    answer = world.ask(unknown, 12).topics[0]
    assert (answer.error_code, answer.name, answer.topic_id) == (100, None, b"\x09" * 16)
    assert world.ask(by_id, 10).topics[0].error_code == 42
    assert [topic.name for topic in world.describe().topics] == ["t"]
    assert world.ask(metadata.MetadataRequest([]), 1).topics == []
    assert [topic.name for topic in world.ask(metadata.MetadataRequest([]), 0).topics] == ["t"]


def test_metadata_names_a_live_controller_and_this_cluster(world: World) -> None:
    response = world.describe()
    assert response.controller_id == 1
    assert [(one.node_id, one.host, one.port) for one in response.brokers] == [(1, "localhost", 9092)]
    cluster = world.ask(describe_cluster.DescribeClusterRequest(), 2)
    assert (cluster.cluster_id, cluster.controller_id) == (response.cluster_id, 1)
    assert len(response.cluster_id or "") == 22
    assert world.ask(describe_cluster.DescribeClusterRequest(endpoint_type=2), 1).error_code == 114
    assert world.ask(describe_cluster.DescribeClusterRequest(endpoint_type=9), 1).error_code == 115


def describe(world: World, kind: int, name: str, *keys: str) -> dict[str, Any]:
    resource = describe_configs.DescribeConfigsResource(kind, name, list(keys) or None)
    result = world.ask(describe_configs.DescribeConfigsRequest([resource], True), 4).results[0]
    if result.error_code:
        return {"error": result.error_code}
    return {one.name: one for one in result.configs}


def alter(world: World, kind: int, name: str, *changes: tuple[str, int, str | None], only: bool = False) -> int:
    configs = [incremental_alter_configs.AlterableConfig(*change) for change in changes]
    resource = incremental_alter_configs.AlterConfigsResource(kind, name, configs)
    request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource], only)
    return int(world.ask(request, 1).responses[0].error_code)


def test_settings_of_kafka_without_effect_are_kept_and_told_and_held_to_their_type(world: World) -> None:
    world.create()
    found = describe(world, 2, "t", "local.retention.ms", "remote.storage.enable", "internal.segment.bytes")
    assert {name: (one.value, one.config_source) for name, one in found.items()} == {
        "local.retention.ms": ("-2", 5),
        "remote.storage.enable": ("false", 5),
    }
    assert alter(world, 2, "t", ("local.retention.ms", 0, "60000"), ("remote.storage.enable", 0, "false")) == 0
    told = describe(world, 2, "t", "local.retention.ms")["local.retention.ms"]
    assert (told.value, told.config_source, [one.value for one in told.synonyms]) == ("60000", 1, ["60000", "-2"])
    assert alter(world, 2, "t", ("local.retention.ms", 0, "soon")) == 40
    assert alter(world, 2, "t", ("remote.storage.enable", 0, "true")) == 40  # nothing would ever leave this disk
    assert alter(world, 2, "t", ("local.retention.ms", 3, "1")) == 40, "no list"
    assert alter(world, 2, "t", ("leader.replication.throttled.replicas", 2, "0:1")) == 0
    assert alter(world, 2, "t", ("retention.ms", 7, "1")) == -1


def test_settings_of_a_topic_come_from_itself_then_from_the_broker(world: World) -> None:
    world.create(retention_ms=5000, segment_bytes=2 << 20)
    entry = describe(world, 2, "t", "retention.ms")["retention.ms"]
    assert (entry.value, entry.config_source, entry.config_type, entry.read_only) == ("5000", 1, 5, False)
    entry = describe(world, 2, "t", "segment.bytes")["segment.bytes"]
    assert [(one.name, one.value, one.source) for one in entry.synonyms] == [
        ("segment.bytes", "2097152", 1),
        ("log.segment.bytes", "1073741824", 5),
    ]
    assert alter(world, 4, "", ("log.retention.ms", 0, "7000")) == 0
    assert alter(world, 2, "t", ("retention.ms", 1, None)) == 0
    entry = describe(world, 2, "t", "retention.ms")["retention.ms"]
    assert (entry.value, entry.config_source) == ("7000", 3)
    assert world.core.logs.logs[next(iter(world.core.logs.logs))].config.retention_ms == 7000
    assert describe(world, 2, "nope") == {"error": 3}
    assert describe(world, 4, "9") == {"error": 42}
    assert len(describe(world, 2, "t")) > 20


def test_settings_that_cannot_be_changed(world: World) -> None:
    world.create()
    assert alter(world, 2, "nope", ("retention.ms", 0, "1")) == 3
    assert alter(world, 2, "t", ("retention.ms", 0, "soon")) == 40
    assert alter(world, 2, "t", ("no.such", 0, "1")) == 40
    assert alter(world, 2, "t", ("retention.ms", 2, "1")) == 40
    assert alter(world, 2, "t", ("retention.ms", 0, "1"), ("retention.ms", 0, "2")) == 42
    assert alter(world, 2, "t", ("retention.ms", 0, None)) == 42
    assert alter(world, 4, "1", ("node.id", 0, "2")) == 42
    assert alter(world, 4, "7", ("log.retention.ms", 0, "2")) == 42
    assert alter(world, 99, "t") == 42
    assert alter(world, 2, "t", ("retention.ms", 0, "1"), only=True) == 0
    assert describe(world, 2, "t", "retention.ms")["retention.ms"].config_source == 5


def test_lists_are_appended_to_and_subtracted_from(world: World) -> None:
    world.create()
    assert alter(world, 2, "t", ("cleanup.policy", 2, "compact")) == 0
    assert describe(world, 2, "t", "cleanup.policy")["cleanup.policy"].value == "delete,compact", "in order"
    assert alter(world, 2, "t", ("cleanup.policy", 3, "delete")) == 0
    assert describe(world, 2, "t", "cleanup.policy")["cleanup.policy"].value == "compact"
    assert world.put(batch(b"no key")).error_code == 87


def test_settings_survive_a_restart(world: World) -> None:
    world.create()
    assert alter(world, 2, "t", ("max.message.bytes", 0, "100")) == 0
    assert alter(world, 4, "", ("message.max.bytes", 0, "2000")) == 0
    world.restart()
    assert describe(world, 2, "t", "max.message.bytes")["max.message.bytes"].value == "100"
    assert world.put(batch(b"x" * 100)).error_code == 10
    assert world.core.config.message_max_bytes == 2000


def test_producer_ids_are_never_given_twice(world: World) -> None:
    ids = [world.producer_id() for _ in range(1500)]
    world.restart()
    ids += [world.producer_id() for _ in range(3)]
    assert len(set(ids)) == len(ids)
    assert ids[:3] == [0, 1, 2]
    assert ids[-1] == 2002


def test_producer_ids_that_are_not_given(world: World) -> None:
    request = init_producer_id.InitProducerIdRequest
    codes = [world.ask(request(*arguments), 4).error_code for arguments in (("",), ("tx", 1000), (None, 1000, 5, -1))]
    assert codes == [42, 53, 42]
    assert world.ask(request(None, 1000, 5, 0), 4).error_code == 0


def test_where_epochs_ended(world: World) -> None:
    world.create()
    world.put(batch(*[b"x"] * 3))
    world.restart()
    world.put(batch(b"x"))

    def ask(epoch: int, current: int = -1, topic: str = "t") -> tuple[int, int, int]:
        part = offset_for_leader_epoch.OffsetForLeaderPartition(0, current, epoch)
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            -2, [offset_for_leader_epoch.OffsetForLeaderTopic(topic, [part])]
        )
        one = world.ask(request, 4).topics[0].partitions[0]
        return one.error_code, one.leader_epoch, one.end_offset

    assert [ask(0), ask(1), ask(2), ask(3)] == [(0, 0, 3), (0, 0, 3), (0, 2, 4), (0, -1, -1)]
    assert [ask(0, 1)[0], ask(0, 3)[0], ask(0, topic="nope")[0]] == [74, 75, 3]
