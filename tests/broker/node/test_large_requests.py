"""Requests that ask for much: answered in slices between which others are served, each thing once, nothing kept."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.context import Connection
from barnabas.broker.handlers.steps import SLICE
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests import (
    consumer_group_describe,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_groups,
    find_coordinator,
    incremental_alter_configs,
    list_offsets,
    metadata,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
)
from tests.broker.node.world import World, batch

MANY = 3 * SLICE + 1
ONLY_LOOK = (
    "metadata",
    "list_offsets",
    "offset_for_leader_epoch",
    "offset_fetch",
    "describe_groups",
    "consumer_group_describe",
)


@pytest.fixture
def world() -> World:
    world = World(auto_create_topics_enable=False)
    world.create("t", 2)
    return world


def names(count: int = MANY) -> list[str]:
    return [f"a.{number}" for number in range(count)]


LARGE: dict[str, tuple[int, Callable[[], Any], Callable[[Any], list[Any]]]] = {
    "metadata": (
        12,
        lambda: metadata.MetadataRequest([metadata.MetadataRequestTopic(name=name) for name in names()]),
        lambda answer: answer.topics,
    ),
    "list_offsets": (
        7,
        lambda: list_offsets.ListOffsetsRequest(
            -1,
            topics=[
                list_offsets.ListOffsetsTopic("t", [list_offsets.ListOffsetsPartition(at, -1, -1)])
                for at in range(MANY)
            ],
        ),
        lambda answer: answer.topics[0].partitions,
    ),
    "delete_records": (
        2,
        lambda: delete_records.DeleteRecordsRequest(
            [delete_records.DeleteRecordsTopic(name, [delete_records.DeleteRecordsPartition(0, 0)]) for name in names()]
        ),
        lambda answer: answer.topics,
    ),
    "offset_for_leader_epoch": (
        4,
        lambda: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    name, [offset_for_leader_epoch.OffsetForLeaderPartition(0, -1, 0)]
                )
                for name in names()
            ]
        ),
        lambda answer: answer.topics,
    ),
    "produce": (
        9,
        lambda: produce.ProduceRequest(
            None,
            1,
            1000,
            [
                produce.TopicProduceData(
                    "t", partition_data=[produce.PartitionProduceData(at, batch(b"x")) for at in range(2)]
                ),
                *(
                    produce.TopicProduceData(name, partition_data=[produce.PartitionProduceData(0, batch(b"x"))])
                    for name in names(MANY - 1)
                ),
            ],
        ),
        lambda answer: answer.responses,
    ),
    "create_topics": (
        7,
        lambda: create_topics.CreateTopicsRequest([create_topics.CreatableTopic(name, 0, 1) for name in names()]),
        lambda answer: answer.topics,
    ),
    "delete_topics": (
        6,
        lambda: delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState(name) for name in names()]),
        lambda answer: answer.responses,
    ),
    "create_partitions": (
        3,
        lambda: create_partitions.CreatePartitionsRequest(
            [create_partitions.CreatePartitionsTopic(name, 2, None) for name in names()]
        ),
        lambda answer: answer.results,
    ),
    "describe_configs": (
        4,
        lambda: describe_configs.DescribeConfigsRequest(
            [describe_configs.DescribeConfigsResource(2, name) for name in names()]
        ),
        lambda answer: answer.results,
    ),
    "offset_fetch": (
        8,
        lambda: offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup(name) for name in names()]
        ),
        lambda answer: answer.groups,
    ),
    "describe_groups": (5, lambda: describe_groups.DescribeGroupsRequest(names()), lambda answer: answer.groups),
    "consumer_group_describe": (
        0,
        lambda: consumer_group_describe.ConsumerGroupDescribeRequest(names()),
        lambda answer: answer.groups,
    ),
    "incremental_alter_configs": (
        1,
        lambda: incremental_alter_configs.IncrementalAlterConfigsRequest(
            [incremental_alter_configs.AlterConfigsResource(2, name) for name in names()]
        ),
        lambda answer: answer.responses,
    ),
}


@pytest.mark.parametrize("api", LARGE)
def test_a_large_request_is_answered_in_slices(world: World, api: str) -> None:
    version, request, told = LARGE[api]
    answer = world.send(request(), version)
    assert not answer.done, "all of it was done in one step"
    world.settle()
    assert len(told(answer.response)) == MANY


def test_others_are_served_between_the_slices(world: World) -> None:
    version, request, _ = LARGE["metadata"]
    large = world.send(request(), version)
    assert world.core.run_job_step(world.now_ms)
    assert world.put(batch(b"v")).error_code == 0
    assert large.done, "`put` has let all jobs run"


def test_produce_to_many_partitions_appends_to_each_once() -> None:
    world = World()
    world.create("many", 500)
    records = {("many", partition): batch(b"%d" % partition) for partition in range(500)}
    answer = world.produce(records)
    assert not answer.done
    world.settle()
    parts = answer.response.responses[0].partition_responses
    assert [(part.index, part.error_code, part.base_offset) for part in parts] == [(n, 0, 0) for n in range(500)]


def test_a_thing_named_twice_is_answered_once(world: World) -> None:
    resources = [describe_configs.DescribeConfigsResource(4, "1") for _ in range(1000)]
    answer = world.ask(describe_configs.DescribeConfigsRequest(resources), 4)
    assert len(answer.results) == 1
    keys = [["retention.ms"], ["segment.ms"]]
    named = [describe_configs.DescribeConfigsResource(2, "t", key) for key in keys]
    (told,) = world.ask(describe_configs.DescribeConfigsRequest(named), 4).results
    assert {entry.name for entry in told.configs} == {"retention.ms", "segment.ms"}
    coordinators = world.ask(find_coordinator.FindCoordinatorRequest("", 0, ["g"] * 1000), 4).coordinators
    assert [one.key for one in coordinators] == ["g"]


def test_a_partition_or_topic_named_twice_is_answered_once(world: World) -> None:
    def told(*names: str) -> list[produce.TopicProduceResponse]:
        parts = [produce.PartitionProduceData(at, batch(b"x")) for at in (0, 1, 1, 0)]
        data = [produce.TopicProduceData(name, partition_data=parts) for name in names]
        answer: produce.ProduceResponse = world.ask(produce.ProduceRequest(None, 1, 1000, data), 9)
        return answer.responses

    found = [
        (topic.name, part.index, part.error_code)
        for topic in told("t", "nobody", "t", "nobody")
        for part in topic.partition_responses
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == [("t", 0, 0), ("t", 1, 0), ("nobody", 0, unknown), ("nobody", 1, unknown)]
    asked = [delete_topics.DeleteTopicState(name) for name in ("t", "nobody", "t", "t")]
    results = world.ask(delete_topics.DeleteTopicsRequest(asked), 6).responses
    assert [(one.name, one.error_code) for one in results] == [("t", ErrorCode.INVALID_REQUEST), ("nobody", unknown)]


def test_the_settings_that_one_answer_tells_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.broker.handlers.describe_configs.SETTINGS_TOLD_MAX", 50)
    for number in range(4):
        world.create(f"n{number}")
    resources = [describe_configs.DescribeConfigsResource(2, f"n{number}") for number in range(4)]
    results = world.ask(describe_configs.DescribeConfigsRequest(resources), 4).results
    assert [one.error_code for one in results] == [0, 0, ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION]
    assert "name fewer resources" in results[2].error_message


def test_the_different_settings_that_one_answer_tells_are_bounded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is some 500 bytes of objects; what topics share is made once."""
    monkeypatch.setattr("barnabas.broker.handlers.describe_configs.SETTINGS_MADE_MAX", 50)
    for number in range(3):
        world.create(f"same{number}")
        world.create(f"own{number}", retention_ms=number + 1)
    for name, codes in (("same", [0, 0, 0]), ("own", [0, 0, ErrorCode.POLICY_VIOLATION])):
        resources = [describe_configs.DescribeConfigsResource(2, f"{name}{number}") for number in range(3)]
        results = world.ask(describe_configs.DescribeConfigsRequest(resources), 4).results
        assert [one.error_code for one in results] == codes


