"""The simulator finds what it is for: each planted defect by the checker that is named for it, and nothing without."""

from __future__ import annotations

import pytest

from barnabas.simulator.plan import draw
from barnabas.simulator.run import play
from tests.simulator.plants import PLANTS, planted

SHORT_MS = 15_000


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_defect_is_found_by_its_checker_and_its_seed_holds_without_it(name: str) -> None:
    plant = PLANTS[name]
    plan = draw(str(plant.seed), SHORT_MS, plant.brokers)
    with planted(plant):
        broken = play(plan).broken
    assert broken is not None
    assert broken.startswith(plant.found_as)
    assert play(plan).broken is None, "the plant is gone, and so is what it broke"
