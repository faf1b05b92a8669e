"""Settings as they are described: value, where it comes from, and what it would be otherwise (KIP-226, KIP-569)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

from barnabas.broker.cluster.dynamic import refresh, used
from barnabas.broker.cluster.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE, Image
from barnabas.broker.config import BrokerConfig, ConfigError, Key, Kind, TopicConfig, Update, keys_of
from barnabas.broker.config.group_config import UNUSED_GROUP_KEYS, GroupConfig, stored_group_config, synonym_of
from barnabas.broker.config.topic_config import SYNONYMS, UNUSED_SYNONYMS, UNUSED_TOPIC_KEYS, stored_topic_config
from barnabas.broker.handlers.services import CLUSTER, Resource
from barnabas.protocol.errors import ErrorCode

_SECRET: Final = re.compile(r"password|secret|jaas|keystore\.key|private\.key|passphrase|certificate")


def whose(resource: Any) -> tuple[Resource, ErrorCode]:
    """What a principal needs a right to who asks about the settings of a resource, and the error without it."""
    if resource.resource_type == TOPIC_RESOURCE:
        return Resource("topic", resource.resource_name), ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if resource.resource_type == GROUP_RESOURCE:
        return Resource("group", resource.resource_name), ErrorCode.GROUP_AUTHORIZATION_FAILED
    return CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class Source(IntEnum):
    """Where a value comes from (`DescribeConfigsResponse.ConfigSource`)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


@dataclass(slots=True)
class Entry:
    """One setting of a resource. `synonyms` are (name, value, source), the one in force first."""

    name: str
    value: str | None
    source: Source
    key: Key
    read_only: bool = False
    sensitive: bool = False
    synonyms: list[tuple[str, str | None, Source]] = field(default_factory=list)


def topic_entries(image: Image, static: BrokerConfig, overrides: Mapping[str, str], stored: bool = True) -> list[Entry]:
    """All settings of a topic with these settings of its own, in the order of their names.

    `stored`, here and below: whether what is stored of the broker's settings is in force.
    """
    broker = _overlaid(image, static, stored)
    effective = stored_topic_config(broker, overrides)
    entries = []
    for name, key in keys_of(TopicConfig).items():
        synonyms = _broker_synonyms(image, static, SYNONYMS[name], stored)
        if name in overrides:
            synonyms.insert(0, (name, _shown(key, overrides[name]), Source.TOPIC))
        source = synonyms[0][2] if synonyms else Source.DEFAULT
        entries.append(Entry(name, key.text(getattr(effective, key.attribute)), source, key, synonyms=synonyms))
    for name, key in UNUSED_TOPIC_KEYS.items():
        default = key.text(key.default)
        synonyms = [] if name not in UNUSED_SYNONYMS else [(UNUSED_SYNONYMS[name], default, Source.DEFAULT)]
        if name in overrides:
            own = _shown(key, overrides[name])
            entries.append(Entry(name, own, Source.TOPIC, key, synonyms=[(name, own, Source.TOPIC), *synonyms]))
        elif default is not None:
            entries.append(Entry(name, default, Source.DEFAULT, key, synonyms=synonyms))
    entries.sort(key=lambda entry: entry.name)
    return entries


def group_entries(
    image: Image, static: BrokerConfig, overrides: Mapping[str, str], stored: bool = True
) -> Iterator[Entry]:
    """All settings of a group with these settings of its own."""
    effective = stored_group_config(_overlaid(image, static, stored), overrides)
    for name, key in keys_of(GroupConfig).items():
        synonyms = _broker_synonyms(image, static, synonym_of(name), stored)
        if name in overrides:
            synonyms.insert(0, (name, _shown(key, overrides[name]), Source.GROUP))
        yield Entry(name, key.text(getattr(effective, key.attribute)), synonyms[0][2], key, synonyms=synonyms)
    for name, key in UNUSED_GROUP_KEYS.items():
        unused = [(synonym_of(name), key.text(key.default), Source.DEFAULT)]
        if name in overrides:
            unused.insert(0, (name, _shown(key, overrides[name]), Source.GROUP))
        yield Entry(name, unused[0][1], unused[0][2], key, synonyms=unused)


