"""Proposing changes of the in-sync replicas, and taking the controller's answers.

Source: `maybeExpandIsr`, `maybeShrinkIsr`, `handleAlterPartitionUpdate` of Apache Kafka's `Partition`.
A change takes effect when it is answered, never before; an answer that metadata has overtaken is dropped.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.broker.delayed import CallbackTask
from barnabas.broker.ports import IsrAnswer, IsrProposal
from barnabas.broker.replica.isr import RETRY_BACKOFF_MS, VERDICTS, Verdict
from barnabas.broker.replica.remote_replica import RemoteReplica
from barnabas.broker.replica.types import PartitionState

if TYPE_CHECKING:
    from barnabas.broker.replica.partition import Partition

logger = logging.getLogger(__name__)


def maybe_expand(partition: Partition, remote: RemoteReplica) -> None:
    """Propose to add a follower that has reached the high watermark and this epoch's start. Not a matter of time."""
    isr = partition.isr
    end = remote.end.offset
    if (
        isr.pending is None
        and remote.broker_id not in isr.committed
        and end >= partition.log.high_watermark
        and end >= partition.epoch_start_offset
        and partition.isr_eligible(remote)
    ):
        propose(partition, (*isr.committed, remote.broker_id))


def maybe_shrink(partition: Partition, now_ms: int) -> None:
    """Propose to remove the members that are behind and have been for longer than `replica.lag.time.max.ms`."""
    isr = partition.isr
    if not partition.is_leader or isr.pending is not None:
        return
    end = partition.log.log_end_offset
    lag_ms_max = partition.shared.config.replica_lag_time_max_ms
    lagging = [
        remote.broker_id
        for remote in partition.remotes.values()
        if remote.broker_id in isr.committed and not remote.caught_up(end, now_ms, lag_ms_max)
    ]
    if lagging:
        propose(partition, tuple(member for member in isr.committed if member not in lagging))


def answered(partition: Partition, proposal: IsrProposal, answer: IsrAnswer, now_ms: int) -> None:
    """Act on the answer to `proposal`."""
    isr = partition.isr
    if isr.pending is not proposal:
        return
    stats = partition.shared.stats
    verdict = VERDICTS.get(answer.error_code, Verdict.RETRY)  # type: ignore[call-overload]  # an int is a fine key
    if verdict is not Verdict.ADOPT:
        stats.failed_isr_updates.mark()
    if verdict is Verdict.BACK:
        isr.commit(isr.committed)
        if partition.advance_high_watermark(now_ms):  # it waited for the member that was to come in
            partition.check_all(now_ms)
    elif verdict is Verdict.RETRY:
        _retry_later(partition, proposal, now_ms)
    elif verdict is Verdict.ADOPT:
        if answer.leader_epoch != partition.leader_epoch or answer.partition_epoch < partition.partition_epoch:
            stats.failed_isr_updates.mark()
            return
        _count(partition, proposal.isr)
        isr.commit(answer.isr)
        partition.partition_epoch = answer.partition_epoch
        partition.recovering = answer.recovering
        # The ISR may be this broker alone now; and a produce may wait for an ISR that is now too small.
        partition.advance_high_watermark(now_ms)
        partition.check_all(now_ms)


def settled_by_metadata(partition: Partition, state: PartitionState) -> None:
    """New metadata overtakes a pending proposal; it counts as made when the metadata says just that."""
    pending = partition.isr.pending
    if pending is not None and set(pending.isr) == set(state.isr):
        _count(partition, state.isr)


def note_recovery(partition: Partition, state: PartitionState, *, new_epoch: bool) -> None:
    """A leader that may lack what was acknowledged says so. Its first proposal ends it, as in Kafka."""
    partition.recovering = state.recovering
    if new_epoch and state.recovering:
        what = "%s: leads in epoch %d from offset %d on, RECOVERING: what was acknowledged and is not here is lost"
        end = partition.log.log_end_offset
        logger.warning(what, partition.topic_partition, state.leader_epoch, end)


def _count(partition: Partition, isr: tuple[int, ...]) -> None:
    stats = partition.shared.stats
    if len(isr) > len(partition.isr.committed):
        stats.isr_expands.mark()
    elif len(isr) < len(partition.isr.committed):
        stats.isr_shrinks.mark()


def propose(partition: Partition, isr: tuple[int, ...]) -> None:
    """Put another ISR to the controller; none is pending."""
    key, epochs = partition.topic_partition, tuple(_epoch_of(partition, member) for member in isr)
    proposal = IsrProposal(key, partition.topic_id, partition.leader_epoch, partition.partition_epoch, isr, epochs)
    partition.isr.propose(proposal)
    _submit(partition, proposal)


def _epoch_of(partition: Partition, member: int) -> int:
    """In which life a member told where its log ends, of which it may have lost some in the next one."""
    shared, remote = partition.shared, partition.remotes.get(member)
    if member == shared.broker_id:
        return shared.broker_epoch()
    return -1 if remote is None else remote.broker_epoch


def _submit(partition: Partition, proposal: IsrProposal) -> None:
    shared = partition.shared

    def done(answer: IsrAnswer) -> None:
        shared.actions.add(lambda now_ms: answered(partition, proposal, answer, now_ms))

    shared.controller.alter_partition(proposal, done)


def _retry_later(partition: Partition, proposal: IsrProposal, now_ms: int) -> None:
    def again(_: int) -> None:
        if partition.isr.pending is proposal:
            _submit(partition, proposal)

    partition.shared.timer.add(CallbackTask(again), now_ms + RETRY_BACKOFF_MS)
