"""`barnabas.topics`: the topics a broker creates when it starts.

    barnabas.topics = flights:4, weather:1{retention.ms=86400000; cleanup.policy=compact,delete}, notes

A topic is a name, the number of partitions behind a colon (absent: `num.partitions`), and settings in braces with a
semicolon between them. Topics that exist already are left as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from barnabas.protocol.errors import ConfigError

_TOPIC: Final = re.compile(
    r"\s*(?P<name>[a-zA-Z0-9._-]+)\s*(?::\s*(?P<count>[0-9]{1,9})\s*)?(?:\{(?P<settings>[^{}]*)\}\s*)?"
)
METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = (1).to_bytes(16, "big")
"""Kafka's reserved id of it (`Uuid.METADATA_TOPIC_ID`)."""
OFFSETS_TOPIC: Final = "__consumer_offsets"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, "__transaction_state", "__share_group_state"})
"""Clients neither write to them nor delete from them (Kafka's `Topic.INTERNAL_TOPICS`)."""
TOPIC_NAME_LENGTH_MAX: Final = 249
PARTITIONS_PER_OPERATION_MAX: Final = 10_000
"""Kafka's bounds of a name and of one creation."""


@dataclass(slots=True, frozen=True)
class StartTopic:
    """A topic to create at start; `partitions` is -1 for the broker's default."""

    name: str
    partitions: int = -1
    settings: dict[str, str] = field(default_factory=dict)


def parse_topics(text: str) -> tuple[StartTopic, ...]:
    """The topics that `text` names, in order.

    Raises:
        ConfigError: the text does not follow the form above, a topic cannot be created so, or is named twice.
    """
    topics: dict[str, StartTopic] = {}
    position = 0
    while text[position:].strip(" \t\n,"):
        found = _TOPIC.match(text, position)
        end = found.end() if found else position
        if found is None or (end < len(text) and text[end] != ","):
            rest = text[position:].strip()
            raise ConfigError(f"barnabas.topics: cannot read {rest!r}; write name:partitions{{key=value; key=value}}")
        position = end + 1
        name = found["name"]
        if name in (".", "..", METADATA_TOPIC) or len(name) > TOPIC_NAME_LENGTH_MAX:
            raise ConfigError(
                f"barnabas.topics: {name} cannot be a topic's name; write another, "
                f"of up to {TOPIC_NAME_LENGTH_MAX} characters"
            )
        folded = name.replace(".", "_")  # Kafka refuses two names whose metrics would be the same
        twin = next((other for other in topics if other.replace(".", "_") == folded), None)
        if twin == name:
            raise ConfigError(f"barnabas.topics names {name} twice; keep one")
        if twin is not None:
            raise ConfigError(f"barnabas.topics: {name} differs from {twin} in . and _ alone; choose another name")
        count = int(found["count"]) if found["count"] else -1
        if count != -1 and not 1 <= count <= PARTITIONS_PER_OPERATION_MAX:
            raise ConfigError(
                f"barnabas.topics: {name} has {count} partitions; write 1 to {PARTITIONS_PER_OPERATION_MAX}"
            )
        topics[name] = StartTopic(name, count, _settings(name, found["settings"] or ""))
    return tuple(topics.values())


def _settings(topic: str, text: str) -> dict[str, str]:
    settings = {}
    for entry in text.split(";"):
        name, equals, value = entry.partition("=")
        if equals and name.strip():
            settings[name.strip()] = value.strip()
        elif entry.strip():
            raise ConfigError(f"barnabas.topics: {topic} has {entry.strip()!r}; write key=value")
    return settings
