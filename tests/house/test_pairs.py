"""`./dev bench --against`: the interval, the verdicts, the other revision's work tree, whose package is measured."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import pairs
from tests.benchmarks.pairs import Interval, checkout, interval, report, stage, verdict


@pytest.mark.parametrize(
    ("count", "low", "high", "confidence"),
    [
        (1, 1, 1, 0.0),
        (5, 1, 5, 0.9375),
        (6, 1, 6, 0.96875),
        (8, 1, 8, 0.9921875),
        (9, 2, 8, 0.9609375),
        (20, 6, 15, 0.9586),
    ],
)
def test_the_interval_is_the_narrowest_that_is_sure(count: int, low: float, high: float, confidence: float) -> None:
    """Against the tables of the sign test: the ratios are 1 to n, so the bounds are their ranks."""
    shuffled = random.Random(count).sample(range(1, count + 1), count)
    found = interval([float(each) for each in shuffled])
    assert (found.low, found.high) == (low, high)
    assert found.median == (count + 1) / 2
    assert found.confidence == pytest.approx(confidence, abs=1e-4)


def test_the_interval_holds_the_true_median_as_often_as_it_says() -> None:
    dice = random.Random(7)
    held = sum(
        found.low <= 1.0 <= found.high
        for found in (interval([dice.lognormvariate(0, 0.2) for _ in range(9)]) for _ in range(2000))
    )
    assert 0.95 < held / 2000 < 0.972


def test_no_pairs_is_no_interval() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        interval([])


@pytest.mark.parametrize(
    ("low", "high", "better", "said"),
    [
        (0.90, 0.96, "more", "harmed"),
        (0.90, 0.98, "more", "unclear"),
        (0.975, 1.02, "more", "unharmed"),
        (1.01, 1.10, "more", "better"),
        (0.50, 1.90, "more", "unclear"),
        (1.04, 1.10, "less", "harmed"),
        (1.02, 1.10, "less", "unclear"),
        (0.98, 1.025, "less", "unharmed"),
        (0.90, 0.99, "less", "better"),
    ],
)
def test_a_verdict_is_about_the_whole_interval(low: float, high: float, better: str, said: str) -> None:
    assert verdict(Interval((low + high) / 2, low, high, 0.96), better) == said
    assert verdict(Interval((low + high) / 2, low, high, 0.94), better) == "unclear", "too few pairs prove nothing"


def test_the_report_ends_with_1_when_a_row_is_harmed_and_names_each_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    ratios = {"fast": [1.0] * 6, "slow": [0.9] * 6}
    assert report(ratios, {"fast": "more", "slow": "more"}, "v1") == 1
    said = capsys.readouterr().out
    assert "more is better: harmed" in said
    assert "more is better: unharmed" in said
    assert "2 rows, 1 harmed by more than 3%, 0 unclear" in said
    assert report(ratios, {"fast": "more", "slow": "less"}, "v1") == 0


def git(place: Path, *arguments: str) -> str:
    command = ["git", "-C", str(place), "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of two commits whose package says which one it is, in the place of ours."""
    root = tmp_path / "repository"
    (root / "barnabas").mkdir(parents=True)
    (root / "tests").mkdir()
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(root))
    for number in (1, 2):
        (root / "barnabas" / "__init__.py").write_text(f"number = {number}\n")
        git(root, "add", "-A")
        git(root, "commit", "--quiet", "-m", str(number))
    (root / "barnabas" / "__init__.py").write_text("number = 'not committed'\n")
    monkeypatch.setattr(pairs, "ROOT", root)
    return root


def number_in(place: Path) -> str:
    command = [sys.executable, "-c", "import barnabas; print(barnabas.number)"]
    done = subprocess.run(
        command, cwd=place, env={"PYTHONPATH": str(place)}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_each_stage_has_the_package_of_its_revision_and_nothing_stays(repository: Path) -> None:
    with checkout("HEAD~1") as tree, stage(repository) as here, stage(tree) as there:
        assert (number_in(here), number_in(there)) == ("not committed", "1")
        places = (tree, here, there)
    assert not any(place.exists() for place in places)
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_the_work_tree_goes_when_a_run_fails(repository: Path) -> None:
    with pytest.raises(RuntimeError, match="broke"), checkout("HEAD"):
        raise RuntimeError("broke")
    assert len(git(repository, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize("name", ["no-such-branch", "", "--help"])
def test_an_unknown_revision_is_named(repository: Path, name: str) -> None:
    with pytest.raises(pairs.NoSuchRevision, match="no such revision"), checkout(name):
        raise AssertionError


def test_pairs_begin_with_one_and_the_other_in_turn(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def run(place: Path, groups: str) -> dict[str, dict[str, object]]:
        order.append(number_in(place))
        return {"row": {"ours": 2.0 if order[-1] == "1" else 1.0, "better": "less"}, "not measured": {"ours": None}}

    monkeypatch.setattr(pairs, "_run", run)
    seen: dict[str, list[float]] = {}
    monkeypatch.setattr(pairs, "report", lambda ratios, kinds, revision: seen.update(ratios) or 0)
    assert pairs.measure("HEAD~1", "small", 3) == 0
    assert order == ["not committed", "1", "1", "not committed", "not committed", "1"]
    assert seen == {"row": [0.5, 0.5, 0.5]}