def broker_entries(image: Image, static: BrokerConfig, stored: bool = True) -> Iterator[Entry]:
    """All settings of this broker."""
    for name, key in keys_of(BrokerConfig).items():
        synonyms = _broker_synonyms(image, static, name, stored)
        if key.sensitive:
            synonyms = [(synonym, None, source) for synonym, _, source in synonyms]
        value, source = (synonyms[0][1], synonyms[0][2]) if synonyms else (None, Source.DEFAULT)
        yield Entry(name, value, source, key, key.update is Update.READ_ONLY, key.sensitive, synonyms)
    own = image.configs.get((BROKER_RESOURCE, str(static.node_id)), {})
    yield from _unused(own, image.configs.get((BROKER_RESOURCE, ""), {}))


def cluster_entries(image: Image) -> Iterator[Entry]:
    """The dynamic settings that all brokers share: only those that are set."""
    found = image.configs.get((BROKER_RESOURCE, ""), {})
    for name, value in sorted(found.items()):
        key = keys_of(BrokerConfig).get(name)
        if key is not None:
            source, shown = Source.DYNAMIC_DEFAULT_BROKER, _shown(key, value)
            yield Entry(name, shown, source, key, synonyms=[(name, shown, source)])
    yield from _unused({}, found)


def _unused(own: Mapping[str, str], cluster: Mapping[str, str]) -> Iterator[Entry]:
    """What Apache Kafka's brokers have and this one has no use for, where somebody set it: it was taken, and is told.

    No value is told of what may be a secret, as by Kafka.
    """
    levels = ((own, Source.DYNAMIC_BROKER), (cluster, Source.DYNAMIC_DEFAULT_BROKER))
    for name in sorted({*own, *cluster} - keys_of(BrokerConfig).keys()):
        secret = _SECRET.search(name) is not None
        synonyms = [(name, None if secret else level[name], source) for level, source in levels if name in level]
        _, value, source = synonyms[0]
        key = UNUSED_TOPIC_KEYS.get(name) or Key(name, "", Kind.STRING, None, True, None, Update.CLUSTER_WIDE)
        yield Entry(name, value, source, key, sensitive=secret, synonyms=synonyms)


def _broker_synonyms(
    image: Image, static: BrokerConfig, name: str, stored: bool
) -> list[tuple[str, str | None, Source]]:
    """What a broker setting is and would be, the one in force first; its stand-ins in other units are not told.

    What is stored and passed over (`cluster/dynamic.py`) comes last: whoever is to delete it sees it.
    """
    own = image.configs.get((BROKER_RESOURCE, str(static.node_id)), {})
    cluster = image.configs.get((BROKER_RESOURCE, ""), {})
    found: list[tuple[str, str | None, Source]] = []
    passed: list[tuple[str, str | None, Source]] = []
    key = keys_of(BrokerConfig)[name]
    for level, source in ((own, Source.DYNAMIC_BROKER), (cluster, Source.DYNAMIC_DEFAULT_BROKER)):
        if name in level:
            in_force = stored and _is_used(key, level[name], image)
            (found if in_force else passed).append((name, _shown(key, level[name]), source))
    value = getattr(static, key.attribute)
    if value != key.default:
        found.append((name, key.text(value), Source.STATIC_BROKER))
    if key.default is not None:
        found.append((name, key.text(key.default), Source.DEFAULT))
    return found + passed if found else found


def _is_used(key: Key, text: str, image: Image) -> bool:
    try:
        used(key, text, image)
    except ConfigError:
        return False
    return True


def _shown(key: Key, text: str) -> str | None:
    """A stored value as it is told; one that this release cannot read is told as it stands."""
    try:
        return key.shown(text)
    except ConfigError:
        return text


def _overlaid(image: Image, static: BrokerConfig, stored: bool) -> BrokerConfig:
    live = replace(static)
    if stored:
        refresh(live, static, image)
    return live
