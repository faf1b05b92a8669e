"""docs/STORIES.md: what it names is there. A statement without a test says why in its line."""

from __future__ import annotations

import re
from pathlib import Path

from barnabas.cli.explain import WALKS

TESTS = Path(__file__).parent.parent
LINES = [
    re.split(r" \| ", line.strip("| \n"))
    for line in (TESTS.parent / "docs" / "STORIES.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| statement")
]


def test_every_statement_has_its_four_cells() -> None:
    assert len(LINES) == 165
    assert {len(cells) for cells in LINES} == {4}


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
    assert all(re.search(r"not here yet|here one loop|not needed here|here the number", one[1]) for one in without)
    assert len(without) == 5
