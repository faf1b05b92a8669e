"""Defects are planted by the text of what they change: who moves that text hears of it before every commit."""

from __future__ import annotations

import pytest

from tests.simulator.plant import planted
from tests.simulator.test_plants import ALL


@pytest.mark.parametrize("name", ALL)
def test_what_a_planted_defect_changes_is_there(name: str) -> None:
    with planted(ALL[name]):
        pass
