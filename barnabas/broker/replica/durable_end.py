"""How far a leader's own log counts while `flush.messages` demands that what counts is on stable storage.

Kafka syncs inside the append. Here the sync runs beside the loop, so that the leader's end must not count for the high
watermark, and no answer may leave, before the sync of that append has come back.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.broker.log.types import AppendInfo, OffsetMetadata
from barnabas.broker.replica import damage
from barnabas.protocol.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.broker.replica.partition import Partition


class DurableEnd:
    """`limit` is the end up to which the leader's log counts; None: all of it, for no sync is pending."""

    __slots__ = ("_pending_count", "limit")

    def __init__(self) -> None:
        self.limit: OffsetMetadata | None = None
        self._pending_count = 0

    def lead(self, partition: Partition) -> None:
        """The broker begins to lead: what it wrote as a follower counts once it is synced."""
        log = partition.log
        if log.log_end_offset - log.recovery_point < log.config.flush_messages:
            return
        self.limit = OffsetMetadata(log.recovery_point)
        self._pending_count += 1
        end = log.log_end_metadata
        with suppress(KafkaError):  # no sync will come: the limit stays
            if log.when_durable(end.offset, lambda error: self._synced(partition, end, error)):
                self._synced(partition, end, None)

    def appended(self, partition: Partition, info: AppendInfo) -> None:
        """An append asks for a sync: what it wrote counts only when that is done."""
        if self.limit is None:
            self.limit = OffsetMetadata(info.first_offset)
        self._pending_count += 1
        end = partition.log.log_end_metadata
        if partition.log.when_durable(end.offset, lambda error: self._synced(partition, end, error)):
            self._synced(partition, end, None)

    def _synced(self, partition: Partition, end: OffsetMetadata, error: KafkaError | None) -> None:
        self._pending_count -= 1
        if error is None:
            assert self.limit is not None, "a pending sync keeps the limit"
            self.limit = None if self._pending_count == 0 else max(self.limit, end)
        # A failed sync keeps the limit for good: the log takes no more appends, and what waits learns why.
        partition.shared.actions.add(lambda now_ms: self._check(partition, now_ms))

    def _check(self, partition: Partition, now_ms: int) -> None:
        if partition.durable is self and partition.is_leader:
            partition.advance_high_watermark(now_ms)
            partition.check_all(now_ms)
            if partition.log.failed is not None:
                damage.refused(partition)
