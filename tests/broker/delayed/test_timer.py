"""The wheel against `TimingWheel` of Apache Kafka: unit vectors, the 450 ms example, and a sorted list as the model."""

from __future__ import annotations

import logging
import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.delayed import CallbackTask, Timer, TimerTask


class Recorder(TimerTask):
    __slots__ = ("log", "name")

    def __init__(self, name: Any, log: list[tuple[int, Any]]) -> None:
        super().__init__()
        self.name: Any = name
        self.log = log

    def run(self, now_ms):
        self.log.append((now_ms, self.name))


def place(timer: Timer) -> list[tuple[int, int, int, int]]:
    """(level, bucket, expiration, tasks) of all queued buckets."""
    return [
        (level["level"], bucket["index"], bucket["expiration_ms"], bucket["tasks"])
        for level in timer.snapshot()
        for bucket in level["buckets"]
    ]


def clocks(timer: Timer) -> list[int]:
    return [level["current_ms"] for level in timer.snapshot()]


def go(timer: Timer, now_ms: int) -> None:
    timer.advance(now_ms)
    timer.run_due(now_ms)


@pytest.mark.parametrize(
    ("delay_ms", "level", "bucket", "expiration_ms"),
    [
        (1, 1, 1, 1),
        (19, 1, 19, 19),
        (20, 2, 1, 20),
        (21, 2, 1, 20),
        (399, 2, 19, 380),
        (400, 3, 1, 400),
        (7999, 3, 19, 7600),
        (8000, 4, 1, 8000),
    ],
)
def test_a_task_lies_where_its_deadline_says(delay_ms, level, bucket, expiration_ms):
    timer = Timer(0)
    timer.add(TimerTask(), delay_ms)
    assert place(timer) == [(level, bucket, expiration_ms, 1)]
    assert len(timer.snapshot()) == level


@pytest.mark.parametrize("deadline_ms", [0, -5])
def test_a_task_without_delay_is_due_at_once_but_never_run_inside_add(deadline_ms):
    timer = Timer(0)
    log: list[tuple[int, Any]] = []
    timer.add(Recorder("a", log), deadline_ms)
    assert (timer.size, len(timer.due), log) == (0, 1, [])
    assert timer.next_deadline_ms() == 0
    timer.run_due(0)
    assert log == [(0, "a")]
    assert timer.next_deadline_ms() is None


def test_a_bucket_is_queued_once_a_lap():
    timer = Timer(0)
    for deadline_ms in (20, 21, 39, 20):
        timer.add(TimerTask(), deadline_ms)
    assert place(timer) == [(2, 1, 20, 4)]
    assert len(timer._queue) == 1


def test_a_bucket_is_queued_again_in_its_next_lap():
    timer = Timer(0)
    timer.add(TimerTask(), 5)
    go(timer, 5)
    assert timer._queue == []
    timer.add(TimerTask(), 24)  # [5,25): bucket 4 of the first wheel
    timer.add(TimerTask(), 25)  # the same slot as 5, a lap later, lies one wheel up until the clock moves
    assert place(timer) == [(1, 4, 24, 1), (2, 1, 20, 1)]


def test_446_450_455_and_473_share_a_bucket_and_part_on_the_way_down():
    """Place and time left of each at every demotion: wheel, bucket, ms."""
    timer = Timer(0)
    tasks = {deadline_ms: TimerTask() for deadline_ms in (446, 450, 455, 473)}
    for deadline_ms, task in tasks.items():
        timer.add(task, deadline_ms)

    def left(now_ms: int) -> dict[int, tuple[int, int, int]]:
        timer.advance(now_ms)
        places = {deadline_ms: timer.place_of(task) for deadline_ms, task in tasks.items()}
        return {key: (place[0], place[1], key - now_ms) for key, place in places.items() if place is not None}

    assert place(timer) == [(3, 1, 400, 4)]
    assert left(399) == {446: (3, 1, 47), 450: (3, 1, 51), 455: (3, 1, 56), 473: (3, 1, 74)}
    assert left(400) == {446: (2, 2, 46), 450: (2, 2, 50), 455: (2, 2, 55), 473: (2, 3, 73)}
    assert left(440) == {446: (1, 6, 6), 450: (1, 10, 10), 455: (1, 15, 15), 473: (2, 3, 33)}
    assert left(446) == {450: (1, 10, 4), 455: (1, 15, 9), 473: (2, 3, 27)}
    assert left(450) == {455: (1, 15, 5), 473: (2, 3, 23)}
    assert left(460) == {473: (1, 13, 13)}
    assert left(473) == {}


@pytest.mark.parametrize("deadline_ms", [7, 300, 7000])
def test_adding_and_cancelling_take_as_many_steps_however_many_wait(deadline_ms: int) -> None:
    """Lines of Python that run: the same among ten tasks and among ten thousand, in every wheel."""

    def steps(waiting: int) -> int:
        timer = Timer(0)
        for number in range(waiting):
            timer.add(TimerTask(), deadline_ms + number % 2)
        seen: list[str] = []
        wheel = Timer.add.__code__.co_filename

        def trace(frame: FrameType, event: str, _: object) -> Any:
            if frame.f_code.co_filename != wheel:
                return None  # what a garbage collection runs that comes just now
            seen.append(event)
            return trace

        task = TimerTask()
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            timer.add(task, deadline_ms)
            timer.cancel(task)
        finally:
            sys.settrace(before)
        return seen.count("line")

    assert steps(10) == steps(10_000) > 0


