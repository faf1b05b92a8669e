"""Groups through a whole core: the topic of what they commit, leadership, restarts."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from barnabas.broker.cluster.records import PartitionChange, RemoveTopic
from barnabas.broker.config.topics import OFFSETS_TOPIC
from barnabas.broker.context import Connection
from barnabas.broker.group import deleting, placement, unloading
from barnabas.broker.group.consumer import hashing
from barnabas.broker.group.coordinator import GroupCoordinator
from barnabas.broker.group.placement import java_hash, partition_of
from barnabas.broker.group.state import Status
from barnabas.broker.group.values import CommittedOffset
from barnabas.broker.handlers.steps import SLICE
from barnabas.broker.memory_disk import Faults, MemoryDisk
from barnabas.broker.node import groups
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import NO_LEADER, TopicPartition
from barnabas.protocol.requests.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.requests.delete_groups import DeleteGroupsRequest
from barnabas.protocol.requests.describe_groups import DescribeGroupsRequest
from barnabas.protocol.requests.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.requests.heartbeat import HeartbeatRequest
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.requests.list_groups import ListGroupsRequest
from barnabas.protocol.requests.offset_commit import OffsetCommitRequestTopic
from barnabas.protocol.requests.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.requests.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.node.group_world import (
    PARTITIONS,
    commit,
    commit_request,
    committed,
    find,
    heartbeat,
    join,
    member,
    world_with_coordinator,
)
from tests.broker.node.world import Answer, World

# The topic


def test_the_first_who_asks_has_the_topic_made_and_waits_for_it() -> None:
    """Whoever is told that there is none yet comes again 100 ms later, and the first group takes so much longer."""
    world = World()
    asked = world.send(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    assert not asked.done
    world.settle()
    found = asked.response.coordinators[0]
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "localhost", 9092)
    topic = world.describe(OFFSETS_TOPIC).topics[0]
    assert (len(topic.partitions), topic.is_internal) == (50, True)
    assert {len(one.replica_nodes) for one in topic.partitions} == {1}
    assert world.core.image.topic_overrides(OFFSETS_TOPIC)["cleanup.policy"] == "compact"


def test_until_then_nobody_is_the_coordinator_and_no_topic_is_made() -> None:
    world = World()
    assert join(world, version=3).response.error_code == ErrorCode.NOT_COORDINATOR
    assert committed(world) == ErrorCode.NOT_COORDINATOR
    assert world.ask(ListGroupsRequest(), 4).groups == []
    assert OFFSETS_TOPIC not in world.core.image.topics


def test_many_who_ask_at_once_have_it_made_once() -> None:
    world = World(offsets_topic_num_partitions=PARTITIONS)
    before = world.core.metadata.end_offset
    asked = [world.send(FindCoordinatorRequest(f"g{number}"), 2) for number in range(10)]
    world.settle()
    assert {one.response.error_code for one in asked} == {0}
    assert world.core.metadata.end_offset == before + 1 + 3 + PARTITIONS, "the topic, its settings, its partitions"


def test_one_broker_holds_one_replica_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World(offsets_topic_num_partitions=PARTITIONS)
    assert world.core.config.offsets_topic_replication_factor == 3
    assert find(world, "g").error_code == find(world, "other").error_code == 0
    world.restart()
    assert find(world).error_code == 0
    assert [one.getMessage() for one in caplog.records if "replication" in one.getMessage()] == [
        "the first group has asked: __consumer_offsets is made, with replication factor 1 "
        "(offsets.topic.replication.factor=3 would need as many brokers)"
    ]


@pytest.mark.parametrize(("asked", "had"), [(1, 1_048_576), (1_048_575, 1_048_576), (2_000_000, 2_000_000)])
def test_segments_smaller_than_any_topic_has_keep_no_group_from_its_coordinator(
    asked: int, had: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    world = world_with_coordinator(offsets_topic_segment_bytes=asked, offsets_topic_replication_factor=1)
    assert world.core.image.topic_overrides("__consumer_offsets")["segment.bytes"] == str(had)
    assert commit(world, {0: 5}) == {0: 0}
    said = f"and segment.bytes={had} (offsets.topic.segment.bytes={asked} is too small)"
    assert caplog.text.count(said) == (asked != had)


def test_where_it_cannot_be_made_who_waits_is_told_and_the_next_has_it_tried_again() -> None:
    faults = Faults()
    world = World(disk=MemoryDisk(faults=faults), offsets_topic_num_partitions=PARTITIONS)
    faults.refuse(1, count=1_000_000)
    refused = find(world)
    assert (refused.error_code, refused.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    faults.refuse(1, count=0)
    assert find(world).error_code == 0


def test_who_is_gone_while_it_waits_takes_nobody_along() -> None:
    world = World(offsets_topic_num_partitions=PARTITIONS)
    connection = Connection(99, "PLAINTEXT", "127.0.0.1", "kafka", world.now_ms)
    world.send(FindCoordinatorRequest(coordinator_keys=["g"]), 4, connection=connection)
    stays = world.send(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    world.core.disconnected(connection)
    world.settle()
    assert stays.response.coordinators[0].error_code == 0


@pytest.mark.parametrize("each", [False, True])
def test_a_large_commit_without_a_coordinator_is_refused_before_it_holds_much(each: bool) -> None:
    """While one loaded, a flood of these left 200 MB between what was loaded."""
    world = World(offsets_topic_num_partitions=PARTITIONS)
    world.create("t", SLICE + 1)
    request = commit_request(dict.fromkeys(range(SLICE + 1), 7))
    if each:
        request.topics = [OffsetCommitRequestTopic("t", partitions=[one]) for one in request.topics[0].partitions]
    sent = world.send(request, 8)
    assert sent.done, "it is not begun"
    told = [part.error_code for topic in sent.response.topics for part in topic.partitions]
    assert told == [ErrorCode.NOT_COORDINATOR] * (SLICE + 1)


def test_who_asks_twice_for_a_coordinator_is_told_once() -> None:
    world = world_with_coordinator()
    told = world.ask(FindCoordinatorRequest(coordinator_keys=["g", "other", "g"]), 4).coordinators
    assert [(one.key, one.error_code) for one in told] == [("g", 0), ("other", 0)]


def test_a_group_without_a_name_is_told_like_any_other() -> None:
    world = world_with_coordinator()
    absent = world.ask(DescribeGroupsRequest([""]), 6).groups[0]
    assert (absent.error_code, absent.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert commit(world, {0: 5}, group="") == {0: 0}
    told = world.ask(DescribeGroupsRequest([""]), 6).groups[0]
    assert (told.error_code, told.group_state) == (0, "Empty")


def test_a_transaction_is_refused_for_good() -> None:
    """A retriable error has producers and admin clients ask again for a minute, or for ever, and say nothing."""
    world = world_with_coordinator()
    old = world.ask(FindCoordinatorRequest("tx", 1), 2)
    (new,) = world.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"]), 6).coordinators
    for told in (old, new):
        assert told.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert (told.error_message, told.node_id) == ("This release has no transactions.", -1)


# Requests


def test_a_join_that_waits_holds_no_heartbeat_back() -> None:
    world = world_with_coordinator()
    member_id, generation = member(world)
    waits = join(world, version=3)
    world.settle()
    assert not waits.done
    assert heartbeat(world, member_id, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    again = join(world, member_id)
    world.settle()
    assert again.response.generation_id == waits.response.generation_id == generation + 1


def test_who_waits_in_a_group_keeps_nothing_of_what_it_came_with() -> None:
    """A view into the buffer that all connections receive into would keep all of that."""
    world = world_with_coordinator()
    member_id, _ = member(world)
    received = bytearray(1000)
    protocols = [JoinGroupRequestProtocol("range", cast("bytes", memoryview(received)[:500]))]
    asks = JoinGroupRequest("g", 10_000, 60_000, "", None, "test", protocols)
    other = world.send(asks, 3)
    assert not other.done
    del asks, protocols
    received.clear()  # fails while anything looks into it
    again = join(world, member_id)
    world.settle()
    generation, received = again.response.generation_id, bytearray(1000)
    given = [SyncGroupRequestAssignment(member_id, cast("bytes", memoryview(received)[:500]))]
    asked = SyncGroupRequest("g", generation, other.response.member_id, assignments=given)
    waits = world.send(asked, 3)
    assert not waits.done
    del asked, given
    received.clear()


def test_what_does_not_exist_cannot_be_committed_and_the_rest_can() -> None:
    world = world_with_coordinator()
    assert commit(world, {0: 5, 9: 5}) == {0: 0, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert commit(world, {0: 5}, topic="nothing") == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert committed(world) == {("t", 0): 5}
    named = [
        OffsetFetchRequestTopics("t", partition_indexes=[0, 2]),
        OffsetFetchRequestTopics("nothing", partition_indexes=[1]),
    ]
    assert committed(world, topics=named) == {("t", 0): 5, ("t", 2): -1, ("nothing", 1): -1}
    assert committed(world, "nobody", topics=named[:1]) == {("t", 0): -1, ("t", 2): -1}


def test_more_partitions_than_one_step_takes_are_committed_all() -> None:
    world = World(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0)
    world.create("wide", 1200)
    find(world)
    assert set(commit(world, dict.fromkeys(range(1200), 7), topic="wide").values()) == {0}
    assert len(committed(world)) == 1200


def most_in_a_step(world: World, answer: Answer, done: list[Any]) -> int:
    """The largest number of things that were done in one step of a request, its first one included."""
    most, before = len(done), len(done)
    more = True
    while not answer.done:
        assert more, "it waits for nothing"
        more = world.core.run_job_step(world.now_ms) or world.step()
        most, before = max(most, len(done) - before), len(done)
    return most


def test_groups_without_offsets_are_told_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 5,000 that have nothing to tell all were looked up twice in one step of 24 ms."""
    world = world_with_coordinator()
    looked: list[Any] = []
    shard_of = GroupCoordinator.shard_of

    def counted(self: GroupCoordinator, group_id: str) -> Any:
        looked.append(group_id)
        return shard_of(self, group_id)

    monkeypatch.setattr(GroupCoordinator, "shard_of", counted)
    asked = [OffsetFetchRequestGroup(f"g{number}", topics=None) for number in range(3000)]
    told = world.send(OffsetFetchRequest(groups=asked), 8)
    assert most_in_a_step(world, told, looked) <= 2 * SLICE, "whether they are many, and the first of them"
    assert [one.group_id for one in told.response.groups] == [one.group_id for one in asked]


