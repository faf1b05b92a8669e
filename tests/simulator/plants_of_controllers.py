"""Defects of the quorum of controllers, for runs that have three; each with the checker that has to find it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from barnabas.simulator.plan import SEVERAL
from tests.durability.plants import Change
from tests.simulator.plant import Plant

_RAFT: Final = "barnabas.broker.raft.raft:Raft"


def _plant(what: str, found_as: str, seed: int, *changes: tuple[str, str, str]) -> Plant:
    return Plant(what, tuple(Change(*one) for one in changes), found_as, seed, SEVERAL, SEVERAL)


PLANTS_OF_CONTROLLERS: Final = MappingProxyType(
    {
        "votes_twice": _plant(
            "All candidates of an epoch are voted for.",
            "terms",
            1,
            (f"{_RAFT}._would_vote", "self.kept.voted in (NOBODY, candidate)", "True"),
        ),
        "committed_by_count": _plant(
            "Entries of an earlier epoch are committed by count.",
            "terms",
            0,
            (
                "barnabas.broker.raft.leading:Leading.committed",
                "return end if end > self._epoch_start else -1",
                "return end",
            ),
        ),
    }
)
