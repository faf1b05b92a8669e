"""A DeleteRecords that waits until every alive replica has moved its start. Source: `DelayedDeleteRecords`.

Cases, per pending partition:
    A  not hosted here any more, or its disk failed     resolved, with that error
    B  not led here any more                            resolved, NOT_LEADER_OR_FOLLOWER
    C  the low watermark has reached what was asked     resolved, NONE, with the low watermark
    D  it has not                                       pending
What is pending when the time is up says REQUEST_TIMED_OUT, with the low watermark that was reached.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from barnabas.broker.delayed import DESCRIBED_MAX, DelayedOperation
from barnabas.broker.replica.hosted import HostedPartitions
from barnabas.broker.replica.parked import Parked
from barnabas.broker.replica.types import DeleteRecordsResult
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition


class DelayedDeleteRecords(Parked):
    """`required` maps each partition that was cut to the offset asked for; `results` has their low watermarks."""

    __slots__ = ("_hosted", "_pending", "_respond", "_results")

    def __init__(
        self,
        timeout_ms: int,
        required: dict[TopicPartition, int],
        results: dict[TopicPartition, DeleteRecordsResult],
        hosted: HostedPartitions,
        respond: Callable[[dict[TopicPartition, DeleteRecordsResult]], None],
    ) -> None:
        DelayedOperation.__init__(self, timeout_ms)
        self._pending = required
        self._results = results
        self._hosted = hosted
        self._respond = respond
        self.parked_partitions = 0
        self.connection_id = -1
        for key in required:
            results[key].error_code = ErrorCode.REQUEST_TIMED_OUT

    def try_complete(self, now_ms: int) -> bool:
        """Resolve what can be resolved; complete when nothing is pending."""
        for key in tuple(self._pending):
            self._resolve(key)
        return not self._pending and self.force_complete(now_ms)

    def try_key(self, key: TopicPartition, now_ms: int) -> bool:
        """As `try_complete` where only `key` has news: of hundreds each would else look at all that are left."""
        if key in self._pending:
            self._resolve(key)
        return not self._pending and self.force_complete(now_ms)

    def _resolve(self, key: TopicPartition) -> None:
        result = self._results[key]
        partition = self._hosted.online.get(key)
        if partition is None:
            error = int(self._hosted.error_of(key))  # case A
        elif not partition.is_leader:
            error = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)  # case B
        else:
            error = 0
            result.low_watermark = partition.low_watermark()
            if result.low_watermark < self._pending[key]:
                return  # case D
        if error:
            result.low_watermark = -1
        result.error_code = error
        del self._pending[key]

    def on_complete(self, now_ms: int) -> None:
        """Answer with what each partition came to."""
        if self.parked_partitions:
            self._hosted.shared.unparked(self)
        self._respond(self._results)

    def leave(self) -> None:
        """Nobody is told any more; what was cut stays so. The job that would tell comes to its end."""
        self._hosted.shared.delete_records.cancel(self)
        self._respond(self._results)

    def on_expiration(self) -> None:
        """Count the partitions that are still pending."""
        self._hosted.shared.stats.delete_records_expires.mark(len(self._pending))

    def describe(self) -> dict[str, Any]:
        """Adds the offsets that are waited for."""
        waits = {str(key): offset for key, offset in islice(self._pending.items(), DESCRIBED_MAX)}
        return {**DelayedOperation.describe(self), "pending": waits}
