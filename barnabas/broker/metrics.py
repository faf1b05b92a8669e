"""The metrics registry: Kafka's names, and no cost to the broker while nobody reads.

Kafka names a metric by an MBean, `kafka.server:type=ReplicaManager,name=PartitionCount`, with further properties as
tags. Here a name is (`"kafka.server:ReplicaManager"`, `"PartitionCount"`, tags); a type without a domain lies in
`kafka.server`. Gauges are callables that only the reader calls. Meters and histograms keep counts; rates are worked
out by the reader, from the time it passes in. Source: `KafkaMetricsGroup` of Apache Kafka.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

Number: TypeAlias = int | float
Tags: TypeAlias = Mapping[str, str] | None
Kind: TypeAlias = Literal["gauge", "counter", "meter", "histogram"]
MetricKey: TypeAlias = tuple[str, str, str, tuple[tuple[str, str], ...]]
Family: TypeAlias = tuple[str, str, str, bool]
"""Domain, type, name, and whether there are tags."""

RESERVOIR_COUNT: Final = 1024
ONE_MINUTE_MS: Final = 60_000.0
PERCENTILES: Final = (("p50", 0.50), ("p75", 0.75), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))


class Reading(NamedTuple):
    """One metric as it was read. `values` holds `value` for a gauge or a counter, else the statistics by name.

    A meter has `count`, `mean_rate` and `one_minute_rate` (events per second); a histogram `count`, `sum`, `min`,
    `max`, `mean` and the percentiles `p50` to `p999` of its latest values.
    """

    domain: str
    type: str
    name: str
    tags: tuple[tuple[str, str], ...]
    kind: Kind
    values: dict[str, Number]


class Sample(NamedTuple):
    """A gauge's value as a collector gives it."""

    type_name: str
    name: str
    tags: Tags
    value: Number


class Meter:
    """Counts events. Hot paths may add to `count` directly."""

    __slots__ = ("_first_ms", "_last_count", "_last_ms", "_rate", "count")

    def __init__(self) -> None:
        self.count = 0
        self._first_ms: int | None = None
        self._last_ms = 0
        self._last_count = 0
        self._rate = 0.0

    def mark(self, count: int = 1) -> None:
        """Count `count` events."""
        self.count += count

    @property
    def total(self) -> int:
        """All events so far."""
        return self.count

    def read(self, now_ms: int) -> dict[str, Number]:
        """Count and rates (events per second); a rate is known from the second reading on."""
        total = self.total
        if self._first_ms is None:
            self._first_ms = self._last_ms = now_ms
        elapsed_ms = now_ms - self._last_ms
        if elapsed_ms > 0:
            recent = (total - self._last_count) * 1000 / elapsed_ms
            # The first interval starts the average; later ones weigh by their length against one minute.
            fresh = self._last_ms == self._first_ms
            weight = 1.0 if fresh else 1 - math.exp(-elapsed_ms / ONE_MINUTE_MS)
            self._rate += weight * (recent - self._rate)
            self._last_ms, self._last_count = now_ms, total
        lifetime_ms = now_ms - self._first_ms
        mean = total * 1000 / lifetime_ms if lifetime_ms > 0 else 0.0
        return {"count": total, "mean_rate": mean, "one_minute_rate": self._rate}


