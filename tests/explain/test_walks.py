"""Every walk of `barnabas explain`, whole: what it prints was read from the running core, and is compared line by line.

`python -m tests.explain.test_walks` writes the files of `told/` anew; the difference is to be read before it is kept.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.explain import WALKS, main
from barnabas.explain.telling import COLUMNS, Walk
from barnabas.explain.wheel import walk as wheel

TOLD = Path(__file__).with_name("told")
PLAYED = {**{name: [name] for name in WALKS}, "wheel": ["wheel", "446", "450", "455", "473"]}
CLOCK = ["wheel", "43261000", "--tick", "1000", "--slots", "60"]
PLAYED["wheel-clock"] = CLOCK


@pytest.mark.parametrize("name", PLAYED)
def test_a_walk_is_told_as_it_was(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(PLAYED[name]) == 0
    assert capsys.readouterr().out == (TOLD / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", PLAYED)
def test_a_walk_fits_a_terminal(name: str) -> None:
    assert max(map(len, (TOLD / f"{name}.txt").read_text().splitlines())) <= COLUMNS


def test_no_walk_is_left_out() -> None:
    assert sorted(path.stem for path in TOLD.iterdir()) == sorted(PLAYED)


@pytest.mark.parametrize("name", WALKS)
def test_programs_are_told_the_same(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAYED[name], "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    again = Walk(told["title"], told["before"], after=told["after"])
    for number, step in enumerate(told["steps"], 1):
        assert step["step"] == number
        again.step(step["text"], step["shows"])
    assert again.as_text() == (TOLD / f"{name}.txt").read_text()


def test_colour_changes_no_word() -> None:
    purge: Walk = import_module("barnabas.explain.purge").walk()
    plain, coloured = purge.as_text(), purge.as_text(colour=True)
    assert "\x1b[2mF1*\x1b[0m" in coloured
    for code in ("\x1b[1m", "\x1b[2m", "\x1b[0m"):
        assert code not in plain
        coloured = coloured.replace(code, "")
    assert coloured == plain


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["wheel", "--", "-1"], "a delay of -1 ms: write a number of milliseconds from 0 up"),
        (["wheel", "450", "--tick", "0"], "a tick of 0 ms: give 1 or more"),
        (["wheel", "450", "--slots", "1"], "1 slots: give 2 to 1000"),
        (["wheel", "450", "--start", "-4"], "a start at -4 ms: give 0 or more"),
        (["wheel", *map(str, range(101))], "101 timers: give 1 to 100"),
        (["wheel", str(20**20)], "write a number of milliseconds from 0 up"),
        (["fetch", "450"], "barnabas explain fetch has none"),
        (["send", "--tick", "5"], "barnabas explain send has none"),
    ],
)
def test_what_cannot_be_played_is_said(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


def test_a_timer_that_is_due_at_once_lies_in_no_bucket() -> None:
    told = wheel([0])
    assert len(told.steps) == 1
    assert told.steps[0].shows["timers"] == ["0 is due: it runs"]
    assert told.after.startswith("0 demotions, 0 buckets queued")


def test_timers_that_are_due_at_once_and_later_go_together() -> None:
    told = wheel([0, 5, 450])
    assert told.steps[0].shows["timers"][0] == "0 is due: it runs"
    assert [step.text for step in told.steps[1:3]] == [
        "At 5 ms a bucket of wheel 1 expires.",
        "At 400 ms a bucket of wheel 3 expires.",
    ]


@given(st.lists(st.integers(0, 20_000), min_size=1, max_size=8), st.integers(0, 500), st.integers(1, 50))
def test_any_timers_can_be_walked(delays_ms: list[int], start_ms: int, tick_ms: int) -> None:
    told = wheel(delays_ms, start_ms, tick_ms)
    ran = [line for step in told.steps for line in step.shows["timers"] if "is due" in line]
    assert len(ran) == len(set(delays_ms))


def test_a_timer_is_demoted_at_most_once_for_each_wheel() -> None:
    told = wheel([64_000_001], start_ms=77)
    levels = [int(step.shows["timers"][0].split("wheel ")[1][0]) for step in told.steps[:-1]]
    assert levels == sorted(set(levels), reverse=True)
    assert told.steps[-1].text == "At 64000078 ms a bucket of wheel 1 expires."


def _write() -> None:
    import contextlib
    import io

    for name, arguments in PLAYED.items():
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            main(arguments)
        (TOLD / f"{name}.txt").write_text(told.getvalue())


if __name__ == "__main__":
    _write()
