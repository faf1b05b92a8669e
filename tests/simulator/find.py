"""`./dev run python -m tests.simulator.find [NAME ...]`: which seeds find the planted defects, where code has changed.

The seed that is named stays where it still finds its defect; else the first of `SEEDS` that does, and that holds
without it, takes its place in the file. Names: some defects only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from barnabas.simulator.run import play
from tests.simulator.plant import Plant, planted
from tests.simulator.test_plants import ALL, broken_without, plan_of

SEEDS: Final = 200
"""The clean configuration's that a defect is to be found within."""


def finds(plant: Plant, seed: int) -> bool:
    """Whether a seed finds a defect by its checker, and holds without it."""
    with planted(plant):
        broken = play(plan_of(seed, plant.brokers, plant.controllers)).broken
    found = broken is not None and broken.startswith(plant.found_as)
    return found and broken_without(seed, plant.brokers, plant.controllers) is None


def write(name: str, seed: int) -> None:
    """Name another seed, in the file that has the defect."""
    for path in sorted(Path(__file__).parent.glob("plants*.py")):
        text = path.read_text()
        named = re.compile(rf'("{name}": \w+\(.*?"{re.escape(ALL[name].found_as)}",\n\s+)\d+,', re.DOTALL)
        path.write_text(named.sub(rf"\g<1>{seed},", text, count=1))


def main(names: Sequence[str]) -> int:
    """Look; how many were not found."""
    missing = 0
    for name in names or ALL:
        plant = ALL[name]
        others = (seed for seed in range(SEEDS) if seed != plant.seed)
        seed = next((one for one in (plant.seed, *others) if finds(plant, one)), None)
        if seed is None:
            missing += 1
        elif seed != plant.seed:
            write(name, seed)
        print(f"{name}: {plant.seed} -> {seed}" if seed != plant.seed else f"{name}: {seed}", flush=True)
    return missing


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
