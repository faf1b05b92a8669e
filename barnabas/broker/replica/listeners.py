"""Who hears of leadership and of high watermarks: a coordinator, of the partitions that hold its records.

    shared.leadership.append(listener)         # listener(partition, leads, leader_epoch, now_ms)
    partition.listeners.append(listener)       # listener(high_watermark, now_ms), while this broker leads it

Leadership is told at the end of the step, when all of the metadata is in force; a high watermark where it is looked at
for parked operations, too: after an append at the end of its step. A listener that raises is logged, and the others
hear it. Source: `GroupCoordinator.onElection` and `onResignation`, and `PartitionListener`, of Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from barnabas.broker.replica.action_queue import ActionQueue
    from barnabas.broker.replica.partition import Partition

LeadershipListener: TypeAlias = Callable[["Partition", bool, int, int], None]
HighWatermarkListener: TypeAlias = Callable[[int, int], None]

logger = logging.getLogger(__name__)


class LeadershipListeners(list[LeadershipListener]):
    """Of one broker."""

    __slots__ = ()

    def tell(self, partition: Partition, leads: bool, actions: ActionQueue) -> None:
        """This broker begins to lead `partition`, goes on in another epoch (True), or leads it no longer (False)."""
        for listener in self:
            actions.add(partial(listener, partition, leads, partition.leader_epoch))


class HighWatermarkListeners(list[HighWatermarkListener]):
    """Of one partition. What was told may be told again: the high watermark is one of the things that are looked at."""

    __slots__ = ()

    def tell(self, high_watermark: int, now_ms: int) -> None:
        """It stands at `high_watermark`."""
        for listener in tuple(self):
            try:
                listener(high_watermark, now_ms)
            except Exception:
                logger.exception("telling the high watermark %d failed for %r", high_watermark, listener)