def test_a_clock_of_seconds_minutes_and_hours():
    """60 x 1 s, 60 x 1 min, 60 x 1 h: all wheels have one size, so the last does not end at twelve."""
    timer = Timer(0, 1000, 60)
    log: list[tuple[int, Any]] = []
    half_past_noon_ms = (12 * 3600 + 30 * 60 + 15) * 1000
    timer.add(Recorder("noon", log), half_past_noon_ms)
    assert place(timer) == [(3, 12, 12 * 3_600_000, 1)]
    go(timer, 12 * 3_600_000)
    assert clocks(timer) == [43_200_000] * 3
    assert place(timer) == [(2, 30, half_past_noon_ms - 15_000, 1)]
    go(timer, half_past_noon_ms - 15_000)
    assert place(timer) == [(1, 15, half_past_noon_ms, 1)]
    go(timer, half_past_noon_ms)
    assert log == [(half_past_noon_ms, "noon")]
    assert [level["interval_ms"] for level in timer.snapshot()] == [60_000, 3_600_000, 216_000_000]


def test_the_450_ms_example():
    timer = Timer(0)
    log: list[tuple[int, Any]] = []
    timer.add(Recorder("a", log), 450)
    seen = [(0, clocks(timer), place(timer))]
    for now_ms in (399, 400, 439, 440, 449, 450):
        timer.advance(now_ms)
        seen.append((now_ms, clocks(timer), place(timer)))
    assert seen == [
        (0, [0, 0, 0], [(3, 1, 400, 1)]),
        (399, [0, 0, 0], [(3, 1, 400, 1)]),
        (400, [400, 400, 400], [(2, 2, 440, 1)]),
        (439, [400, 400, 400], [(2, 2, 440, 1)]),
        (440, [440, 440, 400], [(1, 10, 450, 1)]),
        (449, [440, 440, 400], [(1, 10, 450, 1)]),
        (450, [450, 440, 400], []),
    ]
    assert (timer.queued_total, timer.size, log) == (3, 0, [])
    timer.run_due(450)
    assert log == [(450, "a")]


def test_a_stale_clock_still_expires_on_time():
    """Idle since 0, at 1000 a task with delay 5: it falls through three wheels within the same drain."""
    timer = Timer(0)
    log: list[tuple[int, Any]] = []
    timer.add(Recorder("a", log), 1005)
    assert place(timer) == [(3, 2, 800, 1)]
    assert timer.next_deadline_ms() == 800  # in the past: popped at the very next poll
    timer.advance(1000)
    assert place(timer) == [(1, 5, 1005, 1)]
    assert timer.next_deadline_ms() == 1005
    go(timer, 1004)
    assert log == []
    go(timer, 1005)
    assert log == [(1005, "a")]


def test_the_clock_goes_to_the_bucket_not_to_the_present():
    timer = Timer(0)
    timer.add(TimerTask(), 7)
    timer.advance(15)
    assert clocks(timer) == [7]


def test_overflow_wheels_start_at_their_parent_clock_rounded_down():
    timer = Timer(1234)
    timer.add(TimerTask(), 1234 + 500)
    assert clocks(timer) == [1234, 1220, 1200]


def test_advance_says_whether_a_bucket_expired():
    timer = Timer(0)
    timer.add(TimerTask(), 3)
    assert timer.advance(2) is False
    assert timer.advance(3) is True
    assert timer.advance(4) is False


def test_cancel_unlinks_and_the_empty_bucket_still_moves_the_clock():
    timer = Timer(0)
    log: list[tuple[int, Any]] = []
    task = Recorder("a", log)
    timer.add(task, 10)
    assert task.scheduled
    assert timer.cancel(task) is True
    assert timer.cancel(task) is False
    assert (timer.size, task.scheduled, place(timer)) == (0, False, [(1, 10, 10, 0)])
    assert timer.next_deadline_ms() == 10
    go(timer, 10)
    assert (clocks(timer), log) == ([10], [])


def test_cancel_of_a_task_that_ran_or_never_was_has_no_effect():
    timer = Timer(0)
    log: list[tuple[int, Any]] = []
    ran = Recorder("a", log)
    timer.add(ran, 1)
    go(timer, 1)
    assert timer.cancel(ran) is False
    assert timer.cancel(Recorder("b", log)) is False
    assert timer.size == 0


def test_a_task_cancelled_after_it_got_due_runs_all_the_same():
    timer = Timer(0)
    log: list[tuple[int, Any]] = []
    task = Recorder("a", log)
    timer.add(task, 1)
    timer.advance(1)
    assert timer.cancel(task) is False
    timer.run_due(1)
    assert log == [(1, "a")]


