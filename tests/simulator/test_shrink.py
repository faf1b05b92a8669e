"""A smaller run is one that breaks the same promise, and nothing that is needed for that is left out."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.cli import main
from barnabas.simulator import search, shrink
from barnabas.simulator.faults import CUT, KILL, KILL_MEMBER, PAUSE, POWER, Fault
from barnabas.simulator.plan import Plan, draw
from barnabas.simulator.run import Outcome

LONG = replace(
    draw("7", brokers=3),
    members=[{}, {}],
    moves=True,
    remakes=True,
    unclean=True,
    faults=[
        Fault(at_ms, kind, 100) for at_ms, kind in enumerate((KILL, CUT, POWER, KILL_MEMBER, PAUSE, CUT, KILL), 900)
    ],
)


def outcome(plan: Plan, broken: str | None) -> Outcome:
    return Outcome(plan, 1, 1, 1, "", Counter(), broken)


def breaks_with(*kinds: str, tried: list[Plan]) -> object:
    """Broken by these kinds of faults together, as long as two producers are there."""

    def play(plan: Plan) -> Outcome:
        tried.append(plan)
        there = {fault.kind for fault in plan.faults}
        if "order" in there:
            return outcome(plan, "order: another one")
        if set(kinds) <= there and len(plan.producers) > 1:
            return outcome(plan, f"lost write: {len(tried)}")
        return outcome(plan, None)

    return play


def test_what_is_not_needed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Plan] = []
    monkeypatch.setattr(shrink, "play", breaks_with(CUT, POWER, tried=tried))
    smallest = shrink.shrink(outcome(LONG, "lost write: 0"))
    assert smallest.broken is not None
    assert smallest.broken.startswith("lost write: ")
    plan = smallest.plan
    assert sorted(fault.kind for fault in plan.faults) == [CUT, POWER]
    assert (len(plan.producers), plan.consumers, plan.members) == (2, [], [])
    assert (plan.moves, plan.remakes, plan.unclean) == (False, False, False)
    assert plan.duration_ms == max(fault.at_ms for fault in plan.faults) + 1000
    assert len(tried) < shrink.TRIES_MAX


def test_what_breaks_another_promise_is_no_smaller_run(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Plan] = []
    monkeypatch.setattr(shrink, "play", breaks_with("nothing has that", tried=tried))
    whole = outcome(LONG, "lost write: 0")
    assert shrink.shrink(whole) is whole
    monkeypatch.setattr(shrink, "play", lambda plan: outcome(plan, "order: another one"))
    assert shrink.shrink(whole) is whole


def test_no_more_runs_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Plan] = []
    monkeypatch.setattr(shrink, "play", breaks_with(tried=tried))
    shrink.shrink(outcome(LONG, "lost write: 0"), tries_max=5)
    assert len(tried) == 5


def test_the_command_says_what_is_left_and_how_it_is_replayed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = outcome(replace(LONG, seed="7"), "lost write: 0")
    monkeypatch.setattr(search, "search", lambda seeds, jobs, brokers: iter([broken]))
    monkeypatch.setattr(shrink, "play", breaks_with(POWER, tried=[]))
    assert main(["simulate", "--seeds", "1", "--seed", "7", "--save", str(tmp_path), "--shrink"]) == 1
    told = capsys.readouterr().out
    assert "1 faults, 2 clients, 1902 ms are enough, of 7 faults" in told
    path = tmp_path / "simulate-7-small.json"
    assert f"play it again: barnabas simulate --replay {path}" in told
    assert len(json.loads(path.read_text())["plan"]["faults"]) == 1
    assert search.load(path).faults[0].kind == POWER
