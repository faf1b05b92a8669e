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
        "vote_unsynced": _plant(
            "A vote is answered before it is kept.",
            "terms",
            0,
            (f"{_RAFT}.vote", "self._keeping.when_kept(lambda _: respond(response), now_ms)", "respond(response)"),
        ),
        "votes_twice": _plant(
            "All candidates of an epoch are voted for.",
            "terms",
            16,
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
        "any_log_is_voted_for": _plant(
            "Whose log has less is voted for, too.",
            "metadata",
            11,
            (f"{_RAFT}._would_vote", "(end.epoch, end.end) < (ours.epoch, ours.end)", "False"),
        ),
        "snapshot_beside_the_log": _plant(
            "A snapshot is installed, and the log that was there stays.",
            "metadata",
            7,
            (
                "barnabas.broker.cluster.quorum_log:QuorumLog._begin_at",
                "self.log.truncate_fully_and_start_at(snapshot.end, now_ms=self._clock.now_ms())\n"
                "    self.log.advance_high_watermark(snapshot.end)",
                "self.log.advance_high_watermark(min(snapshot.end, self.log.log_end_offset))",
            ),
        ),
        "voter_unsynced": _plant(
            "A voter asks for more before it has synced what it has.",
            "synced",
            0,
            ("barnabas.broker.raft.following:Following.request", "if self._unsynced:", "if False:"),
        ),
        "leader_counts_itself_early": _plant(
            "The leader of the quorum counts itself before its log is synced.",
            "synced",
            0,
            (f"{_RAFT}.appended", "self._log.sync(end, synced)", "self._log.sync(end, synced)\n    synced(None, 0)"),
        ),
        "leader_goes_on": _plant(
            "A leader goes on with its epoch after a restart.",
            "terms",
            3,
            (
                f"{_RAFT}.start",
                "self._become(Role.RESIGNED, self.kept, now_ms)",
                "self._become(Role.LEADER, self.kept, now_ms)",
            ),
        ),
        "snapshot_without_producer_ids": _plant(
            "What a snapshot says of producer ids is passed over.",
            "images",
            1,
            (
                "barnabas.broker.cluster.snapshot_intake:Intake._compare",
                "self._side.apply(records)",
                'self._side.apply([one for one in records if type(one).__name__ != "ProducerIds"])',
            ),
        ),
        "broker_takes_what_nobody_has": _plant(
            "A node's broker takes in what its own voter has, committed or not.",
            "metadata",
            0,
            (
                "barnabas.broker.cluster.feed:MetadataFeed._data",
                "Isolation.HIGH_WATERMARK",
                "Isolation.LOG_END",
            ),
        ),
    }
)
