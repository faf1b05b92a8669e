"""How one task goes through the wheels, as text: `barnabas explain wheel 450`.

The walk is played on a real `Timer` and read from its `snapshot`, so what it prints is what the broker does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from barnabas.broker.delayed.timer import TICK_MS, WHEEL_SIZE, CallbackTask, Timer


@dataclass(slots=True, frozen=True)
class Step:
    """The state after one event. `level` is 0 and `bucket` -1 once the task is due; `clocks_ms` are fine to coarse."""

    now_ms: int
    clocks_ms: tuple[int, ...]
    level: int
    bucket: int
    expiration_ms: int


def walk(delay_ms: int, start_ms: int = 0) -> list[Step]:
    """Add one task with `delay_ms` to a timer that begins at `start_ms`, and follow it until it is due."""
    timer = Timer(start_ms)
    done: list[int] = []
    timer.add(CallbackTask(done.append), start_ms + delay_ms)
    now_ms = start_ms
    steps = [_look(timer, now_ms)]
    while timer.size:
        deadline_ms = timer.next_deadline_ms()
        assert deadline_ms is not None, "a task in a bucket has a deadline"
        now_ms = max(now_ms, deadline_ms)
        timer.advance(now_ms)
        steps.append(_look(timer, now_ms))
    timer.run_due(now_ms)
    assert done, "the task has run"
    return steps


def render_wheel(delay_ms: int, start_ms: int = 0) -> str:
    """The walk of a task with `delay_ms`, with the wheels it uses, as lines of text.

    Raises:
        ValueError: a negative delay, or one of more than 20 wheels' worth.
    """
    if not 0 <= delay_ms < WHEEL_SIZE**20:
        raise ValueError(f"a delay of {delay_ms} ms: write a number of milliseconds from 0 up")
    steps = walk(delay_ms, start_ms)
    return "\n".join([*_wheels(steps, start_ms), "", *_events(steps, delay_ms, start_ms), "", _sum(steps)]) + "\n"


def _look(timer: Timer, now_ms: int) -> Step:
    levels = timer.snapshot()
    clocks_ms = tuple(level["current_ms"] for level in levels)
    for level in levels:
        for bucket in level["buckets"]:
            if bucket["tasks"]:
                return Step(now_ms, clocks_ms, level["level"], bucket["index"], bucket["expiration_ms"])
    return Step(now_ms, clocks_ms, 0, -1, -1)


def _wheels(steps: list[Step], start_ms: int) -> Iterator[str]:
    yield f"The wheels, {WHEEL_SIZE} buckets each:"
    for level in range(1, len(steps[0].clocks_ms) + 1):
        tick_ms = TICK_MS * WHEEL_SIZE ** (level - 1)
        begin_ms = start_ms - start_ms % tick_ms
        span = f"[{begin_ms},{begin_ms + tick_ms * WHEEL_SIZE})"
        yield f"  wheel {level}  tick {tick_ms:>6} ms  spans {span}"


def _events(steps: list[Step], delay_ms: int, start_ms: int) -> Iterator[str]:
    due_ms = start_ms + delay_ms
    for index, step in enumerate(steps):
        event = f"a task due at {due_ms} is added" if index == 0 else f"bucket {steps[index - 1].expiration_ms} expires"
        clocks = "/".join(str(clock_ms) for clock_ms in step.clocks_ms)
        if step.level:
            place = f"wheel {step.level}, bucket {step.bucket}, which expires at {step.expiration_ms}"
        else:
            place = "due: it runs"
        yield f"t = {step.now_ms:<8} {event:<32} clocks {clocks:<24} -> {place}"


def _sum(steps: list[Step]) -> str:
    queued_count = len(steps) - 1
    demotions_count = max(0, queued_count - 1)
    return f"{demotions_count} demotions, {queued_count} buckets queued in all; no queue ever held the task itself."
