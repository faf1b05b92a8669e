"""The counters of topics: what they cost while nobody uses a topic, and what is left of them."""

from __future__ import annotations

from barnabas.broker.metrics import MetricsRegistry
from barnabas.broker.replica.stats import BrokerStats

TYPE = "BrokerTopicMetrics"


def test_a_topic_that_nobody_uses_has_no_meters() -> None:
    """Of 13 KB that an empty topic cost until now 4 KB were meters, most of them never used."""
    registry = MetricsRegistry()
    stats = BrokerStats(registry)
    before = len(list(registry.collect(0)))
    topic = stats.topic("t")
    assert len(list(registry.collect(0))) == before
    topic.bytes_in.count += 5
    assert topic.bytes_in is stats.topic("t").bytes_in
    assert len(list(registry.collect(0))) == before + 1
    for tags in ({"topic": "t"}, None):
        read = registry.read(TYPE, "BytesInPerSec", tags)
        assert read is not None
        assert read["count"] == 5


def test_those_of_all_topics_are_there_from_the_start() -> None:
    registry = MetricsRegistry()
    BrokerStats(registry)
    assert registry.read(TYPE, "FailedFetchRequestsPerSec") is not None


def test_the_totals_keep_what_a_topic_that_goes_has_counted() -> None:
    registry = MetricsRegistry()
    stats = BrokerStats(registry)
    stats.topic("t").messages_in.count += 3
    stats.topic("unused")
    for name in ("t", "unused", "never"):
        stats.forget_topic(name)
    stats.topic("t").messages_in.count += 1
    read = registry.read(TYPE, "MessagesInPerSec")
    assert read is not None
    assert read["count"] == 4
