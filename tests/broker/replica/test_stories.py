"""The published stories of the purgatory, through `core.handle` on real logs, with the watch lists after each step.

Lists show produce and fetch purgatory together in the order of arrival; `x` marks an entry that is completed and not
yet purged.
"""

from __future__ import annotations

import pytest

from tests.broker.node.world import part_of
from tests.broker.replica.stage import Stage, codes
from tests.broker.replica.world import P, batch

S = len(batch())


def test_story_a_two_operations_over_seven_partitions():
    """Over {P1..P5} and {P1,P3,P5,P6,P7}: completing one and purging leaves exactly the other's keys."""
    stage = Stage([1, 2, 3, 4, 5, 6, 7], (1,))
    first = stage.fetch({P(number): 0 for number in (1, 2, 3, 4, 5)})
    stage.name("A")
    assert stage.lists() == "P1:[A] P2:[A] P3:[A] P4:[A] P5:[A]"
    second = stage.fetch({P(number): 0 for number in (1, 3, 5, 6, 7)})
    stage.name("B")
    assert stage.lists() == "P1:[A,B] P2:[A] P3:[A,B] P4:[A] P5:[A,B] P6:[B] P7:[B]"
    shared = stage.manager.shared
    assert (shared.fetch.watched, shared.fetch.num_delayed) == (10, 2)

    stage.produce(P(2))
    assert (first.done, second.done) == (True, False)
    assert stage.lists() == "P1:[Ax,B] P3:[Ax,B] P4:[Ax] P5:[Ax,B] P6:[B] P7:[B]"
    assert (shared.fetch.watched, shared.fetch.num_delayed) == (9, 1)

    shared.fetch.purge()
    assert stage.lists() == "P1:[B] P3:[B] P5:[B] P6:[B] P7:[B]"
    assert (shared.fetch.watched, shared.fetch.num_delayed) == (5, 1)

    stage.produce(P(7))
    assert codes(second) == [0, 0, 0, 0, 0]
    assert stage.lists() == "P1:[Bx] P3:[Bx] P5:[Bx] P6:[Bx]"


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
    early, late = f"P{early_partition}", f"P{late_partition}"

    def lists(of_early: str, of_late: str) -> str:
        shown = {early: of_early, late: of_late}
        return " ".join(f"{name}:[{shown[name]}]" for name in ("P1", "P2") if shown[name])

    produced = stage.produce(P(1), P(2))
    stage.name("DP")
    one = stage.fetch({P(1): 0, P(2): 0}, min_bytes=S)
    stage.name("F1")
    both = stage.fetch({P(1): 0, P(2): 0}, min_bytes=2 * S)
    stage.name("F2")
    assert stage.lists() == lists("DP,F1,F2", "DP,F1,F2")

    stage.caught_up(2, P(early_partition))
    stage.name("R1")
    assert one.done  # one partition brought the minimum
    assert not both.done
    assert not produced.done  # one partition is not replicated yet
    assert stage.lists() == lists("DP,F2,R1", "DP,F1x,F2")

    stage.caught_up(2, P(late_partition))
    stage.name("R2")
    assert codes(both) == [0, 0]  # the sum over both partitions
    assert codes(produced) == [0, 0]
    assert stage.lists() == lists("DPx,F2x,R1", "R2")
