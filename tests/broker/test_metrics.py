from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.metrics import RESERVOIR_COUNT, MetricsRegistry, Sample


def test_a_gauge_is_asked_only_by_the_reader():
    registry = MetricsRegistry()
    asked = []

    def count():
        asked.append(1)
        return 7

    registry.gauge("ReplicaManager", "PartitionCount", None, count)
    assert asked == []
    (reading,) = registry.collect(0)
    assert (reading.domain, reading.type, reading.name, reading.tags) == (
        "kafka.server",
        "ReplicaManager",
        "PartitionCount",
        (),
    )
    assert (reading.kind, reading.values) == ("gauge", {"value": 7})
    assert asked == [1]


def test_a_type_may_name_its_domain_and_tags_are_sorted():
    registry = MetricsRegistry()
    registry.gauge("kafka.cluster:Partition", "ReplicasCount", {"topic": "t", "partition": "0"}, lambda: 3)
    (reading,) = registry.collect(0)
    assert (reading.domain, reading.tags) == ("kafka.cluster", (("partition", "0"), ("topic", "t")))


def test_a_meter_counts_and_the_reader_works_out_the_rates():
    registry = MetricsRegistry()
    meter = registry.meter("BrokerTopicMetrics", "MessagesInPerSec")
    assert registry.meter("BrokerTopicMetrics", "MessagesInPerSec") is meter
    assert meter.read(1000) == {"count": 0, "mean_rate": 0.0, "one_minute_rate": 0.0}
    meter.mark(10)
    meter.count += 10
    assert meter.read(3000) == {"count": 20, "mean_rate": 10.0, "one_minute_rate": 10.0}
    values = meter.read(63_000)  # silent for a minute: the rate falls to 1/e
    assert values["one_minute_rate"] == pytest.approx(10 / 2.718281828)
    assert meter.read(63_000) == values


def test_a_total_adds_up_its_parts_and_keeps_what_the_released_have_counted():
    registry = MetricsRegistry()
    total = registry.total_meter("BrokerTopicMetrics", "MessagesInPerSec")
    assert registry.meter("BrokerTopicMetrics", "MessagesInPerSec") is total
    total.read(0)
    first, second = (registry.meter("BrokerTopicMetrics", "MessagesInPerSec", {"topic": name}) for name in "ab")
    first.mark(5)
    total.include(first)
    total.include(second)
    second.count += 3
    total.count += 2
    assert total.read(1000) == {"count": 10, "mean_rate": 10.0, "one_minute_rate": 10.0}
    total.release(first)
    total.release(first)
    first.mark(100)
    second.mark(10)
    values = registry.read("BrokerTopicMetrics", "MessagesInPerSec", now_ms=1000)
    assert values is not None
    assert values["count"] == 20


def test_a_histogram_covers_all_values_and_keeps_the_latest():
    registry = MetricsRegistry()
    histogram = registry.histogram("RequestMetrics", "TotalTimeMs", {"request": "Fetch"})
    assert histogram.read(0)["count"] == 0
    for value in range(RESERVOIR_COUNT + 100):
        histogram.update(value)
    values = histogram.read(0)
    assert (values["count"], values["min"], values["max"]) == (RESERVOIR_COUNT + 100, 0, RESERVOIR_COUNT + 99)
    assert values["p50"] == 100 + RESERVOIR_COUNT // 2
    assert values["p999"] >= values["p99"] >= values["p50"]


def test_collectors_give_many_gauges_for_one_registration():
    registry = MetricsRegistry()
    registry.collector(lambda: [Sample("kafka.cluster:Partition", "UnderReplicated", {"topic": "t"}, 1)])
    (reading,) = registry.collect(0)
    assert (reading.type, reading.kind, reading.values) == ("Partition", "gauge", {"value": 1})


def test_metrics_can_be_removed_by_name_and_by_topic():
    registry = MetricsRegistry()
    registry.meter("A", "a", {"topic": "t"}).mark()
    registry.meter("A", "a", {"topic": "u"}).mark()
    registry.meter("A", "b")
    registry.remove_topic("t")
    registry.remove("A", "b")
    registry.remove("A", "never was")
    assert [reading.tags for reading in registry.collect(0)] == [(("topic", "u"),)]
    assert registry.read("A", "a", {"topic": "t"}) is None


def test_a_topic_that_goes_costs_its_own_metrics_and_no_look_at_all_others():
    """Counted: ten thousand deletions looked at ninety thousand metrics each, and stopped the loop for 90 s."""

    class Counting(dict[Any, Any]):
        walks = 0

        def __iter__(self):
            Counting.walks += 1
            return super().__iter__()

        def setdefault(self, key: Any, default: Any = None) -> Any:
            return super().setdefault(key, Counting())

    registry = MetricsRegistry()
    registry._families = Counting()
    for topic in ("t", "u"):
        registry.meter("A", "a", {"topic": topic})
        registry.gauge("A", "g", {"topic": topic, "partition": "0"}, lambda: 1)
        registry.gauge("A", "g", {"topic": topic, "partition": "0"}, lambda: 2)
    registry.remove_topic("t")
    registry.remove_topic("nobody")
    assert Counting.walks == 0
    assert len(list(registry.collect(0))) == 2


def test_metrics_of_one_name_are_read_one_after_the_other():
    """So that a page can be written as it is read, and nothing of it kept."""
    registry = MetricsRegistry()
    for topic in (None, {"topic": "t"}, {"topic": "u"}):
        for name in ("a", "b"):
            registry.meter("A", name, topic)
    told = [(reading.name, reading.tags) for reading in registry.collect(0)]
    t, u = (("topic", "t"),), (("topic", "u"),)
    assert told == [("a", ()), ("b", ()), ("a", t), ("a", u), ("b", t), ("b", u)]
