"""The published stories of the purgatory, through `core.handle` on real logs, with the watch lists after each step.

Lists show produce and fetch purgatory together in the order of arrival; `x` marks an entry that is completed and not
yet purged. Story (a) needs no broker: it stands in `tests/broker/delayed/test_purgatory.py`.
"""

from __future__ import annotations

import pytest

from tests.broker.node.world import part_of
from tests.broker.replica.stage import Stage, codes
from tests.broker.replica.world import P, batch

S = len(batch())


def test_story_b_five_and_five_entries():
    """Replication 5, the fifth silent: a produce of two partitions, a consumer on each, three followers with both."""
    stage = Stage([1, 2], (1, 2, 3, 4, 5))
    produced = stage.produce(P(1), P(2))
    stage.name("DP")
    for number in (1, 2):
        stage.fetch({P(number): 0})
        stage.name(f"C{number}")
    for follower in (2, 3, 4):
        stage.caught_up(follower, P(1), P(2))
        stage.name(f"F{follower}")
    assert stage.lists() == "P1:[DP,C1,F2,F3,F4] P2:[DP,C2,F2,F3,F4]"
    shared = stage.manager.shared
    for number in (1, 2):
        assert len(shared.produce.lists()[P(number)]) == 1
        assert len(shared.fetch.lists()[P(number)]) == 4
    assert not produced.done
    assert stage.high_watermark(P(1)) == 0


def story_c():
    stage = Stage([1, 2, 3], (1,))
    held = {1: 2, 2: 1, 3: 2}
    for number, units in held.items():
        for _ in range(units):
            stage.produce(P(number))
    fetches = []
    for name, numbers in (("F1", (1, 2)), ("F2", (2, 3)), ("F3", (1, 3))):
        fetches.append(stage.fetch({P(number): 0 for number in numbers}, min_bytes=5 * S))
        stage.name(name)
    assert stage.lists() == "P1:[F1,F3] P2:[F1,F2] P3:[F2,F3]"
    return stage, fetches


def test_story_c_one_unit_then_two():
    stage, (first, second, third) = story_c()
    stage.produce(P(1))
    assert (first.done, second.done, third.done) == (False, False, True)
    assert stage.lists() == "P1:[F1] P2:[F1,F2] P3:[F2,F3x]"
    stage.produce(P(1))
    stage.produce(P(1))
    assert (first.done, second.done) == (True, False)
    assert stage.lists() == "P2:[F1x,F2] P3:[F2,F3x]"


def test_story_c_three_units_in_one_append():
    stage, (first, second, third) = story_c()
    three = batch(value=b"v" * (3 * S - S + 1 - 2))
    assert len(three) == 3 * S
    stage.produce(P(1), records=three)
    assert (first.done, second.done, third.done) == (True, False, True)
    assert stage.lists() == "P2:[F1x,F2] P3:[F2,F3x]"


def test_story_d_followers_consumer_and_two_produces():
    stage = Stage([1, 2], (1, 2, 3, 4))
    large = batch(value=b"x" * 100)
    minimum = len(large) + 1  # above the first produce, within both

    first = stage.produce(P(1), records=large)
    stage.name("DP")
    assert stage.lists() == "P1:[DP]"

    consumer = stage.fetch({P(1): 0}, min_bytes=minimum)
    stage.name("F1")
    assert stage.lists() == "P1:[DP,F1]"

    stage.caught_up(2, P(1), P(2))
    stage.name("F2")
    stage.caught_up(3, P(1), P(2))
    stage.name("F3")
    assert stage.high_watermark(P(1)) == 0
    assert stage.lists() == "P1:[DP,F1,F2,F3] P2:[F2,F3]"

    stage.caught_up(4, P(1), P(2))
    stage.name("F4")
    assert stage.high_watermark(P(1)) == 1
    assert codes(first) == [0]
    assert not consumer.done
    assert stage.lists() == "P1:[F1,F2,F3,F4] P2:[F2,F3,F4]"

    second = stage.produce(P(1), records=large)
    stage.name("DP2")
    assert stage.lists() == "P1:[F1,DP2] P2:[F2x,F3x,F4x]"

    stage.caught_up(2, P(1), P(2))
    stage.name("F5")
    stage.caught_up(3, P(1), P(2))
    stage.name("F6")
    assert stage.lists() == "P1:[F1,DP2,F5,F6] P2:[F2x,F3x,F4x,F5,F6]"
    assert not consumer.done
    assert not second.done

    stage.caught_up(4, P(1), P(2))
    stage.name("F7")
    assert codes(consumer) == [0]
    assert len(part_of(consumer).records) == 2 * len(large)
    assert codes(second) == [0]
    assert stage.lists() == "P1:[F5,F6,F7] P2:[F2x,F3x,F4x,F5,F6,F7]"

    stage.manager.shared.fetch.purge()
    assert stage.lists() == "P1:[F5,F6,F7] P2:[F5,F6,F7]"


@pytest.mark.parametrize("late_partition", [1, 2])
def test_story_e_a_fetch_sums_up_but_a_produce_needs_every_partition(late_partition):
    early_partition = 3 - late_partition
    stage = Stage([1, 2], (1, 2))
    produced = stage.produce(P(1), P(2))
    consumer = stage.fetch({P(1): 0, P(2): 0}, min_bytes=S)
    both = stage.fetch({P(1): 0, P(2): 0}, min_bytes=2 * S)

    stage.caught_up(2, P(early_partition))
    assert consumer.done  # one partition brought the minimum
    assert not both.done
    assert not produced.done  # one partition is not replicated yet

    stage.caught_up(2, P(late_partition))
    assert both.done
    assert codes(produced) == [0, 0]
