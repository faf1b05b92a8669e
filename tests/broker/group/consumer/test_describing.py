"""A group of the consumer protocol is told in steps, by what its members name and not by their number alone."""

from __future__ import annotations

import pytest

from barnabas.broker.group.consumer.describing import ELEMENTS_PER_STEP, NAMES_OF_ELEMENT, Told, describe_consumer
from barnabas.broker.jobs import Job, at_once
from tests.broker.group.consumer.world import ConsumerWorld

MEMBERS = 24


def grouped(names: int) -> ConsumerWorld:
    """A group whose members all name the same topics, one of which is there."""
    world = ConsumerWorld()
    topics = ["t", *(f"none-{number}" for number in range(names - 1))]
    for number in range(MEMBERS):
        assert not world.beat(f"m{number}", topics=topics).error_code
    return world


def steps_of(job: Job[Told]) -> tuple[int, Told]:
    steps = 1
    while True:
        try:
            assert next(job) is None
        except StopIteration as end:
            return steps, end.value
        steps += 1


def test_a_group_that_names_little_is_told_in_one_step() -> None:
    steps, told = steps_of(describe_consumer(grouped(1).shard, "g"))
    assert (steps, len(told.group.members)) == (1, MEMBERS)
    assert told.elements <= ELEMENTS_PER_STEP


@pytest.mark.parametrize("names", [400, 1600])
def test_one_that_names_much_takes_steps_by_what_it_names(names: int) -> None:
    steps, told = steps_of(describe_consumer(grouped(names).shard, "g"))
    named = sum(len(one.subscribed_topic_names) for one in told.group.members)
    assert named == MEMBERS * names
    assert told.elements >= named // NAMES_OF_ELEMENT
    assert steps >= told.elements // (ELEMENTS_PER_STEP + names // NAMES_OF_ELEMENT + 1)
    assert steps > 2


def test_who_leaves_between_two_steps_is_told_as_it_was() -> None:
    world = grouped(400)
    there = at_once(describe_consumer(world.shard, "g"))
    job = describe_consumer(world.shard, "g")
    next(job)
    world.beat(f"m{MEMBERS - 1}", -1)
    assert steps_of(job)[1] == there
