"""Every planted defect against whole seeds, as they are drawn for clean runs: `./dev soak --only plants`.

`test_plants` plays each defect for ten seconds, with a seed that is known to find it. Here none is known:
`--seed 0 --count 200` plays seeds from 0 on until the defect's checker finds it, 200 at most.
"""

from __future__ import annotations

import itertools
import os
import platform
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Final, NamedTuple

from barnabas.simulator.plan import draw
from barnabas.simulator.run import play
from tests.simulator.find import SEEDS
from tests.simulator.plant import planted
from tests.simulator.soak import revision
from tests.simulator.test_plants import ALL

_TOLD_MAX: Final = 150
"""A checker's sentence ends with all that it knows."""


class Bite(NamedTuple):
    """What became of a search: the seed that found the defect, or None, and what its checker said."""

    name: str
    seed: int | None
    played: int
    told: str


def bite(seeds: Sequence[int], name: str, deadline: float = float("inf")) -> Bite:
    """Play seeds with a defect until its checker finds it, none is left or the time is over."""
    plant = ALL[name]
    for played, seed in enumerate(seeds):
        if time.monotonic() >= deadline:
            return Bite(name, None, played, "the time is over")
        with planted(plant):
            broken = play(draw(str(seed), brokers=plant.brokers)).broken
        if broken is not None and broken.startswith(plant.found_as):
            return Bite(name, seed, played + 1, broken)
    return Bite(name, None, len(seeds), "not found")


def soak(seconds: float, seed: str) -> int:
    """Search for one defect after the other, from a number on, for so long; how many `SEEDS` seeds did not find."""
    deadline, missing, found = time.monotonic() + seconds, 0, 0
    for number in itertools.count(int(seed)):
        one = bite(range(SEEDS), list(ALL)[number % len(ALL)], deadline)
        if one.seed is None and one.played < SEEDS:
            break
        _tell(one)
        missing += one.seed is None
        found += one.seed is not None
    print(f"plants: {found} found, {missing} not")
    return missing


def play_range(first: int, count: int, jobs: int) -> int:
    """Search for all defects among these seeds, `jobs` at a time, and sum them up; how many were not found."""
    began, found = time.monotonic(), []
    for one in _bites(range(first, first + count), jobs):
        found.append(one)
        _tell(one)
    missing = [one.name for one in found if one.seed is None]
    print(
        f"plants: {len(found) - len(missing)} of {len(ALL)} found within seeds {first} to {first + count - 1}; "
        f"{sum(one.played for one in found)} seeds played in {time.monotonic() - began:.0f} s ({jobs} processes)\n"
        f"revision {revision()}, Python {platform.python_version()}, {os.cpu_count()} processors, {platform.machine()}"
    )
    if missing:
        print(f"never found: {', '.join(missing)}")
    return len(missing)


def _bites(seeds: Sequence[int], jobs: int) -> Iterator[Bite]:
    if jobs <= 1:
        yield from map(partial(bite, seeds), ALL)
        return
    with ProcessPoolExecutor(jobs, get_context("fork")) as pool:
        yield from pool.map(partial(bite, seeds), ALL)


def _tell(one: Bite) -> None:
    where = f"{one.played} seeds" if one.seed is None else f"seed {one.seed}"
    print(f"{one.name}: {where}: {one.told[:_TOLD_MAX]}", flush=True)
