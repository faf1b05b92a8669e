"""`python -m tests.simulator.traces SEED ...`: the trace of each seed, for whoever compares two interpreters."""

from __future__ import annotations

import sys

from barnabas.simulator.plan import draw
from barnabas.simulator.run import play

if __name__ == "__main__":
    for seed in sys.argv[1:]:
        outcome = play(draw(seed, 10_000))
        print(seed, outcome.digest, outcome.virtual_ms, outcome.acknowledged, outcome.broken)
