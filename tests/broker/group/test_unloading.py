"""A shard is led here no longer: how it is left, step by step."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from barnabas.broker.group import shard, unloading
from barnabas.broker.group.expiry import expire
from barnabas.broker.group.group import Group
from barnabas.broker.group.kinds import AnyGroup
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.unloading import unload
from barnabas.protocol.errors import ErrorCode
from tests.broker.group.consumer.world import ConsumerWorld
from tests.broker.group.world import Told, World

EACH = 5
"""Pieces of a step."""


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unloading, "PIECES_PER_STEP", EACH)


def is_empty(shard: Shard) -> bool:
    """Nothing rings any more, and nothing is held."""
    assert shard.shared.holdings.total == 0
    assert not shard.shared.holdings.by_address
    return not list(shard.shared.alarms.timer.tasks())


@pytest.mark.parametrize("groups", [1, 12])
def test_members_who_wait_are_told_so_many_in_a_step(groups: int) -> None:
    world = World(group_initial_rebalance_delay_ms=3000)
    told = [world.join(group=f"g{number % groups}", version=3) for number in range(12)]
    job = unload(world.shard)
    answered = [0, *(sum(not one.waits for one in told) for _ in job)]
    answered.append(sum(not one.waits for one in told))
    assert max(now - before for before, now in pairwise(answered)) <= EACH
    assert len(answered) > 3
    assert {one.error for one in told} == {ErrorCode.NOT_COORDINATOR}
    assert is_empty(world.shard)


def test_those_who_wait_for_the_log_or_for_others_are_told_as_well() -> None:
    world = ConsumerWorld(barnabas_group_gather_ms=2)
    world.holds_jobs = True
    world.journal.lags = True
    held = [world.join(group=f"g{number}") for number in range(7)]
    gathered = [world.beats(f"m{number}") for number in range(7)]
    first, *rest = list(unload(world.shard)), *held, *gathered
    assert first, "it took one step"
    assert Counter(one.error for one in rest if isinstance(one, Told)) == {ErrorCode.NOT_COORDINATOR: 14}
    assert is_empty(world.shard)


def told_of(group: AnyGroup) -> tuple[object, ...]:
    """What an alarm would change."""
    if isinstance(group, Group):
        return group.state, group.generation, list(group.members), list(group.pending), group.join_alarm
    return group.epoch, list(group.members)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_nothing_that_was_to_ring_does_anything_meanwhile(protocol: str) -> None:
    world = ConsumerWorld(group_initial_rebalance_delay_ms=3000)
    if protocol == "classic":
        for _ in range(EACH + 1):
            world.join(group="first")
        for number in range(3):
            world.stable(3, group=f"g{number}")
            world.join_twice(group=f"g{number}")  # a rebalance that waits for three
        world.join(group="ids that are not used")
        members, _ = world.stable(3, group="unsynced")
        world.until(*(world.join(member, group="unsynced") for member in members))
        world.join(group="in its initial delay", version=3)
    else:
        for name in "abcdefghijkl":
            world.comes(name)
    written, asked, groups = world.journal.batches, list(world.waiting), list(world.shard.groups.values())
    job = unload(world.shard)
    next(job)
    assert not world.shard.groups, "nobody finds them any more"
    before, answers = [told_of(group) for group in groups], [len(one.answers) for one in asked]
    world.advance(3_600_000)
    assert [told_of(group) for group in groups] == before
    assert [len(one.answers) for one in asked] == answers
    assert world.journal.batches == written
    assert list(job)
    assert not any(one.waits for one in asked)
    assert is_empty(world.shard)


def test_offsets_are_given_back_so_many_in_a_step() -> None:
    world = World()
    count = 3 * EACH * unloading.OFFSETS_PER_PIECE
    world.commit(dict.fromkeys(range(count), 7), metadata="m")
    offsets = world.group.offsets
    left = [len(offsets) for _ in unload(world.shard)]
    assert left == [count * 2 // 3, count // 3, unloading.OFFSETS_PER_PIECE]
    assert is_empty(world.shard)


def test_what_was_under_way_writes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a group whose offsets had expired was written, though another may use it anew."""
    monkeypatch.setattr(shard, "TOMBSTONES_MAX", EACH)
    world = World()
    for number in range(EACH):
        world.commit({0: 7}, group=f"g{number}", retention_ms=1_000_000)
    world.commit(dict.fromkeys(range(2 * EACH), 7), retention_ms=1)
    expiring = expire(world.shard, world.wall_ms + 1, world.now_ms)
    next(expiring)
    next(expiring)
    assert not world.group.offsets
    next(unload(world.shard))
    written = world.journal.batches
    list(expiring)
    assert world.journal.batches == written
