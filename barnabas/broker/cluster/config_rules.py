"""What may be set on a topic, group or broker while it runs: pure decisions (Kafka's `ConfigurationControlManager`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from barnabas.broker.cluster import lock_out
from barnabas.broker.cluster.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE, Image
from barnabas.broker.cluster.records import Config, MetadataRecord
from barnabas.broker.cluster.settings_room import SettingsRoom, check_values
from barnabas.broker.cluster.succession import MIN_ISR
from barnabas.broker.cluster.topic_rules import check_topic_name
from barnabas.broker.config import BrokerConfig, ConfigError, Key, Kind, TopicConfig, Update, keys_of, topic_config
from barnabas.broker.config.group_config import UNUSED_GROUP_KEYS, GroupConfig, group_config
from barnabas.broker.config.known import ALIASES, KAFKA_BROKER_KEYS, LISTENER_PREFIX
from barnabas.broker.config.topic_config import UNUSED_TOPIC_KEYS
from barnabas.broker.config.topics import OFFSETS_TOPIC
from barnabas.protocol.errors import ErrorCode, KafkaError

_KEYS: Final[dict[int, tuple[type, Mapping[str, Key]]]] = {
    TOPIC_RESOURCE: (TopicConfig, UNUSED_TOPIC_KEYS),
    BROKER_RESOURCE: (BrokerConfig, UNUSED_TOPIC_KEYS),
    GROUP_RESOURCE: (GroupConfig, UNUSED_GROUP_KEYS),
}
"""The settings of each type of resource: those that have an effect, and those that have none."""

_GROUPS_BYTES_MIN: Final = 1_048_576
"""Of a batch of the groups' log: a large group's record has hardly less."""
CHANGED_SETTINGS_WEIGHT: Final = 5
"""A resource whose settings change costs as much as so many partitions: about 100 µs."""
_CHARACTERS_WEIGHT: Final = 500
"""So many characters of its values cost as much as one: a list of 32 KB takes more than a ms."""
_AT_CLUSTER_LEVEL: Final = "Cannot update these configs at default cluster level: {}"
_MIN_ISR_OF_ONE: Final = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
_MIN_ISR_REMOVED: Final = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."


class Operation(IntEnum):
    """What to do with a setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(slots=True, frozen=True)
class Alteration:
    """One change of one setting."""

    name: str
    operation: int
    value: str | None


Changes: TypeAlias = tuple[int, str, Sequence[Alteration]]
"""What is to change of one resource: its type, its name, and how."""


def check_topic_settings(broker: BrokerConfig, settings: Mapping[str, str]) -> TopicConfig:
    """What a topic has with these settings; refuses those that it cannot have.

    Raises:
        KafkaError: INVALID_CONFIG.
    """
    try:
        config = topic_config(broker, settings)
    except ConfigError as fault:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(fault)) from None
    if config.max_compaction_lag_ms < config.min_compaction_lag_ms:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({config.min_compaction_lag_ms}) > "
            f"max.compaction.lag.ms ({config.max_compaction_lag_ms})",
        )
    return config


def _check_groups_log(config: TopicConfig, given: Collection[str]) -> None:
    """Refuse settings under which groups can note nothing more, or lose what they have noted (Apache Kafka takes them).

    Whatever stood there before is not looked at: only what is `given` now.
    """
    if "cleanup.policy" in given and config.cleanup_policy != ("compact",):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"cleanup.policy={','.join(config.cleanup_policy)}: what groups have committed would be deleted when it is "
            f"old; {OFFSETS_TOPIC} has compact",
        )
    if "max.message.bytes" in given and config.max_message_bytes < _GROUPS_BYTES_MIN:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"max.message.bytes={config.max_message_bytes}: groups could note nothing, or little; {OFFSETS_TOPIC} has "
            f"{_GROUPS_BYTES_MIN} at least",
        )


def _check_group_settings(broker: BrokerConfig, settings: Mapping[str, str]) -> None:
    try:
        group_config(broker, settings)
    except ConfigError as fault:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(fault)) from None


def check_new_settings(broker: BrokerConfig, room: SettingsRoom, topic: str, settings: Mapping[str, str]) -> None:
    """Refuse settings that a new topic cannot have, or for which there is no room.

    Raises:
        KafkaError: INVALID_CONFIG.
    """
    check_values({}, settings)
    config = check_topic_settings(broker, settings)
    if topic == OFFSETS_TOPIC:
        _check_groups_log(config, settings)
    room.take({}, settings)


def work_of(settings: Iterable[str | None]) -> int:
    """What it takes to check a resource that has, or is given, these values; `SMALL_MAX` of it is a few ms."""
    return CHANGED_SETTINGS_WEIGHT + sum(len(value) for value in settings if value) // _CHARACTERS_WEIGHT


