"""The hierarchical timing wheel. Source: `TimingWheel`, `TimerTaskList` and `SystemTimer` of Apache Kafka.

A wheel is a ring of 20 buckets, each `tick` ms wide; a task due within the ring's span lies in the bucket of its
deadline, a later one in the overflow wheel, whose tick is this wheel's span. Only buckets stand in the priority queue,
never tasks, and each at most once per lap: adding costs a list append, cancelling an unlink, whatever the number of
tasks. When a coarse bucket expires, its tasks are added again and fall to a finer wheel (demotion).

Example, tick 1 ms, start 0, a task due at 450 (wheels [0,20) [20,400) [400,8000)):

    t = 0    450 >= 20, 450 >= 400, 450 < 8000   third wheel, bucket 1, which expires at 400
    t = 400  clocks 400/400/400; 450 is 50 ahead    second wheel, bucket 2, which expires at 440
    t = 440  clocks 440/440/400; 450 is 10 ahead    first wheel, bucket 10, which expires at 450
    t = 450  due: to the run queue                two demotions, three buckets queued in all

A task that moves to a deadline of the bucket in which it lies, as that of a session does at nearly every heartbeat,
stays where it is.

Tasks that are due never run inside `add` or `advance`: they go to the timer's run queue, and `run_due` runs them.
"""

from __future__ import annotations

import heapq
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from barnabas.broker.planned import PLANNED

TICK_MS: Final = 1
WHEEL_SIZE: Final = 20

logger = logging.getLogger(__name__)


class TimerTask:
    """Something to be run at a deadline. One task lies in at most one bucket."""

    __slots__ = ("_bucket", "_next", "_prev", "deadline_ms")

    _prev: TimerTask | None
    _next: TimerTask | None
    _bucket: _Bucket  # where it lay last

    def __init__(self) -> None:
        self._prev = None
        self._next = None
        self.deadline_ms = -1

    @property
    def scheduled(self) -> bool:
        """True while the task lies in a bucket: added, neither cancelled nor due."""
        return self._prev is not None

    def run(self, now_ms: int) -> None:
        """Called once when the deadline has passed, from `Timer.run_due`."""


