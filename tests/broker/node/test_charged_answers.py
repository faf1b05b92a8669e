"""Who asks for much is charged with what the answer takes, while it is made and until it is out.

Each answer is made under `tracemalloc`, which is told beside the account at every step: what is charged where most is
taken must be near that. It need not be exact; what was there before was nothing.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from barnabas.broker.cluster.image import TOPIC_RESOURCE
from barnabas.broker.context import Connection, RequestContext
from barnabas.broker.group.group import Group, Member
from barnabas.broker.group.state import GroupState
from barnabas.broker.group.values import CommittedOffset
from barnabas.broker.handlers.steps import SLICE
from barnabas.broker.log.producer_state import Producer
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests import (
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    find_coordinator,
    list_config_resources,
    list_groups,
    list_partition_reassignments,
    metadata,
    offset_fetch,
)
from tests.broker.node.world import World

TOPICS = 1100
NAMES = [f"topic-{number}" for number in range(TOPICS)]
LONG = [f"long-{number}" for number in range(200)]
"""With as much of settings as a topic may have, nearly."""
GROUPS = 2000
MEMBERS = 4
METADATA = b"m" * 700
OFFSETS = 4000
PRODUCERS = 2000


@pytest.fixture(scope="module")
def world() -> World:
    """Many of everything, put where it would come to by requests."""
    world = World(offsets_topic_num_partitions=1)
    world.ask(find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    world.settle()
    for name in NAMES:
        world.create(name)
    for number, name in enumerate(LONG):
        world.create(name)
        world.core.image.configs[TOPIC_RESOURCE, name] = {
            f"{side}.replication.throttled.replicas": ",".join([f"{number}:1"] * 5000)
            for side in ("leader", "follower")
        }
    world.create("wide", OFFSETS)
    wide = world.core.image.topics["wide"].partitions
    wide.update({number: replace(state, replicas=(1, 2), adding=(2,)) for number, state in wide.items()})
    shard = world.core.services.groups.shard_of("g")
    for number in range(GROUPS):
        group = shard.put(Group(f"group-{number}"))
        assert isinstance(group, Group)
        group.state, group.protocol, group.protocol_type = GroupState.STABLE, "range", "consumer"
        for at in range(MEMBERS):
            member = Member(f"m-{number}-{at}", None, "client", "/127.0.0.1", 1, 1, (("range", METADATA),))
            member.assignment = METADATA
            group.members[member.member_id] = member
    holder = shard.put(Group("holder"))
    for number in range(OFFSETS):
        holder.offsets[TopicPartition("wide", number)] = CommittedOffset(number + 10**6, 0, "said " * 20, 0)
    for number in range(3):
        partition = world.core.replicas.partition(TopicPartition("wide", number))
        assert partition is not None
        partition.log.producers.producers.update({10**6 + at: Producer(0) for at in range(PRODUCERS)})
    return world


def configs() -> describe_configs.DescribeConfigsRequest:
    return describe_configs.DescribeConfigsRequest(
        [describe_configs.DescribeConfigsResource(2, name) for name in NAMES], include_documentation=True
    )


def long_configs() -> describe_configs.DescribeConfigsRequest:
    """The answer had 483 MB, most of which nobody counted, while lists of a broker's were told with each topic."""
    asked = [describe_configs.DescribeConfigsResource(2, name) for name in LONG]
    return describe_configs.DescribeConfigsRequest(asked, include_synonyms=True)


def producers() -> describe_producers.DescribeProducersRequest:
    return describe_producers.DescribeProducersRequest([describe_producers.TopicRequest("wide", [0, 1, 2])])


ASKED: dict[str, tuple[int, Callable[[], Any]]] = {
    "metadata": (12, lambda: metadata.MetadataRequest(None)),
    "metadata of one topic": (12, lambda: metadata.MetadataRequest([metadata.MetadataRequestTopic(name="wide")])),
    "describe configs": (4, configs),
    "describe configs of long values": (4, long_configs),
    "config resources": (1, lambda: list_config_resources.ListConfigResourcesRequest([2])),
    "log dirs": (4, lambda: describe_log_dirs.DescribeLogDirsRequest(None)),
    "describe groups": (
        5,
        lambda: describe_groups.DescribeGroupsRequest([f"group-{number}" for number in range(GROUPS)]),
    ),
    "groups that are not there": (
        6,
        lambda: describe_groups.DescribeGroupsRequest([f"nobody-knows-{number}" for number in range(GROUPS)]),
    ),
    "list groups": (5, list_groups.ListGroupsRequest),
    "offset fetch": (
        9,
        lambda: offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup("holder", None, -1, None)]
        ),
    ),
    "describe producers": (0, producers),
    "reassignments": (0, lambda: list_partition_reassignments.ListPartitionReassignmentsRequest(1000, None)),
}


