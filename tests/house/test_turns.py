"""`./dev bench --against REV --turns`: whose figures are divided by whose, in which order, and the CPU of a process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import load, servers, turns
from tests.benchmarks.load import Load
from tests.benchmarks.servers import Server


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="Linux alone tells it")
def test_the_cpu_of_a_process_grows_as_it_works() -> None:
    own = Server("own", os.getpid(), 0)
    before = own.cpu_ns()
    sum(range(3_000_000))
    assert own.cpu_ns() > before


def test_each_turn_is_a_pair_of_ours_and_theirs_and_who_begins_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    used = {1: 0, 2: 0}
    order: list[int] = []

    def ran(server: Server, *_: Any) -> Load:
        order.append(server.pid)
        used[server.pid] += 10_000 * server.pid
        return Load(10, 1.0 * server.pid, 0, 4.0 * server.pid, 0, 0, 0, 0)

    monkeypatch.setattr(Server, "cpu_ns", lambda server: used[server.pid])
    monkeypatch.setattr(load, "create_topic", lambda *_: None)
    monkeypatch.setattr(load, "small_requests", ran)
    monkeypatch.setattr(load, "wake", ran)
    monkeypatch.setattr(turns, "TURNS", 2)
    places: list[Path] = []

    @contextlib.contextmanager
    def broker(*flags: str, mode: str, place: Path) -> Iterator[Server]:
        places.append(place)
        assert flags == (("--set", "barnabas.busy.poll.us=0") if place == Path("here") else ())
        yield Server(mode, 1 if place == Path("here") else 2, 0)

    monkeypatch.setattr(servers, "barnabas", broker)
    monkeypatch.setattr(turns, "MODES", ("full",))
    monkeypatch.setattr(turns, "checkout", lambda revision: contextlib.nullcontext(Path(revision)))
    monkeypatch.setattr(
        turns, "stage", lambda tree: contextlib.nullcontext(Path("there" if tree == Path("v1") else "here"))
    )
    told: dict[str, list[float]] = {}
    monkeypatch.setattr(turns, "report", lambda ratios, kinds, revision: told.update(ratios) or 0)
    assert turns.measure("v1", 2, ["barnabas.busy.poll.us=0"]) == 0
    assert places == [Path("here"), Path("there"), Path("there"), Path("here")]
    assert len(told) == 2 * len(turns.SHAPES)
    assert all(each == [0.5] * 4 for each in told.values())
    each_start = [1, 2] + [1, 2] * len(turns.SHAPES) + [2, 1] * len(turns.SHAPES)
    assert order == each_start * 2
