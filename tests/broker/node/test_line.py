"""Requests with large answers: two are served at a time, and who waits for a turn has nothing made yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.broker.context import Connection
from barnabas.broker.handlers.line import AT_ONCE_MAX, Line
from barnabas.broker.handlers.steps import SLICE
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests import (
    describe_configs,
    describe_user_scram_credentials,
    elect_leaders,
    fetch,
    find_coordinator,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
)
from tests.broker.node.world import World, batch

WIDE = 2 * SLICE + 1
PEERS = range(99, 120)


def wide_world() -> World:
    world = World()
    world.create("wide", WIDE)
    world.send(find_coordinator.FindCoordinatorRequest("g", 0), 1)
    world.settle()
    return world


@pytest.fixture(scope="module")
def shared() -> World:
    return wide_world()


@pytest.fixture
def world(shared: World) -> Iterator[World]:
    """One for all tests, for its partitions take longest to make; each gives it back with everybody gone."""
    yield shared
    for number in PEERS:
        shared.core.disconnected(connection(number))
    shared.settle()
    services = shared.core.services
    for line in (services.line, services.file_line):
        assert (line._served, line._waiting) == (set(), {})
    assert not shared.core.jobs.snapshot()
    assert not shared.core.replicas.shared.parked_partitions


def fetching(**options: Any) -> fetch.FetchRequest:
    parts = [fetch.FetchPartition(at, partition_max_bytes=1000) for at in range(WIDE)]
    return fetch.FetchRequest(topics=[fetch.FetchTopic("wide", partitions=parts)], **{"max_wait_ms": 0, **options})


def of_all() -> list_offsets.ListOffsetsRequest:
    parts = [list_offsets.ListOffsetsPartition(at, -1, -1) for at in range(WIDE)]
    return list_offsets.ListOffsetsRequest(-1, topics=[list_offsets.ListOffsetsTopic("wide", parts)])


def epochs() -> offset_for_leader_epoch.OffsetForLeaderEpochRequest:
    parts = [offset_for_leader_epoch.OffsetForLeaderPartition(at, -1, 0) for at in range(WIDE)]
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        topics=[offset_for_leader_epoch.OffsetForLeaderTopic("wide", parts)]
    )


def described() -> describe_configs.DescribeConfigsRequest:
    return describe_configs.DescribeConfigsRequest(
        [describe_configs.DescribeConfigsResource(2, f"a.{at}") for at in range(WIDE)]
    )


def coordinators() -> find_coordinator.FindCoordinatorRequest:
    return find_coordinator.FindCoordinatorRequest("", 0, [f"g-{at}" for at in range(WIDE)])


def users() -> describe_user_scram_credentials.DescribeUserScramCredentialsRequest:
    named = [describe_user_scram_credentials.UserName(f"u-{at}") for at in range(WIDE)]
    return describe_user_scram_credentials.DescribeUserScramCredentialsRequest(named)


def elections() -> elect_leaders.ElectLeadersRequest:
    return elect_leaders.ElectLeadersRequest(0, [elect_leaders.TopicPartitions("wide", list(range(WIDE)))])


def moves(topics: list[Any] | None) -> list_partition_reassignments.ListPartitionReassignmentsRequest:
    return list_partition_reassignments.ListPartitionReassignmentsRequest(1000, topics)


LARGE: dict[str, tuple[int, Callable[[], Any]]] = {
    "metadata of everything": (12, lambda: metadata.MetadataRequest(None)),
    "metadata": (12, lambda: metadata.MetadataRequest([metadata.MetadataRequestTopic(name="wide")])),
    "fetch": (11, lambda: fetching(session_epoch=-1)),
    "list_offsets": (7, of_all),
    "offset_for_leader_epoch": (4, epochs),
    "describe_configs": (4, described),
    "find_coordinator": (4, coordinators),
    "scram users": (0, users),
    "elect_leaders": (2, elections),
    "reassignments of all": (0, lambda: moves(None)),
    "reassignments": (
        0,
        lambda: moves([list_partition_reassignments.ListPartitionReassignmentsTopics("wide", list(range(WIDE)))]),
    ),
}


CHANGING = ("find_coordinator", "elect_leaders")
ASKED_BY_BROKERS = ("fetch", "list_offsets", "offset_for_leader_epoch", "elect_leaders", "reassignments")


def connection(number: int, peer: int = -1) -> Connection:
    return Connection(number, "PLAINTEXT", "127.0.0.1", "kafka", 0, peer=peer)


def line_of(world: World, name: str) -> Line:
    services = world.core.services
    return services.file_line if name in ("fetch", "list_offsets") else services.line


@pytest.mark.parametrize("name", LARGE)
def test_two_are_served_at_a_time_in_the_order_in_which_they_came(world: World, name: str) -> None:
    """Four hundred connections that asked for all of 19,000 topics held 2.8 GB of answers half made."""
    version, request = LARGE[name]
    asked = [world.send(request(), version, connection=connection(number)) for number in range(100, 106)]
    line = line_of(world, name)
    assert (len(line._served), list(line._waiting)) == (AT_ONCE_MAX, [102, 103, 104, 105])
    while not all(answer.done for answer in asked):
        done = [answer.done for answer in asked]
        assert sorted(done, reverse=True) == done
        assert len(line._served) <= AT_ONCE_MAX
        assert world.core.run_job_step(world.now_ms) or asked[-1].done
    world.settle()
    assert (line._served, line._waiting) == (set(), {})


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("gone", [100, 101, 102, 103])
def test_who_goes_leaves_the_line_and_its_turn(world: World, name: str, gone: int) -> None:
    version, request = LARGE[name]
    peers = [connection(number) for number in range(100, 105)]
    asked = [world.send(request(), version, connection=peer) for peer in peers]
    world.core.disconnected(peers[gone - 100])
    assert gone not in line_of(world, name)._waiting
    world.settle()
    seen_through = {100, 101} if name in CHANGING else set()
    assert [answer.done for answer in asked] == [peer.id != gone or gone in seen_through for peer in peers]
    assert (line_of(world, name)._served, line_of(world, name)._waiting) == (set(), {})
    assert not world.core.jobs.snapshot(), "nobody waits for a turn that he will not be given"


@pytest.mark.parametrize("name", ASKED_BY_BROKERS)
def test_a_broker_of_the_cluster_waits_for_no_client(world: World, name: str) -> None:
    """It asks for one thing at a time: behind a flood of large fetches a follower would leave every ISR."""
    version, request = LARGE[name]
    asked = [world.send(request(), version, connection=connection(number)) for number in range(100, 120)]
    follower = fetching(session_epoch=-1, replica_id=2) if name == "fetch" else request()
    broker = world.send(follower, version, connection=connection(99, peer=2))
    while not broker.done:
        assert sum(answer.done for answer in asked) < len(asked) - AT_ONCE_MAX
        world.core.run_job_step(world.now_ms)
    world.settle()


def test_a_turn_that_is_given_to_who_goes_in_the_same_step_is_not_lost(world: World) -> None:
    peers = [connection(number) for number in range(100, 104)]
    asked = [world.send(metadata.MetadataRequest(None), 12, connection=peer) for peer in peers]
    world.core.disconnected(peers[0])
    while 102 in world.core.services.line._waiting:
        assert world.core.run_job_step(world.now_ms)
    world.core.disconnected(peers[2])
    world.settle()
    assert [answer.done for answer in asked] == [False, True, False, True]
    assert not world.core.services.line._served


def test_a_fetch_that_waits_for_its_turn_has_begun_nothing(world: World) -> None:
    """150 full fetches of 19,800 partitions were sorted by partition, 10 MB each, before any had its turn."""
    opened = world.send(fetching(session_epoch=0), 11, connection=connection(100))
    world.settle()
    session_id = opened.response.session_id
    assert session_id
    sessions = world.core.services.sessions.sessions
    for number in range(101, 103):
        world.send(fetching(session_epoch=-1), 11, connection=connection(number))
    instead = world.send(fetching(session_id=session_id, session_epoch=0), 11, connection=connection(100))
    assert session_id in sessions, "it is closed by who opens another, in its turn"
    world.settle()
    assert instead.done
    assert session_id not in sessions
    assert instead.response.session_id in sessions


def test_small_requests_stand_in_no_line(world: World) -> None:
    for number in range(100, 105):
        world.send(metadata.MetadataRequest(None), 12, connection=connection(number))
    small = world.send(metadata.MetadataRequest([metadata.MetadataRequestTopic(name="no-such")], False), 12)
    assert small.done


def test_a_fetch_that_waits_for_records_has_given_up_its_turn() -> None:
    world = wide_world()  # of its own, for it is written to
    asked = [
        world.send(fetching(max_wait_ms=5000, min_bytes=1, session_epoch=-1), 11, connection=connection(number))
        for number in range(100, 104)
    ]
    world.settle()
    assert not world.core.services.file_line._served
    assert world.core.replicas.shared.parked_partitions == 4 * WIDE
    world.put(batch(b"v"), topic="wide")
    assert all(answer.done for answer in asked)
    told = [len(part.records) for part in asked[3].response.responses[0].partitions]
    assert told[0] > 0


def test_of_the_fetches_of_one_session_the_last_is_served(world: World) -> None:
    """A session of 19,800 partitions, and 1,500 connections that each ask with its next epoch: minutes of work."""
    opened = world.ask(fetching(session_epoch=0), 11)
    asked = [
        world.send(
            fetch.FetchRequest(session_id=opened.session_id, session_epoch=epoch, max_wait_ms=0),
            11,
            connection=connection(100 + epoch),
        )
        for epoch in range(1, 6)
    ]
    world.settle()
    codes = [answer.response.error_code for answer in asked]
    assert codes == 4 * [ErrorCode.INVALID_FETCH_SESSION_EPOCH] + [0]
