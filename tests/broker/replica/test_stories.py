"""The published stories of the purgatory, on real logs, with the watch lists after each step.

Lists show produce and fetch purgatory together in the order of arrival; `x` marks an entry that is completed and not
yet purged. Story (a) needs no broker: it stands in `tests/broker/delayed/test_purgatory.py`.
"""

from __future__ import annotations

import pytest

from tests.broker.replica.world import P, World, batch

S = len(batch())


def world_with(partitions: list[int], replicas: tuple[int, ...]) -> World:
    world = World()
    for number in partitions:
        world.host(P(number), replicas=replicas)
    return world


def test_story_b_five_and_five_entries():
    """Replication 5, the fifth silent: a produce of two partitions, a consumer on each, three followers with both."""
    world = world_with([1, 2], (1, 2, 3, 4, 5))
    produced = world.produce(P(1), P(2))
    world.name("DP")
    for number in (1, 2):
        world.fetch({P(number): 0})
        world.name(f"C{number}")
    for follower in (2, 3, 4):
        world.caught_up(follower, P(1), P(2))
        world.name(f"F{follower}")
    assert world.lists() == "P1:[DP,C1,F2,F3,F4] P2:[DP,C2,F2,F3,F4]"
    shared = world.manager.shared
    for number in (1, 2):
        assert len(shared.produce.lists()[P(number)]) == 1
        assert len(shared.fetch.lists()[P(number)]) == 4
    assert not produced.there
    assert world.high_watermark(P(1)) == 0


def story_c():
    world = world_with([1, 2, 3], (1,))
    held = {1: 2, 2: 1, 3: 2}
    for number, units in held.items():
        for _ in range(units):
            world.produce(P(number))
    fetches = []
    for name, numbers in (("F1", (1, 2)), ("F2", (2, 3)), ("F3", (1, 3))):
        fetches.append(world.fetch({P(number): 0 for number in numbers}, min_bytes=5 * S))
        world.name(name)
    assert world.lists() == "P1:[F1,F3] P2:[F1,F2] P3:[F2,F3]"
    return world, fetches


def test_story_c_one_unit_then_two():
    world, (first, second, third) = story_c()
    world.produce(P(1))
    assert (first.there, second.there, third.there) == (False, False, True)
    assert world.lists() == "P1:[F1] P2:[F1,F2] P3:[F2,F3x]"
    world.produce(P(1))
    world.produce(P(1))
    assert (first.there, second.there) == (True, False)
    assert world.lists() == "P2:[F1x,F2] P3:[F2,F3x]"


def test_story_c_three_units_in_one_append():
    world, (first, second, third) = story_c()
    three = batch(value=b"v" * (3 * S - S + 1 - 2))
    assert len(three) == 3 * S
    world.produce(P(1), records=three)
    assert (first.there, second.there, third.there) == (True, False, True)
    assert world.lists() == "P2:[F1x,F2] P3:[F2,F3x]"


def test_story_d_followers_consumer_and_two_produces():
    world = world_with([1, 2], (1, 2, 3, 4))
    large = batch(value=b"x" * 100)
    minimum = len(large) + 1  # above the first produce, within both

    first = world.produce(P(1), records=large)
    world.name("DP")
    assert world.lists() == "P1:[DP]"

    consumer = world.fetch({P(1): 0}, min_bytes=minimum)
    world.name("F1")
    assert world.lists() == "P1:[DP,F1]"

    world.caught_up(2, P(1), P(2))
    world.name("F2")
    world.caught_up(3, P(1), P(2))
    world.name("F3")
    assert world.high_watermark(P(1)) == 0
    assert world.lists() == "P1:[DP,F1,F2,F3] P2:[F2,F3]"

    world.caught_up(4, P(1), P(2))
    world.name("F4")
    assert world.high_watermark(P(1)) == 1
    assert first.codes == [0]
    assert not consumer.there
    assert world.lists() == "P1:[F1,F2,F3,F4] P2:[F2,F3,F4]"

    second = world.produce(P(1), records=large)
    world.name("DP2")
    assert world.lists() == "P1:[F1,DP2] P2:[F2x,F3x,F4x]"

    world.caught_up(2, P(1), P(2))
    world.name("F5")
    world.caught_up(3, P(1), P(2))
    world.name("F6")
    assert world.lists() == "P1:[F1,DP2,F5,F6] P2:[F2x,F3x,F4x,F5,F6]"
    assert not consumer.there
    assert not second.there

    world.caught_up(4, P(1), P(2))
    world.name("F7")
    assert consumer.codes == [0]
    assert len(consumer.one.records) == 2 * len(large)
    assert second.codes == [0]
    assert world.lists() == "P1:[F5,F6,F7] P2:[F2x,F3x,F4x,F5,F6,F7]"

    world.manager.shared.fetch.purge()
    assert world.lists() == "P1:[F5,F6,F7] P2:[F5,F6,F7]"


@pytest.mark.parametrize("late_partition", [1, 2])
def test_story_e_a_fetch_sums_up_but_a_produce_needs_every_partition(late_partition):
    early_partition = 3 - late_partition
    world = world_with([1, 2], (1, 2))
    produced = world.produce(P(1), P(2))
    consumer = world.fetch({P(1): 0, P(2): 0}, min_bytes=S)
    both = world.fetch({P(1): 0, P(2): 0}, min_bytes=2 * S)

    world.caught_up(2, P(early_partition))
    assert consumer.there  # one partition brought the minimum
    assert not both.there
    assert not produced.there  # one partition is not replicated yet

    world.caught_up(2, P(late_partition))
    assert both.there
    assert produced.codes == [0, 0]
