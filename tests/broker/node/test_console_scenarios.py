"""What consoles and admin clients ask, on a core: pages, sizes, producers, settings replaced, and who may not ask.

Field by field, and beside Apache Kafka: the scenarios V29 to V75.
"""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.config import descriptions
from barnabas.broker.handlers import describe_configs
from barnabas.broker.handlers.describe_topic_partitions import PAGE_MAX
from barnabas.broker.handlers.get_telemetry_subscriptions import METRICS_BYTES_MAX
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from barnabas.protocol.requests.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.requests.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from barnabas.protocol.requests.describe_producers import DescribeProducersRequest
from barnabas.protocol.requests.describe_producers import TopicRequest as ProducersOf
from barnabas.protocol.requests.describe_quorum import (
    DescribeQuorumRequest,
    RequestedPartitionData,
    RequestedTopicData,
)
from barnabas.protocol.requests.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from barnabas.protocol.requests.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.requests.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from barnabas.protocol.requests.list_config_resources import ListConfigResourcesRequest
from barnabas.protocol.requests.push_telemetry import PushTelemetryRequest
from barnabas.protocol.requests.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.node.world import World, batch


@pytest.fixture
def world() -> World:
    return World()


def pages(world: World, names: list[str], limit: int) -> list[list[tuple[str, list[int]]]]:
    """Every page, from the first to the one without a cursor: the partitions of each topic told."""
    told = []
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, cursor)
        response = world.ask(request, 0)
        told.append([(topic.name, [part.partition_index for part in topic.partitions]) for topic in response.topics])
        cursor = response.next_cursor
        if cursor is None:
            return told


def test_pages_tell_every_partition_once_in_the_order_of_names(world: World) -> None:
    for name, partitions in (("b", 3), ("a", 2), ("c", 1)):
        world.create(name, partitions)
    assert pages(world, [], 2) == [[("a", [0, 1])], [("b", [0, 1])], [("b", [2]), ("c", [0])]]
    assert pages(world, ["c", "a"], 100) == [[("a", [0, 1]), ("c", [0])]]
    assert pages(world, ["b", "a"], 4) == [[("a", [0, 1]), ("b", [0, 1])], [("b", [2])]]


def test_a_topic_that_is_gone_does_not_end_the_pages(world: World) -> None:
    for name in ("a", "b", "c"):
        world.create(name, 2)
    first = world.ask(DescribeTopicPartitionsRequest(response_partition_limit=2), 0)
    assert first.next_cursor == Cursor("b", 0)
    world.delete("b")
    rest = world.ask(DescribeTopicPartitionsRequest([], 2, first.next_cursor), 0)
    assert [topic.name for topic in rest.topics] == ["c"]


def test_a_page_has_a_bound_of_its_own(world: World) -> None:
    world.create("wide", PAGE_MAX + 5)
    response = world.ask(DescribeTopicPartitionsRequest(response_partition_limit=2**31 - 1), 0)
    assert len(response.topics[0].partitions) == PAGE_MAX
    assert response.next_cursor == Cursor("wide", PAGE_MAX)


