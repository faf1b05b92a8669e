"""A small micro-batch without a task: its planner has a connection open, so it reads the few new records itself.

A task in Python costs Spark some 30 ms, whatever it reads, and a query that keeps up with its topic has little to read.
PySpark lets a planner send rows along with the plan, for its `SimpleDataSourceStreamReader`; Spark keeps them as a
block and starts no Python for them. Is the block lost, a task reads the same span again: what a batch holds depends on
its offsets alone, either way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.protocol.errors import BarnabasError
from barnabas.spark_bridge.brokers import topic_id_at
from barnabas.spark_bridge.kept import below, bytes_of
from barnabas.spark_bridge.offsets import Span
from barnabas.spark_bridge.origin import Origin

if TYPE_CHECKING:
    from barnabas.client.consume.columnar import Columns
    from barnabas.client.consumer import Consumer

SPANS_MAX: Final = 16
"""More partitions than that are left to tasks, which read them side by side."""
BYTES_MAX: Final = 1 << 20
"""Of a batch that its planner sends, headers and all; what is larger gains nothing from it."""
WAIT_MS: Final = 100
"""The records are there already. Where they do not come so soon, a task knows better what to do about it."""
_FORGET: Final = 0.9


class Near:
    """Decides for one query whether its planner reads, and reads; `records_max` 0 is never, `now_s` a clock."""

    def __init__(self, records_max: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self.records_max = records_max
        self._now_s = now_s
        self._bytes_a_record = 0.0

    def suits(self, spans: Sequence[Span]) -> bool:
        """Whether these are few records, and small ones as far as the last ones tell; asked once a batch."""
        count = sum(span.end - span.start for span in spans)
        if not spans or count > self.records_max or len(spans) > SPANS_MAX:
            return False
        if count * self._bytes_a_record > BYTES_MAX:
            self._bytes_a_record *= _FORGET  # small ones may come again: it is tried again some time
            return False
        return True

    def read(self, consumer: Consumer, spans: Sequence[Span], names: Sequence[str]) -> list[Columns] | None:
        """All records of these spans; None where they are for a task to read: too large, gone, or not here at once."""
        try:
            consumer.assign([span.where for span in spans])
            for span in spans:
                consumer.seek(span.where, span.start)
            found = self._read(consumer, spans, names)
        except BarnabasError:
            return None
        finally:
            consumer.assign([])
        if found is None:
            return None
        size, count = sum(map(bytes_of, found)), sum(map(len, found))
        if count:
            self._bytes_a_record = size / count
        return found if size <= BYTES_MAX else None

    def _read(self, consumer: Consumer, spans: Sequence[Span], names: Sequence[str]) -> list[Columns] | None:
        left = {span.where: span.end for span in spans}
        found: list[Columns] = []
        until_s = self._now_s() + WAIT_MS / 1000
        while left:
            wait_s = until_s - self._now_s()
            if wait_s <= 0:
                return None
            come = consumer.poll_columns(wait_s, headers="headers" in names, only=names)
            parts = [below(columns, left[columns.where]) for columns in come if columns.where in left]
            found += [part for part in parts if part is not None]
            # Compaction and transactions leave gaps: what tells that a span is read is the position, no record.
            left = {where: end for where, end in left.items() if consumer.position(where) < end}
        return found


def is_anew(consumer: Consumer, span: Span, origin: Origin) -> bool:
    """Whether the consumer reads another topic than the one of the plan: a task knows what to make of that."""
    was, now = origin.topics.get(span.where.topic, ""), topic_id_at(consumer, span.where)
    return bool(was and now) and was != now