@pytest.mark.parametrize(
    ("make", "version"),
    [
        (lambda names: FindCoordinatorRequest(coordinator_keys=names), 4),
        (lambda names: DescribeGroupsRequest(names), 5),
        (lambda names: ConsumerGroupDescribeRequest(names), 1),
        (lambda names: DeleteGroupsRequest(names), 2),
        (lambda names: OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, topics=None) for name in names]), 8),
    ],
    ids=["FindCoordinator", "DescribeGroups", "ConsumerGroupDescribe", "DeleteGroups", "OffsetFetch"],
)
def test_groups_of_long_names_are_looked_up_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch, make: Any, version: int
) -> None:
    """Where a group is goes by every letter of its name: 500 of 5,000 were one step of 170 ms."""
    world = world_with_coordinator()
    letters: list[Any] = []

    def counted(text: str) -> int:
        letters.extend(text)
        return java_hash(text)

    monkeypatch.setattr(placement, "java_hash", counted)
    names = [f"{number}{'n' * 5000}" for number in range(40)]
    told = world.send(make(names), version)
    assert most_in_a_step(world, told, letters) <= 3 * 32_000
    assert len(letters) >= 40 * 5000


def test_all_that_a_group_has_committed_is_looked_through_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 offsets were sorted by topic in one step."""
    world = world_with_coordinator()
    world.create("wide", 1200)
    commit(world, dict.fromkeys(range(1200), 7), topic="wide")
    looked: list[Any] = []
    is_of = CommittedOffset.is_of

    def counted(self: CommittedOffset, topic_id: bytes) -> bool:
        looked.append(self)
        return is_of(self, topic_id)

    monkeypatch.setattr(CommittedOffset, "is_of", counted)
    told = world.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]), 8)
    assert most_in_a_step(world, told, looked) < 2 * SLICE, "the end of the one, and the beginning of the other"
    assert len(told.response.groups[0].topics[0].partitions) == 1200


def test_offsets_go_with_their_topic() -> None:
    world = world_with_coordinator()
    world.create("other")
    commit(world, {0: 5, 1: 6})
    commit(world, {0: 7}, topic="other")
    assert world.delete("t") == 0
    world.settle()
    assert committed(world) == {("other", 0): 7}


def test_of_a_topic_made_anew_nobody_is_told_what_was_read_of_the_old_one() -> None:
    """Power fails: that the topic went is synced, and that its offsets went is not."""
    world = world_with_coordinator()
    commit(world, {0: 5, 1: 6})
    path = f"{OFFSETS_TOPIC}-{partition_of('g', PARTITIONS)}/{0:020d}.log"
    before = len(world.disk.load(path))
    assert world.delete("t") == 0
    world.settle()
    world.create("t", 3)
    assert len(world.disk.load(path)) > before
    world.restart(clean=False, keep=lambda where, size: before if where == path else size)
    assert find(world).error_code == 0
    asked = [OffsetFetchRequestTopics("t", partition_indexes=[0, 1])]
    assert committed(world, topics=asked) == {("t", 0): -1, ("t", 1): -1}
    assert committed(world) == {}
    commit(world, {0: 1})
    assert committed(world) == {("t", 0): 1}


def test_what_is_committed_of_a_topic_made_anew_does_not_go_with_the_old_one() -> None:
    """There are many groups, and it takes a while until the last one has forgotten the old one."""
    world = world_with_coordinator()
    commit(world, {0: 5, 1: 6})
    old = dict.fromkeys(world.core.image.topics["t"].keys.values(), world.core.image.topics["t"].topic_id)
    world.delete("t")
    world.settle()
    world.create("t", 3)
    commit(world, {0: 1})
    world.core.groups.topics_changed(old)
    world.settle()
    assert committed(world) == {("t", 0): 1}


def test_topics_that_go_one_after_the_other_are_looked_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10,000 that go in 40 slices every group was to be looked at 40 times."""
    world = world_with_coordinator()
    names = [f"topic-{number}" for number in range(5)]
    for name in names:
        world.create(name)
        commit(world, {0: 7}, topic=name)
    looks: list[int] = []
    real = deleting.forget_topics

    def counted(shard: Any, gone: Any, now_ms: int) -> Any:
        looks.append(len(gone))
        return real(shard, gone, now_ms)

    monkeypatch.setattr(deleting, "forget_topics", counted)
    for name in names[1:]:
        topic = world.core.image.topics[name]
        world.core.controller.write([RemoveTopic(topic.topic_id)], lambda fault: None)
    world.settle()
    assert committed(world) == {(names[0], 0): 7}
    assert set(looks) == {1, 3}, "the first, and all that came before its groups had been looked at"
    assert world.delete(names[0]) == 0
    world.settle()
    assert committed(world) == {}


