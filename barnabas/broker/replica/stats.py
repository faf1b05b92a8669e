"""Counters of requests and bytes, in total and by topic. Source: `BrokerTopicMetrics` and `ReplicaManager` metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.broker.metrics import Meter, MetricsRegistry

_TYPE = "BrokerTopicMetrics"
_METERS: Final = {
    "messages_in": "MessagesInPerSec",
    "bytes_in": "BytesInPerSec",
    "bytes_out": "BytesOutPerSec",
    "bytes_rejected": "BytesRejectedPerSec",
    "failed_produces": "FailedProduceRequestsPerSec",
    "failed_fetches": "FailedFetchRequestsPerSec",
    "total_produces": "TotalProduceRequestsPerSec",
    "total_fetches": "TotalFetchRequestsPerSec",
}
_SUMMED: Final = ("messages_in", "bytes_in", "total_produces")


class TopicStats:
    """The meters of one topic, or of all (`topic` None). Hot paths add to `count` directly.

    Messages and bytes in and produce requests of all topics are the sum over the topics; only requests that come to
    no hosted partition are counted there themselves. A topic's meters are made on first need, as Kafka's are
    (`BrokerTopicMetrics.MeterWrapper`): a topic that nobody uses would have 3 KB of them.
    """

    __slots__ = (
        "_made",
        "_registry",
        "_topic",
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "messages_in",
        "replication_bytes_in",
        "replication_bytes_out",
        "total_fetches",
        "total_produces",
    )

    messages_in: Meter
    bytes_in: Meter
    bytes_out: Meter
    bytes_rejected: Meter
    failed_produces: Meter
    failed_fetches: Meter
    total_produces: Meter
    total_fetches: Meter

    def __init__(
        self, registry: MetricsRegistry, topic: str | None, made: Callable[[str, Meter], None] | None = None
    ) -> None:
        """`made` is told of each meter, by the name of its attribute."""
        self._registry = registry
        self._topic = topic
        self._made = made
        # Kafka keeps the replication rates for all topics only.
        self.replication_bytes_in = registry.meter(_TYPE, "ReplicationBytesInPerSec")
        self.replication_bytes_out = registry.meter(_TYPE, "ReplicationBytesOutPerSec")
        if topic is None:
            for name in _METERS:
                getattr(self, name)

    def __getattr__(self, name: str) -> Meter:
        # Asked only for what is not set yet.
        metric = _METERS.get(name)
        if metric is None:
            raise AttributeError(name)
        meter = self._registry.meter(_TYPE, metric, None if self._topic is None else {"topic": self._topic})
        setattr(self, name, meter)
        if self._made is not None:
            self._made(name, meter)
        return meter

    def has(self, name: str) -> bool:
        """Whether the meter of that attribute is made."""
        try:
            object.__getattribute__(self, name)
        except AttributeError:
            return False
        return True


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
        self._summed = {name: registry.total_meter(_TYPE, _METERS[name]) for name in _SUMMED}
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
