"""Counters of requests and bytes, in total and by topic. Source: `BrokerTopicMetrics` and `ReplicaManager` metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.broker.metrics import Meter, MetricsRegistry

_TYPE = "BrokerTopicMetrics"
_SUMMED: Final = {
    "messages_in": "MessagesInPerSec",
    "bytes_in": "BytesInPerSec",
    "total_produces": "TotalProduceRequestsPerSec",
}


class _OnNeed:
    """A meter that is made when it is first asked for, and found in the object from then on, without a call.

    (A `__getattr__` would be asked for less and cost more: a class that has one is slower at every attribute it has.)
    """

    __slots__ = ("_attribute", "_metric")

    def __init__(self, metric: str) -> None:
        self._metric = metric

    def __set_name__(self, owner: type[TopicStats], name: str) -> None:
        self._attribute = name

    def __get__(self, stats: TopicStats, owner: type[TopicStats]) -> Meter:
        meter = stats.make(self._attribute, self._metric)
        setattr(stats, self._attribute, meter)
        return meter


class TopicStats:
    """The meters of one topic, or of all (`topic` None). Hot paths add to `count` directly.

    Messages and bytes in and produce requests of all topics are the sum over the topics; only requests that come to
    no hosted partition are counted there themselves. A topic's meters are made on first need, as Kafka's are
    (`BrokerTopicMetrics.MeterWrapper`): a topic that nobody uses would have 3 KB of them.
    """

    messages_in = _OnNeed("MessagesInPerSec")
    bytes_in = _OnNeed("BytesInPerSec")
    bytes_out = _OnNeed("BytesOutPerSec")
    bytes_rejected = _OnNeed("BytesRejectedPerSec")
    failed_produces = _OnNeed("FailedProduceRequestsPerSec")
    failed_fetches = _OnNeed("FailedFetchRequestsPerSec")
    total_produces = _OnNeed("TotalProduceRequestsPerSec")
    total_fetches = _OnNeed("TotalFetchRequestsPerSec")

    def __init__(
        self, registry: MetricsRegistry, topic: str | None, made: Callable[[str, Meter], None] | None = None
    ) -> None:
        """`made` is told of each meter, by the name of its attribute."""
        self._registry = registry
        self._topic = topic
        self._made = made
        # Kafka keeps the replication rates for all topics only.
        self.replication_bytes_in = registry.meter(_TYPE, "ReplicationBytesInPerSec")
        self.reassignment_bytes_in = registry.meter(_TYPE, "ReassignmentBytesInPerSec")
        self.reassignment_bytes_out = registry.meter(_TYPE, "ReassignmentBytesOutPerSec")
        self.replication_bytes_out = registry.meter(_TYPE, "ReplicationBytesOutPerSec")
        if topic is None:
            for name, value in vars(TopicStats).items():
                if isinstance(value, _OnNeed):
                    getattr(self, name)

    def make(self, attribute: str, metric: str) -> Meter:
        """A meter that is needed for the first time."""
        meter = self._registry.meter(_TYPE, metric, None if self._topic is None else {"topic": self._topic})
        if self._made is not None:
            self._made(attribute, meter)
        return meter

    def has(self, name: str) -> bool:
        """Whether the meter of that attribute is made."""
        return name in vars(self)


class BrokerStats:
    """All counters of the replica room."""

    __slots__ = (
        "_registry",
        "_summed",
        "_topics",
        "all",
        "delete_records_expires",
        "failed_isr_updates",
        "fetch_expires_consumer",
        "fetch_expires_follower",
        "isr_expands",
        "isr_shrinks",
        "produce_expires",
    )

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._topics: dict[str, TopicStats] = {}
        # What every append counts it counts once, for its topic.
        self._summed = {name: registry.total_meter(_TYPE, metric) for name, metric in _SUMMED.items()}
        self.all = TopicStats(registry, None)
        self.isr_expands = registry.meter("ReplicaManager", "IsrExpandsPerSec")
        self.isr_shrinks = registry.meter("ReplicaManager", "IsrShrinksPerSec")
        self.failed_isr_updates = registry.meter("ReplicaManager", "FailedIsrUpdatesPerSec")
        self.produce_expires = registry.meter("DelayedProduceMetrics", "ExpiresPerSec")
        self.fetch_expires_consumer = registry.meter(
            "DelayedFetchMetrics", "ExpiresPerSec", {"fetcherType": "consumer"}
        )
        self.fetch_expires_follower = registry.meter(
            "DelayedFetchMetrics", "ExpiresPerSec", {"fetcherType": "follower"}
        )
        self.delete_records_expires = registry.meter("DelayedDeleteRecordsMetrics", "ExpiresPerSec")

    def topic(self, name: str) -> TopicStats:
        """The counters of a topic, made on first need."""
        stats = self._topics.get(name)
        if stats is None:
            stats = self._topics[name] = TopicStats(self._registry, name, self._made)
        return stats

    def _made(self, attribute: str, meter: Meter) -> None:
        if attribute in self._summed:
            self._summed[attribute].include(meter)

    def produce_expired(self, topic: str, partition: int) -> None:
        """Count one partition that was still pending when its produce expired: in total, and by partition."""
        self.produce_expires.count += 1
        tags = {"topic": topic, "partition": str(partition)}
        self._registry.meter("DelayedProduceMetrics", "ExpiresPerSec", tags).count += 1

    def forget_topic(self, name: str) -> None:
        """The topic is hosted no longer: its metrics go."""
        stats = self._topics.pop(name, None)
        if stats is not None:
            for attribute, total in self._summed.items():
                if stats.has(attribute):
                    total.release(getattr(stats, attribute))
        self._registry.remove_topic(name)