def written(self: RequestContext, response: Any) -> Iterator[None]:
    """As a connection of Kafka's dialect has it: the answer is written in steps, and there until it is sent."""
    buffers = yield from codec.encode_response_in_steps(self.api_key, self.api_version, 1, response)
    sent = [bytes(one) for one in buffers]
    yield None
    self.respond(response)
    del sent


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_is_charged_with_what_it_takes(world: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestContext, "respond_in_steps", written)
    version, make = ASKED[name]
    account = world.core.account
    request = make()
    world.settle()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        connection = Connection(7, "PLAINTEXT", "127.0.0.1", "kafka", 0)
        asked = world.send(request, version, connection=connection)
        taken = charged = 0
        while not asked.done:
            more = world.core.run_job_step(world.now_ms)
            assert more or asked.done
            if not asked.done:
                taken = max(taken, tracemalloc.get_traced_memory()[0] - before)
                charged = max(charged, account.held_by(7))
    finally:
        tracemalloc.stop()
        gc.enable()
    assert taken / 2 <= charged <= taken * 2, "what other tests have made, names above all, is not made again"
    assert taken > 50_000
    world.settle()
    assert account.held_by(7) == 0


@pytest.mark.parametrize("name", [name for name in ASKED if name != "metadata of one topic"])
def test_who_leaves_holds_nothing(world: World, name: str) -> None:
    version, make = ASKED[name]
    connection = Connection(8, "PLAINTEXT", "127.0.0.1", "kafka", 0)
    asked = world.send(make(), version, connection=connection)
    while not world.core.account.held_by(8):
        assert world.core.run_job_step(world.now_ms)
    assert not asked.done
    world.core.disconnected(connection)
    assert world.core.account.held_by(8) == 0
    world.settle()
    assert not asked.done


def test_the_groups_behind_the_last_slice_are_charged_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be 499, with names of 32 KB each."""
    monkeypatch.setattr(RequestContext, "respond_in_steps", written)
    shard = world.core.services.groups.shard_of("g")
    more = [shard.put(Group(f"{number}".ljust(3000, "-"))) for number in range(SLICE - len(shard.groups) % SLICE - 1)]
    connection = Connection(9, "PLAINTEXT", "127.0.0.1", "kafka", 0)
    asked = world.send(list_groups.ListGroupsRequest(), 5, connection=connection)
    charged = 0
    while not asked.done:
        charged = max(charged, world.core.account.held_by(9))
        assert world.core.run_job_step(world.now_ms) or asked.done
    for one in more:
        del shard.groups[one.group_id]
    assert len(more) > 100
    assert charged >= sum(len(one.group_id) for one in more)


REST = SLICE - 1
WIDE = list(range(SLICE + REST))
BEHIND_A_SLICE: dict[str, tuple[str, int, Any]] = {
    "reassignments": (
        "list_partition_reassignments",
        len(WIDE),
        list_partition_reassignments.ListPartitionReassignmentsRequest(
            1000, [list_partition_reassignments.ListPartitionReassignmentsTopics("wide", WIDE)]
        ),
    ),
    "log dirs": (
        "describe_log_dirs",
        len(WIDE),
        describe_log_dirs.DescribeLogDirsRequest([describe_log_dirs.DescribableLogDirTopic("wide", WIDE)]),
    ),
    "config resources": (
        "list_config_resources",
        TOPICS + 1,
        list_config_resources.ListConfigResourcesRequest([2]),
    ),
    "describe producers": (
        "describe_producers",
        PRODUCERS + REST,
        describe_producers.DescribeProducersRequest(
            [describe_producers.TopicRequest("wide", [0, *range(3, REST)])],
        ),
    ),
}


@pytest.mark.parametrize("name", BEHIND_A_SLICE)
def test_what_is_told_behind_the_last_whole_slice_is_charged_too(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was up to 200 KB."""
    handler, count, request = BEHIND_A_SLICE[name]
    held: list[int] = []

    def written(self: RequestContext, response: Any) -> Iterator[None]:
        held.append(world.core.account.held_by(10))
        self.respond(response)
        yield None

    monkeypatch.setattr(RequestContext, "respond_in_steps", written)
    connection = Connection(10, "PLAINTEXT", "127.0.0.1", "kafka", 0)
    assert not world.send(request, ASKED[name][0], connection=connection).done
    world.settle()
    assert held[0] >= import_module(f"barnabas.broker.handlers.{handler}")._BYTES * (count - 1)


@pytest.mark.parametrize("name", ["list groups", "describe groups", "log dirs", "metadata"])
def test_an_answer_of_nothing_leaves_nothing(name: str) -> None:
    version, make = ASKED[name]
    world = World()
    world.ask(make(), version)
    assert world.core.account.by_holder == {}
