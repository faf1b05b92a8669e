"""What a flood took goes back to the system once it is over, and what the broker needs is left alone."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from barnabas.broker.account import PARKED
from barnabas.broker.host import trim
from barnabas.broker.host.trim import GROWN_BYTES_MIN, HELD_BYTES_MAX, Trim
from tests.broker.host.fake_core import FakeCore, serving

MIB = 1024 * 1024


class Given:
    """Counts how often memory was given back, of a process whose own memory a test names (bytes)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.own_bytes: int | None = 50 * MIB
        monkeypatch.setattr(trim, "give_back", self._give_back)
        monkeypatch.setattr(trim, "memory_bytes", lambda: None if self.own_bytes is None else (10**9, self.own_bytes))

    def _give_back(self) -> None:
        self.count += 1

    def looks(self, one: Trim, *own_bytes: int) -> int:
        """How often memory is given back while it is looked at so often."""
        before = self.count
        for size in own_bytes:
            self.own_bytes = size
            one.end()
            one._turn()
        return self.count - before


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    return Given(monkeypatch)


async def test_what_has_grown_goes_back_once_and_what_stays_is_needed(given: Given) -> None:
    async with serving(FakeCore()) as host:
        one = Trim(host)
        one.begin()
        assert given.looks(one, 50 * MIB + GROWN_BYTES_MIN - 1) == 0
        assert given.looks(one, 350 * MIB, 100 * MIB, 100 * MIB, 131 * MIB) == 1
        assert given.looks(one, 100 * MIB + GROWN_BYTES_MIN, 60 * MIB) == 1
        assert given.looks(one, 60 * MIB + GROWN_BYTES_MIN) == 1
        one.end()


async def test_a_broker_of_much_memory_is_let_grow_by_a_quarter(given: Given) -> None:
    async with serving(FakeCore()) as host:
        given.own_bytes = 400 * MIB
        one = Trim(host)
        one.begin()
        assert given.looks(one, 499 * MIB) == 0
        assert given.looks(one, 500 * MIB) == 1
        one.end()


async def test_what_a_start_grew_by_goes_back_as_well(given: Given) -> None:
    """Requests that were held while logs were recovered had taken it, and it stayed."""
    async with serving(FakeCore()) as host:
        one = Trim(host)
        given.own_bytes = 400 * MIB
        one.begin()
        assert given.looks(one, 400 * MIB, 120 * MIB) == 1
        assert given.looks(one, 120 * MIB, 120 * MIB) == 0, "what stays is needed"
        one.end()


async def test_nothing_is_given_back_while_something_large_is_under_way(given: Given) -> None:
    core = FakeCore()
    async with serving(core) as host:
        one = Trim(host)
        one.begin()
        core.account.charge(1, PARKED, HELD_BYTES_MAX + 1)
        assert given.looks(one, 300 * MIB, 300 * MIB) == 0
        core.account.release(1, PARKED, HELD_BYTES_MAX + 1)
        core.has_lines = True
        assert given.looks(one, 300 * MIB) == 0
        core.has_lines = False
        host.turns.line.append(cast("Any", None))
        assert given.looks(one, 300 * MIB) == 0
        host.turns.line.clear()
        assert given.looks(one, 300 * MIB) == 1
        one.end()


async def test_pages_of_files_go_back_once_and_those_that_are_in_use_later(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    in_use, of_files = True, 20 * MIB

    def release() -> bool:
        asked.append(in_use)
        return not in_use

    def looks(*sizes: int) -> int:
        nonlocal of_files
        before = len(asked)
        for size in sizes:
            of_files = size
            one.end()
            one._turn()
        return len(asked) - before

    monkeypatch.setattr(trim, "memory_bytes", lambda: (50 * MIB + of_files, 50 * MIB))
    core = FakeCore()
    async with serving(core) as host:
        one = Trim(host, release)
        one.begin()
        assert looks(20 * MIB + GROWN_BYTES_MIN - 1) == 0
        assert looks(600 * MIB, 700 * MIB) == 2, "somebody reads them: it is asked again"
        in_use = False
        assert looks(700 * MIB, 40 * MIB, 40 * MIB) == 1
        core.account.charge(1, PARKED, HELD_BYTES_MAX + 1)
        assert looks(600 * MIB) == 0
        core.account.release(1, PARKED, HELD_BYTES_MAX + 1)
        assert looks(600 * MIB, 600 * MIB, 600 * MIB) == 1, "what stays is needed"
        one.end()


async def test_where_the_system_does_not_tell_nothing_is_done(given: Given) -> None:
    async with serving(FakeCore()) as host:
        given.own_bytes = None
        one = Trim(host)
        one.begin()
        assert one._timer is None
        one.end()


def test_giving_back_is_done_beside() -> None:
    before = set(threading.enumerate())
    trim.give_back()
    for thread in threading.enumerate():
        if thread.name == "barnabas-trim":
            thread.join(60)
    assert set(threading.enumerate()) <= before
