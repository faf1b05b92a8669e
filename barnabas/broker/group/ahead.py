"""Commits that lie behind each other on a connection are written as one batch: that is the half of what each costs.

    commit, commit, commit | OffsetFetch      one batch of three, then OffsetFetch is served

Each of them is looked at, replayed and answered as it comes, by which the next one of the connection is served; but
no answer leaves before they are written (`GroupCoordinator.catch_up`), and nobody else is served. So an answer tells,
as any other, of what is below the high watermark, and this way is none where that may come later
(`Shard.writes_at_once`). Where the log does not take the batch, all of it is undone and written record by record, and
who is refused has another answer.

Apache Kafka gathers the records of all requests for a while (`group.coordinator.append.linger.ms`). Here nobody waits.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.context import RequestContext
from barnabas.broker.group.values import CommittedOffset, OffsetRecord
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.kafka.coordinator.offsets import COMMITS_MAX

if TYPE_CHECKING:
    from barnabas.broker.group.shard import Shard
    from barnabas.protocol.requests.offset_commit import OneCommitResponse

WAITING_MAX: Final = COMMITS_MAX

logger = logging.getLogger(__name__)


class _Commit(NamedTuple):
    """A commit that is replayed and not written, what it took the place of, and its answer, which has not left."""

    shard: Shard
    record: OffsetRecord
    before: CommittedOffset
    context: RequestContext
    told: OneCommitResponse


class Ahead:
    """What was answered ahead of its writing; one per broker, and empty between two events."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: list[_Commit] = []

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
        self.waiting.append(_Commit(shard, record, before, context, told))
        shard.replay(record)
        context.respond_ahead(told)

    def write(self, now_ms: int) -> None:
        """Write what waits; never raises."""
        by_shard: dict[Shard, list[_Commit]] = {}
        for one in self.waiting:
            by_shard.setdefault(one.shard, []).append(one)
        self.waiting.clear()  # it is the same list, of which others know
        for shard, commits in by_shard.items():
            if shard.write_replayed([one.record for one in commits], now_ms):
                shard.shared.counts.commits += len(commits)
            else:
                for one in reversed(commits):
                    if one.record.group_id in shard.groups:  # as long as they are led here
                        shard.replay(one.record._replace(committed=one.before))
                for one in commits:
                    _write_alone(one, now_ms)


def _write_alone(one: _Commit, now_ms: int) -> None:
    try:
        code = one.shard.append((one.record,), now_ms)
    except Exception:  # none of ours keeps the others from their answers
        logger.exception("a commit of group %s cannot be written", one.record.group_id)
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    if code:
        one.told.error_code = code
        one.context.respond_instead(one.told)
    else:
        one.shard.shared.counts.commits += 1
