"""docs/SCENARIOS.md is the index of the codes that tests cite: every cited code is there, every listed one is cited."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tests.conformance.cluster.scenarios
import tests.conformance.scenarios
from tests.conformance.cluster.acts import CLUSTER
from tests.conformance.scenario import ALL

assert tests.conformance.scenarios.__all__  # imported for the list it fills
assert tests.conformance.cluster.scenarios.__all__  # the same

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "SCENARIOS.md").read_text()
LISTED = dict(re.findall(r"^\| ([A-Z]\d\d[a-z]?) \| (.+) \|$", PAGE, re.MULTILINE))
LETTERS = "".join(re.findall(r"^## ([A-Z]): ", PAGE, re.MULTILINE))


def cited(text: str) -> set[str]:
    """Codes in comments, docstrings and strings, and those that name a test (`test_f02_...`)."""
    found = set(re.findall(rf"\b[{LETTERS}]\d\d[a-z]?\b", text))
    return found | {each.capitalize() for each in re.findall(rf"def test_([{LETTERS.lower()}]\d\d[a-z]?)_", text)}


def everywhere() -> set[str]:
    own = Path(__file__)
    files = [path for room in ("barnabas", "tests") for path in (ROOT / room).rglob("*.py") if path != own]
    return set(ALL).union(CLUSTER, *(cited(path.read_text()) for path in files))


def test_every_cited_code_is_listed_and_every_listed_code_is_cited() -> None:
    found = everywhere()
    assert sorted(found - set(LISTED)) == [], "cited, and not in docs/SCENARIOS.md"
    assert sorted(set(LISTED) - found) == [], "in docs/SCENARIOS.md, and cited nowhere"


def test_a_code_is_listed_once_and_says_what_its_scenario_asks() -> None:
    codes = re.findall(r"^\| ([A-Z]\d\d[a-z]?) \|", PAGE, re.MULTILINE)
    assert len(codes) == len(set(codes)) == len(LISTED)
    played = {**ALL, **CLUSTER}
    assert set(ALL).isdisjoint(CLUSTER)
    assert {id_: LISTED.get(id_) for id_ in played} == {
        id_: one.asks.replace("|", "\\|") for id_, one in played.items()
    }


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("# T06 is here", {"T06"}),
        ("def test_p06b_flipped() -> None:", {"P06b"}),
        ('@scenario("F21b", ...)', {"F21b"}),
        ("A10 and TF1 and F123 are none", set()),
    ],
)
def test_what_counts_as_a_citation(text: str, codes: set[str]) -> None:
    assert cited(text) == codes
