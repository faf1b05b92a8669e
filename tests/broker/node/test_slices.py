"""What a request names is counted over all of its topics: a slice is over however they are laid out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.group.rebalance import DELAY_MS_MIN
from barnabas.broker.handlers import (
    alter_partition_reassignments,
    delete_records,
    elect_leaders,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
)
from barnabas.broker.handlers.steps import SLICE
from barnabas.protocol.requests.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.requests.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.protocol.requests.describe_groups import DescribeGroupsRequest
from barnabas.protocol.requests.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.requests.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.requests.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.requests.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.requests.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.protocol.requests.sync_group import SyncGroupRequest
from tests.broker.node.group_world import world_with_coordinator
from tests.broker.node.test_groups import most_in_a_step

Names = list[tuple[str, list[int]]]


def _commit(names: Names) -> OffsetCommitRequest:
    topics = [OffsetCommitRequestTopic(n, partitions=[OffsetCommitRequestPartition(p) for p in at]) for n, at in names]
    return OffsetCommitRequest("g", topics=topics)


def _delete(names: Names) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        "g", [OffsetDeleteRequestTopic(n, [OffsetDeleteRequestPartition(p) for p in at]) for n, at in names]
    )


def _records(names: Names) -> DeleteRecordsRequest:
    return DeleteRecordsRequest([DeleteRecordsTopic(n, [DeleteRecordsPartition(p, 0) for p in at]) for n, at in names])


def _epochs(names: Names) -> OffsetForLeaderEpochRequest:
    return OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(n, [OffsetForLeaderPartition(p, -1, 0) for p in at]) for n, at in names]
    )


def _elect(names: Names) -> ElectLeadersRequest:
    return ElectLeadersRequest(0, [TopicPartitions(n, at) for n, at in names])


def _reassign(names: Names) -> AlterPartitionReassignmentsRequest:
    topics = [ReassignableTopic(n, [ReassignablePartition(p, [1]) for p in at]) for n, at in names]
    return AlterPartitionReassignmentsRequest(topics=topics)


def _fetch(names: Names) -> OffsetFetchRequest:
    return OffsetFetchRequest("g", [OffsetFetchRequestTopic(n, at) for n, at in names])


def _fetch_groups(names: Names) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(n, partition_indexes=at) for n, at in names]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)])


ASKED: dict[str, tuple[int, Callable[[Names], Any], Any, str]] = {
    "OffsetCommit": (8, _commit, offset_commit, "OffsetCommitResponsePartition"),
    "OffsetDelete": (0, _delete, offset_delete, "OffsetDeleteResponsePartition"),
    "DeleteRecords": (2, _records, delete_records, "TopicPartition"),
    "OffsetForLeaderEpoch": (4, _epochs, offset_for_leader_epoch, "TopicPartition"),
    "ElectLeaders": (2, _elect, elect_leaders, "refusal"),
    "ElectLeaders, the answer": (2, _elect, elect_leaders, "PartitionResult"),
    "AlterPartitionReassignments": (0, _reassign, alter_partition_reassignments, "ReassignablePartitionResponse"),
    "OffsetFetch": (7, _fetch, offset_fetch, "OffsetFetchResponsePartition"),
    "OffsetFetch of groups": (8, _fetch_groups, offset_fetch, "OffsetFetchResponsePartitions"),
}
"""Version, request, and what its handler makes for each partition."""
LAID_OUT: dict[str, Names] = {
    "one each": [(f"t{number}", [0]) for number in range(3 * SLICE)],
    "two each": [(f"t{number}", [0, 1]) for number in range(2 * SLICE)],
    "fewer than a slice each": [(f"t{number}", list(range(SLICE - 50))) for number in range(8)],
    "one of many": [("t", list(range(4 * SLICE)))],
}


@pytest.fixture(params=ASKED)
def asked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, list[Any]]:
    version, make, module, name = ASKED[request.param]
    return version, make, counted(monkeypatch, module, name)


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[Any]:
    """What a module makes of a kind from now on."""
    made: list[Any] = []
    real = getattr(module, name)

    def count(*told: Any) -> Any:
        made.append(told)
        return real(*told)

    monkeypatch.setattr(module, name, count)
    return made


@pytest.mark.parametrize("names", LAID_OUT.values(), ids=LAID_OUT)
def test_no_step_does_more_than_a_slice(asked: tuple[Any, Any, list[Any]], names: Names) -> None:
    """44 topics of 450 partitions, or 10,000 of one each, were served in one step: 25 ms."""
    version, make, made = asked
    world = world_with_coordinator()
    told = world.send(make(names), version)
    assert most_in_a_step(world, told, made) <= SLICE
    assert len(made) >= sum(len(at) for _, at in names)


def test_the_topics_of_an_election_are_told_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(monkeypatch, elect_leaders, "ReplicaElectionResult")
    world = world_with_coordinator()
    told = world.send(_elect(LAID_OUT["one each"]), 2)
    assert most_in_a_step(world, told, made) <= SLICE
    assert len(made) == 3 * SLICE


def test_groups_that_hold_much_are_told_in_steps() -> None:
    """What their members sent is copied into the answer: 45 MB of 45 groups were one step of 60 ms."""
    world = world_with_coordinator()
    for name in ("a", "b"):
        protocols = [JoinGroupRequestProtocol("range", bytes(900 * 1024))]
        joined = world.send(JoinGroupRequest(name, 10_000, 60_000, "", None, "test", protocols), 3)
        world.advance(DELAY_MS_MIN)
        world.ask(SyncGroupRequest(name, joined.response.generation_id, joined.response.member_id), 3)
    told = world.send(DescribeGroupsRequest(["a", "b"]), 5)
    assert not told.done
    world.settle()
    assert [len(one.members[0].member_metadata) for one in told.response.groups] == [900 * 1024] * 2


def test_partitions_named_many_times_are_counted_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was counted were those that differ."""
    world = world_with_coordinator()
    made = counted(monkeypatch, offset_for_leader_epoch, "TopicPartition")
    told = world.send(_epochs([("t", [0] * 4 * SLICE)]), 4)
    assert most_in_a_step(world, told, made) <= SLICE
