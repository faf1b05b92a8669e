"""A group's settings, and how each takes its default from the broker (resource type 32, KIP-848).

`consumer.session.timeout.ms` of a group has its default from the broker's `group.consumer.session.timeout.ms`, and its
bounds from `group.consumer.min.session.timeout.ms` and `group.consumer.max.session.timeout.ms`.
Source: `GroupConfig` of Apache Kafka 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.config.keys import (
    INT_MAX,
    Check,
    Key,
    Kind,
    Update,
    at_least,
    between,
    integer,
    keys_of,
    one_of,
)
from barnabas.protocol.errors import ConfigError


@dataclass(slots=True, frozen=True)
class GroupConfig:
    """All settings of one group that have an effect. Construction checks nothing; `group_config` does. Times are ms."""

    consumer_session_timeout_ms: int = integer(45_000, at_least(1))
    consumer_heartbeat_interval_ms: int = integer(5000, at_least(1))
    consumer_assignment_interval_ms: int = integer(1000, at_least(0))


_RANGES: Final[dict[str, Callable[[BrokerConfig], tuple[int, int]]]] = {
    "consumer.session.timeout.ms": lambda broker: (
        broker.group_consumer_min_session_timeout_ms,
        broker.group_consumer_max_session_timeout_ms,
    ),
    "consumer.heartbeat.interval.ms": lambda broker: (
        broker.group_consumer_min_heartbeat_interval_ms,
        broker.group_consumer_max_heartbeat_interval_ms,
    ),
    "consumer.assignment.interval.ms": lambda broker: (
        broker.group_consumer_min_assignment_interval_ms,
        broker.group_consumer_max_assignment_interval_ms,
    ),
}
"""The least and the most that the broker allows."""
_OFFSET_RESET: Final = re.compile(
    r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+([.,]\d{1,9})?S)?)?", re.IGNORECASE
)


def _offset_reset(text: str) -> str | None:
    if text in ("earliest", "latest") or _OFFSET_RESET.fullmatch(text):
        return None
    return "no such choice; write earliest, latest or by_duration:PnDTnHnMn.nS, as by_duration:PT1H"


def _unused(name: str, default: object, check: Check | None, kind: Kind = Kind.INT) -> Key:
    return Key(name, "", kind, default, False, check, Update.READ_ONLY)


UNUSED_GROUP_KEYS: Final = {
    key.name: key
    for key in (
        _unused("share.assignment.interval.ms", 1000, between(0, 15_000)),
        _unused("share.auto.offset.reset", "latest", _offset_reset, Kind.STRING),
        _unused("share.delivery.count.limit", 5, between(2, 10)),
        _unused("share.heartbeat.interval.ms", 5000, between(5000, 15_000)),
        _unused("share.isolation.level", "read_uncommitted", one_of("read_committed", "read_uncommitted"), Kind.STRING),
        _unused("share.partition.max.record.locks", 2000, between(100, 4000)),
        _unused("share.record.lock.duration.ms", 30_000, between(15_000, 60_000)),
        _unused("share.renew.acknowledge.enable", True, None, Kind.BOOLEAN),
        _unused("share.session.timeout.ms", 45_000, between(45_000, 60_000)),
        _unused("streams.assignment.interval.ms", 1000, between(0, 15_000)),
        _unused("streams.heartbeat.interval.ms", 5000, between(5000, 15_000)),
        _unused("streams.initial.rebalance.delay.ms", 3000, between(0, INT_MAX)),
        _unused("streams.num.standby.replicas", 0, between(0, 2)),
        _unused("streams.session.timeout.ms", 45_000, between(45_000, 60_000)),
    )
}
"""Settings of share and streams groups, of which there are none here: accepted within the bounds that a Kafka has by
default, kept, told, and without effect."""
_OF_NO_BROKER: Final = frozenset({"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"})


def synonym_of(name: str) -> str:
    """The broker setting that a group's setting takes its default from; its own name where there is none."""
    return name if name in _OF_NO_BROKER else f"group.{name}"


def default_group_config(broker: BrokerConfig) -> GroupConfig:
    """What a group without settings of its own goes by."""
    return GroupConfig(
        broker.group_consumer_session_timeout_ms,
        broker.group_consumer_heartbeat_interval_ms,
        broker.group_consumer_assignment_interval_ms,
    )


def group_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> GroupConfig:
    """A group's settings: its own, else the broker's.

    Raises:
        ConfigError: an override that no group has, or a value out of the broker's range.
    """
    values: dict[str, int] = {}
    for name, text in overrides.items():
        key = _key_of(name)
        value = key.parse(text)
        if key.attribute:
            least, most = _RANGES[name](broker)
            if not least <= value <= most:
                bounds = " and ".join(
                    f"group.consumer.{end}.{name.removeprefix('consumer.')}" for end in ("min", "max")
                )
                raise ConfigError(f"{name}={value}: write {least} to {most} (the broker's {bounds})")
            values[key.attribute] = value
    config = replace(default_group_config(broker), **values)
    if values and config.consumer_session_timeout_ms <= config.consumer_heartbeat_interval_ms:
        raise ConfigError(
            f"consumer.session.timeout.ms={config.consumer_session_timeout_ms}: write more than "
            f"consumer.heartbeat.interval.ms, which is {config.consumer_heartbeat_interval_ms}"
        )
    return config


def stored_group_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> GroupConfig:
    """As `group_config`, for settings that were accepted once: what the broker no longer allows is brought into range.

    One that this release cannot read is passed over.
    """
    values: dict[str, int] = {}
    for name, text in overrides.items():
        with suppress(ConfigError):
            key = _key_of(name)
            if key.attribute:
                least, most = _RANGES[name](broker)
                values[key.attribute] = min(max(key.parse(text), least), most)
    return replace(default_group_config(broker), **values)


def _key_of(name: str) -> Key:
    key = keys_of(GroupConfig).get(name) or UNUSED_GROUP_KEYS.get(name)
    if key is None:
        raise ConfigError(f"Unknown group config name: {name}")
    return key
