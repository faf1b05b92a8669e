"""The simulator finds what it is for: each planted defect by the checker that is named for it, and nothing without."""

from __future__ import annotations

import re
from functools import cache

import pytest

from barnabas.simulator.plan import Plan, draw
from barnabas.simulator.run import play
from tests.simulator.plant import Plant, planted
from tests.simulator.plants import PLANTS
from tests.simulator.plants_of_controllers import PLANTS_OF_CONTROLLERS
from tests.simulator.plants_of_groups import PLANTS_OF_GROUPS
from tests.simulator.plants_of_several import PLANTS_OF_SEVERAL
from tests.simulator.test_checks import FORGED
from tests.simulator.test_remaking import KEEPS_THE_LOG
from tests.simulator.test_unclean import GOES_ON

ALL = {**PLANTS, **PLANTS_OF_SEVERAL, **PLANTS_OF_CONTROLLERS, **PLANTS_OF_GROUPS}
SHORT_MS = 10_000
SEARCHED = 40
"""Seeds that are tried where the one that is named does not find a defect any more."""


def plan_of(seed: int, brokers: int, controllers: int) -> Plan:
    return draw(str(seed), SHORT_MS, brokers, controllers)


@cache
def broken_without(seed: int, brokers: int, controllers: int) -> str | None:
    """What a seed breaks with no defect planted; played once for all that it finds."""
    return play(plan_of(seed, brokers, controllers)).broken


def finding_seed(plant: Plant) -> int | None:
    """The seed that finds it: the one that is named, or, where the code has changed since, one of the first few."""
    seeds: list[int] = [plant.seed, *(seed for seed in range(SEARCHED) if seed != plant.seed)]
    for seed in seeds:
        with planted(plant):
            broken = play(plan_of(seed, plant.brokers, plant.controllers)).broken
        if broken is not None and broken.startswith(plant.found_as):
            return seed
    return None


@pytest.mark.parametrize("name", ALL)
def test_a_planted_defect_is_found_by_its_checker_and_its_seed_holds_without_it(name: str) -> None:
    plant = ALL[name]
    seed = finding_seed(plant)
    assert seed is not None
    assert broken_without(seed, plant.brokers, plant.controllers) is None, "the plant is gone, and so is what it broke"


def test_no_name_is_given_twice() -> None:
    assert len(ALL) == len(PLANTS) + sum(map(len, (PLANTS_OF_SEVERAL, PLANTS_OF_CONTROLLERS, PLANTS_OF_GROUPS)))


def test_every_checker_finds_a_planted_defect() -> None:
    """A forged history shows what a checker refuses; that it is told of what brokers do, only a defect of theirs."""
    found = [plant.found_as for plant in (*ALL.values(), KEEPS_THE_LOG, GOES_ON)]
    sentences: dict[str, set[str]] = {}
    for name, (why, _) in FORGED.items():
        begins = re.match(r"[a-z ]+", why)
        assert begins
        sentences.setdefault(name.partition(":")[0], set()).add(begins[0].strip())
    silent = [name for name, some in sentences.items() if not any(one.startswith(tuple(some)) for one in found)]
    assert silent == []
