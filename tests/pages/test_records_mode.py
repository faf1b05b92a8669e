"""How far records are checked changes what a figure says: every page that gives one names the mode, and shows both."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = " ".join((ROOT / "README.md").read_text().split())
ROWS = dict(re.findall(r"^\| ([^|]+) \| ([\d,.]+) [^|]+\|", (ROOT / "docs" / "SPEED.md").read_text(), re.MULTILINE))


def figure(row: str) -> float:
    return float(ROWS[row].replace(",", ""))


def test_every_figure_of_one_mode_stands_beside_that_of_the_other() -> None:
    named = {row for row in ROWS if "records full" in row or "records header" in row}
    assert len(named) >= 12
    assert {row.replace("records full", "records header") for row in named if "records full" in row} == {
        row for row in named if "records header" in row
    }


@pytest.mark.parametrize(
    "row",
    [
        "small requests, 16 connections x 8 deep, records {}, kafka",
        "small requests, 16 connections x 1, records {}, kafka",
        "produce 1 KB, records {}, against kafka",
    ],
)
def test_the_readme_says_what_to_walk_every_record_costs(row: str) -> None:
    """A third, give or take a tenth: the figures swing with the machine."""
    assert (
        "`full` walks every record, as Apache Kafka does and FIDELITY.md was compared, and takes in about a third"
        in README
    )
    assert 1 - figure(row.format("full")) / figure(row.format("header")) == pytest.approx(1 / 3, abs=0.1)
