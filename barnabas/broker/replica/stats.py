"""Counters of requests and bytes, in total and by topic. Source: `BrokerTopicMetrics` and `ReplicaManager` metrics."""

from __future__ import annotations

from barnabas.broker.metrics import Meter, MetricsRegistry

_TYPE = "BrokerTopicMetrics"
_SUMMED = {
    "messages_in": "MessagesInPerSec",
    "bytes_in": "BytesInPerSec",
    "total_produces": "TotalProduceRequestsPerSec",
}


class TopicStats:
    """The meters of one topic, or of all (`topic` None). Hot paths add to `count` directly.

    Messages and bytes in and produce requests of all topics are the sum over the topics; only requests that come to
    no hosted partition are counted there themselves.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "messages_in",
        "replication_bytes_out",
        "total_fetches",
        "total_produces",
    )

    def __init__(self, registry: MetricsRegistry, topic: str | None) -> None:
        tags = None if topic is None else {"topic": topic}

        def meter(name: str) -> Meter:
            return registry.meter(_TYPE, name, tags)

        self.messages_in = meter("MessagesInPerSec")
        self.bytes_in = meter("BytesInPerSec")
        self.bytes_out = meter("BytesOutPerSec")
        self.bytes_rejected = meter("BytesRejectedPerSec")
        self.failed_produces = meter("FailedProduceRequestsPerSec")
        self.failed_fetches = meter("FailedFetchRequestsPerSec")
        self.total_produces = meter("TotalProduceRequestsPerSec")
        self.total_fetches = meter("TotalFetchRequestsPerSec")
        # Kafka keeps the replication rate for all topics only.
        self.replication_bytes_out = registry.meter(_TYPE, "ReplicationBytesOutPerSec")


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
            stats = self._topics[name] = TopicStats(self._registry, name)
            for attribute, total in self._summed.items():
                total.include(getattr(stats, attribute))
        return stats

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
                total.release(getattr(stats, attribute))
        self._registry.remove_topic(name)
