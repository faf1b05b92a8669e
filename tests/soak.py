"""The long testers: `./dev soak` lets each of them work for its share of the time."""

from __future__ import annotations

import argparse
import random
import sys
from importlib import import_module

from tests.simulator import soak, teeth

TESTERS = {
    "durability": "tests.durability.soak",
    "hostile": "tests.hostile.soak",
    "kills": "tests.cluster_kills.soak",
    "moves": "tests.broker.node.soak",
    "plants": "tests.simulator.teeth",
    "simulator": "tests.simulator.soak",
}
"""By name, the module whose `soak(seconds, seed)` works for so long and returns the number of faults it found."""
RANGES = {"plants": teeth.play_range, "simulator": soak.play_range}
"""Those that play a range of seeds, however long that takes."""


def main() -> int:
    """Run them; 1 if one found a fault."""
    options = argparse.ArgumentParser(prog="./dev soak", description="Test at length; every fault is printed.")
    options.add_argument("--seconds", type=float, default=3600, help="how long all of them take together (3600)")
    options.add_argument("--seed", help="where to begin, a number; or the name of one story, which is played once")
    options.add_argument("--only", choices=sorted(TESTERS), help="one tester")
    options.add_argument("--count", type=int, help="--only simulator or plants: so many seeds, however long that takes")
    options.add_argument("--jobs", type=int, default=2, help="with --count: how many at a time, a process each (2)")
    given = options.parse_args()
    if given.count is not None:
        if given.only not in RANGES:
            options.error(f"--count is for --only {' or '.join(RANGES)}")
        return min(RANGES[given.only](int(given.seed or 0), given.count, given.jobs), 1)
    names = [given.only] if given.only else sorted(TESTERS)
    if given.seed and "/" in given.seed and not given.only:
        names = ["durability"]
    seed = given.seed or str(random.randrange(10**6))
    print(f"soak: {', '.join(names)} for {given.seconds:.0f} s; --seed {seed}", flush=True)
    faults = sum(int(import_module(TESTERS[name]).soak(given.seconds / len(names), seed)) for name in names)
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
