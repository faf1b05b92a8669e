"""Quorums under whatever may happen: what must never be is not seen, and all agree once it is over."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from barnabas.broker.log import Log
from tests.broker.raft.chance import play
from tests.broker.raft.quorum import Quorum
from tests.broker.raft.real_log import RealQuorum

WHAT = ("crashes", "epochs", "committed", "acknowledged", "cuts")


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_nothing_committed_is_lost_whatever_happens(first: int) -> None:
    reached: Counter[str] = Counter()
    for seed in range(first, first + 10):
        reached += play(seed)
    assert all(reached[what] > 10 for what in WHAT), reached


@pytest.mark.parametrize("first", range(100, 120, 10))
def test_the_shipped_log_is_one_that_a_voter_may_have(first: int) -> None:
    """On disks that tear what was not synced, and undo cuts; a model of the log is held beside it."""
    reached: Counter[str] = Counter()
    for seed in range(first, first + 10):
        reached += play(seed, kind=RealQuorum)
    assert all(reached[what] > 10 for what in WHAT), reached


def play_several(seeds: range) -> None:
    for seed in seeds:
        play(seed, kind=RealQuorum)


@pytest.mark.parametrize(
    ("method", "undone"),
    [
        ("truncate_to", lambda log, offset: False),
        ("truncate_fully_and_start_at", lambda log, offset, now_ms=-1: None),
    ],
)
def test_a_log_that_keeps_what_is_to_go_is_found(method: str, undone: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, method, undone)
    with pytest.raises(AssertionError, match=r"^(logs: the shipped one is|the high watermark cannot pass)"):
        play_several(range(0, 24, 2))


def test_the_same_seed_is_the_same_run() -> None:
    told = []
    for _ in range(2):
        quorum = Quorum(1, 2, 3, seed=7, loss=0.1)
        quorum.run(20_000)
        told.append((quorum.now_ms, quorum.told(), quorum.committed))
    assert told[0] == told[1]
