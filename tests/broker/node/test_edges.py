"""The edges of what may be asked, as Apache Kafka answers them: doubles, nothing, ids beside names, log starts."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests import (
    create_topics,
    delete_records,
    delete_topics,
    fetch,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
)
from tests.broker.node.group_world import world_with_coordinator
from tests.broker.node.test_metadata_scenarios import alter, describe
from tests.broker.node.world import World, batch


@pytest.fixture
def world() -> World:
    world = World()
    world.create("t", 2)
    return world


def cut(world: World, offset: int) -> None:
    part = delete_records.DeleteRecordsPartition(0, offset)
    world.ask(delete_records.DeleteRecordsRequest([delete_records.DeleteRecordsTopic("t", [part])], 2000), 2)


@pytest.mark.parametrize(
    ("records", "code", "start"),
    [
        (batch(b"x")[:-1], 87, -1),
        (bytes(batch(b"x")) * 2, 87, -1),
        (batch(b"x")[:30], 87, -1),
        (batch(b"x" * 2000), 10, -1),
        (batch(b"x", pid=7, epoch=0, sequence=9), 45, 2),
        (batch(b"x", pid=7, epoch=-1, sequence=1), 47, 2),
        (batch(b"x", at_ms=1 << 60), 32, 2),
    ],
)
def test_the_log_start_stands_beside_what_the_log_refused(world: World, records: Any, code: int, start: int) -> None:
    assert alter(world, 2, "t", ("max.message.bytes", 0, "1500")) == 0
    for value in (b"a", b"b"):
        assert world.put(batch(value)).error_code == 0
    assert world.put(batch(b"c", pid=7, epoch=0, sequence=0)).error_code == 0
    cut(world, 2)
    told = world.put(records)
    assert (told.error_code, told.base_offset, told.log_start_offset) == (code, -1, start)


def test_a_topic_twice_is_answered_as_one_and_one_of_no_partitions_not_at_all(world: World) -> None:
    data = [
        produce.TopicProduceData("t", partition_data=[produce.PartitionProduceData(index, batch(b"x"))])
        for index in (0, 1)
    ]
    told = world.ask(produce.ProduceRequest(None, 1, 1000, [*data, produce.TopicProduceData("t")]), 9).responses
    assert [(one.name, [part.index for part in one.partition_responses]) for one in told] == [("t", [0, 1])]
    assert world.ask(produce.ProduceRequest(None, 1, 1000, [produce.TopicProduceData("none")]), 9).responses == []
    nothing = delete_records.DeleteRecordsRequest([delete_records.DeleteRecordsTopic("t", [])], 2000)
    assert world.ask(nothing, 2).topics == []
    part = list_offsets.ListOffsetsPartition(0, -1, -1)
    other = list_offsets.ListOffsetsPartition(1, -1, -1)
    topics = [list_offsets.ListOffsetsTopic("t", parts) for parts in ([part], [part, other], [])]
    topics.append(list_offsets.ListOffsetsTopic("none", []))
    (one,) = world.ask(list_offsets.ListOffsetsRequest(-1, 0, topics), 7).topics
    assert [(part.partition_index, part.error_code) for part in one.partitions] == [(0, 42), (1, 0)]


def test_an_epoch_below_all_ends_where_the_first_begins(world: World) -> None:
    world.put(batch(b"x"))
    asked = [offset_for_leader_epoch.OffsetForLeaderPartition(0, -1, epoch) for epoch in (-2,)]
    topic = offset_for_leader_epoch.OffsetForLeaderTopic("t", asked)
    (part,) = world.ask(offset_for_leader_epoch.OffsetForLeaderEpochRequest(-2, [topic]), 4).topics[0].partitions
    assert (part.error_code, part.leader_epoch, part.end_offset) == (0, -2, 0)


@pytest.mark.parametrize("level", [2, -1])
def test_an_isolation_level_that_nobody_knows_is_no_guess(world: World, level: int) -> None:
    part = fetch.FetchPartition(0, -1, 0, -1, -1, 1000)
    request = fetch.FetchRequest(
        max_wait_ms=0, isolation_level=level, topics=[fetch.FetchTopic("t", partitions=[part])]
    )
    told = world.ask(request, 12)
    assert (told.error_code, [one.error_code for one in told.responses[0].partitions]) == (-1, [-1])
    topic = list_offsets.ListOffsetsTopic("t", [list_offsets.ListOffsetsPartition(0, -1, -1)])
    answer = world.ask(list_offsets.ListOffsetsRequest(-1, level, [topic]), 7)
    assert answer.topics[0].partitions[0].error_code == -1


def test_the_zero_id_is_no_topic_s(world: World) -> None:
    part = fetch.FetchPartition(0, -1, 0, -1, -1, 1000)
    topic = fetch.FetchTopic(topic_id=ZERO_UUID, partitions=[part])
    told = world.ask(fetch.FetchRequest(max_wait_ms=0, topics=[topic]), 13)
    assert told.responses[0].partitions[0].error_code == 100


def delete(world: World, *states: delete_topics.DeleteTopicState) -> list[tuple[str | None, int]]:
    told = world.ask(delete_topics.DeleteTopicsRequest(list(states)), 6).responses
    return [(one.name, one.error_code) for one in told]


def test_a_topic_named_by_its_name_and_by_its_id_is_not_deleted(world: World) -> None:
    known = world.core.image.topics["t"].topic_id
    by_name, by_id = delete_topics.DeleteTopicState("t"), delete_topics.DeleteTopicState(None, known)
    for states in ((by_name, by_id), (by_id, by_name)):
        assert delete(world, *states) == [("t", 42)]
        assert "t" in world.core.image.topics
    assert delete(world, by_id, delete_topics.DeleteTopicState("none")) == [("t", 0), ("none", 3)]
    assert "t" not in world.core.image.topics


def test_where_one_topic_is_asked_for_by_its_id_names_are_not_looked_at(world: World) -> None:
    world.create("u")
    id_of = {name: topic.topic_id for name, topic in world.core.image.topics.items()}

    def told(*asked: metadata.MetadataRequestTopic) -> list[tuple[str | None, int]]:
        topics = world.ask(metadata.MetadataRequest(list(asked), False), 12).topics
        return [(one.name, one.error_code) for one in topics]

    both = metadata.MetadataRequestTopic(id_of["u"], "t")
    assert told(both) == [("u", 0)]
    assert told(metadata.MetadataRequestTopic(name="t"), both) == [("u", 0)]
    assert told(metadata.MetadataRequestTopic(b"\x09" * 16, "t")) == [(None, 100)]
    assert told(both, metadata.MetadataRequestTopic(id_of["u"], None)) == [("u", 0)]


def test_a_partition_is_assigned_once(world: World) -> None:
    given = [create_topics.CreatableReplicaAssignment(0, [1]) for _ in range(2)]
    topic = create_topics.CreatableTopic("v", -1, -1, given)
    (told,) = world.ask(create_topics.CreateTopicsRequest([topic]), 7).topics
    assert (told.error_code, told.error_message) == (
        39,
        "Found multiple manual partition assignments for partition 0",
    )


def test_the_metadata_s_own_topic_is_made_by_nobody(world: World) -> None:
    topic = create_topics.CreatableTopic("__cluster_metadata", 1, 1)
    (told,) = world.ask(create_topics.CreateTopicsRequest([topic]), 7).topics
    assert (told.error_code, told.error_message) == (42, "Creation of internal topic __cluster_metadata is prohibited.")


@pytest.mark.parametrize(
    ("key", "written", "told"),
    [
        ("retention.ms", " +60000 ", "60000"),
        ("preallocate", "TRUE", "true"),
        ("cleanup.policy", " delete , compact ", "delete,compact"),
        ("cleanup.policy", "compact,delete", "compact,delete"),
        ("leader.replication.throttled.replicas", " 0:1 , 1:1", "0:1,1:1"),
    ],
)
def test_a_value_is_told_in_its_plain_form(world: World, key: str, written: str, told: str) -> None:
    assert alter(world, 2, "t", (key, 0, written)) == 0
    entry = describe(world, 2, "t", key)[key]
    assert (entry.value, entry.synonyms[0].value) == (told, told)


def test_settings_are_told_in_the_order_of_their_names(world: World) -> None:
    names = list(describe(world, 2, "t"))
    assert names == sorted(names)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cleanup.policy", "delete,"),
        ("cleanup.policy", ","),
        ("leader.replication.throttled.replicas", "none"),
        ("follower.replication.throttled.replicas", "0:x"),
        ("follower.replication.throttled.replicas", "*,0:1"),
    ],
)
def test_a_list_with_an_item_that_is_none_is_refused(world: World, key: str, value: str) -> None:
    assert alter(world, 2, "t", (key, 0, value)) == 40


def test_nothing_is_no_item_to_append(world: World) -> None:
    assert alter(world, 2, "t", ("cleanup.policy", 2, "")) == 40
    assert alter(world, 2, "t", ("cleanup.policy", 3, "")) == 0


def test_a_broker_s_settings_can_be_taken_back_whatever_they_are(world: World) -> None:
    for name in ("no.such.key", "node.id", "listener.name.x.ssl.keystore.type"):
        assert alter(world, 4, "", (name, 1, None)) == 0
    assert alter(world, 4, "", ("listener.name.x.ssl.keystore.type", 0, "JKS")) == 42
    assert alter(world, 4, "", ("log.cleaner.backoff.ms", 0, "soon")) == 42
    assert alter(world, 4, "", ("no.such.key", 0, "1")) == 40


def test_the_zero_id_is_no_topic_whose_offsets_are_kept() -> None:
    world = world_with_coordinator()
    part = offset_commit.OffsetCommitRequestPartition(0, 5)
    known = world.core.image.topics["t"].topic_id
    topics = [
        offset_commit.OffsetCommitRequestTopic(topic_id=topic_id, partitions=parts)
        for topic_id, parts in ((ZERO_UUID, [part]), (known, []), (known, [part]))
    ]
    told = world.ask(offset_commit.OffsetCommitRequest("g", topics=topics), 10).topics
    assert [(one.topic_id, [each.error_code for each in one.partitions]) for one in told] == [
        (ZERO_UUID, [100]),
        (known, [0]),
    ]
    asked = [offset_fetch.OffsetFetchRequestTopics(topic_id=one, partition_indexes=[0]) for one in (ZERO_UUID, known)]
    group = offset_fetch.OffsetFetchRequestGroup("g", topics=[*asked, asked[1]])
    (answer,) = world.ask(offset_fetch.OffsetFetchRequest(groups=[group]), 10).groups
    assert [
        (one.topic_id, one.partitions[0].error_code, one.partitions[0].committed_offset) for one in answer.topics
    ] == [
        (ZERO_UUID, 100, -1),
        (known, 0, 5),
    ]