def test_an_answer_leaves_after_the_sync_that_the_topic_asks_for() -> None:
    world = world_with_coordinator(log_flush_interval_messages=1)
    told = world.send(commit_request({0: 5}), 8)
    assert not told.done
    assert listeners(world) == 1
    world.settle()
    assert told.response.topics[0].partitions[0].error_code == 0
    assert listeners(world) == 0


def listeners(world: World) -> int:
    """Who hears of the high watermark of the partition that has the group `g`."""
    partition = world.core.replicas.partition(TopicPartition(OFFSETS_TOPIC, partition_of("g", PARTITIONS)))
    assert partition is not None
    return len(partition.listeners)


def test_what_nobody_waits_for_leaves_nothing_to_the_end_of_the_step() -> None:
    """A heartbeat and a commit set no earlier alarm: the host need not ask again when something is due."""
    world = world_with_coordinator()
    member_id, generation = member(world)
    for request, version in ((HeartbeatRequest("g", generation, member_id), 3), (commit_request({0: 5}, "other"), 8)):
        world.ask(request, version)
        world.core.next_deadline_ms()
        assert world.send(request, version).done
        assert not world.core.rescheduled
    assert listeners(world) == 0


# Leadership


def lead(world: World, group: str, leader: int) -> None:
    topic = world.core.image.topics[OFFSETS_TOPIC]
    index = partition_of(group, PARTITIONS)
    done: list[Any] = []
    world.core.controller.write([PartitionChange(topic.topic_id, index, leader=leader)], done.append)
    world.settle()
    assert done == [None]


