"""Groups of the consumer protocol through a whole core: how they are told, what of them cannot be read at a start."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from barnabas.broker.account import UNREAD
from barnabas.broker.config.topics import OFFSETS_TOPIC
from barnabas.broker.context import Connection
from barnabas.broker.group.consumer.values import (
    Classic,
    CurrentRecord,
    EpochRecord,
    MemberRecord,
    Subscription,
)
from barnabas.broker.group.records import encode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import BatchBuilder
from barnabas.protocol.requests.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.requests.find_coordinator import FindCoordinatorRequest
from tests.broker.node.world import World

THERE = TopicPartition(OFFSETS_TOPIC, 0)


def beat(world: World, epoch: int, **said: Any) -> Any:
    return world.ask(ConsumerGroupHeartbeatRequest("g", "m", epoch, rebalance_timeout_ms=5000, **said), 1)


def test_a_few_members_who_name_much_are_told_in_steps() -> None:
    world = World(offsets_topic_num_partitions=1)
    assert world.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0].error_code == 0
    names = [f"none-{number}" for number in range(9_000)]
    assert beat(world, 0, subscribed_topic_names=names, topic_partitions=[]).error_code == 0
    asked = world.send(ConsumerGroupDescribeRequest(["g"]), 1)
    assert not asked.done, "9,000 names are too many for one step"
    world.settle()
    assert [one.subscribed_topic_names for one in asked.response.groups[0].members] == [sorted(names)]


@pytest.mark.parametrize("leaves", [False, True])
def test_what_is_told_of_members_counts_for_who_asked_until_it_is_out(leaves: bool) -> None:
    world = World(offsets_topic_num_partitions=1)
    assert world.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0].error_code == 0
    names = [f"none-{number}" for number in range(9_000)]
    assert beat(world, 0, subscribed_topic_names=names, topic_partitions=[]).error_code == 0
    before, account = world.core.groups.shared.holdings.total, world.core.account
    connection = Connection(7, "PLAINTEXT", "127.0.0.1", "kafka", 0)
    asked = world.send(ConsumerGroupDescribeRequest(["g"]), 1, connection=connection)
    assert not asked.done
    held = account.held_by(7)
    assert held == account.by_kind[UNREAD]
    assert sum(map(len, names)) < held <= 2 * before
    if leaves:
        world.core.disconnected(connection)
    world.settle()
    assert asked.done is not leaves
    assert account.total == 0


def test_records_that_cannot_be_are_named_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """One cut short, a classic member that says nothing, the end of a group that has members."""
    world = World(offsets_topic_num_partitions=1)
    world.create("t", partitions=2)
    assert world.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0].error_code == 0
    joined = beat(world, 0, subscribed_topic_names=["t"], topic_partitions=[])
    assert joined.error_code == 0
    key, cut = encode(MemberRecord("g", "cut", Subscription(topics=("t",))))
    assert cut is not None
    silent = Subscription(topics=("t",), classic=Classic(6000, (("range", b"m"),)))
    builder = BatchBuilder(10_000)
    for record in (
        (key, cut[:-3]),
        encode(MemberRecord("g", "silent", silent)),
        encode(CurrentRecord("g", "nobody", None)),
        encode(EpochRecord("g", None)),
    ):
        assert builder.try_append(world.wall_ms, *record)
    begin = world.core.logs.logs[THERE].log_end_offset
    assert world.put_internal(builder.build(), OFFSETS_TOPIC).error_code == 0
    world.restart()
    assert beat(world, joined.member_epoch).error_code == 0, "who was there goes on"
    named = [one.getMessage() for one in caplog.records if "is passed over" in one.getMessage()]
    assert [int(text.partition("offset ")[2].partition(" ")[0]) - begin for text in named] == [0, 1, 3], named


FIRST_HEARTBEAT = """
import sys
from barnabas.broker.node.groups import AHEAD_MS
from barnabas.protocol.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.requests.find_coordinator import FindCoordinatorRequest
from tests.broker.node.world import World

def loaded():
    return {name for name in sys.modules if name.startswith(("barnabas.broker.group.consumer", "xxhash"))}

world = World(offsets_topic_num_partitions=1)
world.create("t")
assert world.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0].error_code == 0
first = loaded()
world.advance(AHEAD_MS)
ahead = {name for name in sys.modules if name.startswith(("barnabas", "xxhash"))}
request = ConsumerGroupHeartbeatRequest("g", "m", 0, rebalance_timeout_ms=5000)
request.subscribed_topic_names, request.topic_partitions = ["t"], []
assert world.ask(request, 1).error_code == 0
late = {name for name in sys.modules if name.startswith(("barnabas", "xxhash"))} - ahead
print("barnabas.broker.group.consumer.heartbeats" in first, sorted(late))
"""


def test_what_the_first_member_needs_is_there_before_it_comes() -> None:
    """It would wait 40 ms for 25 modules; but the first group of all does not wait for those of another protocol."""
    done = subprocess.run([sys.executable, "-c", FIRST_HEARTBEAT], capture_output=True, text=True, check=True)
    assert done.stdout == "False []\n"
