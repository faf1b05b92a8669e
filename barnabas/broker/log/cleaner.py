"""Which log is compacted next, and what becomes of what cannot be (Kafka's LogCleanerManager).

The log with the largest share of dirty bytes comes first. One whose round fails (a disk that is full or broken) stands
back for a while, so that it keeps no other from its turn. What was left as it is for a bad batch is said once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.config import BrokerConfig
from barnabas.broker.jobs import Job
from barnabas.broker.log.log import Log
from barnabas.broker.log.losses import Loss, Report
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.log.key_map import BadBatch

logger = logging.getLogger(__name__)

_BYTES_PER_KEY: Final = 128
"""What a key of the compaction map costs in memory: bounds it by `log.cleaner.dedupe.buffer.size`."""
_LOGS_PER_STEP: Final = 100


class Cleaner:
    """The compactions of one data directory; `report` is told of each bad batch once."""

    def __init__(self, config: BrokerConfig, report: Report) -> None:
        self._config = config
        self._report = report
        self._bad: dict[TopicPartition, tuple[BadBatch, ...]] = {}
        self._failed: dict[TopicPartition, tuple[int, str]] = {}

    @property
    def uncleanable(self) -> int:
        """Partitions with a segment that is left as it is."""
        return len(self._bad)

    def snapshot(self) -> list[dict[str, Any]]:
        """The bad batches of the latest rounds, as plain values."""
        return [{"partition": str(where), **one._asdict()} for where, found in self._bad.items() for one in found]

    def forget(self, partition: TopicPartition) -> None:
        """A partition's log is no longer here."""
        self._bad.pop(partition, None)
        self._failed.pop(partition, None)

    def turn(self, logs: Sequence[Log], now_ms: int, wall_ms: int) -> Job[bool]:
        """Compact the dirtiest log, if one is dirty enough; whether it was done.

        Args:
            logs: all logs.
            now_ms: monotonic time (ms).
            wall_ms: time of day (ms).
        """
        best: Log | None = None
        best_ratio = -1.0
        for count, log in enumerate(logs):
            if count % _LOGS_PER_STEP == _LOGS_PER_STEP - 1:
                yield None
            if "compact" not in log.config.cleanup_policy or log.cleaning or log.closed or len(log.segments) < 2:
                continue
            if self._failed.get(log.topic_partition, (0, ""))[0] > now_ms:
                continue
            from barnabas.broker.log.compaction import cleanable  # most brokers compact nothing

            try:
                state = yield from cleanable(log, wall_ms)
            except (OSError, BarnabasError) as error:
                self._stand_back(log, now_ms, error)
                continue
            if (state.must or state.ratio > log.config.min_cleanable_dirty_ratio) and state.ratio > best_ratio:
                best, best_ratio = log, state.ratio
        if best is None:
            return False
        keys_max = max(1, self._config.log_cleaner_dedupe_buffer_size // _BYTES_PER_KEY)
        try:
            result = yield from best.compact(wall_ms, keys_max=keys_max)
        except (OSError, BarnabasError) as error:
            self._stand_back(best, now_ms, error)
            return True
        if result is None:
            return False
        self._failed.pop(best.topic_partition, None)
        self._note(best.topic_partition, result.bad)
        return True

    def _stand_back(self, log: Log, now_ms: int, error: Exception) -> None:
        """A round failed: others first, and the cause is said when it is another than before."""
        cause = str(error)
        if self._failed.get(log.topic_partition, (0, ""))[1] != cause:
            logger.warning("%s could not be compacted and stands back: %s", log.topic_partition, cause)
        self._failed[log.topic_partition] = now_ms + self._config.log_cleaner_backoff_ms, cause

    def _note(self, partition: TopicPartition, bad: tuple[BadBatch, ...]) -> None:
        known = self._bad.pop(partition, ())
        if bad:
            self._bad[partition] = bad
        for one in bad:
            if one not in known:
                reason = f"the batch at byte {one.position} is bad: {one.reason}; its segment is not compacted"
                self._report(Loss(str(partition), one.offset, -1, one.size, one.file, reason))