def test_the_different_settings_of_new_topics_that_one_answer_tells_are_bounded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.broker.handlers.create_topics.TOLD_MAX", 2)
    new = [
        create_topics.CreatableTopic(
            f"n{at}", 1, 1, configs=[create_topics.CreatableTopicConfig("retention.ms", str(value))]
        )
        for at, value in enumerate((1, 2, 1, 3))
    ]
    told = world.ask(create_topics.CreateTopicsRequest(new), 7).topics
    assert [(one.error_code, one.configs is None) for one in told] == [(0, False), (0, False), (0, False), (0, True)]


def test_the_settings_that_one_resource_is_given_are_bounded(world: World) -> None:
    changes = [incremental_alter_configs.AlterableConfig(f"k{at}", 0, "1") for at in range(1001)]
    resources = [incremental_alter_configs.AlterConfigsResource(2, "t", changes)]
    (told,) = world.ask(incremental_alter_configs.IncrementalAlterConfigsRequest(resources), 1).responses
    assert told.error_code == ErrorCode.INVALID_CONFIG
    assert "1001" in told.error_message


def test_one_topic_of_many_partitions_is_told_in_slices(world: World) -> None:
    world.create("wide", 2 * SLICE + 1)
    answer = world.send(metadata.MetadataRequest([metadata.MetadataRequestTopic(name="wide")]), 12)
    assert not answer.done
    world.settle()
    assert [part.partition_index for part in answer.response.topics[0].partitions] == list(range(2 * SLICE + 1))


