"""What a query's filters on partition, offset and timestamp spare a batch read. Pure but for a warning.

Filters narrow what is read and are given back to Spark, which applies all of them itself: a filter that is not
understood costs time and nothing else. Of timestamps only a lower bound helps: the first record that is so young is
known to the broker, but records behind it may be older, for producers set the time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import floor
from typing import Any

from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge.offsets import Offsets

log = logging.getLogger(__name__)


@dataclass
class Narrowed:
    """Bounds that all wanted records keep to; `since_ms` is of their timestamps."""

    start: int = 0
    end: int | None = None
    since_ms: int | None = None
    partitions: list[set[int]] = field(default_factory=list)
    partition_min: int = 0
    partition_max: int | None = None

    def has(self, where: TopicPartition) -> bool:
        """Whether records of a partition may be wanted."""
        number = where.partition
        within = self.partition_min <= number and (self.partition_max is None or number <= self.partition_max)
        return within and all(number in each for each in self.partitions)

    def clip(self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> tuple[Offsets, Offsets]:
        """What is left between these offsets, but for timestamps; ends lie at their starts where it is nothing."""
        first = {where: max(offset, self.start) for where, offset in start.items()}
        last = {where: offset if self.end is None else min(offset, self.end) for where, offset in end.items()}
        return first, {where: max(last[where] if self.has(where) else 0, first[where]) for where in last}


def narrowed(filters: Iterable[Any]) -> Narrowed:
    """The bounds that PySpark's filters set, all of which hold; those that set none are passed over."""
    found = Narrowed()
    for each in filters:
        attribute: object = getattr(each, "attribute", ())
        value: Any = getattr(each, "value", None)
        kind = type(each).__name__
        if attribute == ("timestamp",):
            _since(found, kind, value)
        elif attribute == ("partition",) and kind == "In":
            found.partitions.append({number for number in value if type(number) is int})
        elif attribute in (("offset",), ("partition",)) and type(value) is int:
            low, high = _bounds(kind, value)
            if attribute == ("offset",):
                found.start, found.end = max(found.start, low), _smaller(found.end, None if high is None else high + 1)
            else:
                found.partition_min = max(found.partition_min, low)
                found.partition_max = _smaller(found.partition_max, high)
    return found


def tell_one_use() -> None:
    """Said by whoever reads less: Spark does not ask again, so there is nothing else to be done about it."""
    log.warning(
        "pushFilters: Spark keeps this narrowed read for all uses of its DataFrame, whatever they filter: load a "
        "DataFrame for each query, and for each side of a union or join, or leave the option out"
    )


def _bounds(kind: str, value: int) -> tuple[int, int | None]:
    """The smallest and the largest number that a comparison lets through."""
    if kind in ("EqualTo", "EqualNullSafe"):
        return value, value
    if kind in ("GreaterThan", "GreaterThanOrEqual"):
        return value + (kind == "GreaterThan"), None
    if kind in ("LessThan", "LessThanOrEqual"):
        return 0, value - (kind == "LessThan")
    return 0, None


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _since(found: Narrowed, kind: str, value: object) -> None:
    if kind not in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"):
        return
    if isinstance(value, datetime) and value.tzinfo is not None:
        found.since_ms = max(found.since_ms or 0, floor(value.timestamp() * 1000))
