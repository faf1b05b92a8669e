"""The contract of operation and purgatory, sentence by sentence."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any

import pytest

from barnabas.broker.delayed import MANY_KEYS, DelayedOperation, Purgatory, Timer
from barnabas.broker.metrics import MetricsRegistry


class Op(DelayedOperation):
    """Completes when `ready`; records what was called, in order."""

    def __init__(self, name="op", timeout_ms=1000, *, ready=False, on_try=None, on_done=None):
        super().__init__(timeout_ms)
        self.name = name
        self.ready = ready
        self.calls = []
        self.times_ms = []  # as `try_complete` and `on_complete` were told them
        self.on_try = on_try
        self.on_done = on_done

    def try_complete(self, now_ms):
        self.calls.append("try")
        self.times_ms.append(now_ms)
        if self.on_try is not None:
            self.on_try(self)
        return self.ready and self.force_complete(now_ms)

    def on_complete(self, now_ms):
        self.calls.append("complete")
        self.times_ms.append(now_ms)
        if self.on_done is not None:
            self.on_done(self)

    def on_expiration(self):
        self.calls.append("expire")


@pytest.fixture
def purgatory():
    return Purgatory("Test", Timer(0), purge_interval=1000)


def names(purgatory):
    return {key: [op.name for op in ops] for key, ops in purgatory.lists().items()}


# The operation


def test_force_complete_works_exactly_once():
    op = Op()
    assert op.force_complete(0) is True
    assert op.force_complete(0) is False
    assert op.calls == ["complete"]


def test_the_flag_is_set_before_on_complete_so_it_may_re_enter():
    again = []
    op = Op(on_done=lambda op: again.append((op.completed, op.force_complete(0))))
    assert op.force_complete(0) is True
    assert again == [(True, False)]


def test_on_complete_runs_once_even_when_it_raises():
    def fail(op):
        raise ValueError("broken")

    op = Op(on_done=fail)
    with pytest.raises(ValueError, match="broken"):
        op.force_complete(0)
    assert op.completed
    assert op.force_complete(0) is False
    assert op.calls == ["complete"]


def test_expiry_asks_no_condition_and_completes_before_it_expires(purgatory):
    op = Op()
    purgatory.try_complete_else_watch(op, ["k"], 0)
    op.ready = True  # true, but nobody checked again
    op.calls.clear()
    purgatory.advance(1000)
    assert op.calls == ["complete", "expire"]


def test_a_timer_that_fires_after_completion_does_nothing(purgatory):
    op = Op(timeout_ms=5)
    purgatory.try_complete_else_watch(op, ["k"], 0)
    purgatory.timer.advance(5)  # in the run queue now
    op.force_complete(0)
    purgatory.run_due(5)
    assert op.calls.count("complete") == 1
    assert "expire" not in op.calls


def test_completion_cancels_the_timer(purgatory):
    op = Op()
    purgatory.try_complete_else_watch(op, ["k"], 0)
    assert purgatory.num_delayed == 1
    op.force_complete(0)
    assert purgatory.num_delayed == 0


def test_condition_and_answer_are_told_the_time_of_what_happened(purgatory):
    op, late = Op(), Op(timeout_ms=50)
    purgatory.try_complete_else_watch(op, ["k"], 5)
    purgatory.try_complete_else_watch(late, ["k"], 5)
    purgatory.check_and_complete("k", 20)
    op.ready = True
    purgatory.check_and_complete("k", 30)
    purgatory.advance(60)
    assert op.times_ms == [5, 5, 20, 30, 30]
    assert late.times_ms == [5, 5, 20, 30, 60]


# Parking


def test_what_is_ready_is_never_watched_nor_timed(purgatory):
    op = Op(ready=True)
    assert purgatory.try_complete_else_watch(op, ["a", "b"], 0) is True
    assert (purgatory.watched, purgatory.num_delayed, purgatory.estimated_total) == (0, 0, 0)
    assert op.calls == ["try", "complete"]


def test_what_is_not_ready_is_tried_twice_watched_under_every_key_and_timed(purgatory):
    op = Op()
    assert purgatory.try_complete_else_watch(op, ["a", "b", "c"], 0) is False
    assert op.calls == ["try", "try"]
    assert (purgatory.watched, purgatory.num_delayed, purgatory.estimated_total) == (3, 1, 1)
    assert op.deadline_ms == 1000


def test_no_keys_is_a_defect(purgatory):
    with pytest.raises(AssertionError):
        purgatory.try_complete_else_watch(Op(), [], 0)


def test_the_second_check_closes_the_window_between_test_and_watch(purgatory):
    """The condition becomes true while it is tested first: no event will come any more."""

    def becomes_ready(op):
        op.ready = len(op.calls) > 1

    op = Op(on_try=becomes_ready)
    assert purgatory.try_complete_else_watch(op, ["a", "b"], 0) is True
    assert purgatory.num_delayed == 0
    assert purgatory.watched == 2  # stale references stay until they are swept
    assert purgatory.check_and_complete("a", 0) == 0
    assert names(purgatory) == {"b": ["op"]}


def test_an_operation_completed_by_another_during_its_first_test_is_not_timed(purgatory):
    op = Op(on_try=lambda op: op.calls.count("try") == 2 and op.force_complete(0))
    assert purgatory.try_complete_else_watch(op, ["a"], 0) is False
    assert op.completed
    assert purgatory.num_delayed == 0


@pytest.mark.parametrize("now_ms", [0, 7])
def test_a_timeout_of_zero_expires_at_the_very_next_look_never_inside(purgatory, now_ms):
    op = Op(timeout_ms=0)
    assert purgatory.try_complete_else_watch(op, ["a"], now_ms) is False
    assert not op.completed
    assert purgatory.next_deadline_ms() <= now_ms
    purgatory.advance(now_ms)
    assert op.calls[-2:] == ["complete", "expire"]


# Events


def test_an_event_tries_only_its_keys_list_in_order_of_arrival(purgatory):
    order = []
    ops = [Op(name, on_try=lambda op: order.append(op.name)) for name in "abc"]
    for op, key in zip(ops, ("k1", "k2", "k1"), strict=True):
        purgatory.try_complete_else_watch(op, [key], 0)
    order.clear()
    assert purgatory.check_and_complete("k1", 0) == 0
    assert order == ["a", "c"]
    assert purgatory.check_and_complete("nobody", 0) == 0


def test_an_event_counts_what_this_call_completed_and_drops_what_is_completed(purgatory):
    a, b, c = Op("a"), Op("b"), Op("c")
    for op in (a, b, c):
        purgatory.try_complete_else_watch(op, ["k1", "k2"], 0)
    a.force_complete(0)
    b.ready = True
    assert purgatory.check_and_complete("k1", 0) == 1
    assert names(purgatory) == {"k1": ["c"], "k2": ["a", "b", "c"]}
    assert a.calls.count("complete") == b.calls.count("complete") == 1


def test_a_key_without_watchers_goes(purgatory):
    op = Op()
    purgatory.try_complete_else_watch(op, ["k1", "k2"], 0)
    op.ready = True
    assert purgatory.check_and_complete("k1", 0) == 1
    assert names(purgatory) == {"k2": ["op"]}
    assert purgatory.check_and_complete("k2", 0) == 0
    assert names(purgatory) == {}


def test_one_that_raises_holds_up_nobody_and_stays_until_its_timeout(purgatory, caplog):
    def fail(op):
        if len(op.calls) > 2:
            raise ValueError("broken")

    bad, good = Op("bad", on_try=fail), Op("good")
    purgatory.try_complete_else_watch(bad, ["k"], 0)
    purgatory.try_complete_else_watch(good, ["k"], 0)
    good.ready = True
    with caplog.at_level(logging.CRITICAL + 1):
        assert purgatory.check_and_complete("k", 0) == 1
    assert names(purgatory) == {"k": ["bad"]}
    purgatory.advance(1000)
    assert bad.calls[-2:] == ["complete", "expire"]


def test_one_whose_answer_raises_is_completed_and_dropped(purgatory, caplog):
    def fail(op):
        raise ValueError("broken")

    bad, good = Op("bad", on_done=fail), Op("good")
    for op in (bad, good):
        purgatory.try_complete_else_watch(op, ["k"], 0)
        op.ready = True
    with caplog.at_level(logging.CRITICAL + 1):
        assert purgatory.check_and_complete("k", 0) == 1
    assert good.completed
    assert names(purgatory) == {}


# Re-entrancy


def test_completing_may_park_another_on_the_same_key(purgatory):
    late = Op("late")
    op = Op("op", on_done=lambda _: purgatory.try_complete_else_watch(late, ["k"], 0))
    purgatory.try_complete_else_watch(op, ["k"], 0)
    op.ready = True
    late.ready = False
    assert purgatory.check_and_complete("k", 0) == 1
    assert names(purgatory) == {"k": ["late"]}
    assert late.calls == ["try", "try"]  # it waits for the next event


def test_completing_may_check_the_same_key(purgatory):
    inner = []
    a = Op("a", on_done=lambda _: inner.append(purgatory.check_and_complete("k", 0)))
    b, c = Op("b"), Op("c")
    for op in (a, b, c):
        purgatory.try_complete_else_watch(op, ["k"], 0)
    a.ready = b.ready = True
    assert purgatory.check_and_complete("k", 0) == 1  # a; b was completed by the inner call
    assert inner == [1]
    assert b.calls.count("complete") == 1
    assert names(purgatory) == {"k": ["c"]}


def test_completing_may_purge_or_empty_the_list_and_it_is_found_again(purgatory):
    late = Op("late")

    def done(_):
        purgatory.purge()
        purgatory.try_complete_else_watch(late, ["k"], 0)

    op = Op("op", on_done=done)
    purgatory.try_complete_else_watch(op, ["k"], 0)
    op.ready = True
    purgatory.check_and_complete("k", 0)
    assert names(purgatory) == {"k": ["late"]}
    late.ready = True
    assert purgatory.check_and_complete("k", 0) == 1


# Purging


def test_the_purge_wants_strictly_more_than_the_interval():
    purgatory = Purgatory("Test", Timer(0), purge_interval=3)
    ops = [Op(str(n)) for n in range(5)]
    for op in ops:
        purgatory.try_complete_else_watch(op, ["quiet"], 0)
    for op in ops[:3]:
        op.force_complete(0)
    purgatory.advance(1)
    assert purgatory.watched == 5
    assert purgatory.next_deadline_ms() == 800  # nothing to purge: only the wheel's bucket
    ops[3].force_complete(0)
    assert purgatory.next_deadline_ms() == 201  # within 200 ms of the last look
    purgatory.advance(201)
    assert (purgatory.watched, purgatory.estimated_total, names(purgatory)) == (1, 1, {"quiet": ["4"]})


def test_an_idle_purgatory_sleeps():
    purgatory = Purgatory("Test", Timer(0), purge_interval=1)
    assert purgatory.next_deadline_ms() is None
    op = Op(timeout_ms=10)
    purgatory.try_complete_else_watch(op, ["k"], 0)
    purgatory.advance(10)
    assert purgatory.next_deadline_ms() is None
    assert purgatory.watched == 1  # one leftover is below the interval and waits for its key


def test_the_purge_follows_an_expiry_too():
    purgatory = Purgatory("Test", Timer(0), purge_interval=1)
    for n in range(3):
        purgatory.try_complete_else_watch(Op(str(n), timeout_ms=10), [f"k{n}"], 0)
    purgatory.advance(10)
    assert names(purgatory) == {}


def test_an_operation_that_is_parked_in_steps_is_not_purged_as_one_that_is_over():
    purgatory = Purgatory("Test", Timer(0), purge_interval=1)
    for op in [Op("a"), Op("b")]:
        purgatory.try_complete_else_watch(op, ["quiet"], 0)
        op.force_complete(0)
    steps = purgatory.watch_in_steps(Op("wide"), ["k0", "k1"], 800, 1, 0)
    next(steps)
    purgatory.advance(200)
    assert not purgatory.finished
    assert list(steps) == [None]
    assert purgatory.estimated_total == purgatory.num_delayed == 1
    assert purgatory.next_deadline_ms() == 800


# Looking in


def test_metrics_carry_kafkas_names():
    registry = MetricsRegistry()
    purgatory = Purgatory("Fetch", Timer(0), registry=registry)
    purgatory.try_complete_else_watch(Op(), ["a", "b"], 0)
    tags = {"delayedOperation": "Fetch"}
    assert registry.read("DelayedOperationPurgatory", "PurgatorySize", tags) == {"value": 2}
    assert registry.read("DelayedOperationPurgatory", "NumDelayedOperations", tags) == {"value": 1}


def test_the_snapshot_shows_each_waiting_operation_once_with_its_keys(purgatory):
    gone = Op("gone")
    purgatory.try_complete_else_watch(gone, ["a"], 0)
    purgatory.try_complete_else_watch(Op("stays"), ["a", "b"], 50)
    gone.force_complete(0)
    state = purgatory.snapshot()
    assert (state["name"], state["watched"], state["delayed"]) == ("Test", 3, 1)
    (shown,) = state["operations"]
    assert shown == {"kind": "Op", "timeout_ms": 1000, "deadline_ms": 1050, "keys": ["a", "b"], "keys_count": 2}
    assert sum(bucket["tasks"] for level in state["wheel"] for bucket in level["buckets"]) == 1


def test_a_page_of_the_snapshot_costs_what_it_shows_however_many_keys_there_are(purgatory):
    """Ten fetches of 10,000 partitions were walked whole, and told whole, for any page."""
    for number in range(5):
        purgatory.try_complete_else_watch(Op(), [(number, key) for key in range(1000)], number)
    walked = []

    class Walked(dict[Any, Any]):
        def __iter__(self):
            for key in super().__iter__():
                walked.append(key)
                yield key

        def items(self):
            raise AssertionError("all lists are walked")

    purgatory.watchers = Walked(purgatory.watchers)
    state = purgatory.snapshot(1, 3)
    shown = state["operations"]
    assert [one["deadline_ms"] for one in shown] == [1001, 1002]
    assert [one["keys"] for one in shown] == [[str((number, key)) for key in range(10)] for number in (1, 2)]
    assert {one["keys_count"] for one in shown} == {1000}
    assert [one["key"] for one in state["lists"]] == ["(0, 1)", "(0, 2)"]
    assert len(walked) == 3


def test_an_event_is_told_with_its_key_to_who_asks_for_it(purgatory):
    told = []

    class ByKey(Op):
        def try_key(self, key, now_ms):
            told.append(key)
            return False

    purgatory.try_complete_else_watch(ByKey(), range(MANY_KEYS), 0)
    few = Op()
    purgatory.try_complete_else_watch(few, range(MANY_KEYS - 1), 0)
    purgatory.check_and_complete(3, 0)
    purgatory.check_and_complete(1, 0)
    assert told == [3, 1]


def test_story_a_two_operations_over_seven_partitions(purgatory):
    """Two over {P1..P5} and {P1,P3,P5,P6,P7}: seven keys; completing one and purging leaves exactly the other's."""
    first, second = Op("first"), Op("second")
    purgatory.try_complete_else_watch(first, ["P1", "P2", "P3", "P4", "P5"], 0)
    purgatory.try_complete_else_watch(second, ["P1", "P3", "P5", "P6", "P7"], 0)
    both = ["first", "second"]
    assert names(purgatory) == {
        "P1": both,
        "P2": ["first"],
        "P3": both,
        "P4": ["first"],
        "P5": both,
        "P6": ["second"],
        "P7": ["second"],
    }
    first.force_complete(0)
    purgatory.purge()
    assert names(purgatory) == {key: ["second"] for key in ("P1", "P3", "P5", "P6", "P7")}


