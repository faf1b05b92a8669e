"""How a shard's log is read: how far, and what is told of records that nobody can read."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.group.consumer.values import MemberState
from barnabas.broker.group.loading import NAMED_MAX, Loader
from barnabas.broker.group.state import GroupState
from barnabas.protocol.errors import ErrorCode
from tests.broker.group.consumer.world import ConsumerWorld
from tests.broker.group.world import World
from tests.broker.log import harness

BATCHES = 20


def written(tmp_path: Path, *values: bytes) -> tuple[harness.World, Loader]:
    """A loader of a log with batches of such records, of which none is a group's."""
    disk = harness.World("memory", tmp_path)
    log = disk.new_log()
    for _ in range(BATCHES):
        harness.append(log, *values)
    return disk, Loader(World().shard, log)


def test_who_leads_no_longer_reads_no_further(tmp_path: Path) -> None:
    """Leaders that changed to and fro left as many jobs, each of which read all."""
    _, loader = written(tmp_path, bytes(40_000))
    job = loader.run()
    for _ in range(3):
        next(job)
    loader.cancelled = True
    assert not list(job)


def test_a_cancelled_one_gives_back_its_turn_to_unpack(tmp_path: Path) -> None:
    disk = harness.World("late", tmp_path)
    log = disk.new_log()
    harness.append(log, bytes(2_000_000), codec=4)
    loader = Loader(World().shard, log)
    job = loader.run()
    while not log.apart._taken:
        if next(job) is not None:
            disk.deliver()
    loader.cancelled = True
    disk.settle()
    assert not list(job)
    assert not log.apart._taken


@pytest.mark.parametrize(("each", "told"), [(5, 5 * BATCHES), (6, NAMED_MAX + 1)])
def test_of_records_that_nobody_can_read_some_are_named(
    tmp_path: Path, each: int, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk, loader = written(tmp_path, *[b"v"] * each)
    disk.run(loader.run())
    lines = [one.getMessage() for one in caplog.records]
    assert len(lines) == told
    assert ("120 records in all are passed over" in lines[-1]) is (each == 6)


def test_after_a_load_every_member_has_a_whole_session_to_be_heard_of() -> None:
    world = World()
    (leader, follower), generation = world.stable(2, session_ms=10_000)
    world.advance(9_000)
    world.restart()
    world.advance(9_999)
    assert set(world.group.members) == {leader, follower}
    assert world.heartbeat(leader, generation) == ErrorCode.NONE
    world.advance(1)
    assert set(world.group.members) == {leader}


def test_so_has_one_of_the_consumer_protocol() -> None:
    world = ConsumerWorld()
    world.comes("a")
    world.comes("b")
    world.advance(44_000)
    world.restart()
    world.advance(44_999)
    world.beat("b", world.member("b").current.epoch)
    assert set(world.consumers().members) == {"a", "b"}
    world.advance(1)
    assert set(world.consumers().members) == {"b"}


def test_and_its_whole_time_to_give_up_what_goes_to_others() -> None:
    world = ConsumerWorld()
    world.comes("a", rebalance_ms=20_000)
    world.comes("b")
    world.beat("a", world.member("a").current.epoch)
    assert world.member("a").current.state is MemberState.UNREVOKED_PARTITIONS
    world.advance(19_000)
    world.restart()
    world.advance(19_999)
    assert set(world.consumers().members) == {"a", "b"}
    world.advance(1)
    assert set(world.consumers().members) == {"b"}


def test_a_group_that_is_larger_than_one_may_be_now_has_all_join_again() -> None:
    world = World(group_max_size=3)
    world.stable(3)
    states: list[GroupState] = []
    for size in (3, 2):
        world.config.group_max_size = size
        world.restart()
        states.append(world.state)
    assert states == [GroupState.STABLE, GroupState.PREPARING]
