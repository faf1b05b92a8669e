"""Faults put into the core: each is found by a named check, within some seeds that pass without it."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.broker.raft.chance import play
from tests.broker.raft.quorum import MemoryLog, Violation
from tests.durability.plants import Change

RAFT = "barnabas.broker.raft.raft:Raft."


class Plant(NamedTuple):
    """What it does, its change, which checks may find it, and a seed that meets it."""

    what: str
    change: Change
    found_as: tuple[str, ...]
    seed: int


LOST = ("committed is never lost", "logs agree", "fault")
PLANTS = [
    Plant(
        "a vote is answered before it is kept",
        Change(
            RAFT + "vote",
            "self._keeping.when_kept(lambda _: respond(response), now_ms)",
            "respond(response)",
        ),
        ("one vote a term", "one leader a term"),
        50,
    ),
    Plant(
        "entries of an earlier epoch are committed by count",
        Change(
            "barnabas.broker.raft.leading:Leading.committed",
            "return end if end > self._epoch_start else -1",
            "return end",
        ),
        LOST,
        13,
    ),
    Plant(
        "whose log has less is voted for",
        Change(RAFT + "_would_vote", "(end.epoch, end.end) < (ours.epoch, ours.end)", "False"),
        LOST,
        1,
    ),
    Plant(
        "two candidates of an epoch are voted for",
        Change(RAFT + "_would_vote", "self.kept.voted in (NOBODY, candidate)", "True"),
        ("one vote a term", "one leader a term"),
        2,
    ),
    Plant(
        "a follower fetches before its sync",
        Change("barnabas.broker.raft.following:Following.request", "if self._unsynced:", "if False:"),
        LOST,
        0,
    ),
    Plant(
        "a leader counts itself before its sync",
        Change(RAFT + "appended", "self._log.sync(end, synced)", "self._log.sync(end, synced)\n    synced(None, 0)"),
        LOST,
        104,
    ),
    Plant(
        "a leader goes on with its epoch after a restart",
        Change(
            RAFT + "start",
            "self._become(Role.RESIGNED, self.kept, now_ms)",
            "self._become(Role.LEADER, self.kept, now_ms)",
        ),
        (*LOST, "one leader a term"),
        17,
    ),
    Plant(
        "a place whose epoch is another's counts as had",
        Change(
            "barnabas.broker.raft.fetching:parting",
            "there.epoch == asked.epoch and there.end >= asked.end",
            "there.end >= asked.end",
        ),
        LOST,
        1,
    ),
    Plant(
        "a voter whose log parts is counted",
        Change(RAFT + "fetch", "data.diverging_epoch is None and ", ""),
        LOST,
        5,
    ),
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.what)
def test_a_planted_fault_is_found(plant: Plant) -> None:
    play(plant.seed)
    undo = plant.change.make()
    try:
        with pytest.raises(Violation) as found:
            play(plant.seed)
    finally:
        undo()
    assert str(found.value).startswith(plant.found_as)


def test_a_snapshot_that_is_installed_without_truncating_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = 24
    play(seed)
    install = MemoryLog.install

    def beside(self: MemoryLog, snapshot: object, done: object) -> None:
        kept = list(self.entries)
        install(self, snapshot, done)  # type: ignore[arg-type]
        self.entries = kept

    monkeypatch.setattr(MemoryLog, "install", beside)
    with pytest.raises(Violation, match=r"^(logs agree|committed is never lost|fault)"):
        play(seed)