# Thousands that wait


def in_steps():
    walks: list[Any] = []
    return Purgatory("Test", Timer(0), run=walks.append), walks


def test_of_thousands_that_wait_for_one_key_some_are_completed_in_a_step():
    purgatory, walks = in_steps()
    done = []
    ops = [Op(number, on_done=lambda op: done.append(op.name)) for number in range(1000)]
    for op in ops:
        purgatory.try_complete_else_watch(op, ["k"], 0)
    for op in ops:
        op.ready = True
    assert purgatory.check_and_complete("k", 1) == len(done) < 300
    (walk,) = walks
    counts = [0, len(done), *(len(done) for _ in walk), len(done)]
    assert done == list(range(1000))
    assert max(after - before for before, after in pairwise(counts)) < 300
    assert not purgatory.watchers


def test_hundreds_that_wait_for_each_of_hundreds_of_keys_are_tried_in_steps():
    purgatory, walks = in_steps()
    ops = [Op(number) for number in range(300)]
    keys = [f"k{number}" for number in range(50)]
    for op in ops:
        purgatory.try_complete_else_watch(op, keys, 0)

    def tries():
        return sum(len(op.calls) for op in ops)

    before = tries()
    for key in keys:
        purgatory.check_and_complete(key, 1)
    counts = [before, tries()]
    (walk,) = walks
    counts += [*(tries() for _ in walk), tries()]
    assert counts[-1] - before >= len(ops) * len(keys)
    assert max(after - before for before, after in pairwise(counts)) <= 3000


