"""What a fetch of many partitions leaves behind once it is over: nothing, and that in slices."""

from __future__ import annotations

import pytest

from barnabas.broker.node.jobs import JobQueue
from barnabas.broker.replica import fetch, wide_fetch
from barnabas.broker.replica.wide_fetch import WideFetch
from tests.broker.node.test_waiting_fetches import waiting
from tests.broker.node.world import World, batch


def test_a_fetch_of_many_partitions_that_is_over_leaves_nothing() -> None:
    """It stayed in the lists of all of them, with all that it remembered, until a thousand others were over, too."""
    world = World()
    world.create("t", 50)
    asked = {("t", number): 0 for number in range(50)}
    for way in ("expires", "is answered"):
        answer = world.fetch(asked, wait_ms=700, min_bytes=1)
        assert waiting(world) == (1, 50)
        if way == "expires":
            world.advance(700)
        else:
            world.put(batch(b"v"), partition=9)
        assert answer.done
        assert waiting(world) == (0, 0), way
        assert not world.core.replicas.shared.fetch.finished


def test_a_fetch_of_many_partitions_that_is_over_lets_go_of_them_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step in which the last of it went took 52 ms, of twelve fetches of 4,900 partitions."""
    monkeypatch.setattr(wide_fetch, "LEFT_AT_ONCE_MAX", 20)
    world = World()
    world.create("t", 50)
    world.fetch({("t", number): 0 for number in range(50)}, wait_ms=700)
    (fetch_,) = (one for one in world.core.replicas.shared.fetch.timer.tasks() if isinstance(one, WideFetch))
    left = []
    usual = JobQueue.step

    def step(self: JobQueue) -> bool:
        before = waiting(world)[1], len(fetch_._asked)
        more = usual(self)
        left.append((before[0] - waiting(world)[1], before[1] - len(fetch_._asked)))
        return more

    monkeypatch.setattr(JobQueue, "step", step)
    world.advance(700)
    assert waiting(world) == (0, 0)
    assert [one for one in left if any(one)] == [(20, 20), (20, 20), (10, 10)]


def test_a_fetch_that_is_parked_in_steps_behind_many_that_are_over_ends_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A purge between two steps counted it as over: nobody was told when it is due, and 700 ms became five seconds."""
    monkeypatch.setattr(fetch, "PARTITIONS_AT_ONCE_MAX", 20)
    world = World(fetch_purgatory_purge_interval_requests=2)
    world.create("t", 60)
    over = [world.fetch({("t", 0): 0, ("t", number): 0}, wait_ms=60_000) for number in (1, 2)]
    world.put(batch(b"a"))
    assert all(one.done for one in over)
    wide = world.fetch({("t", number): int(not number) for number in range(60)}, wait_ms=700)
    world.advance(699)
    assert not wide.done
    world.advance(1)
    assert wide.done
