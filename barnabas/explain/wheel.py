"""How timers go through the wheels: `barnabas explain wheel 446 450 455 473`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from barnabas.broker.delayed.timer import TICK_MS, WHEEL_SIZE, CallbackTask, Timer
from barnabas.explain.telling import Walk

_LEVELS_MAX: Final = 20
TIMERS_MAX: Final = 100


def walk(delays_ms: Sequence[int], start_ms: int = 0, tick_ms: int = TICK_MS, wheel_size: int = WHEEL_SIZE) -> Walk:
    """Add one task for each delay to a timer that begins at `start_ms`, and follow all until they have run.

    Raises:
        ValueError: a delay that is negative or beyond twenty wheels, too many delays, or no wheel.
    """
    _check(delays_ms, start_ms, tick_ms, wheel_size)
    timer = Timer(start_ms, tick_ms, wheel_size)
    ran: list[int] = []
    tasks = {due_ms: CallbackTask(ran.append) for due_ms in sorted({start_ms + delay_ms for delay_ms in delays_ms})}
    told = Walk(f"The timing wheel: {_timers(len(tasks))}, from bucket to bucket")
    for due_ms, task in tasks.items():
        timer.add(task, due_ms)
    places = _places(timer, tasks)
    now_ms = start_ms
    told.step(
        f"At {now_ms} ms {_timers(len(tasks))} {'is' if len(tasks) == 1 else 'are'} added.",
        {"clocks": _clocks(timer), "timers": list(_told(places, now_ms))},
    )
    timer.run_due(now_ms)
    demotions = 0
    while timer.size:
        deadline_ms = timer.next_deadline_ms()
        assert deadline_ms is not None, "a task in a bucket has a deadline"
        now_ms = max(now_ms, deadline_ms)
        timer.advance(now_ms)
        moved = {due_ms: place for due_ms, place in _places(timer, tasks).items() if place != places[due_ms]}
        level = max(before[0] for due_ms in moved if (before := places[due_ms]) is not None)
        demotions += sum(1 for place in moved.values() if place is not None)
        lines = list(_told(moved, now_ms))
        places |= moved
        timer.run_due(now_ms)
        told.step(f"At {now_ms} ms a bucket of wheel {level} expires.", {"clocks": _clocks(timer), "timers": lines})
    assert len(ran) == len(tasks), "every task has run"
    told.before = _wheels(timer, start_ms, wheel_size)
    queued = timer.queued_total
    told.after = (
        f"{demotions} demotion{'' if demotions == 1 else 's'}, {queued} bucket{'' if queued == 1 else 's'} "
        "queued in all; no queue ever held a timer itself."
    )
    return told


Place = tuple[int, int, int]
"""Wheel (1 is the finest), bucket, when that expires."""


def _check(delays_ms: Sequence[int], start_ms: int, tick_ms: int, wheel_size: int) -> None:
    if not 1 <= len(delays_ms) <= TIMERS_MAX:
        raise ValueError(f"{len(delays_ms)} timers: give 1 to {TIMERS_MAX}")
    if tick_ms < 1:
        raise ValueError(f"a tick of {tick_ms} ms: give 1 or more")
    if not 2 <= wheel_size <= 1000:
        raise ValueError(f"{wheel_size} slots: give 2 to 1000")
    if start_ms < 0:
        raise ValueError(f"a start at {start_ms} ms: give 0 or more")
    for delay_ms in delays_ms:
        if not 0 <= delay_ms < tick_ms * wheel_size**_LEVELS_MAX:
            raise ValueError(f"a delay of {delay_ms} ms: write a number of milliseconds from 0 up")


def _places(timer: Timer, tasks: dict[int, CallbackTask]) -> dict[int, Place | None]:
    return {due_ms: timer.place_of(task) for due_ms, task in tasks.items()}


def _told(moved: dict[int, Place | None], now_ms: int) -> Iterator[str]:
    for due_ms, place in moved.items():
        if place is None:
            yield f"{due_ms} is due: it runs"
        else:
            level, bucket, expiration_ms = place
            yield f"{due_ms}, in {due_ms - now_ms} ms: wheel {level}, bucket {bucket}, until {expiration_ms}"


def _clocks(timer: Timer) -> str:
    return " / ".join(str(level["current_ms"]) for level in timer.snapshot())


def _wheels(timer: Timer, start_ms: int, wheel_size: int) -> str:
    spans = []
    for level in timer.snapshot():
        begin_ms = start_ms - start_ms % level["tick_ms"]
        span = f"[{begin_ms}, {begin_ms + level['interval_ms']})"
        spans.append(f"wheel {level['level']} has ticks of {level['tick_ms']} ms and spans {span}")
    return (
        f"Every wheel has {wheel_size} buckets: {'; '.join(spans)}. A timer lies in the finest wheel that spans its "
        "time; when a coarse bucket expires, what is in it falls to a finer wheel. Clocks are told from fine to coarse."
    )


def _timers(count: int) -> str:
    return "one timer" if count == 1 else f"{count} timers"