def test_an_event_during_a_walk_is_not_lost_and_the_last_in_the_list_have_their_turn():
    purgatory, walks = in_steps()
    ops = [Op(number) for number in range(10_000)]
    for op in ops:
        purgatory.try_complete_else_watch(op, ["k"], 0)
    ops[-1].ready = True
    purgatory.check_and_complete("k", 1)
    (walk,) = walks
    next(walk)
    ops[0].ready = True  # it was tried already
    for now_ms in range(2, 20):
        purgatory.check_and_complete("k", now_ms)
        next(walk, None)
    assert ops[0].completed
    assert ops[-1].completed
    for _ in walk:
        pass
    ops[5000].ready = True
    purgatory.check_and_complete("k", 30)
    assert not ops[5000].completed
    assert len(walks) == 2, "each walk ends, and the next begins"
    for _ in walks[1]:
        pass
    assert ops[5000].completed


def test_those_whose_turn_is_later_may_be_gone_by_then():
    purgatory, walks = in_steps()
    ops = [Op(number) for number in range(5000)]
    for op in ops:
        purgatory.try_complete_else_watch(op, ["k"], 0)
    purgatory.check_and_complete("k", 1)
    for op in ops[100:]:
        purgatory.cancel(op)
    for _ in walks[0]:
        pass
    assert {op.calls[-1] for op in ops} == {"try"}
    assert names(purgatory) == {"k": list(range(100))}