def test_a_page_of_all_topics_leaves_out_what_one_may_not_see(world: World) -> None:
    world.create("mine")
    world.create("theirs")
    world.core.services.authorise = lambda principal, operation, resource: resource.name != "theirs"
    assert pages(world, [], 10) == [[("mine", [0])]]
    response = world.ask(DescribeTopicPartitionsRequest([TopicRequest("theirs")]), 0)
    assert [topic.error_code for topic in response.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def settings(world: World, topic: str) -> dict[str, str]:
    """The settings that a topic has of its own."""
    resource = DescribeConfigsResource(2, topic, None)
    found = world.ask(DescribeConfigsRequest([resource]), 4).results[0].configs
    return {one.name: one.value for one in found if one.config_source == 1}


def test_settings_are_documented_for_who_asks_and_count_for_two(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apache Kafka tells texts of its own; consoles show them beside the values."""
    world.create("t")
    asked = [DescribeConfigsResource(kind, name, None) for kind, name in ((2, "t"), (4, "1"), (32, "g"))]
    told = world.ask(DescribeConfigsRequest(asked, include_documentation=True), 4).results
    for result in told:
        assert result.configs
        assert [one.name for one in result.configs if not one.documentation] == []
    told = world.ask(DescribeConfigsRequest(asked), 4).results
    assert {one.documentation for result in told for one in result.configs} == {None}
    monkeypatch.setattr(describe_configs, "SETTINGS_TOLD_MAX", len(told[0].configs))
    for documented, codes in ((False, [0, 0]), (True, [0, ErrorCode.POLICY_VIOLATION])):
        told = world.ask(DescribeConfigsRequest(asked[:2], include_documentation=documented), 4).results
        assert [result.error_code for result in told] == codes


def test_a_brokers_setting_without_effect_that_was_taken_is_told_and_a_secret_is_not(world: World) -> None:
    """They were taken, and nobody was told of them: who sets them by a program set them again and again."""
    levels = (
        ("", {"num.io.threads": "4", "ssl.key.password": "hush"}),
        ("1", {"num.io.threads": "5", "background.threads": "3"}),
    )
    for name, configs in levels:
        changes = [AlterableConfig(*each) for each in configs.items()]
        response = world.ask(AlterConfigsRequest([AlterConfigsResource(4, name, changes)]), 2)
        assert response.responses[0].error_code == 0
    asked = [DescribeConfigsResource(4, name, None) for name in ("", "1")]
    every, own = world.ask(DescribeConfigsRequest(asked, True, True), 4).results
    told = {one.name: (one.value, one.config_source, one.is_sensitive) for one in every.configs}
    assert told == {"num.io.threads": ("4", 3, False), "ssl.key.password": (None, 3, True)}
    own_told = {one.name: one for one in own.configs}
    threads, password = own_told["num.io.threads"], own_told["ssl.key.password"]
    assert [(each.value, each.source) for each in threads.synonyms] == [("5", 2), ("4", 3)]
    assert (own_told["background.threads"].value, password.value) == ("3", None)
    assert {each.value for each in password.synonyms} == {None}
    assert {one.documentation for one in (threads, password)} == {descriptions.NO_EFFECT}
    alter_none = AlterConfigsRequest([AlterConfigsResource(4, name, []) for name in ("", "1")])
    assert {one.error_code for one in world.ask(alter_none, 2).responses} == {0}
    every, own = world.ask(DescribeConfigsRequest(asked), 4).results
    assert {*told, "background.threads"} & {one.name for one in (*every.configs, *own.configs)} == set()


def alter(world: World, topic: str, configs: dict[str, str | None], **options: Any) -> int:
    changes = [AlterableConfig(name, value) for name, value in configs.items()]
    response = world.ask(AlterConfigsRequest([AlterConfigsResource(2, topic, changes)], **options), 2)
    return int(response.responses[0].error_code)


def test_where_the_secret_of_a_cluster_lies_is_not_told() -> None:
    world = World(barnabas_cluster_secret_file="/run/secrets/cluster")
    request = DescribeConfigsRequest([DescribeConfigsResource(4, "1", None)], include_synonyms=True)
    (result,) = world.ask(request, 4).results
    (told,) = (one for one in result.configs if one.name == "barnabas.cluster.secret.file")
    assert (told.value, told.is_sensitive, told.read_only) == (None, True, True)
    assert "/run/secrets" not in repr(result)
    assert [one.name for one in result.configs if one.is_sensitive] == ["barnabas.cluster.secret.file"]


def test_settings_that_are_not_named_go_back_to_their_default(world: World) -> None:
    world.create("t", retention_ms=60_000, segment_ms=60_000)
    assert alter(world, "t", {"segment.ms": "70000"}, validate_only=True) == 0
    assert alter(world, "t", {"segment.ms": "soon"}) == ErrorCode.INVALID_CONFIG
    assert alter(world, "t", {"segment.ms": None}) == ErrorCode.INVALID_REQUEST
    assert settings(world, "t") == {"retention.ms": "60000", "segment.ms": "60000"}
    assert alter(world, "t", {"segment.ms": "70000"}) == 0
    assert settings(world, "t") == {"segment.ms": "70000"}
    assert alter(world, "t", {}) == 0
    assert settings(world, "t") == {}


def test_a_resource_named_twice_is_refused_and_answered(world: World) -> None:
    """Apache Kafka 4.3 never answers."""
    world.create("t", retention_ms=60_000)
    resource = AlterConfigsResource(2, "t", [AlterableConfig("retention.ms", "70000")])
    response = world.ask(AlterConfigsRequest([resource, resource]), 2)
    assert [one.error_code for one in response.responses] == [ErrorCode.INVALID_REQUEST] * 2
    assert settings(world, "t") == {"retention.ms": "60000"}


def test_the_sizes_of_logs_in_memory(world: World) -> None:
    world.create("t", 2)
    world.create("u")
    data = batch(b"v")
    world.put(data, "t", 1)
    (result,) = world.ask(DescribeLogDirsRequest(None), 4).results
    assert [(one.name, [(p.partition_index, p.partition_size) for p in one.partitions]) for one in result.topics] == [
        ("t", [(0, 0), (1, len(data))]),
        ("u", [(0, 0)]),
    ]
    assert (result.total_bytes, result.usable_bytes) == (-1, -1)
    (one,) = world.ask(DescribeLogDirsRequest([DescribableLogDirTopic("t", [1, 1, 9])]), 4).results
    assert [part.partition_index for part in one.topics[0].partitions] == [1]


def test_producers_are_told_with_what_they_wrote_last(world: World) -> None:
    world.create("t", 2)
    producer_id = world.producer_id()
    for sequence in range(3):
        world.put(batch(b"v", pid=producer_id, epoch=0, sequence=sequence))
    world.put(batch(b"v"))  # by nobody: no sequence
    (topic,) = world.ask(DescribeProducersRequest([ProducersOf("t", [0, 0, 1])]), 0).topics
    assert [(part.partition_index, len(part.active_producers)) for part in topic.partitions] == [(0, 1), (1, 0)]
    one = topic.partitions[0].active_producers[0]
    assert (one.producer_id, one.producer_epoch, one.last_sequence) == (producer_id, 0, 2)
    assert one.last_timestamp > 0


def test_the_quorum_is_this_broker_and_has_all_records(world: World) -> None:
    request = DescribeQuorumRequest([RequestedTopicData("__cluster_metadata", [RequestedPartitionData(0)])])
    before = world.ask(request, 2)
    (part,) = before.topics[0].partitions
    assert (part.leader_id, [voter.replica_id for voter in part.current_voters]) == (1, [1])
    assert part.high_watermark == part.current_voters[0].log_end_offset == world.core.metadata.end_offset
    assert part.current_voters[0].last_caught_up_timestamp == world.wall_ms
    assert [(node.node_id, [one.name for one in node.listeners]) for node in before.nodes] == [(1, ["PLAINTEXT"])]
    assert world.ask(request, 1).nodes == []
    world.create("t")
    assert world.ask(request, 2).topics[0].partitions[0].high_watermark > part.high_watermark


@pytest.mark.parametrize(
    ("version", "update", "code"),
    [
        (0, FeatureUpdateKey("metadata.version", 30), 0),
        (1, FeatureUpdateKey("metadata.version", 25, upgrade_type=2), ErrorCode.INVALID_UPDATE_VERSION),
        (1, FeatureUpdateKey("metadata.version", 31), ErrorCode.INVALID_UPDATE_VERSION),
        (0, FeatureUpdateKey("metadata.version", 25, True), ErrorCode.INVALID_UPDATE_VERSION),
        (2, FeatureUpdateKey("group.version", 0, upgrade_type=1), ErrorCode.INVALID_UPDATE_VERSION),
    ],
)
def test_a_level_that_cannot_be_changes_nothing(
    world: World, version: int, update: FeatureUpdateKey, code: int
) -> None:
    levels = dict(world.core.image.features)
    assert world.ask(UpdateFeaturesRequest(feature_updates=[update]), version).error_code == code
    assert world.core.image.features == levels


def test_a_client_that_asks_for_telemetry_is_told_that_none_is_wanted(world: World) -> None:
    told = world.ask(GetTelemetrySubscriptionsRequest(), 0)
    assert told.client_instance_id != ZERO_UUID
    assert told.requested_metrics == []
    assert world.ask(GetTelemetrySubscriptionsRequest(b"1" * 16), 0).client_instance_id == b"1" * 16

    def push(**options: Any) -> int:
        request = PushTelemetryRequest(told.client_instance_id, told.subscription_id)
        for name, value in options.items():
            setattr(request, name, value)
        return int(world.ask(request, 0).error_code)

    assert push() == push(terminating=True) == push(metrics=b"m") == 0
    assert push(metrics=bytes(METRICS_BYTES_MAX + 1)) == ErrorCode.TELEMETRY_TOO_LARGE
    assert push(client_instance_id=ZERO_UUID) == ErrorCode.INVALID_REQUEST
    assert push(subscription_id=told.subscription_id + 1) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (DescribeLogDirsRequest(None), 3),
        (ElectLeadersRequest(0, [TopicPartitions("t", [0])]), 1),
        (DescribeQuorumRequest(), 0),
        (UpdateFeaturesRequest(), 1),
        (ListConfigResourcesRequest(), 1),
    ],
    ids=lambda each: type(each).__name__,
)
def test_who_may_not_ask_about_the_cluster_is_told_so(world: World, request_: Any, version: int) -> None:
    assert world.ask(request_, version).error_code == 0
    world.core.services.authorise = lambda principal, operation, resource: False
    assert world.ask(request_, version).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_producers_are_told_to_who_may_read(world: World) -> None:
    world.create("t")
    world.core.services.authorise = lambda principal, operation, resource: False
    (topic,) = world.ask(DescribeProducersRequest([ProducersOf("t", [0])]), 0).topics
    assert topic.partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
