"""What a client takes from the world belongs to nobody else."""

from __future__ import annotations

import random

from barnabas.net.host.surroundings import REAL


def test_a_client_leaves_the_random_numbers_of_the_program_alone() -> None:
    """A program that seeds them counts on its own draws alone; a client draws in a thread of its own, at any time."""
    before = random.getstate()
    drawn = {REAL.uniform() for _ in range(100)}
    assert random.getstate() == before
    assert len(drawn) == 100
    assert all(0 <= one < 1 for one in drawn)
