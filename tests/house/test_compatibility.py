"""docs/COMPATIBILITY.md has a reason for every gap and no others; that it is current, `test_pages` says."""

from __future__ import annotations

import re

from barnabas.protocol.api import VERSIONS
from tests.house.compatibility import GAPS, KAFKA, REMARKS, lacking, page


def test_every_gap_has_a_reason() -> None:
    assert {key for key in KAFKA if lacking(key)} == set(GAPS)


def test_a_remark_is_made_of_what_is_served() -> None:
    assert set(REMARKS) <= set(VERSIONS)
    assert not set(REMARKS) & set(GAPS)


def test_the_versions_of_the_page_are_those_that_are_served() -> None:
    found = re.findall(r"^\| (\d+) \| \w+ \| (\d+)-(\d+)[^|]*\|", page(), re.MULTILINE)
    assert {int(key): (int(first), int(last)) for key, first, last in found} == {
        int(key): (0, last) if not key else (first, last) for key, (first, last) in VERSIONS.items()
    }