@pytest.mark.parametrize("pieces", [1, unloading.PIECES_PER_STEP])
def test_who_waits_is_sent_away_when_leadership_goes_and_all_is_read_when_it_comes(
    pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unloading, "PIECES_PER_STEP", pieces)
    world = world_with_coordinator()
    member_id, generation = member(world)
    commit(world, {0: 5}, "other")
    asked = join(world)
    world.settle()
    waits = join(world, asked.response.member_id)
    world.settle()
    lead(world, "g", NO_LEADER)
    told = waits.response
    assert (told.error_code, told.member_id) == (ErrorCode.NOT_COORDINATOR, asked.response.member_id)
    assert heartbeat(world, member_id, generation) == ErrorCode.NOT_COORDINATOR
    assert find(world).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    lead(world, "g", 1)
    assert find(world).error_code == 0
    assert heartbeat(world, member_id, generation) == 0
    assert committed(world, "other") == {("t", 0): 5}
    world.advance(10_000)
    assert heartbeat(world, member_id, generation) == ErrorCode.UNKNOWN_MEMBER_ID


# Restarts


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_finds_groups_members_and_offsets(clean: bool) -> None:
    world = world_with_coordinator()
    member_id, generation = member(world)
    for offset in range(5):
        commit(world, {0: offset, 1: 2 * offset}, "simple")
    world.restart(clean=clean)
    assert find(world).error_code == 0
    assert heartbeat(world, member_id, generation) == 0
    assert committed(world, "simple") == {("t", 0): 4, ("t", 1): 8}
    told = world.ask(DescribeGroupsRequest(["g"]), 5).groups[0]
    assert (told.group_state, [one.member_assignment for one in told.members]) == ("Stable", [b"a"])


