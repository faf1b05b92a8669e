"""A topic's settings, and how each takes its default from the broker (`topic.name` / `broker.name`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.config.keys import (
    LONG_MAX,
    Key,
    Kind,
    Update,
    all_of,
    at_least,
    between,
    boolean,
    double,
    integer,
    keys_of,
    long,
    one_of,
    string,
    words,
)
from barnabas.protocol.errors import ConfigError


@dataclass(slots=True, frozen=True)
class TopicConfig:
    """All settings of one topic. Construction checks nothing; `topic_config` does. Times are ms, sizes bytes."""

    cleanup_policy: tuple[str, ...] = words(("delete",), all_of("compact", "delete"))
    compression_gzip_level: int = integer(
        -1, lambda level: None if level == -1 or 1 <= level <= 9 else "out of range; write 1 to 9, or -1"
    )
    compression_lz4_level: int = integer(9, between(1, 17))
    compression_type: str = string("producer", one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"))
    compression_zstd_level: int = integer(3, between(-131_072, 22))
    delete_retention_ms: int = long(86_400_000, at_least(0))
    file_delete_delay_ms: int = long(60_000, at_least(0))
    flush_messages: int = long(LONG_MAX, at_least(1))
    flush_ms: int = long(LONG_MAX, at_least(0))
    index_interval_bytes: int = integer(4096, at_least(0))
    max_compaction_lag_ms: int = long(LONG_MAX, at_least(1))
    max_message_bytes: int = integer(1_048_588, at_least(0))
    message_timestamp_after_max_ms: int = long(3_600_000, at_least(0))
    message_timestamp_before_max_ms: int = long(LONG_MAX, at_least(0))
    message_timestamp_type: str = string("CreateTime", one_of("CreateTime", "LogAppendTime"))
    min_cleanable_dirty_ratio: float = double(0.5, between(0, 1))
    min_compaction_lag_ms: int = long(0, at_least(0))
    min_insync_replicas: int = integer(1, at_least(1))
    preallocate: bool = boolean(False)
    retention_bytes: int = long(-1)
    retention_ms: int = long(604_800_000, at_least(-1))
    segment_bytes: int = integer(1_073_741_824, at_least(1_048_576))
    segment_index_bytes: int = integer(10_485_760, at_least(4))
    segment_jitter_ms: int = long(0, at_least(0))
    segment_ms: int = long(604_800_000, at_least(1))
    unclean_leader_election_enable: bool = boolean(False)


SYNONYMS: Final = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""Topic setting to the broker setting it takes its default from (`ServerTopicConfigSynonyms`)."""

_DERIVED: Final = {
    "retention.ms": "retention_ms",
    "segment.ms": "roll_ms",
    "segment.jitter.ms": "roll_jitter_ms",
    "flush.ms": "flush_ms",
}


def _no_tiers(value: object) -> str | None:
    return "tiered storage is not served; write false" if value else None


def _throttled(replicas: tuple[str, ...]) -> str | None:
    """As Kafka's `ThrottledReplicaListValidator`."""
    if replicas == ("*",) or all(not each or _THROTTLED.fullmatch(each) for each in replicas):
        return None
    return "no list of replicas; write partition:broker, with commas between them, or * for all"


_THROTTLED: Final = re.compile(r"[0-9]+:[0-9]+")
_LOCAL_CHECK: Final = at_least(-2)
UNUSED_TOPIC_KEYS: Final = {
    name: Key(name, "", kind, default, False, check, Update.READ_ONLY)
    for name, kind, default, check in (
        ("follower.replication.throttled.replicas", Kind.LIST, (), _throttled),
        ("internal.segment.bytes", Kind.INT, None, None),
        ("leader.replication.throttled.replicas", Kind.LIST, (), _throttled),
        ("local.retention.bytes", Kind.LONG, -2, _LOCAL_CHECK),
        ("local.retention.ms", Kind.LONG, -2, _LOCAL_CHECK),
        ("remote.log.copy.disable", Kind.BOOLEAN, False, None),
        ("remote.log.delete.on.disable", Kind.BOOLEAN, False, None),
        ("remote.storage.enable", Kind.BOOLEAN, False, _no_tiers),
    )
}
"""Topic settings that Apache Kafka 4.3 has and this broker has no use for: accepted, kept, told, and without effect.

One without a default is told to nobody. Those that list replicas do have an effect (`replica/throttle`), and are read
where they are needed, which is rarely.
"""


UNUSED_SYNONYMS: Final = {
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
}
"""Those of them that Kafka derives from a broker's setting."""


def topic_config(broker: BrokerConfig, overrides: Mapping[str, str] | None = None) -> TopicConfig:
    """A topic's settings: its own, else the broker's.

    Raises:
        ConfigError: an override that no topic has, or a value out of range.
    """
    values = {}
    for name, key in keys_of(TopicConfig).items():
        source = _DERIVED.get(name) or SYNONYMS[name].replace(".", "_")
        values[key.attribute] = getattr(broker, source)
    table = keys_of(TopicConfig)
    for name, text in (overrides or {}).items():
        if name in UNUSED_TOPIC_KEYS:
            UNUSED_TOPIC_KEYS[name].parse(text)
            continue
        if name not in table:
            raise ConfigError(f"Unknown topic config name: {name}")
        values[table[name].attribute] = table[name].parse(text)
    return TopicConfig(**values)


def stored_topic_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> TopicConfig:
    """As `topic_config`, for settings that were accepted once: one this release cannot read is passed over.

    What has no effect is not read again: a list of replicas may have 32 KB, which takes a ms.
    """
    overrides = {name: text for name, text in overrides.items() if name not in UNUSED_TOPIC_KEYS}
    try:
        return topic_config(broker, overrides)
    except ConfigError:
        readable = {}
        for name, text in overrides.items():
            try:
                topic_config(broker, {name: text})
            except ConfigError:
                continue
            readable[name] = text
        return topic_config(broker, readable)