def test_adding_again_moves_the_task():
    timer = Timer(0)
    log: list[tuple[int, Any]] = []
    task = Recorder("a", log)
    timer.add(task, 5)
    timer.add(task, 9)
    assert timer.size == 1
    go(timer, 8)
    assert log == []
    go(timer, 9)
    assert log == [(9, "a")]


def test_a_task_that_moves_within_its_bucket_stays_there():
    """As that of a session does at nearly every heartbeat: no list is touched, and it falls to a finer wheel later."""
    timer = Timer(0)
    log: list[tuple[int, Any]] = []
    task, other = Recorder("a", log), Recorder("b", log)
    for one in (task, other):
        timer.add(one, 450)
    before, queued = task._prev, timer.queued_total
    timer.add(task, 790)
    assert (task._prev is before, timer.queued_total, timer.size) == (True, queued, 2)
    timer.add(task, 800)
    assert task._prev is not before, "that is another bucket"
    timer.add(task, 799)
    timer.add(task, 460)
    go(timer, 459)
    assert log == [(459, "b")]
    go(timer, 460)
    assert log == [(459, "b"), (460, "a")]


def test_tasks_of_one_bucket_run_in_order_and_buckets_by_expiration():
    timer = Timer(0)
    log: list[tuple[int, Any]] = []
    for name, deadline_ms in (("c", 7), ("a", 3), ("b", 3), ("d", 7)):
        timer.add(Recorder(name, log), deadline_ms)
    go(timer, 10)
    assert [name for _, name in log] == ["a", "b", "c", "d"]


def test_size_counts_only_what_lies_in_buckets():
    timer = Timer(0)
    timer.add(TimerTask(), 450)
    timer.add(TimerTask(), 5)
    assert timer.size == 2
    timer.advance(5)
    assert (timer.size, len(timer.due)) == (1, 1)
    timer.advance(400)
    assert timer.size == 1


def test_one_failing_task_does_not_hold_up_the_others(caplog):
    timer = Timer(0)
    log: list[tuple[int, Any]] = []

    def fail(now_ms):
        raise ValueError("broken")

    timer.add(CallbackTask(fail), 1)
    timer.add(Recorder("a", log), 1)
    with caplog.at_level(logging.CRITICAL + 1):
        go(timer, 1)
    assert log == [(1, "a")]


def test_a_task_may_add_itself_again_while_it_runs():
    timer = Timer(0)
    runs = []

    def again(now_ms):
        runs.append(now_ms)
        if len(runs) < 3:
            timer.add(task, now_ms + 10)

    task = CallbackTask(again)
    timer.add(task, 10)
    for now_ms in (10, 20, 30, 40):
        go(timer, now_ms)
    assert runs == [10, 20, 30]


def test_what_gets_due_while_others_run_runs_in_the_same_drain():
    timer = Timer(0)
    log: list[tuple[int, Any]] = []
    timer.add(CallbackTask(lambda now_ms: timer.add(Recorder("b", log), now_ms)), 1)
    timer.advance(1)
    assert timer.run_due(1) == 2
    assert log == [(1, "b")]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(-3, 20_000)),
        st.tuples(st.just("again"), st.integers(-3, 20_000)),
        st.tuples(st.just("cancel"), st.integers(0, 200)),
        st.tuples(st.just("move"), st.integers(0, 3_000)),
    ),
    max_size=60,
)


@settings(max_examples=300)
@given(start_ms=st.integers(0, 10_000), steps=steps)
def test_the_wheel_is_a_sorted_list_that_is_fast(start_ms, steps):
    """Model: a dict of deadlines. Each task runs exactly once, at the first move that reaches its deadline."""
    timer = Timer(start_ms)
    now_ms = start_ms
    log: list[tuple[int, Any]] = []
    tasks: list[Recorder] = []
    waiting: dict[int, int] = {}
    for kind, amount in steps:
        if kind == "add":
            task = Recorder(len(tasks), log)
            tasks.append(task)
            timer.add(task, now_ms + amount)
            waiting[task.name] = now_ms + amount
        elif kind == "again" and tasks:
            task = tasks[amount % len(tasks)]
            timer.add(task, now_ms + amount)
            waiting[task.name] = now_ms + amount
        elif kind == "cancel" and tasks:
            task = tasks[amount % len(tasks)]
            assert timer.cancel(task) is (task.name in waiting)
            waiting.pop(task.name, None)
        elif kind == "move":
            now_ms += amount
        log.clear()
        earliest = timer.next_deadline_ms()
        if waiting:
            assert earliest is not None
            assert earliest <= max(min(waiting.values()), now_ms)
        go(timer, now_ms)
        due = {name for name, deadline_ms in waiting.items() if deadline_ms <= now_ms}
        assert {name for _, name in log} == due
        assert len(log) == len(due)
        for name in due:
            del waiting[name]
        assert timer.size == len(waiting)
    # The queue holds each bucket at most once, whatever the number of tasks.
    queued = [id(bucket) for _, _, bucket in timer._queue]
    assert len(queued) == len(set(queued))
    go(timer, now_ms + 25_000)
    assert timer.size == 0
