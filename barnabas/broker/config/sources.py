"""Where settings come from, and which source wins.

`--set` before `BARNABAS_` variables, before `KAFKA_` variables, before the file, before the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.config.keys import ConfigError, keys_of
from barnabas.broker.config.known import KAFKA_BROKER_KEYS, LISTENER_PREFIX
from barnabas.broker.config.listeners import http_endpoint, left_to_controllers, listening_endpoints
from barnabas.broker.config.properties import parse_properties
from barnabas.broker.config.topic_config import topic_config
from barnabas.broker.config.topics import parse_topics

_NOT_SETTINGS_TEXT: Final = """
    KAFKA_CLASSPATH KAFKA_CLUSTER_ID KAFKA_DEBUG KAFKA_GC_LOG_OPTS KAFKA_HEAP_OPTS KAFKA_HOME KAFKA_JMX_HOSTNAME
    KAFKA_JMX_OPTS KAFKA_JMX_PORT KAFKA_JVM_PERFORMANCE_OPTS KAFKA_LOG4J_CMD_OPTS KAFKA_LOG4J_LOGGERS KAFKA_LOG4J_OPTS
    KAFKA_LOG4J_ROOT_LOGLEVEL KAFKA_MODE KAFKA_OPTS KAFKA_TOOLS_LOG4J_LOGLEVEL KAFKA_VERSION
"""
NOT_SETTINGS: Final = frozenset(_NOT_SETTINGS_TEXT.split())
"""Variables of Kafka's image and scripts that are no settings."""

WITHOUT_EFFECT: Final = frozenset(
    {
        "log.cleaner.io.buffer.load.factor",
        "log.preallocate",
        "queued.max.requests",
        "transaction.max.timeout.ms",
        "unclean.leader.election.enable",
    }
)
"""Settings that are kept and told (DescribeConfigs) as Kafka does, but change nothing here."""

_ALIASES: Final = {"broker.id": "node.id"}
"""Older names that Kafka still takes."""


class Loaded(NamedTuple):
    """A broker's settings, and what to tell the person who wrote them (one sentence each)."""

    config: BrokerConfig
    warnings: tuple[str, ...]


def load(
    *,
    overrides: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    properties: str = "",
    overrides_from: str = "--set",
) -> Loaded:
    """Put a broker's settings together. `overrides` is what `--set` gave, `properties` the text of the file.

    `overrides_from` is what messages call the source of `overrides`.

    Raises:
        ConfigError: a name nobody knows, or a value that cannot be used. The message says where it came from.
    """
    sources = [
        ("the configuration file", parse_properties(properties)),
        ("the environment", _variables("KAFKA_", environment or {})),
        ("the environment", _variables("BARNABAS_", environment or {})),
        (overrides_from, dict(overrides or {})),
    ]
    table = keys_of(BrokerConfig)
    values = {}
    unused: dict[str, None] = {}
    for origin, entries in sources:
        for given, text in entries.items():
            name = _ALIASES.get(given, given)
            if name not in table:
                _must_be_known(name, origin)
                unused[name] = None
                continue
            if name in WITHOUT_EFFECT:
                unused[name] = None
            try:
                values[table[name].attribute] = table[name].parse(text)
            except ConfigError as fault:
                raise ConfigError(f"{fault} (from {origin})") from None
    config = BrokerConfig(**values)
    _must_fit_together(config)
    warnings = [f"{name} is a setting of Apache Kafka that has no effect here" for name in unused]
    warnings += [f"{one} of listeners is for controllers and not opened" for one in left_to_controllers(config)]
    return Loaded(config, tuple(warnings))


def _variables(prefix: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Settings among the variables: KAFKA_LOG_DIRS is log.dirs; `_` is a dot, `__` an underscore, `___` a dash."""
    entries = {}
    for variable in sorted(environment):
        if not variable.startswith(prefix) or variable in NOT_SETTINGS:
            continue
        stem = variable[len(prefix) :].lower()
        name = stem.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")
        if prefix == "BARNABAS_" and not _known(name):
            name = f"barnabas.{name}"
        if prefix == "BARNABAS_" or _known(name):
            entries[name] = environment[variable]
    return entries


def _known(name: str) -> bool:
    return (
        name in keys_of(BrokerConfig)
        or name in _ALIASES
        or name in KAFKA_BROKER_KEYS
        or name.startswith(LISTENER_PREFIX)
    )


def _must_be_known(name: str, origin: str) -> None:
    if _known(name):
        return
    import difflib

    candidates = [*keys_of(BrokerConfig), *KAFKA_BROKER_KEYS]
    nearest = difflib.get_close_matches(name, sorted(candidates), n=1, cutoff=0.6)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    raise ConfigError(f"{name} (from {origin}) is no setting{hint}")


def _must_fit_together(config: BrokerConfig) -> None:
    listening_endpoints(config)
    http_endpoint(config)
    if 0 <= config.queued_max_request_bytes < config.socket_request_max_bytes:
        raise ConfigError(
            f"queued.max.request.bytes={config.queued_max_request_bytes}: a largest request would never fit; write at "
            f"least socket.request.max.bytes ({config.socket_request_max_bytes}), or -1 for no limit"
        )
    if len(config.data_dirs) > 1:
        raise ConfigError(f"log.dirs={','.join(config.data_dirs)}: one data directory is served; name one")
    for topic in parse_topics(config.barnabas_topics):
        try:
            topic_config(config, topic.settings)
        except ConfigError as fault:
            raise ConfigError(f"barnabas.topics: {topic.name}: {fault}") from None