def test_in_the_next_ms_there_is_room_again_and_few_never_wait():
    purgatory, walks = in_steps()
    ops = [Op(number) for number in range(4000)]
    for op in ops:
        purgatory.try_complete_else_watch(op, ["many"], 0)
    alone = Op("alone")
    purgatory.try_complete_else_watch(alone, ["few"], 0)
    purgatory.check_and_complete("many", 1)
    alone.ready = True
    assert purgatory.check_and_complete("few", 2) == 1
    assert len(walks) == 1


@pytest.mark.parametrize(("keys", "most"), [(1, 150), (200, 10)])
def test_of_thousands_whose_time_is_up_at_once_some_expire_in_a_step(keys, most):
    purgatory = Purgatory("Test", Timer(0))
    done = []
    ops = [Op(number, on_done=lambda op: done.append(op.name)) for number in range(2000)]
    for op in ops:
        purgatory.try_complete_else_watch(op, range(keys), 0)
    looks = 0
    while purgatory.timer.size or len(done) < len(ops):
        before = len(done)
        assert purgatory.next_deadline_ms() in range(1001)
        assert purgatory.estimated_total == len(ops), "none is purged as one that is over before it is"
        purgatory.advance(1000)
        assert 0 < len(done) - before <= most
        looks += 1
    assert done == list(range(2000))
    assert not purgatory.watchers
