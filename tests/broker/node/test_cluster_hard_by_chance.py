"""A few seeds of `soak`; at length: `./dev soak --only moves`."""

from __future__ import annotations

import pytest

from tests.broker.node.soak import play


def test_full_disks_drains_minima_and_flipped_bits_lose_nothing():
    done = set().union(*(play(seed).done for seed in range(4)))
    assert done == {"full", "drain", "minimum", "flip"}


@pytest.mark.parametrize("seed", [16])
def test_a_seed_that_broke_a_promise_keeps_it(seed):
    """A move that was called back took away the only one in sync, which led, for one that was eligible and away."""
    play(seed)