class CallbackTask(TimerTask):
    """A task that calls a function with the time."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[int], None]) -> None:
        self._prev = None
        self._next = None
        self.deadline_ms = -1
        self._callback = callback

    def run(self, now_ms: int) -> None:
        """Call the function."""
        self._callback(now_ms)


class _Bucket(TimerTask):
    """The sentinel of a circular list of tasks, due from `expiration_ms` to before `until_ms`; -1 while not queued."""

    __slots__ = ("expiration_ms", "level", "until_ms")

    def __init__(self, level: int) -> None:
        self._prev = self._next = self
        self.deadline_ms = -1
        self.expiration_ms = self.until_ms = -1
        self.level = level


class _Wheel:
    """One level. `soon_ms` is the end of the tick under way, `end_ms` of the span; both move with the clock."""

    __slots__ = ("buckets", "current_ms", "end_ms", "interval_ms", "level", "overflow", "soon_ms", "tick_ms")

    def __init__(self, level: int, tick_ms: int, wheel_size: int, start_ms: int) -> None:
        self.level = level
        self.tick_ms = tick_ms
        self.interval_ms = tick_ms * wheel_size
        self.buckets = [_Bucket(level) for _ in range(wheel_size)]
        self.overflow: _Wheel | None = None
        self.move_to(start_ms)

    def move_to(self, now_ms: int) -> None:
        self.current_ms = now_ms - now_ms % self.tick_ms
        self.soon_ms = self.current_ms + self.tick_ms
        self.end_ms = self.current_ms + self.interval_ms


class Timer:
    """Runs tasks at their deadlines (monotonic whole ms).

    `size` counts the tasks that lie in buckets; those that are due no longer count: they stand in `due`,
    the run queue. `queued_total` counts the times that a bucket was put into the priority queue, and `earliest_ms` is
    when the first of those that are in it expires, None while there is none.
    """

    __slots__ = ("_queue", "_wheel", "_wheel_size", "due", "earliest_ms", "queued_total", "size")

    def __init__(self, start_ms: int, tick_ms: int = TICK_MS, wheel_size: int = WHEEL_SIZE) -> None:
        self._wheel_size = wheel_size
        self._wheel = _Wheel(0, tick_ms, wheel_size, start_ms)
        # (expiration, order of queueing, bucket): the order makes ties deterministic.
        self._queue: list[tuple[int, int, _Bucket]] = []
        self.queued_total = 0
        self.earliest_ms: int | None = None
        self.due: deque[TimerTask] = deque()
        self.size = 0

    def add(self, task: TimerTask, deadline_ms: int) -> None:
        """Schedule `task`; one that is scheduled already moves to the new deadline.

        A deadline that is past, or falls in the tick under way, sends the task to the run queue at once.
        """
        if task._prev is not None:
            bucket = task._bucket
            if bucket.expiration_ms <= deadline_ms < bucket.until_ms:
                task.deadline_ms = deadline_ms
                return
            self.cancel(task)
        task.deadline_ms = deadline_ms
        wheel = self._wheel
        if deadline_ms < wheel.soon_ms:
            self.due.append(task)
            PLANNED.count += 1
            return
        while deadline_ms >= wheel.end_ms:
            wheel = wheel.overflow or self._grow(wheel)
        tick_ms = wheel.tick_ms
        slot = deadline_ms // tick_ms
        bucket = wheel.buckets[slot % self._wheel_size]
        last = bucket._prev
        task._prev = last
        task._next = task._bucket = bucket
        bucket._prev = last._next = task  # type: ignore[union-attr]  # a bucket's ring is never open
        self.size += 1
        expiration_ms = slot * tick_ms
        if bucket.expiration_ms != expiration_ms:
            # Set once a lap: only the first task of a lap queues the bucket.
            bucket.expiration_ms = expiration_ms
            bucket.until_ms = expiration_ms + tick_ms
            self.queued_total += 1
            heapq.heappush(self._queue, (expiration_ms, self.queued_total, bucket))
            if self.earliest_ms is None or expiration_ms < self.earliest_ms:
                self.earliest_ms = expiration_ms
                PLANNED.count += 1

    def cancel(self, task: TimerTask) -> bool:
        """Take `task` out of its bucket; False when it lies in none (never added, due, cancelled before).

        The bucket stays queued, even when it is empty now, and still moves the clock when it expires.
        """
        before = task._prev
        if before is None:
            return False
        after = task._next
        before._next = after
        after._prev = before  # type: ignore[union-attr]  # linked on both sides or on none
        task._prev = task._next = None
        self.size -= 1
        return True

    def advance(self, now_ms: int) -> bool:
        """Move the clock over every bucket that has expired by `now_ms`; True when there was one.

        The clock goes to each bucket's expiration, not to `now_ms`; due tasks go to the run queue.
        """
        queue = self._queue
        if not queue or queue[0][0] > now_ms:
            return False
        while queue and queue[0][0] <= now_ms:
            expiration_ms, _, bucket = heapq.heappop(queue)
            wheel: _Wheel | None = self._wheel
            while wheel is not None and expiration_ms >= wheel.soon_ms:
                wheel.move_to(expiration_ms)
                wheel = wheel.overflow
            self._flush(bucket)
        self.earliest_ms = queue[0][0] if queue else None
        return True

    def run_due(self, now_ms: int, most: int = sys.maxsize) -> int:
        """Run the tasks of the run queue, those that get due meanwhile too, `most` of them; returns how many ran.

        A task that raises is logged and does not keep the others from running. A task that was cancelled after it
        got due runs all the same (a delayed operation tells by its own flag).
        """
        due = self.due
        count = 0
        while due and count < most:
            task = due.popleft()
            count += 1
            try:
                task.run(now_ms)
            except Exception:
                logger.exception("a timer task failed: %r", task)
        return count

    def next_deadline_ms(self) -> int | None:
        """When `advance` and `run_due` have something to do: the earliest bucket, the past when tasks are due."""
        return self._wheel.current_ms if self.due else self.earliest_ms

    def tasks(self) -> Iterator[TimerTask]:
        """The tasks in buckets, bucket by bucket as these expire; nothing may be added or cancelled meanwhile."""
        for _, _, bucket in sorted(self._queue):
            yield from _tasks_of(bucket)

    def place_of(self, task: TimerTask) -> tuple[int, int, int] | None:
        """Where a task lies: level (1 is the finest), bucket, the bucket's expiration (ms); None in no bucket.

        Walks through the wheels: for looking, not for work.
        """
        wheel: _Wheel | None = self._wheel
        while wheel is not None and task.scheduled:
            for index, bucket in enumerate(wheel.buckets):
                if task in _tasks_of(bucket):
                    return wheel.level + 1, index, bucket.expiration_ms
            wheel = wheel.overflow
        return None

    def snapshot(self) -> list[dict[str, Any]]:
        """The levels from fine to coarse, each with its clock and its queued buckets (index, expiration, tasks)."""
        levels = []
        wheel: _Wheel | None = self._wheel
        while wheel is not None:
            buckets = [
                {"index": index, "expiration_ms": bucket.expiration_ms, "tasks": sum(1 for _ in _tasks_of(bucket))}
                for index, bucket in enumerate(wheel.buckets)
                if bucket.expiration_ms >= 0
            ]
            levels.append(
                {
                    "level": wheel.level + 1,
                    "tick_ms": wheel.tick_ms,
                    "interval_ms": wheel.interval_ms,
                    "current_ms": wheel.current_ms,
                    "buckets": buckets,
                }
            )
            wheel = wheel.overflow
        return levels

    def _grow(self, wheel: _Wheel) -> _Wheel:
        wheel.overflow = _Wheel(wheel.level + 1, wheel.interval_ms, self._wheel_size, wheel.current_ms)
        return wheel.overflow

    def _flush(self, bucket: _Bucket) -> None:
        """Take all tasks out, then add each again: it gets due, or falls to a finer wheel.

        None can land in this bucket again: the clock stands at its start, and the finer wheel spans all of it.
        """
        tasks = list(_tasks_of(bucket))
        bucket._prev = bucket._next = bucket
        bucket.expiration_ms = bucket.until_ms = -1
        self.size -= len(tasks)
        for task in tasks:
            task._prev = task._next = None
        if bucket.level == 0:
            self.due.extend(tasks)
        else:
            for task in tasks:
                self.add(task, task.deadline_ms)


def _tasks_of(bucket: _Bucket) -> Iterator[TimerTask]:
    task = bucket._next
    while task is not bucket:
        assert task is not None, "a bucket's ring is never open"
        yield task
        task = task._next