def test_while_it_is_read_its_groups_are_loading() -> None:
    world = world_with_coordinator()
    member_id, generation = member(world)
    for _ in range(4):
        commit(world, dict.fromkeys(range(3), 1), "g2")
    many = [f"group-{number}" for number in range(400)]
    for group in many:
        commit(world, {0: 1}, group)
    world.stop()
    world.core = world._new_core()
    world.core.start(world.now_ms)
    seen: list[int] = []
    listed: list[int] = []
    for _ in range(10_000):
        told = world.send(HeartbeatRequest("g", generation, member_id), 3)
        asked = world.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]), 8)
        every = world.send(ListGroupsRequest(), 4)
        if told.done and asked.done and every.done:
            seen.append(asked.response.groups[0].error_code)
            listed.append(every.response.error_code)
            loading = seen[-1] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert told.response.error_code == (0 if loading else seen[-1]), "a heartbeat is well while it is loading"
            if not seen[-1] and not listed[-1]:
                break
        world.core.run_job_step(world.now_ms)
        if world.disk.deliver():
            world.core.wake(world.now_ms)
    assert list(dict.fromkeys(seen)) == [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0]
    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in listed
    assert len(world.ask(ListGroupsRequest(), 4).groups) == 402


def test_groups_can_be_looked_at() -> None:
    world = world_with_coordinator()
    member(world)
    commit(world, {0: 5}, "simple")
    state = world.core.snapshot(world.now_ms)
    told = {one["group"]: (one["state"], one["members"], one["offsets"]) for one in state["groups"]}
    assert told == {"g": ("Stable", 1, 0), "simple": ("Empty", 0, 1)}
    assert state["counts"]["groups"] == 2
    read = world.core.registry.read
    assert read("kafka.coordinator.group:GroupMetadataManager", "NumGroupsStable") == {"value": 1}
    assert read("kafka.coordinator.group:GroupMetadataManager", "NumOffsets") == {"value": 1}
    assert read("group-coordinator-metrics", "offset-commit-count") == {"value": 1}
    assert read("group-coordinator-metrics", "group-completed-rebalance-count") == {"value": 1}
    assert {shard.status for shard in world.core.groups.shards.values()} == {Status.ACTIVE}


def test_hashes_of_topics_that_are_there_are_kept_however_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a number all were thrown away: a group of more topics had every one hashed anew with each heartbeat."""
    monkeypatch.setattr(groups, "HASHES_MAX", 3)
    hashed: list[str] = []

    def topic_hash(name: str, *_: object) -> int:
        hashed.append(name)
        return 0

    monkeypatch.setattr(hashing, "topic_hash", topic_hash)
    world = World()
    names = [f"t{number}" for number in range(8)]
    for name in names:
        world.create(name)
    topics = groups.ImageTopics(world.core.image)
    for _ in range(2):
        for name in names:
            topics.hash_of(name)
    assert hashed == names
    for name in names[1:]:
        world.delete(name)
    for number in range(8):
        world.create(f"new{number}")
        topics.hash_of(f"new{number}")
    assert topics._hashes.keys() == {"t0", *(f"new{number}" for number in range(8))}, "of what is gone nothing is kept"
