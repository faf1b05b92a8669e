"""The published stories of the purgatory, through `core.handle` on real logs, with the watch lists after each step.

Replication factor 4 where the articles have it: broker 1 leads; 2, 3 and 4 follow. Stories with a letter are our own,
and named for what they add (`docs/STORIES.md`). Lists show both purgatories together in the order of arrival; `x`
marks an entry that is completed and not yet purged.
"""

from __future__ import annotations

import pytest

from tests.broker.node.world import part_of
from tests.broker.replica.stage import Stage, codes
from tests.broker.replica.world import P, batch

S = len(batch())
FOLLOWERS = (2, 3, 4)
ALL = (1, *FOLLOWERS)


def test_five_and_five_entries_of_six_operations():
    """One produce over both partitions, a consumer on each, three followers with both (figure 6-57)."""
    stage = Stage([1, 2], ALL)
    stage.produce(P(1), P(2))
    stage.name("DP")
    for number in (1, 2):
        stage.fetch({P(number): 0})
        stage.name(f"C{number}")
    for follower in FOLLOWERS:
        stage.fetch({P(1): 0, P(2): 0}, replica=follower, min_bytes=2 * S + 1)
        stage.name(f"F{follower}")
    assert stage.lists() == "P1:[DP,C1,F2,F3,F4] P2:[DP,C2,F2,F3,F4]"
    shared = stage.manager.shared
    assert shared.produce.num_delayed + shared.fetch.num_delayed == 6
    assert shared.produce.watched + shared.fetch.watched == 10


def test_the_nine_steps(monkeypatch: pytest.MonkeyPatch):
    """One produce, one consumer, three followers; all fetches ask for one batch and a byte."""
    stage = Stage([1, 2], ALL)
    minimum = S + 1

    produced = stage.produce(P(1))  # (1)
    stage.name("DP")
    assert stage.lists() == "P1:[DP]"

    consumer = stage.fetch({P(1): 0}, min_bytes=minimum)  # (2)
    stage.name("F1")
    assert stage.lists() == "P1:[DP,F1]"

    lists = {
        2: "P1:[DP,F1,F2] P2:[F2]",  # (3)
        3: "P1:[DP,F1,F2,F3] P2:[F2,F3]",  # (4)
        4: "P1:[DP,F1,F2,F3,F4] P2:[F2,F3,F4]",  # (5)
    }
    parked = []
    for follower in FOLLOWERS:
        parked.append(stage.fetch({P(1): 0, P(2): 0}, replica=follower, min_bytes=minimum))
        stage.name(f"F{follower}")
        assert stage.lists() == lists[follower]

    tried = stage.tries(monkeypatch)
    for follower in FOLLOWERS:  # (6)
        assert not produced.done
        assert stage.high_watermark(P(1)) == 0
        assert tried == []
        assert codes(stage.fetch({P(1): 1, P(2): 0}, replica=follower, wait_ms=0)) == [0, 0]
    assert stage.high_watermark(P(1)) == 1
    assert codes(produced) == [0]
    assert stage.lists() == "P1:[F1,F2,F3,F4] P2:[F2,F3,F4]"
    assert "F1" in tried  # (7) the rise has tried the consumer's fetch
    assert not consumer.done

    second = stage.produce(P(1), acks=1)  # (8)
    assert codes(second) == [0]
    assert [len(part_of(answer).records) for answer in parked] == [2 * S] * 3
    assert not consumer.done
    assert stage.lists() == "P1:[F1] P2:[F2x,F3x,F4x]"

    for follower in FOLLOWERS:  # (9)
        assert not consumer.done
        stage.fetch({P(1): 2, P(2): 0}, replica=follower, wait_ms=0)
    assert stage.high_watermark(P(1)) == 2
    assert len(part_of(consumer).records) == 2 * S
    assert stage.lists() == "P2:[F2x,F3x,F4x]"
    assert stage.manager.shared.fetch.num_delayed == 0

    stage.manager.shared.fetch.purge()
    assert stage.lists() == ""


HELD = {1: 2, 2: 1, 3: 2}
READERS = {"F2": (1, 2), "F3": (2, 3), "F4": (1, 3)}


def sum_story(*, followers: bool):
    """P1, P2 and P3 hold 2, 1 and 2 batches; three readers of two partitions each wait for five (figure 6-59)."""
    stage = Stage([1, 2, 3], ALL)
    for number, count in HELD.items():
        for _ in range(count):
            stage.produce(P(number), acks=1)
    answers = {}
    for at, (name, numbers) in enumerate(READERS.items()):
        if not at and not followers:
            for follower in FOLLOWERS:  # consumers see what all have
                stage.fetch({P(number): count for number, count in HELD.items()}, replica=follower, wait_ms=0)
        replica = FOLLOWERS[at] if followers else -1
        answers[name] = stage.fetch({P(number): 0 for number in numbers}, replica=replica, min_bytes=5 * S)
        stage.name(name)
    assert stage.lists() == "P1:[F2,F4] P2:[F2,F3] P3:[F3,F4]"
    return stage, answers


def answered(answers) -> list[str]:
    return [name for name, answer in answers.items() if answer.done]


def test_the_sum_over_partitions_of_three_followers_is_up_to_the_log_end():
    stage, answers = sum_story(followers=True)
    stage.produce(P(1), acks=1)  # F2 has four of five, F4 five (figure 6-60)
    assert answered(answers) == ["F4"]
    assert stage.lists() == "P1:[F2] P2:[F2,F3] P3:[F3,F4x]"
    for _ in range(2):  # (figure 6-61)
        stage.produce(P(1), acks=1)
    assert answered(answers) == ["F2", "F4"]
    assert stage.lists() == "P2:[F2x,F3] P3:[F3,F4x]"
    assert [stage.high_watermark(P(number)) for number in HELD] == [0, 0, 0]


def test_the_sum_over_partitions_of_three_consumers_is_up_to_the_high_watermark():
    stage, answers = sum_story(followers=False)
    for batches, expected in ((1, ["F4"]), (2, ["F2", "F4"])):
        for _ in range(batches):
            stage.produce(P(1), acks=1)
        before = answered(answers)
        for follower in FOLLOWERS:
            assert answered(answers) == before  # what is not everywhere does not count
            stage.fetch({P(1): stage.log_end(P(1))}, replica=follower, wait_ms=0)
        assert answered(answers) == expected
    assert stage.lists() == "P2:[F2x,F3] P3:[F3,F4x]"


def test_a_follower_that_fetches_again_says_what_it_has_and_waits_anew():
    stage, answers = sum_story(followers=True)
    stage.produce(P(1), acks=1)
    parts = answers["F4"].response.responses[0].partitions
    assert [len(part.records) for part in parts] == [3 * S, 2 * S]
    again = stage.fetch({P(1): 3, P(3): 2}, replica=4, min_bytes=5 * S)
    stage.name("F4 again")
    assert not again.done
    assert stage.lists() == "P1:[F2,F4 again] P2:[F2,F3] P3:[F3,F4x,F4 again]"
    assert stage.high_watermark(P(1)) == 0  # the two others have not said anything of P1
    for follower in (2, 3):
        stage.fetch({P(1): 3}, replica=follower, wait_ms=0)
    assert stage.high_watermark(P(1)) == 3  # which it has said when it came again


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


def test_story_b_a_fifth_replica_that_is_silent():
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


def test_story_d_both_produces_wait_for_all_and_followers_come_from_the_log_end():
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