def work_of_changes(image: Image, resource: Changes) -> int:
    """The same, of a resource that is there; what it has already is checked with what it is given."""
    kind, name, changes = resource
    return work_of([*image.configs.get((kind, name), {}).values(), *(change.value for change in changes)])


def alter(
    image: Image,
    broker: BrokerConfig,
    resource_type: int,
    resource_name: str,
    changes: Sequence[Alteration],
    room: SettingsRoom,
) -> list[MetadataRecord]:
    """The records that change a resource's settings, for which there must be room.

    Raises:
        KafkaError: why they cannot be changed so.
    """
    _check_resource(image, resource_type, resource_name)
    names = [change.name for change in changes]
    if len(set(names)) < len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    table, unused = _KEYS[resource_type]
    current = image.configs.get((resource_type, resource_name), {})
    after = dict(current)
    for change in changes:
        key = keys_of(table).get(change.name) or unused.get(change.name)
        value = _apply(change, current.get(change.name), key)
        if value is None:
            after.pop(change.name, None)
        else:
            after[change.name] = value
    check_values(current, after)
    if resource_type == TOPIC_RESOURCE:
        config = check_topic_settings(broker, after)
        if resource_name == OFFSETS_TOPIC:
            _check_groups_log(config, [name for name in names if name in after or name == "cleanup.policy"])
    elif resource_type == GROUP_RESOURCE:
        _check_group_settings(broker, after)
    else:
        _check_broker_settings(image, {name: after.get(name) for name in names}, per_broker=bool(resource_name))
    room.take(current, after, resource_name if resource_type == GROUP_RESOURCE else "")
    return [
        Config(resource_type, resource_name, name, after.get(name))
        for name in names
        if after.get(name) != current.get(name)
    ]


def _check_resource(image: Image, resource_type: int, resource_name: str) -> None:
    if resource_type == TOPIC_RESOURCE:
        if not resource_name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_topic_name(resource_name)
        if resource_name not in image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource_name}' does not exist.")
    elif resource_type == GROUP_RESOURCE:
        if not resource_name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    elif resource_type != BROKER_RESOURCE:  # which broker's was looked at by the handler
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {resource_type}.")


def _apply(change: Alteration, current: str | None, key: Key | None) -> str | None:
    """The setting's value afterwards; None removes it."""
    if change.operation == Operation.DELETE:
        return None
    if change.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {change.name}")
    if change.operation == Operation.SET:
        return change.value
    verbs = {Operation.APPEND: "APPEND to", Operation.SUBTRACT: "SUBTRACT from"}
    if change.operation not in verbs:
        # The code of a Kafka that fails on it (`ConfigurationControlManager`).
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown operation type {change.operation}")
    operation = Operation(change.operation)
    if key is not None and key.kind is not Kind.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {verbs[operation]} key {change.name} because its type is not LIST.",
        )
    words = [word for word in (current if current is not None else _default(key)).split(",") if word]
    asked = dict.fromkeys(word.strip() for word in change.value.split(","))  # an empty one is for the check to refuse
    if operation is Operation.APPEND:
        there = set(words)
        words += [word for word in asked if word not in there]
    else:
        words = [word for word in words if word not in asked]
    return ",".join(words)


def _default(key: Key | None) -> str:
    return (key.text(key.default) or "") if key is not None else ""


def _check_broker_settings(image: Image, changed: Mapping[str, str | None], *, per_broker: bool) -> None:
    table = keys_of(BrokerConfig)
    for given, text in changed.items():
        name = ALIASES.get(given, given)
        held = MIN_ISR in image.configs.get((BROKER_RESOURCE, ""), {})  # as in any cluster (`succession.one_minimum`)
        if name == MIN_ISR and held and (per_broker or text is None):  # else leaders may commit by another
            raise KafkaError(ErrorCode.INVALID_CONFIG, _MIN_ISR_OF_ONE if per_broker else _MIN_ISR_REMOVED)
        if text is None:
            continue  # whatever an older release took can be taken back
        key = table.get(name)
        if key is None:
            if name.startswith(LISTENER_PREFIX) and not per_broker:
                raise KafkaError(ErrorCode.INVALID_REQUEST, _AT_CLUSTER_LEVEL.format(name))
            if name in KAFKA_BROKER_KEYS or name in UNUSED_TOPIC_KEYS:
                continue
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown broker config name: {name}")
        if key.update is Update.READ_ONLY:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: {given}")
        if key.update is Update.PER_BROKER and not per_broker:
            raise KafkaError(ErrorCode.INVALID_REQUEST, _AT_CLUSTER_LEVEL.format(name))
        try:
            lock_out.check(key, key.parse(text), image)
        except ConfigError as fault:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(fault)) from None
