"""Where a follower cuts its log when it is not the leader's. Source: `AbstractFetcherThread.getOffsetTruncationState`.

A follower asks from its end and names its last epoch. The leader answers with the largest epoch not above it that he
has, and where that ended in his log. What the follower has beyond the common part goes, never less than that:

    leader     epoch 1: 0 to 4    epoch 3: 5 to 9
    follower   epoch 1: 0 to 6    epoch 2: 7, 8          asks from 9, last epoch 2; is told (1, 5)
               has epoch 1, to 7: cuts at min(7, 5) = 5, asks from 5, last epoch 1; the logs agree up to there

    follower   epoch 0: 0 to 2    epoch 2: 3 to 8        is told (1, 5), and does not have epoch 1
               cuts at the end of epoch 0, which is 3, and asks again: every round takes an epoch away, or the end
"""

from __future__ import annotations

from barnabas.broker.log.types import EpochEnd
from barnabas.protocol.batch import HEADER_SIZE, read_header


def cut_at(ours: EpochEnd, log_end_offset: int, told: EpochEnd) -> int:
    """The offset from which on a follower's records go, given the answer of a leader whose log is another.

    Args:
        ours: where the largest epoch ends that the follower has, and that is not above the one that was told.
        log_end_offset: the follower's.
        told: the diverging epoch that the leader answered with, and its end there.
    """
    if ours.leader_epoch == -1:
        return min(told.end_offset, log_end_offset)  # no epoch here is that old: nothing but his word
    if ours.leader_epoch == told.leader_epoch:
        return min(ours.end_offset, told.end_offset, log_end_offset)
    return min(ours.end_offset, log_end_offset)


def begin_before(records: memoryview, end: int) -> int | None:
    """Where the first batch begins, if `end` lies within it; None otherwise, as nearly always.

    After a DeleteRecords a leader's log begins in the midst of a batch. A log that was emptied to begin there takes the
    batch whole (`Partition.appendRecordsToFollowerOrFutureReplica`, UnexpectedAppendOffsetException). One that ends
    there has what the leader never had, which no epoch tells, for the leader's first one begins there, too: it is cut.
    """
    if len(records) < HEADER_SIZE:
        return None
    first = read_header(records)
    inside = first.base_offset < end <= first.last_offset and first.size <= len(records)
    return first.base_offset if inside else None