class TotalMeter(Meter):
    """Counts what others count, added up when somebody reads, and beside it events of its own (`count`)."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[int, Meter] = {}

    def include(self, part: Meter) -> None:
        """Count what `part` counts from now on, and has counted."""
        self._parts[id(part)] = part

    def release(self, part: Meter) -> None:
        """`part` counts no more; what it has counted stays."""
        if self._parts.pop(id(part), None) is not None:
            self.count += part.total

    @property
    def total(self) -> int:
        """All events so far."""
        return self.count + sum(part.total for part in self._parts.values())


class Histogram:
    """The distribution of the latest `RESERVOIR_COUNT` values; count, sum, min and max cover all of them."""

    __slots__ = ("_latest", "count", "max", "min", "sum")

    def __init__(self) -> None:
        self.count = 0
        self.sum: Number = 0
        self.min: Number = math.inf
        self.max: Number = -math.inf
        self._latest: list[Number] = []

    def update(self, value: Number) -> None:
        """Add one value."""
        if self.count < RESERVOIR_COUNT:
            self._latest.append(value)
        else:
            self._latest[self.count % RESERVOIR_COUNT] = value
        self.count += 1
        self.sum += value
        if value < self.min:
            self.min = value
        if value > self.max:
            self.max = value

    def read(self, now_ms: int) -> dict[str, Number]:
        """The statistics; all zero while there is no value."""
        if not self.count:
            return {"count": 0, "sum": 0, "min": 0, "max": 0, "mean": 0.0} | {name: 0 for name, _ in PERCENTILES}
        ordered = sorted(self._latest)
        statistics = {
            "count": self.count,
            "sum": self.sum,
            "min": self.min,
            "max": self.max,
            "mean": self.sum / self.count,
        }
        for name, share in PERCENTILES:
            statistics[name] = ordered[min(len(ordered) - 1, int(share * len(ordered)))]
        return statistics


class _Asked:
    """What is asked for when it is read: a gauge, or a counter that is kept elsewhere."""

    __slots__ = ("_read", "kind")

    def __init__(self, kind: Kind, read: Callable[[], Number]) -> None:
        self.kind: Final = kind
        self._read = read

    def read(self, now_ms: int) -> dict[str, Number]:
        return {"value": self._read()}


_Made = TypeVar("_Made", Meter, TotalMeter, Histogram)


class MetricsRegistry:
    """All metrics of one broker, in the order of their registration."""

    __slots__ = ("_collectors", "_families", "_of_topic")

    def __init__(self) -> None:
        self._collectors: list[Callable[[], Iterable[Sample]]] = []
        self._families: dict[Family, dict[MetricKey, _Asked | Meter | Histogram]] = {}
        self._of_topic: dict[str, list[MetricKey]] = {}

    def gauge(self, type_name: str, name: str, tags: Tags, read: Callable[[], Number]) -> None:
        """Register a value that is asked for when it is read; a gauge of the same name is replaced."""
        self._ask("gauge", _key(type_name, name, tags), tags, read)

    def counter(self, type_name: str, name: str, tags: Tags, read: Callable[[], Number]) -> None:
        """As `gauge`, for a value that begins at 0 with the broker and only grows."""
        self._ask("counter", _key(type_name, name, tags), tags, read)

    def _ask(self, kind: Kind, key: MetricKey, tags: Tags, read: Callable[[], Number]) -> None:
        family = self._family(key)
        if key not in family:
            self._note(key, tags)
        family[key] = _Asked(kind, read)

    def meter(self, type_name: str, name: str, tags: Tags = None) -> Meter:
        """The meter of that name, made on first need."""
        return self._made(Meter, type_name, name, tags)

    def total_meter(self, type_name: str, name: str) -> TotalMeter:
        """The meter of that name, made on first need, which adds up others."""
        return self._made(TotalMeter, type_name, name, None)

    def histogram(self, type_name: str, name: str, tags: Tags = None) -> Histogram:
        """The histogram of that name, made on first need."""
        return self._made(Histogram, type_name, name, tags)

    def _made(self, kind: type[_Made], type_name: str, name: str, tags: Tags) -> _Made:
        key = _key(type_name, name, tags)
        family = self._family(key)
        metric = family.get(key)
        if metric is None:
            metric = family[key] = kind()
            self._note(key, tags)
        assert isinstance(metric, kind), f"{key} is no {kind.__name__}"
        return metric

    def _family(self, key: MetricKey) -> dict[MetricKey, _Asked | Meter | Histogram]:
        return self._families.setdefault(_family_of(key), {})

    def _note(self, key: MetricKey, tags: Tags) -> None:
        if tags and "topic" in tags:
            self._of_topic.setdefault(tags["topic"], []).append(key)

    def collector(self, read: Callable[[], Iterable[Sample]]) -> None:
        """Register gauges that are many and alike (one per partition): all are asked for when somebody reads."""
        self._collectors.append(read)

    def remove(self, type_name: str, name: str, tags: Tags = None) -> None:
        """Forget a metric; nothing happens when there is none of that name."""
        self._forget(_key(type_name, name, tags))

    def remove_topic(self, topic: str) -> None:
        """Forget every metric that carries this topic's tag (it was deleted)."""
        for key in self._of_topic.pop(topic, ()):
            self._forget(key)

    def _forget(self, key: MetricKey) -> None:
        self._families.get(_family_of(key), {}).pop(key, None)

    def collect(self, now_ms: int) -> Iterator[Reading]:
        """Read all metrics at the monotonic time `now_ms`, those of one name one after the other."""
        for family in list(self._families.values()):
            for (domain, type_name, name, tags), metric in list(family.items()):
                kind: Kind = (
                    metric.kind if isinstance(metric, _Asked) else "meter" if isinstance(metric, Meter) else "histogram"
                )
                yield Reading(domain, type_name, name, tags, kind, metric.read(now_ms))
        for collector in self._collectors:
            for sample in collector():
                yield Reading(*_key(sample.type_name, sample.name, sample.tags), "gauge", {"value": sample.value})

    def read(self, type_name: str, name: str, tags: Tags = None, now_ms: int = 0) -> dict[str, Number] | None:
        """One metric's values, or None when there is none of that name."""
        key = _key(type_name, name, tags)
        metric = self._families.get(_family_of(key), {}).get(key)
        return None if metric is None else metric.read(now_ms)


def _family_of(key: MetricKey) -> Family:
    domain, kind, name, tags = key
    return domain, kind, name, bool(tags)


def _key(type_name: str, name: str, tags: Tags) -> MetricKey:
    domain, colon, kind = type_name.rpartition(":")
    return (domain if colon else "kafka.server", kind, name, tuple(sorted(tags.items())) if tags else ())
