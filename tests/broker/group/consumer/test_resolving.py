"""What patterns match is found and written in steps, however much it is."""

from __future__ import annotations

import pytest

from barnabas.broker.group.consumer.resolving import BATCH_MS, REST_MS, REST_MS_MAX
from barnabas.broker.group.state import Status
from barnabas.broker.jobs import Gate, Job
from barnabas.protocol.errors import ErrorCode
from tests.broker.group.consumer.world import ConsumerWorld

LONG = "t" * 240


@pytest.fixture
def world() -> ConsumerWorld:
    world = ConsumerWorld()
    for number in range(200):
        world.topics.have(f"{LONG}{number}", 1)
    return world


def test_what_many_patterns_match_is_written_in_several_batches(world: ConsumerWorld) -> None:
    """Each of 30 patterns matches 200 topics of long names: 1.4 MB, and a batch takes one."""
    for number in range(30):
        assert world.beat(f"m{number}", pattern=f"t+[0-9]*|x{number}").error_code == 0
    world.advance(BATCH_MS + 1)
    assert world.beat("m0", world.member("m0").current.epoch).error_code == 0
    group = world.consumers()
    assert len(group.patterns) == 30
    assert group.resolved.keys() == group.patterns.keys()
    assert {len(one.topics) for one in group.resolved.values()} == {201}
    assert group.epoch == 3, "what all of them match is one change"


def test_what_cannot_be_written_is_tried_again_after_a_while(
    world: ConsumerWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """Each heartbeat of each member looked through all topics, and failed."""
    world.beat("a", pattern="t.*")
    assert world.beat("a", 1).member_epoch == 2
    world.advance(BATCH_MS + 1)
    world.topics.have("t-new", 1)
    world.journal.fault = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(3):
        assert world.beat("a", 2).error_code == 0
    assert caplog.text.count("cannot be written yet") == 1
    world.journal.fault = None
    assert "t-new" not in world.consumers().names
    world.advance(BATCH_MS)
    world.beat("a", 2)
    assert "t-new" in world.consumers().names


def test_patterns_are_looked_up_anew_now_and_then() -> None:
    """Though nothing is known to have changed: `group.consumer.regex.refresh.interval.ms`."""
    world = ConsumerWorld(group_consumer_regex_refresh_interval_ms=2 * BATCH_MS)
    world.beat("a", pattern="t.*")
    epoch = world.beat("a", 1).member_epoch
    (first,) = world.consumers().resolved.values()
    for passed_ms in (BATCH_MS + 1, BATCH_MS - 1):
        world.advance(passed_ms)
        world.beat("a", epoch)
        assert world.consumers().resolved["t.*"] == first
    world.advance(BATCH_MS)
    world.beat("a", epoch)
    assert world.consumers().resolved["t.*"].at_ms > first.at_ms + 2 * BATCH_MS


DEAR = "([ab]?){900}c"
"""Two names a step."""


def taken_up(world: ConsumerWorld) -> list[Job[None]]:
    """The jobs that are begun from now on, which the test goes on with."""
    jobs: list[Job[None]] = []
    world.shard.shared.run = lambda job, ended: jobs.append(job)
    return jobs


def test_a_dear_pattern_leaves_the_loop_to_others_between_two_steps(world: ConsumerWorld) -> None:
    """A hundred of them over all topics take hours: sequential clients had a step of 10 ms before every answer."""
    jobs = taken_up(world)
    world.beat("a", pattern=DEAR)
    (job,) = jobs
    assert next(job) is None, "of a pattern that is done in one step nobody has to wait"
    for _ in range(10):
        assert next(job) is None
        gate = next(job)
        assert isinstance(gate, Gate)
        world.advance(REST_MS - 1)
        assert not gate.is_open
        world.advance(1)
        assert gate.is_open


@pytest.mark.parametrize(("spent_ms", "rest_ms"), [(30, 30), (20_000, REST_MS_MAX)])
def test_after_a_long_step_others_have_as_long(world: ConsumerWorld, spent_ms: int, rest_ms: int) -> None:
    jobs = taken_up(world)
    world.beat("a", pattern=DEAR)
    (job,) = jobs
    next(job)
    next(job)
    world.advance(spent_ms)
    gate = next(job)
    assert isinstance(gate, Gate)
    world.advance(rest_ms - 1)
    assert not gate.is_open
    world.advance(1)
    assert gate.is_open


def test_many_groups_rest_as_often_so_that_all_of_them_have_half_of_the_loop(world: ConsumerWorld) -> None:
    jobs = taken_up(world)
    for number in range(10):
        world.beat("a", pattern=DEAR, group=f"group-{number}")
    assert len(jobs) == 10
    *_, gate = (next(jobs[0]) for _ in range(3))
    assert isinstance(gate, Gate)
    world.advance(10 * REST_MS - 1)
    assert not gate.is_open
    world.advance(1)
    assert gate.is_open


def test_nobody_looks_for_what_no_member_has_any_more(world: ConsumerWorld) -> None:
    """Until now it went on for as long as it took, with the group gone and its connection closed."""
    jobs = taken_up(world)
    world.beat("a", pattern=DEAR)
    world.beat("b", pattern="t.*")
    (job,) = jobs
    for _ in range(3):
        next(job)
    world.beat("a", -1)
    assert all(token is None for token in job), "the other pattern takes one step"
    assert world.consumers().resolved.keys() == {"t.*"}


def test_nor_for_what_a_group_wants_that_is_led_elsewhere(world: ConsumerWorld) -> None:
    jobs = taken_up(world)
    world.beat("a", pattern=DEAR)
    (job,) = jobs
    for _ in range(3):
        next(job)
    world.shard.status = Status.FAILED
    assert len(list(job)) <= 1
