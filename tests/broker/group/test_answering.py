"""The many answers at the end of a rebalance leave in steps, the leader's first, and all of them leave."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.broker.group import answering
from barnabas.broker.group.state import Status
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode
from tests.broker.group.world import Told, World

MEMBERS = 8
PER_STEP = 3


class InSteps(World):
    """A stable group, whose jobs are taken a step at a time from now on."""

    def __init__(self) -> None:
        super().__init__()
        self.ids, self.generation = self.stable(MEMBERS)
        self.jobs: list[Job[None]] = []

        def run(job: Job[None], ended: Callable[[Exception | None], None]) -> None:
            self.jobs.append(job)

        self.shard.shared.run = run

    def join_all(self) -> dict[str, Told]:
        """Everybody joins again, the leader first: the last one ends the join phase."""
        return {one: self.join(one) for one in self.ids}

    def sync_all(self) -> dict[str, Told]:
        """Everybody asks for its share, the leader last."""
        told = {one: self.sync(one, self.generation + 1) for one in self.ids[1:]}
        shares = {one: one.encode() for one in self.ids}
        return {**told, self.ids[0]: self.sync(self.ids[0], self.generation + 1, shares)}

    def step(self) -> bool:
        """One step of the job; False when it has ended."""
        (job,) = self.jobs
        return next(job, self) is None


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> InSteps:
    monkeypatch.setattr(answering, "ANSWERS_PER_STEP", PER_STEP)
    return InSteps()


def waiting(told: dict[str, Told]) -> int:
    return sum(one.waits for one in told.values())


def test_a_generation_is_told_in_steps_to_its_leader_first(world: InSteps) -> None:
    told = world.join_all()
    assert waiting(told) == MEMBERS - PER_STEP
    leader = world.group.leader
    assert leader is not None
    assert len(told[leader].response.members) == MEMBERS
    assert world.step()
    assert waiting(told) == MEMBERS - 2 * PER_STEP
    while world.step():
        pass
    assert {one.response.generation_id for one in told.values()} == {world.generation + 1}


def test_shares_are_told_in_steps_as_they_were_when_they_were_written(world: InSteps) -> None:
    world.join_all()
    while world.step():
        pass
    world.jobs.clear()
    told = world.sync_all()
    assert waiting(told) == MEMBERS - PER_STEP
    last = next(one for one, each in told.items() if each.waits)
    world.leave(last)
    assert told[last].waits, "its answer is on its way"
    while world.step():
        pass
    assert {one: each.response.assignment for one, each in told.items()} == {one: one.encode() for one in world.ids}


def test_who_was_not_told_before_leadership_went_asks_another(world: InSteps) -> None:
    told = world.join_all()
    world.shard.status = Status.FAILED
    while world.step():
        pass
    codes = [one.error for one in told.values()]
    assert (codes.count(ErrorCode.NONE), codes.count(ErrorCode.NOT_COORDINATOR)) == (PER_STEP, MEMBERS - PER_STEP)


def test_what_a_step_takes_needs_no_other(world: InSteps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "ANSWERS_PER_STEP", MEMBERS)
    assert waiting(world.join_all()) == 0
    assert world.jobs == []
