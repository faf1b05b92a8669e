"""The search for planted defects among whole seeds: it ends where a defect's own checker has found it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.simulator.plan import Plan, draw
from tests.simulator import teeth
from tests.simulator.plants_of_controllers import PLANTS_OF_CONTROLLERS

NAMES = ("vote_unsynced", "voter_unsynced")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Two defects; the first is found by the third seed of each search, the other by none."""
    plans: list[Plan] = []

    def play(plan: Plan) -> Any:
        plans.append(plan)
        said = {"1": "settled: another checker", "2": "terms: b votes twice"}
        return SimpleNamespace(broken=said.get(plan.seed))

    monkeypatch.setattr(teeth, "play", play)
    monkeypatch.setattr(teeth, "ALL", {name: PLANTS_OF_CONTROLLERS[name] for name in NAMES})
    return plans


def test_a_search_goes_on_until_the_defects_own_checker_has_found_it(
    played: list[Plan], capsys: pytest.CaptureFixture[str]
) -> None:
    assert teeth.play_range(0, 5, 1) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "vote_unsynced: seed 2: terms: b votes twice"
    assert told[1] == "voter_unsynced: 5 seeds: not found"
    assert told[2].startswith("plants: 1 of 2 found within seeds 0 to 4; 8 seeds played in ")
    assert told[-1] == "never found: voter_unsynced"
    assert [plan.seed for plan in played] == ["0", "1", "2", "0", "1", "2", "3", "4"]
    assert played[:3] == [draw(str(seed)) for seed in range(3)], "whole ones, as clean runs are"


def test_a_soak_that_has_no_time_left_has_missed_nothing(
    played: list[Plan], capsys: pytest.CaptureFixture[str]
) -> None:
    assert teeth.soak(0, "1") == 0
    assert played == []
    assert capsys.readouterr().out == "plants: 0 found, 0 not\n"
