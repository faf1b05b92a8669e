"""The collector looks by itself at new objects alone, and at older ones only while they are few."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from barnabas.broker.host import collector
from barnabas.broker.host.collector import Collector


class Thing:
    """Refers to itself."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def begun() -> Iterator[Collector]:
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    loop = asyncio.new_event_loop()
    found = Collector()
    found.begin(loop)
    yield found
    found.end()
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    loop.close()
    if frozen:  # what was collected of tests is to stay so (`tests/conftest.py`); what these held goes
        gc.collect()
        gc.freeze()


def old_garbage() -> weakref.ref[Thing]:
    thing = Thing()
    gc.collect(0)  # outlives a look at what is new
    return weakref.ref(thing)


def test_new_objects_bring_no_look_at_older_ones_however_many_they_are(begun: Collector) -> None:
    """Every thousandth look did: with 500,000 parked operations the loop stood for 116 ms."""
    gc.set_threshold(10, *collector.THRESHOLDS[1:])
    looks: list[int] = []

    def told(phase: str, info: dict[str, int]) -> None:
        looks.append(info["generation"])

    gc.callbacks.append(told)
    try:
        held = [[number] for number in range(20_000)]
    finally:
        gc.callbacks.remove(told)
    assert len(held) == 20_000
    assert len(looks) > 2 * 1000
    assert set(looks) == {0}


def test_cycles_among_older_objects_go_with_the_next_look(begun: Collector) -> None:
    garbage = old_garbage()
    begun.look()
    assert garbage() is None


def test_a_look_is_put_off_while_there_is_much_and_what_stays_is_left_alone(begun: Collector) -> None:
    garbage = old_garbage()
    held = [[number] for number in range(2 * collector.GROWN_MAX)]
    for _ in range(collector.LATE_MAX):
        begun.look()
    assert garbage() is not None
    frozen = gc.get_freeze_count()
    begun.look()
    assert gc.get_freeze_count() >= frozen + len(held)
    late = old_garbage()
    begun.look()
    assert late() is None, "looks go on"


def test_a_look_is_put_off_where_as_much_went_as_came(begun: Collector) -> None:
    """Nothing has grown, and all of it is new: the collector would go through it."""
    held = [[number] for number in range(2 * collector.GROWN_MAX)]
    begun.look()
    for _ in range(collector.LATE_MAX):
        begun.look()
    garbage = old_garbage()
    held = [[number] for number in range(2 * collector.GROWN_MAX)]
    begun.look()
    assert garbage() is not None
    assert len(held) == 2 * collector.GROWN_MAX
    for _ in range(collector.LATE_MAX):
        begun.look()
    late = old_garbage()
    begun.look()
    assert late() is None, "looks go on"
