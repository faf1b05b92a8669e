"""Whole runs: they hold, they are the same again, and what breaks is saved and played again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.cli import main
from barnabas.simulator import search
from barnabas.simulator.checks import Check
from barnabas.simulator.checks.settled import Settled
from barnabas.simulator.faults import ACTIVE, BLACKOUT, KINDS_OF_MEMBERS, Fault
from barnabas.simulator.history import Over
from barnabas.simulator.plan import SEVERAL, draw
from barnabas.simulator.run import LEAST, Outcome, play
from barnabas.simulator.watching import PARTED, RECOGNISED
from barnabas.simulator.world import Broken
from tests.simulator.soak import play_range

ROOT = Path(__file__).parents[2]
SHORT_MS = 15_000


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [play(draw(str(seed), SHORT_MS)) for seed in range(100, 104)]


def test_seeds_hold_and_meet_what_they_are_for(outcomes: list[Outcome]) -> None:
    assert [outcome.broken for outcome in outcomes] == [None] * len(outcomes)
    for outcome in outcomes:
        assert outcome.acknowledged >= 3 * LEAST
        assert len(outcome.plan.faults) >= 5
        assert outcome.virtual_ms >= SHORT_MS
        assert any(outcome.reached[name] for name in search.REACHED if name.startswith("fault: "))
    assert {outcome.plan.brokers for outcome in outcomes} == {SEVERAL}


def test_a_run_is_the_same_again_in_one_process(outcomes: list[Outcome]) -> None:
    again = play(outcomes[0].plan)
    assert (again.digest, again.reached) == (outcomes[0].digest, outcomes[0].reached)
    assert len({outcome.digest for outcome in outcomes}) == len(outcomes), "every seed is another run"


def traces(python: str, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [python, "-m", "tests.simulator.traces", "5", "6"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def other_pythons() -> Iterator[str]:
    """Pythons of other versions on this machine, or named by OTHER_PYTHON, that have what a broker needs."""
    names = [os.environ.get("OTHER_PYTHON", ""), *(f"python3.{minor}" for minor in range(11, 15))]
    probe = "import sys, msgpack, crc32c, cramjam, re2, xxhash; print(*sys.version_info[:2])"
    for found in filter(None, map(shutil.which, filter(None, names))):
        told = subprocess.run([found, "-c", probe], capture_output=True, text=True, check=False)
        version = tuple(map(int, told.stdout.split())) if told.returncode == 0 else ()
        if version not in ((), sys.version_info[:2]) and version >= (3, 11):
            yield found


def test_the_trace_is_the_same_under_two_hash_seeds_and_other_pythons() -> None:
    first = traces(sys.executable, "1")
    assert first == traces(sys.executable, "2")
    assert len(first.splitlines()) == 2
    assert all(line.endswith(" None") for line in first.splitlines())
    for other in other_pythons():
        assert first == traces(other, "3"), other


def test_one_seed_in_ten_keeps_the_defaults_and_lasts_five_times_as_long() -> None:
    plans = [draw(str(seed)) for seed in range(300)]
    defaults = [plan for plan in plans if plan.duration_ms == 300_000]
    assert 15 <= len(defaults) <= 50
    assert {plan.duration_ms for plan in plans} == {60_000, 300_000}
    assert all("log.roll.ms" not in plan.broker for plan in defaults)
    assert all(plan.consumers == [{}] * (1 if plan.members else 2) for plan in defaults)
    assert all(len(plan.faults) >= 5 for plan in plans)
    assert {plan.brokers for plan in plans} == {SEVERAL}
    alone = [draw(str(seed), brokers=1) for seed in range(60)]
    assert {plan.brokers for plan in alone} == {1}
    assert not any(fault.kind == "power" for plan in alone if not plan.synced for fault in plan.faults)
    assert not any(fault.kind == BLACKOUT for plan in plans if not plan.synced for fault in plan.faults)
    assert {fault.node for plan in alone for fault in plan.faults if fault.kind not in KINDS_OF_MEMBERS} == {1}
    nodes = {fault.node for plan in plans for fault in plan.faults if fault.kind not in KINDS_OF_MEMBERS}
    assert nodes == {1, 2, 3, ACTIVE}


def test_most_clusters_have_a_quorum_of_controllers_whose_active_one_is_hit() -> None:
    plans = [draw(str(seed)) for seed in range(300)]
    quorums = [plan for plan in plans if plan.controllers > 1]
    assert {draw(str(seed), brokers=1).controllers for seed in range(60)} == {1}
    assert {plan.controllers for plan in plans} == {1, SEVERAL}
    assert len(quorums) > 150
    assert any(fault.node == ACTIVE for plan in quorums for fault in plan.faults)
    assert any(fault.on_vote for plan in quorums for fault in plan.faults)
    of_one = [fault for plan in plans if plan.controllers == 1 for fault in plan.faults]
    assert not any(fault.on_vote or (fault.node == ACTIVE and fault.kind not in KINDS_OF_MEMBERS) for fault in of_one)
    assert draw("1", 3000, SEVERAL, 1).controllers == 1
    assert draw("1", 3000, SEVERAL, SEVERAL).controllers == SEVERAL


def test_half_of_all_seeds_have_a_group_of_either_protocol_or_of_both() -> None:
    plans = [draw(str(seed)) for seed in range(300)]
    groups = [plan for plan in plans if plan.members]
    assert 100 <= len(groups) <= 200
    protocols = [{member["group_protocol"] for member in plan.members} for plan in groups]
    assert all(kinds in protocols for kinds in ({"classic"}, {"consumer"}, {"classic", "consumer"}))
    members = {fault.node for plan in groups for fault in plan.faults if fault.kind in KINDS_OF_MEMBERS}
    assert members == {0, 1, 2}
    assert not any(fault.kind in KINDS_OF_MEMBERS for plan in plans if not plan.members for fault in plan.faults)


def test_once_and_in_order_is_promised_where_a_start_forgets_nothing_of_it() -> None:
    plan = replace(draw("7"), faults=[Fault(1000, "cut", 100)])
    one, more = {"max_in_flight_requests_per_connection": 1}, {"max_in_flight_requests_per_connection": 2}
    assert plan.promises_once(one)
    assert plan.promises_once(more)
    assert plan.promises_once({})
    assert not plan.promises_once({**one, "enable_idempotence": False})
    plan.faults.append(Fault(2000, "stop", 100))
    assert plan.promises_once(one)
    assert not plan.promises_once(more)
    assert not plan.promises_once({})


def test_several_at_a_time_are_told_in_the_order_of_their_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    short = draw("7", 3000, 1)
    monkeypatch.setattr(search, "draw", lambda seed, brokers: replace(short, seed=seed))
    alone = [outcome.as_json() for outcome in search.search(range(3))]
    assert [outcome.as_json() for outcome in search.search(range(3), 2)] == alone
    assert [told["plan"]["seed"] for told in alone] == ["0", "1", "2"]


class Refusing(Settled):
    """Refuses every run at its end."""

    def _over(self, event: Over) -> None:
        raise Broken("settled: forged")


@pytest.mark.parametrize(("checks", "broken"), [([], 0), ([Refusing()], 2)])
def test_a_range_of_seeds_is_summed_up(
    checks: list[Check], broken: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    short = draw("7", 3000, 1)
    monkeypatch.setattr(search, "draw", lambda seed, brokers: replace(short, seed=seed))
    monkeypatch.setattr("barnabas.simulator.run.all_checks", lambda: checks)
    assert play_range(3, 2, 1) == broken
    told = capsys.readouterr().out
    assert f"seeds 3 to 4, {broken} broken\n" in told
    assert told.count("repeat it: barnabas simulate --seeds 1 --seed ") == broken


def test_what_breaks_is_saved_told_in_one_line_and_played_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = draw("7", 3000)
    monkeypatch.setattr(search, "draw", lambda seed, brokers: replace(short, seed=seed))
    monkeypatch.setattr("barnabas.simulator.run.all_checks", lambda: [Refusing()])
    assert main(["simulate", "--seeds", "1", "--seed", "7", "--save", str(tmp_path), "--json"]) == 1
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    path = tmp_path / "simulate-7.json"
    assert told[0]["replay"] == f"barnabas simulate --replay {path}"
    assert told[0]["broken"] == "settled: forged"
    assert (told[1]["seeds"], told[1]["broken"]) == (1, 1)
    saved = json.loads(path.read_text())
    assert saved["plan"]["seed"] == "7"
    assert saved["trace"][-1].endswith("broken: settled: forged")

    assert main(["simulate", "--replay", str(path), "--json"]) == 1
    again = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (again["trace"], again["broken"]) == (told[0]["trace"], told[0]["broken"])


def test_the_command_says_what_was_reached(
    monkeypatch: pytest.MonkeyPatch, outcomes: list[Outcome], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(search, "search", lambda seeds, jobs, brokers: iter(outcomes))
    assert main(["simulate", "--seeds", str(len(outcomes))]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"{len(outcomes)} seeds, 0 broken; ")
    assert "seeds/s" in told
    assert "virtual hours" in told
    assert "clean stops" in told


def test_a_long_search_that_never_meets_a_fault_fails(
    monkeypatch: pytest.MonkeyPatch, outcomes: list[Outcome], capsys: pytest.CaptureFixture[str]
) -> None:
    poor = replace(outcomes[0], reached=outcomes[0].reached.copy())
    del poor.reached["clocks that drift"]
    monkeypatch.setattr(search, "search", lambda seeds, jobs, brokers: (poor for _ in seeds))
    assert main(["simulate", "--seeds", str(search.MANY - 1)]) == 0
    assert "never reached" not in capsys.readouterr().out
    assert main(["simulate", "--seeds", str(search.MANY)]) == 1
    assert "clocks that drift" in capsys.readouterr().out.splitlines()[-1]


PROMISED = (
    # elections of each kind, and what controllers do among themselves
    "elections",
    "elections of an eligible leader",
    "elections of the last known leader",
    "elections of the preferred leader",
    "elections of an unclean leader",
    "controller elections",
    "pre-votes refused",
    "controllers that resign",
    # logs
    PARTED,
    "cuts of the metadata log",
    "snapshots of metadata installed",
    # who is in sync, and who is there
    "ISR shrinks",
    "ISR expansions",
    "fencings by evidence",
    "fencings by timeout",
    "returns without proof",
    # disks
    "unsynced bytes lost",
    "names lost",
    "flips found",
    "writes that found a full disk",
    # what clients are told
    "error 6 NOT_LEADER_OR_FOLLOWER",
    "error 7 REQUEST_TIMED_OUT",
    "error 19 NOT_ENOUGH_REPLICAS",
    "error 20 NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "error 74 FENCED_LEADER_EPOCH",
    "error 75 UNKNOWN_LEADER_EPOCH",
    "operations that expired",
    RECOGNISED,
    # groups
    "commits whose coordinator moves",
    "rebalances",
    "zombies refused",
    # ways and clocks
    "half-open connections",
    "fault: cut to",
    "fault: cut from",
    "fault: split to",
    "fault: split from",
    "clocks that drift",
    "fault: jump",
)
"""What a long search is promised to meet."""


@pytest.mark.parametrize("name", PROMISED)
def test_a_long_search_that_never_meets_what_it_is_to_meet_fails_and_names_it(name: str) -> None:
    found = search.Found()
    found.of_several = search.MANY
    found.reached.update(search.REACHED)
    assert not found.missing
    del found.reached[name]
    assert found.missing == [name]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no failure that barnabas simulate has saved"),
        ("[]", "is no failure that barnabas simulate has saved"),
        ('{"form": 9}', "is of form 9; this release replays form 1"),
        ('{"form": 1, "plan": {"seed": "1"}}', "is no failure that barnabas simulate has saved"),
    ],
)
def test_a_file_that_is_no_failure_is_refused_in_one_sentence(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f.json"
    path.write_text(text)
    assert main(["simulate", "--replay", str(path)]) == 2, "1 is for a promise that was broken"
    assert why in capsys.readouterr().err


def test_where_a_failure_is_saved_is_there_before_the_search_begins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is found after hours, and would be lost."""
    monkeypatch.setattr("barnabas.simulator.run.all_checks", lambda: [Refusing()])
    monkeypatch.setattr(search, "draw", lambda seed, brokers: replace(draw("7", 3000, 1), seed=seed))
    assert main(["simulate", "--seeds", "1", "--save", str(tmp_path / "found" / "today")]) == 1
    assert (tmp_path / "found" / "today" / "simulate-0.json").exists()
    (tmp_path / "file").touch()
    monkeypatch.setattr(search, "search", lambda *_: pytest.fail("it began"))
    assert main(["simulate", "--seeds", "1", "--save", str(tmp_path / "file")]) == 4
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert main(["simulate", "--seeds", "1", "--save", str(tmp_path)]) == 4
    assert f"--save {tmp_path}: this user may not write there" in capsys.readouterr().err


@pytest.mark.parametrize("given", [["--seeds", "0"], ["--jobs", "0"], ["--replay", "f.json", "--seed", "3"]])
def test_a_wrong_call_is_told(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *given]) == 2
    assert capsys.readouterr().err.startswith("barnabas: --")
