"""Commits that lie behind each other on a connection are written as one batch: that is the half of what each costs.

    commit, commit, commit | OffsetFetch      one batch of three, then OffsetFetch is served

Each of them is looked at, replayed and answered as it comes, by which the next one of the connection is served; those
that say the same but for the offset are taken with the first of them. But no answer leaves before they are written
(`GroupCoordinator.catch_up`), and nobody else is served. So an answer tells, as any other, of what is below the high
watermark, and this way is none where that may come later (`Shard.writes_at_once`). Where the log does not take the
batch, all of it is undone and written record by record, and who is refused has another answer.

Apache Kafka gathers the records of all requests for a while (`group.coordinator.append.linger.ms`). Here nobody waits.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.context import RequestContext
from barnabas.broker.group.values import NO_EXPIRY, CommittedOffset, OffsetRecord
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.kafka.coordinator.offsets import COMMITS_MAX

if TYPE_CHECKING:
    from barnabas.broker.group.shard import Shard
    from barnabas.protocol.requests.offset_commit import OneCommitResponse, SaidAgain

WAITING_MAX: Final = COMMITS_MAX

logger = logging.getLogger(__name__)


class _Run(NamedTuple):
    """Commits that are replayed and not written, the first one's record, and what that took the place of.

    Their answers have not left: `told` to the first, by `context`, and to those behind it. `said` has of each of them
    the correlation id (not of the first), the offset and the leader epoch.
    """

    shard: Shard
    record: OffsetRecord
    before: CommittedOffset
    context: RequestContext
    told: OneCommitResponse
    said: list[tuple[int, int, int]]

    def records(self) -> list[OffsetRecord]:
        """Those of all of them."""
        return [_with(self.record, offset, leader_epoch) for _, offset, leader_epoch in self.said]


def _with(record: OffsetRecord, offset: int, leader_epoch: int) -> OffsetRecord:
    group_id, key, committed = record
    assert committed is not None, "a commit is no tombstone"
    now = CommittedOffset(offset, leader_epoch, "", committed.committed_ms, NO_EXPIRY, committed.topic_id)
    return OffsetRecord(group_id, key, now)


class Ahead:
    """What was answered ahead of its writing; one per broker, and empty between two events."""

    __slots__ = ("_count", "waiting")

    def __init__(self) -> None:
        self.waiting: list[_Run] = []
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether a batch takes no more."""
        return self._count >= WAITING_MAX

    def may_take(self, shard: Shard) -> bool:
        """Whether commits of this shard may be answered ahead; while some wait nothing changes that."""
        waiting = self.waiting
        return (bool(waiting) and waiting[-1].shard is shard) or shard.writes_at_once

    def take(
        self,
        shard: Shard,
        record: OffsetRecord,
        before: CommittedOffset,
        context: RequestContext,
        told: OneCommitResponse,
    ) -> None:
        """Replay a commit in place of one that takes as much memory, and answer it."""
        committed = record.committed
        assert committed is not None, "a commit is no tombstone"
        first = 0, committed.offset, committed.leader_epoch
        self.waiting.append(_Run(shard, record, before, context, told, [first]))
        self._count += 1
        shard.replay_in_place(record)
        context.respond_ahead(told)

    def take_behind(self, said: SaidAgain, context: RequestContext) -> None:
        """Take the commits behind the last one that say what it said, but for the offset.

        Nothing happens between them, so every rule that let the last one in lets these in.
        """
        run = self.waiting[-1]
        if run.context is not context:
            return
        found = context.take_behind(partial(said.again, most=WAITING_MAX - self._count))
        if found:
            run.said.extend(found)
            self._count += len(found)
            _, offset, leader_epoch = found[-1]
            run.shard.replay_in_place(_with(run.record, offset, leader_epoch))

    def write(self, now_ms: int) -> None:
        """Write what waits; never raises."""
        by_shard: dict[Shard, list[_Run]] = {}
        for one in self.waiting:
            by_shard.setdefault(one.shard, []).append(one)
        self.waiting.clear()  # it is the same list, of which others know
        self._count = 0
        for shard, runs in by_shard.items():
            if shard.write_replayed([(one.record, one.said) for one in runs], now_ms):
                shard.shared.counts.commits += sum(len(one.said) for one in runs)
            else:
                for one in reversed(runs):
                    if one.record.group_id in shard.groups:  # as long as they are led here
                        shard.replay(one.record._replace(committed=one.before))
                for one in runs:
                    for number, record in enumerate(one.records()):
                        _write_alone(one, number, record, now_ms)


def _write_alone(one: _Run, number: int, record: OffsetRecord, now_ms: int) -> None:
    try:
        code = one.shard.append((record,), now_ms)
    except Exception:  # none of ours keeps the others from their answers
        logger.exception("a commit of group %s cannot be written", record.group_id)
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    if code:  # the others were told by the same object
        told = one.told
        one.context.respond_instead(type(told)(told.name, told.topic_id, told.index, code), number)
    else:
        one.shard.shared.counts.commits += 1
