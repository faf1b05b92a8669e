"""What a leader says to a voter or an observer that fetches: where its log and the leader's part, if they do.

    an epoch that is not the leader's             FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH
    a place below, or beside, the log's start     the newest snapshot
    a place that this log does not have           the largest epoch here that is not above, and where it ends
    beyond what may be given                      OFFSET_OUT_OF_RANGE

Source: `KafkaRaftClient.validateFetchOffsetAndEpoch`, `ReplicatedLog.validateOffsetAndEpoch` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.broker.raft.world import Mark, RaftLog
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.fetch import (
    EpochEndOffset,
    FetchPartition,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)

BELOW: Final = Mark(-1, -1)


def epoch_fault(known: int, epoch: int) -> int:
    """What is wrong with the epoch that somebody names; 0 for nothing, or where he names none (-1)."""
    if known in (-1, epoch):
        return 0
    return ErrorCode.FENCED_LEADER_EPOCH if known < epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


def parting(asked: Mark, start: Mark, end_of: Callable[[int], Mark]) -> Mark | None:
    """Where a log parts from this one, None where it does not; `BELOW`: only a snapshot helps."""
    if asked == start:
        return None
    if asked.end <= start.end or asked.epoch < start.epoch:
        return BELOW if start.end else start
    there = end_of(asked.epoch)
    if there.epoch == asked.epoch and there.end >= asked.end:
        return None
    return there if there.epoch >= 0 else start


def judge(log: RaftLog, leader: tuple[int, int], asked: FetchPartition, end: int) -> PartitionData:
    """An answer without its records, which stand for `asked` where no error, parting or snapshot is told.

    Args:
        log: the leader's.
        leader: its node id, and its epoch.
        asked: a voter's, or an observer's, with the epoch of the last record that it has (-1: none).
        end: up to where records may be given.
    """
    start = log.start
    data = PartitionData(0, 0, log.committed, log.committed, start.end, records=b"")
    data.current_leader = LeaderIdAndEpoch(*leader)
    data.error_code = epoch_fault(asked.current_leader_epoch, leader[1])
    if data.error_code:
        return data
    parts = parting(Mark(asked.fetch_offset, max(asked.last_fetched_epoch, 0)), start, log.end_of)
    if parts is BELOW:
        data.snapshot_id = SnapshotId(start.end, start.epoch)
    elif parts is not None:
        data.diverging_epoch = EpochEndOffset(parts.epoch, parts.end)
    elif not start.end <= asked.fetch_offset <= end:
        data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    return data
