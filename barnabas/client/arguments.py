"""What is handed to a method, besides records: seconds, names of topics, partitions. Sure mistakes are refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from barnabas.net.errors import ConfigError
from barnabas.protocol.ids import TopicPartition

_SECONDS_MAX: Final = 1_000_000_000
"""Some thirty years: what is longer, threads cannot wait for."""


def milliseconds(timeout: float | None) -> int | None:
    """A method's `timeout` (seconds) in whole ms, rounded up; None stays None.

    Raises:
        ConfigError: no number, a negative one, or one without an end.
    """
    if timeout is None:
        return None
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool):
        raise ConfigError(f"timeout: {shown(timeout)} is no number of seconds")
    if not 0 <= timeout < math.inf:
        raise ConfigError(f"timeout: {timeout} is no time to wait; give seconds from 0 on, or None for no limit")
    return math.ceil(min(timeout, _SECONDS_MAX) * 1000)


def check_named(more: tuple[Any, ...]) -> None:
    """Refuse what stands without a name behind `config`.

    Raises:
        ConfigError: something does.
    """
    if more and isinstance(more[0], str) and ":" in more[0]:
        raise ConfigError(f"{more[0]!r} is a second address: several are one string with commas, or a list, in config")
    if more:
        raise ConfigError(
            f"{shown(more[0])} stands without a name: only config (the settings, or the bootstrap servers) may; "
            "give settings as keywords, such as value_serializer='json'"
        )


def checked_topic(topic: Any, call: str) -> str:
    """The name of a topic; `call` is how several are given.

    Raises:
        ConfigError: an address, a mapping, a list, anything else that is no name.
    """
    if isinstance(topic, str) and topic and ":" not in topic:
        return topic
    if isinstance(topic, str) and ":" in topic:
        raise ConfigError(f"topic: {topic!r} is an address, not a topic; give it as bootstrap_servers={topic!r}")
    if isinstance(topic, Mapping):
        raise ConfigError(f"topic: {_keys(topic)} is a mapping, not a topic; settings are given as config={{...}}")
    if isinstance(topic, (list, tuple, set, frozenset)) and not isinstance(topic, TopicPartition):
        raise ConfigError(f"topic: {shown(topic)} are several; give them one by one: {call}(*names)")
    raise ConfigError(f"topic: {shown(topic)} is no name of a topic; give a string")


def checked_topics(topics: Iterable[Any], call: str) -> tuple[str, ...]:
    """The names of topics, one argument each.

    Raises:
        ConfigError: one of them is none.
    """
    return tuple(checked_topic(topic, call) for topic in topics)


def checked_partition(where: Any, call: str) -> TopicPartition:
    """One partition, a `TopicPartition` or a pair.

    Raises:
        ConfigError: neither.
    """
    topic, partition = where if isinstance(where, tuple) and len(where) == 2 else (None, None)
    if isinstance(topic, str) and topic and type(partition) is int and partition >= 0:
        return TopicPartition(topic, partition)
    if isinstance(where, (list, tuple, set, frozenset)) and where and all(isinstance(each, tuple) for each in where):
        raise ConfigError(f"{call}: {shown(where)} are several; give them one by one: {call}(*partitions)")
    raise ConfigError(f"{call}: {shown(where)} is no partition; give pairs of a topic's name and a number from 0 on")


def checked_partitions(partitions: Any, call: str) -> list[TopicPartition]:
    """A list of partitions.

    Raises:
        ConfigError: one alone, or something in the list that is none.
    """
    if isinstance(partitions, TopicPartition):
        raise ConfigError(f"{call}: {partitions} is one partition; give a list of them: {call}([partition])")
    if isinstance(partitions, str) or not isinstance(partitions, Iterable):
        raise ConfigError(f"{call}: {shown(partitions)} is no list of partitions; give pairs of topic and number")
    return [checked_partition(where, call) for where in partitions]


def shown(value: Any) -> str:
    """A value as messages show it."""
    return f"{repr(value)[:60]} ({type(value).__name__})"


def _keys(settings: Mapping[Any, Any]) -> str:
    """A mapping by its keys alone: values may be secret."""
    return "{" + ", ".join(f"{key!r}: ..." for key in list(settings)[:3]) + "}"
