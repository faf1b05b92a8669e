"""Seeds without end: `./dev soak --only simulator`."""

from __future__ import annotations

import itertools
import time

from barnabas.simulator.plan import draw
from barnabas.simulator.run import play
from barnabas.simulator.search import Found


def soak(seconds: float, seed: str) -> int:
    """Play seeds for so long, from this one on; how many broke a promise."""
    deadline, found = time.monotonic() + seconds, Found()
    for number in itertools.count(int(seed)):
        if time.monotonic() >= deadline:
            break
        outcome = play(draw(str(number)))
        found.add(outcome)
        if outcome.broken is not None:
            print(f"{outcome.broken}\nrepeat it: barnabas simulate --seeds 1 --seed {number}\n", flush=True)
    hours = found.virtual_ms / 3_600_000
    print(f"simulator: {found.seeds} seeds, {len(found.broken)} broke a promise; {hours:.1f} virtual hours")
    return len(found.broken)
