"""When a trigger has enough: `minOffsetsPerTrigger`, but no longer than `maxTriggerDelay` after the last batch.

    minOffsetsPerTrigger=1000, maxTriggerDelay=15m
    00:00  first trigger        a batch of whatever is there (a restart begins so, too)
    00:05  400 new records      wait
    00:09  1,100 new records    a batch
    00:10  20 new records       wait
    00:24  20 new records       a batch: the last one is 15 minutes old

Source: Spark's KafkaMicroBatchStream (`delayBatch`). Time is an argument.
"""

from __future__ import annotations


class Pace:
    """Counts from the last batch; `rows_min` 0 never waits."""

    def __init__(self, rows_min: int, delay_ms_max: int) -> None:
        self.rows_min = rows_min
        self.delay_ms_max = delay_ms_max
        self._last_ms: int | None = None

    def left_ms(self, rows: int, now_ms: int) -> int:
        """How long `rows` new records have to wait for company; 0 when they are enough, or waited long enough."""
        if rows >= self.rows_min or self._last_ms is None:
            return 0
        return max(self._last_ms + self.delay_ms_max - now_ms, 0)

    def began(self, now_ms: int) -> None:
        """A batch was planned."""
        self._last_ms = now_ms