def test_topics_with_the_same_settings_share_what_is_told(world: World) -> None:
    for name in ("a", "b"):
        world.create(name, retention_ms=5)
    resources = [describe_configs.DescribeConfigsResource(2, name) for name in ("a", "b", "t")]
    a, b, other = world.ask(describe_configs.DescribeConfigsRequest(resources), 4).results
    assert all(one is two for one, two in zip(a.configs, b.configs, strict=True))
    assert a.configs != other.configs


def test_names_are_compared_with_those_there_once_for_all() -> None:
    """Counted, not timed: the names that are there are walked once for a request."""
    world = World()
    world.create("x.y")

    class Counting(dict[str, Any]):
        walks = 0

        def __iter__(self) -> Any:
            Counting.walks += 1
            return super().__iter__()

    world.core.image.topics = Counting(world.core.image.topics)
    asked = [metadata.MetadataRequestTopic(name=f"q_{number}") for number in range(50)]
    world.ask(metadata.MetadataRequest([*asked, metadata.MetadataRequestTopic(name="x_y")], True), 9)
    assert Counting.walks <= 1
    new = [create_topics.CreatableTopic(name, 1, 1) for name in ("b.c", "b_c", "x_y")]
    codes = [one.error_code for one in world.ask(create_topics.CreateTopicsRequest(new), 7).topics]
    assert codes == [0, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_words_are_appended_to_a_list_once() -> None:
    from barnabas.broker.cluster import config_rules
    from barnabas.broker.cluster.config_rules import Alteration, Operation

    words = ",".join(f"w{number}" for number in range(20_000))
    change = Alteration("unknown.list", Operation.APPEND, words)
    assert config_rules._apply(change, words, None) == words  # four hundred million comparisons until now
    assert config_rules._apply(Alteration("unknown.list", Operation.SUBTRACT, words), words, None) == ""


@pytest.mark.parametrize("api", ["create_topics", "create_partitions", "incremental_alter_configs", "delete_topics"])
def test_refusals_leave_nothing_behind_that_only_the_collector_could_free(world: World, api: str) -> None:
    version, request, _ = LARGE[api]

    def ask() -> None:
        world.ask(request(), version)

    ask()
    gc.collect()
    gc.disable()
    try:
        others = {id(one) for one in gc.get_objects() if type(one) is KafkaError}  # what other tests keep
        ask()
        left = [one for one in gc.get_objects() if type(one) is KafkaError and id(one) not in others]
        assert not left, f"{len(left)} errors are kept by their own frames"
    finally:
        gc.enable()


@pytest.mark.parametrize("api", ONLY_LOOK)
def test_nobody_works_for_a_connection_that_is_gone(world: World, api: str) -> None:
    """What such a job holds is charged to nobody: 150 fetches whose connections were closed held 850 MB."""
    version, request, _ = LARGE[api]
    connection = Connection(77, "PLAINTEXT", "127.0.0.1", "kafka", 0)
    answer = world.send(request(), version, connection=connection)
    assert world.core.jobs.snapshot()
    world.core.disconnected(connection)
    world.core.run_job_step(world.now_ms)
    assert not world.core.jobs.snapshot()
    assert not answer.done


def test_what_changes_something_is_done_though_the_connection_is_gone(world: World) -> None:
    version, request, _ = LARGE["produce"]
    connection = Connection(77, "PLAINTEXT", "127.0.0.1", "kafka", 0)
    answer = world.send(request(), version, connection=connection)
    world.core.disconnected(connection)
    world.settle()
    assert answer.done
