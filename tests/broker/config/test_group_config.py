"""A group's settings: the broker's defaults and bounds, and what has no effect here."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.config import BrokerConfig, ConfigError, load
from barnabas.broker.config.group_config import GroupConfig, group_config, stored_group_config, synonym_of

SESSION, BEAT, INTERVAL = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
)


@pytest.mark.parametrize("name", ["development", "container"])
def test_the_first_member_waits_3_s_for_others_unless_it_is_likely_alone(name: str) -> None:
    assert BrokerConfig().group_initial_rebalance_delay_ms == 3000
    kept = (Path(__file__).parents[3] / "configs" / f"{name}.properties").read_text()
    assert load(properties=kept).config.group_initial_rebalance_delay_ms == 0


def test_what_a_group_does_not_say_is_the_brokers() -> None:
    broker = BrokerConfig(group_consumer_session_timeout_ms=50_000, group_consumer_heartbeat_interval_ms=6000)
    assert group_config(broker, {}) == GroupConfig(50_000, 6000, 1000)
    assert group_config(broker, {BEAT: "7000"}) == GroupConfig(50_000, 7000, 1000)
    assert group_config(broker, {INTERVAL: " 0 "}) == GroupConfig(50_000, 6000, 0)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({SESSION: "44999"}, "consumer.session.timeout.ms=44999: write 45000 to 60000 (the broker's "),
        ({SESSION: "60001"}, "group.consumer.min.session.timeout.ms and group.consumer.max.session.timeout.ms)"),
        ({SESSION: "0"}, "too small; write 1 or more"),
        ({SESSION: "abc"}, "not a whole number"),
        ({SESSION: ""}, "not a whole number"),
        ({BEAT: "4999"}, "write 5000 to 15000"),
        ({BEAT: "15001"}, "write 5000 to 15000"),
        ({INTERVAL: "15001"}, "write 0 to 15000"),
        ({INTERVAL: "-1"}, "too small; write 0 or more"),
        ({"retention.ms": "1"}, "Unknown group config name: retention.ms"),
        ({"consumer.assignor.offload.enable": "true"}, "Unknown group config name"),
        ({"share.auto.offset.reset": "soon"}, "write earliest, latest or by_duration"),
        ({"share.auto.offset.reset": "by_duration:1h"}, "write earliest, latest or by_duration"),
        ({"share.auto.offset.reset": "by_duration:P"}, "write earliest, latest or by_duration"),
        ({"share.auto.offset.reset": "by_duration:PT"}, "write earliest, latest or by_duration"),
        ({"share.isolation.level": "x"}, "write one of read_committed, read_uncommitted"),
        ({"share.renew.acknowledge.enable": "x"}, "not a boolean"),
        ({"share.record.lock.duration.ms": "14000"}, "write a value between 15000 and 60000"),
        ({"share.delivery.count.limit": "11"}, "write a value between 2 and 10"),
        ({"streams.num.standby.replicas": "3"}, "write a value between 0 and 2"),
        ({"streams.initial.rebalance.delay.ms": "-1"}, "out of range"),
    ],
)
def test_what_a_group_cannot_have(settings: dict[str, str], told: str) -> None:
    """Apache Kafka 4.3.0 refuses the same."""
    with pytest.raises(ConfigError) as caught:
        group_config(BrokerConfig(), settings)
    assert told in str(caught.value)


def test_a_session_is_longer_than_a_heartbeat_interval() -> None:
    broker = BrokerConfig(group_consumer_min_session_timeout_ms=1000)
    with pytest.raises(ConfigError, match=r"write more than consumer\.heartbeat\.interval\.ms, which is 5000"):
        group_config(broker, {SESSION: "5000"})
    assert group_config(broker, {SESSION: "5001"}).consumer_session_timeout_ms == 5001


@pytest.mark.parametrize("value", ["earliest", "latest", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S"])
def test_what_has_no_effect_is_taken(value: str) -> None:
    assert group_config(BrokerConfig(), {"share.auto.offset.reset": value}) == GroupConfig()


def test_what_the_broker_no_longer_allows_is_brought_into_range() -> None:
    """Apache Kafka says that the effective value is capped."""
    broker = BrokerConfig(
        group_consumer_max_session_timeout_ms=46_000,
        group_consumer_min_heartbeat_interval_ms=6000,
        group_consumer_heartbeat_interval_ms=6000,
    )
    stored = {SESSION: "60000", BEAT: "5000", INTERVAL: "not readable", "of.a.later.release": "1"}
    assert stored_group_config(broker, stored) == GroupConfig(46_000, 6000, 1000)


def test_the_brokers_names() -> None:
    assert synonym_of(SESSION) == "group.consumer.session.timeout.ms"
    assert synonym_of("share.auto.offset.reset") == "share.auto.offset.reset"
