"""What the log says of partitions that refuse writes: a disk that is full or failed is the operator's to mend.

One line when it begins, again after `COMPLAINT_MS` as long as producers are refused, and one when records are taken
again. Appends know nothing of it: while anything is complained of, a look every `LOOK_MS` sees whether a log has grown.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from barnabas.broker.delayed import CallbackTask, Timer
from barnabas.broker.ports import WallClock
from barnabas.broker.replica.action_queue import ActionQueue
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.replica.partition import Partition

COMPLAINT_MS: Final = 10_000
"""How often the log says that a partition's disk refuses writes."""
LOOK_MS: Final = 1_000

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Complaint:
    said_ms: int
    """Wall clock."""
    partition: Partition | None
    end: int


class Complaints:
    """The partitions that refuse writes, and what was said of them."""

    __slots__ = ("_actions", "_clock", "_of", "_task", "_timer")

    def __init__(self, timer: Timer, actions: ActionQueue, clock: WallClock) -> None:
        self._timer = timer
        self._actions = actions
        self._clock = clock
        self._of: dict[TopicPartition, _Complaint] = {}
        self._task = CallbackTask(self._look)

    def refused(self, key: TopicPartition, partition: Partition | None, error: KafkaError) -> None:
        """An append was refused by the disk; `partition` is None where its log cannot be used at all."""
        wall_ms = self._clock.now_ms()
        complaint = self._of.get(key)
        end = -1 if partition is None else partition.log.log_end_offset
        if complaint is not None and 0 <= wall_ms - complaint.said_ms < COMPLAINT_MS:
            complaint.end = end
            return
        if not self._of:
            self._actions.add(self._again)
        self._of[key] = _Complaint(wall_ms, partition, end)
        reason = error.detail.removeprefix(str(key)).lstrip(": ")
        logger.error("%s refuses writes: %s", key, reason)

    def forget(self, key: TopicPartition) -> None:
        """The partition is hosted no longer."""
        self._of.pop(key, None)

    def _again(self, now_ms: int) -> None:
        self._timer.add(self._task, now_ms + LOOK_MS)

    def _look(self, now_ms: int) -> None:
        """Whose log has grown takes writes again; one that never can (a sync failed) is looked at no more."""
        wall_ms = self._clock.now_ms()
        for key, one in list(self._of.items()):
            log = None if one.partition is None else one.partition.log
            if log is not None and log.log_end_offset > one.end:
                logger.info("%s takes writes again", key)
                del self._of[key]
            elif (log is None or log.failed is not None) and not 0 <= wall_ms - one.said_ms < COMPLAINT_MS:
                del self._of[key]
        if self._of:
            self._again(now_ms)
