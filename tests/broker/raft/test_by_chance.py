"""Quorums under whatever may happen: what must never be is not seen, and all agree once it is over."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.broker.raft.chance import play
from tests.broker.raft.quorum import Quorum


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_nothing_committed_is_lost_whatever_happens(first: int) -> None:
    reached: Counter[str] = Counter()
    for seed in range(first, first + 10):
        reached += play(seed)
    assert all(reached[what] > 10 for what in ("crashes", "epochs", "committed", "acknowledged")), reached


def test_the_same_seed_is_the_same_run() -> None:
    told = []
    for _ in range(2):
        quorum = Quorum(1, 2, 3, seed=7, loss=0.1)
        quorum.run(20_000)
        told.append((quorum.now_ms, quorum.told(), quorum.committed))
    assert told[0] == told[1]
