"""docs/STORIES.md: what it names is there. A statement without a test says why in its line."""

from __future__ import annotations

import re
from pathlib import Path

from barnabas.cli.explain import WALKS

TESTS = Path(__file__).parent.parent
PAGE = (TESTS.parent / "docs" / "STORIES.md").read_text()
LINES = [
    re.split(r" \| ", line.strip("| \n"))
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| statement")
]


def test_every_statement_has_its_four_cells_and_those_played_by_hand_a_fifth() -> None:
    assert len(LINES) == 165
    assert {len(cells) for cells in LINES} == {4, 5}


def test_every_step_by_hand_is_a_statement_and_a_command() -> None:
    steps = {cells[4] for cells in LINES if len(cells) == 5} - {"-"}
    _, _, by_hand = PAGE.partition("### By hand")
    assert steps == set(re.findall(r"^# (\d): ", by_hand, re.MULTILINE)) == set("123456789")


def test_every_test_that_is_named_is_there() -> None:
    named = [name for cells in LINES for name in re.findall(r"`([\w/]+\.py(?:::\w+)?)`", cells[2])]
    assert len(named) > 150
    for name in named:
        path, _, function = name.partition("::")
        source = (TESTS / path).read_text()
        assert not function or re.search(rf"^(?:async )?def {function}\(", source, re.MULTILINE), name


def test_every_walk_that_is_named_is_played() -> None:
    walks = [cells[3].strip("`").split()[0] for cells in LINES if cells[3] != "-"]
    assert set(walks) == set(WALKS)


def test_what_has_no_test_says_why() -> None:
    without = [cells for cells in LINES if cells[2] == "-"]
    assert all(re.search(r"here one loop|not needed here|here the number", one[1]) for one in without)
    assert len(without) == 3
