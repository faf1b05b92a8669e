"""The loop stays awake after an event for as long as it pays, and no longer."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Callable
from typing import Any, cast

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.host import process, vigil
from barnabas.broker.host.assemble import Assembly
from barnabas.broker.host.collector import Collector
from barnabas.broker.host.vigil import LOADED_LOOKS, SKIPPED_MAX, Vigil
from tests.broker.host.fake_core import FakeCore, client, serving, until

US = 1000


class Loop:
    """A host and its loop, whose rounds a test plays: each takes one µs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, awake_us: int = 100, processors: int = 2) -> None:
        monkeypatch.setattr(vigil, "processors", lambda: processors)
        self.loop = self
        self.now_ns = 0
        self.received_bytes = 0
        self.rests = False
        self.due: list[Callable[[], None]] = []
        self.later: list[Callable[[], None]] = []
        self.vigil = Vigil(cast("Any", self), lambda: self.now_ns)
        self.vigil.allow(awake_us)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self.later.append(callback)

    def look(self) -> None:
        """One round."""
        (look,), self.due = self.due, []
        look()
        self.now_ns += US

    def event(self) -> None:
        """Bytes come."""
        self.received_bytes += 10
        if self.rests:
            self.vigil.begin()

    def sleeps_after(self) -> int:
        """How long (µs) the loop goes on without an event."""
        rounds = 0
        while self.due:
            due, self.due = self.due, []
            for one in due:
                one()
            self.now_ns += US
            rounds += 1
            assert rounds <= 1000
        return max(0, rounds - 1)

    def stays(self) -> bool:
        """Whether it stays awake after an event that none follows."""
        self.event()
        return self.sleeps_after() > 0


def test_the_loop_stays_awake_for_so_long_after_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(monkeypatch)
    loop.event()
    assert loop.sleeps_after() == 100
    assert loop.rests


def test_who_asks_again_in_time_finds_it_awake_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(monkeypatch)
    loop.event()
    for _ in range(50):
        for _ in range(60):
            loop.look()
        loop.event()
    assert loop.sleeps_after() == 100, "since the last event, and once"
    assert loop.stays(), "what was in time is followed at once"


def test_what_is_in_vain_is_done_ever_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(monkeypatch)
    stayed = [loop.stays() for _ in range(20 * (SKIPPED_MAX + 1))]
    at = [number for number, one in enumerate(stayed) if one]
    gaps = [b - a - 1 for a, b in itertools.pairwise(at)]
    assert gaps[:8] == [1, 3, 7, 15, 31, 63, 127, 255]
    assert set(gaps[8:]) == {SKIPPED_MAX}


def test_one_event_in_time_ends_that(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(monkeypatch)
    for _ in range(5 * SKIPPED_MAX):
        loop.stays()
    while not loop.due:
        loop.event()
    loop.event()
    assert loop.sleeps_after() > 0
    assert loop.stays()


def test_a_loop_that_would_not_sleep_anyway_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 16 connections that ask all the time its looks took 2 to 3 %."""
    loop = Loop(monkeypatch)
    loop.event()
    for _ in range(LOADED_LOOKS):
        loop.event()
        loop.look()
    assert not loop.due, "no more looks"
    loop.event()
    assert not loop.due, "nor by the next event"
    (again,) = loop.later
    again()
    assert loop.stays()


def test_who_waits_for_each_answer_is_no_load(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(monkeypatch)
    loop.event()
    for _ in range(5 * LOADED_LOOKS):
        loop.event()
        loop.look()
        loop.look()
    assert loop.due
    assert not loop.later


@pytest.mark.parametrize(("awake_us", "processors"), [(0, 2), (100, 1)])
def test_it_sleeps_where_that_is_wanted_and_where_nobody_could_ask_meanwhile(
    monkeypatch: pytest.MonkeyPatch, awake_us: int, processors: int
) -> None:
    loop = Loop(monkeypatch, awake_us, processors)
    assert not any(loop.stays() for _ in range(10))


async def test_the_end_of_a_read_event_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a host on a real loop; it is awake for as long as the clock stands still."""
    monkeypatch.setattr(vigil, "processors", lambda: 2)
    now_ns = 0
    async with serving(FakeCore()) as host:
        assert not host.rests, "only a process stays awake"
        host.vigil = Vigil(host, lambda: now_ns)
        host.vigil.allow(100)
        async with client(host.port) as raw:
            for number in range(3):
                raw.ask(number)
                assert await raw.answer() == number
            assert not host.rests
            now_ns = 100 * US
            await until(lambda: host.rests)


async def test_a_brokers_process_does_as_its_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    asked = asyncio.Event()

    def allow(self: Vigil, awake_us: int) -> None:
        told.append(awake_us)
        asked.set()

    monkeypatch.setattr(Vigil, "allow", allow)
    monkeypatch.setattr(process, "asked_to_end", lambda loop: asked)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(Collector, "begin", lambda self, loop: None)
    config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), barnabas_busy_poll_us=70)
    await process._serve(Assembly(config, None))
    assert told == [70]
