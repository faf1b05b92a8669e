"""The in-sync replicas of a partition this broker leads: committed, and what is proposed.

Source: `CommittedPartitionState`, `PendingExpandIsr`, `PendingShrinkIsr` of Apache Kafka's `Partition`. One
change may be pending per partition. Until the controller answers, the *maximal* ISR counts for the high watermark:

    state             committed   maximal
    committed         1 2 3       1 2 3
    expand by 4       1 2 3       1 2 3 4     the high watermark waits for the new member at once
    shrink by 3       1 2 3       1 2 3       and for a removed one until the controller has agreed
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from barnabas.broker.ports import IsrProposal
from barnabas.protocol.errors import ErrorCode


class Verdict(Enum):
    """What the controller's answer means for the pending change."""

    ADOPT = "adopt"
    """The answer's state holds, if it is of the same leader epoch and no older partition epoch."""
    BACK = "back"
    """Back to the committed ISR, without another try."""
    WAIT = "wait"
    """Stay pending until new metadata says what holds."""
    RETRY = "retry"
    """Propose the same again."""


VERDICTS: Final = {
    ErrorCode.NONE: Verdict.ADOPT,
    ErrorCode.OPERATION_NOT_ATTEMPTED: Verdict.BACK,
    ErrorCode.INELIGIBLE_REPLICA: Verdict.BACK,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Verdict.WAIT,
    ErrorCode.UNKNOWN_TOPIC_ID: Verdict.WAIT,
    ErrorCode.FENCED_LEADER_EPOCH: Verdict.WAIT,
    ErrorCode.INVALID_UPDATE_VERSION: Verdict.WAIT,
    ErrorCode.INVALID_REQUEST: Verdict.WAIT,
    ErrorCode.NEW_LEADER_ELECTED: Verdict.WAIT,
}
"""By error code; any other is RETRY. Source: `Partition.handleAlterPartitionError`."""

RETRY_BACKOFF_MS: Final = 50
"""Before the same proposal is sent again. Source: `AlterPartitionManager`."""


class IsrState:
    """Committed and pending ISR, in the order the metadata lists them."""

    __slots__ = ("committed", "maximal", "pending")

    def __init__(self, committed: tuple[int, ...] = ()) -> None:
        self.commit(committed)

    def commit(self, isr: tuple[int, ...]) -> None:
        """`isr` holds now; nothing is pending."""
        self.committed = isr
        self.maximal = isr
        self.pending: IsrProposal | None = None

    def propose(self, proposal: IsrProposal) -> None:
        """A change is under way."""
        assert self.pending is None, "one change at a time"
        self.pending = proposal
        joining = tuple(member for member in proposal.isr if member not in self.committed)
        self.maximal = self.committed + joining
