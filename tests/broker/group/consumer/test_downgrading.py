"""A large group whose last member of the consumer protocol goes becomes a classic one in steps."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.group.consumer import downgrading, embedded
from barnabas.broker.group.group import Group
from barnabas.broker.group.state import Status
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode
from tests.broker.group.consumer.test_converting import MEMBERS, comes
from tests.broker.group.consumer.test_converting import world as classic_world  # noqa: F401
from tests.broker.group.consumer.world import ConsumerWorld


@pytest.fixture
def world(classic_world: ConsumerWorld) -> ConsumerWorld:  # noqa: F811
    """250 classic members in a group of the consumer protocol, whose one member of that protocol has just left."""
    world = classic_world
    comes(world, "new")
    world.end_jobs()
    told = world.classic("m0", {"t": [0]}).response
    assert (told.error_code, told.generation_id) == (0, 8), "the others are a step behind"
    assert world.beats("new", -1).response.error_code == 0
    assert world.consumers().classics == len(world.consumers().members) == MEMBERS
    return world


def test_it_takes_steps_of_a_few_members_each(world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """990 members were one step of 38 ms."""
    done = 0
    assign = embedded.assignment_for

    def counted(*given: Any) -> bytes:
        nonlocal done
        done += 1
        return assign(*given)

    monkeypatch.setattr(downgrading, "assignment_for", counted)
    most = 0
    while world.jobs:
        before = done
        world.step_job()
        most = max(most, done - before)
    assert done == MEMBERS
    assert most < MEMBERS
    assert len(world.group.members) == MEMBERS


def test_it_is_written_as_one_batch_and_all_join_again(world: ConsumerWorld) -> None:
    batches = world.journal.batches
    world.end_jobs()
    assert world.journal.batches == batches + 1
    assert (world.group.state.value, world.group.generation) == ("PreparingRebalance", 8)
    assert world.heartbeat("m0", 8) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat("m1", 7) == ErrorCode.ILLEGAL_GENERATION, "as in Apache Kafka: the newcomer had raised it"
    assert {key.partition: one.offset for key, one in world.group.offsets.items()} == {3: 5}
    held = world.shard.shared.holdings.total
    world.restart()
    assert world.group.generation == 8
    assert world.shard.shared.holdings.total == held


def test_meanwhile_nobody_joins_or_syncs_and_all_are_alive(world: ConsumerWorld) -> None:
    world.step_job()
    assert world.heartbeat("m0", 8) == 0
    assert world.classic("m0").error == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.classic().error == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.sync("m0", 8).error == ErrorCode.REBALANCE_IN_PROGRESS
    world.commit({3: 6}, member_id="m3", generation=7)
    world.end_jobs()
    assert [one.offset for one in world.group.offsets.values()] == [6]
    assert world.classic("m0").waits, "for the others"


def test_who_leaves_meanwhile_is_not_in_it(world: ConsumerWorld) -> None:
    world.step_job()
    world.leave("m7", "m8")
    world.end_jobs()
    assert len(world.group.members) == MEMBERS - 2
    assert not {"m7", "m8"} & world.group.members.keys()


def test_members_that_go_all_the_time_do_not_keep_it_from_its_end(world: ConsumerWorld) -> None:
    leaving = iter(range(100, 200))
    while not isinstance(world.shard.groups["g"], Group):
        world.step_job()
        if not isinstance(world.shard.groups["g"], Group):
            world.leave(f"m{next(leaving)}")
    world.end_jobs()
    assert len(world.group.members) > MEMBERS - 100
    world.advance(300_000)
    assert not world.group.members, "each has a session"


def test_a_newcomer_of_the_consumer_protocol_has_it_stay(world: ConsumerWorld) -> None:
    world.step_job()
    assert world.beats("other").response.error_code == 0
    world.end_jobs()
    assert "other" in world.consumers().members
    assert world.classic("m0").error == 0, "nothing is held back any more"
    assert world.beats("other", -1).response.error_code == 0
    world.end_jobs()
    assert len(world.group.members) == MEMBERS


@pytest.mark.parametrize("fault", [ErrorCode.KAFKA_STORAGE_ERROR, None])
def test_where_it_comes_to_nothing_the_group_goes_on(
    world: ConsumerWorld, fault: ErrorCode | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Job[Any]:
        yield None
        raise RuntimeError("as the test wants it")

    if fault is None:
        monkeypatch.setattr(downgrading, "_prepare", broken)
    else:
        world.journal.fault = fault
    world.end_jobs()
    world.journal.fault = None
    monkeypatch.undo()
    assert not world.consumers().downgrading
    world.leave("m5")
    world.end_jobs()
    assert len(world.group.members) == MEMBERS - 1


def test_where_it_is_led_elsewhere_meanwhile_nothing_is_written(world: ConsumerWorld) -> None:
    world.step_job()
    world.shard.status = Status.FAILED
    batches = world.journal.batches
    world.end_jobs()
    assert world.journal.batches == batches


def test_who_loads_the_group_goes_on(world: ConsumerWorld) -> None:
    world.step_job()
    world.restart()
    world.end_jobs()
    assert len(world.group.members) == MEMBERS
    assert world.group.state.value == "PreparingRebalance"
