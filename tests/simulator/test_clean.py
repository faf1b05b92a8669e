"""Whole runs of the shipped code, as `barnabas simulate` plays them: a minute and more, five faults and more."""

from __future__ import annotations

from typing import Final

import pytest

from barnabas.simulator.plan import SEVERAL, draw
from barnabas.simulator.run import LEAST, Outcome, play
from barnabas.simulator.search import Found

SEEDS: Final = 200
SEEDS_ALONE: Final = 16
PIECE: Final = 4
"""Seeds of one test; `tests/conftest.py` shares these out to the processes of a run."""


@pytest.mark.parametrize("first", range(0, SEEDS, PIECE))
def test_whole_seeds_hold(first: int) -> None:
    held(first, SEVERAL)


@pytest.mark.parametrize("first", range(0, SEEDS_ALONE, PIECE))
def test_a_broker_that_stands_alone_holds(first: int) -> None:
    held(first, 1)


def happened(outcome: Outcome) -> int:
    """How many faults there were."""
    return sum(times for what, times in outcome.reached.items() if what.startswith("fault: "))


def held(first: int, brokers: int) -> None:
    found = Found()
    for seed in range(first, first + PIECE):
        outcome = play(draw(str(seed), brokers=brokers))
        found.add(outcome)
        assert outcome.broken is None, f"barnabas simulate --seeds 1 --seed {seed} --brokers {brokers}"
        assert outcome.acknowledged >= 3 * LEAST
        assert outcome.virtual_ms >= 60_000
        assert brokers == 1 or happened(outcome) >= 5
    assert found.reached["operations parked"]
