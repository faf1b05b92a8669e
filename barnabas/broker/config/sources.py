"""Where settings come from, and which source wins.

`--set` before `BARNABAS_` variables, before `KAFKA_` variables, before the file, before the default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.config.keys import keys_of
from barnabas.broker.config.known import ALIASES, gone, is_known, nearest
from barnabas.broker.config.listeners import (
    advertised_endpoints,
    between_brokers,
    http_endpoint,
    left_to_controllers,
    listening_endpoints,
)
from barnabas.broker.config.properties import parse_properties
from barnabas.broker.config.quorum import (
    asks_for_voters,
    ids_told,
    is_controller,
    left_alone,
    roles_must_fit,
    voters_of,
)
from barnabas.broker.config.topic_config import topic_config
from barnabas.broker.config.topics import parse_topics
from barnabas.broker.config.variables import cluster_id, kafka_settings, own_settings
from barnabas.protocol.errors import ConfigError

WITHOUT_EFFECT: Final = frozenset(
    {
        "log.cleaner.io.buffer.load.factor",
        "log.preallocate",
        "offsets.load.buffer.size",
        "queued.max.requests",
        "request.timeout.ms",
        "transaction.max.timeout.ms",
    }
)
"""Settings that are kept and told (DescribeConfigs) as Kafka does, but change nothing here."""
OF_CLUSTERS: Final = frozenset(
    {
        "auto.leader.rebalance.enable",
        "broker.heartbeat.interval.ms",
        "broker.session.timeout.ms",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.election.backoff.max.ms",
        "controller.quorum.election.timeout.ms",
        "controller.quorum.fetch.timeout.ms",
        "controller.quorum.request.timeout.ms",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "leader.imbalance.check.interval.seconds",
        "process.roles",
        "replica.fetch.wait.max.ms",
        "replica.socket.timeout.ms",
        "unclean.leader.election.enable",
        "unclean.leader.election.interval.ms",
    }
)
"""Settings of Kafka that change nothing where a broker stands alone (`listeners.between_brokers`).

The cluster's id does: a fresh directory gets it, and one of another cluster is refused.
"""


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
    variables, near_misses = kafka_settings(environment or {})
    sources = [
        ("the configuration file", parse_properties(properties)),
        ("the environment", cluster_id(environment or {})),
        ("the environment", variables),
        ("the environment", own_settings(environment or {})),
        (overrides_from, dict(overrides or {})),
    ]
    table = keys_of(BrokerConfig)
    values = {}
    unused: dict[str, None] = {}
    for origin, entries in sources:
        for given, text in entries.items():
            name = ALIASES.get(given, given)
            if name not in table:
                _must_be_known(name, origin)
                unused[name] = None
                continue
            if name in WITHOUT_EFFECT or name in OF_CLUSTERS:
                unused[name] = None
            try:
                values[table[name].attribute] = table[name].parse(text)
            except ConfigError as fault:
                raise ConfigError(f"{fault} (from {origin})") from None
    config = BrokerConfig(**values)
    _must_fit_together(config)
    if between_brokers(config) is not None:
        if "security.inter.broker.protocol" in unused:
            raise ConfigError(
                "inter.broker.listener.name and security.inter.broker.protocol are both set; keep the former"
            )
        unused = {name: None for name in unused if name not in OF_CLUSTERS}
    warnings = [*near_misses, *_in_words(unused)]
    warnings += [f"{one} of listeners is for controllers and not opened" for one in left_to_controllers(config)]
    warnings += left_alone(config)
    return Loaded(config, tuple(warnings))


def _in_words(unused: Iterable[str]) -> Iterator[str]:
    """One sentence for all settings of Kafka that change nothing here, and one for those that Kafka itself gave up."""
    old = [name for name in unused if gone(name)]
    ours = [name for name in unused if not gone(name)]
    if ours:
        yield f"settings of Apache Kafka that have no effect here: {', '.join(ours)}"
    if old:
        yield f"settings that Apache Kafka 4 no longer has (nor ZooKeeper) are ignored: {', '.join(old)}"


def _must_be_known(name: str, origin: str) -> None:
    if not is_known(name):
        meant = nearest(name)
        hint = f"; did you mean {meant}?" if meant else ""
        raise ConfigError(f"{name} (from {origin}) is no setting{hint}")


def _groups_must_fit(config: BrokerConfig) -> None:
    """What groups of the consumer protocol go by lies within its own bounds (`GroupCoordinatorConfig`)."""
    for what in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
        field = what.replace(".", "_")
        value = getattr(config, f"group_consumer_{field}")
        least = getattr(config, f"group_consumer_min_{field}")
        most = getattr(config, f"group_consumer_max_{field}")
        if not least <= value <= most:
            bounds = f"group.consumer.min.{what} ({least}) and group.consumer.max.{what} ({most})"
            raise ConfigError(f"group.consumer.{what}={value}: write a value between {bounds}, or change these")
    interval_ms, session_ms = config.group_consumer_heartbeat_interval_ms, config.group_consumer_session_timeout_ms
    if interval_ms >= session_ms:
        raise ConfigError(
            f"group.consumer.heartbeat.interval.ms={interval_ms}: nobody would be heard of in time; write less than "
            f"group.consumer.session.timeout.ms ({session_ms})"
        )


def _cluster_must_fit(config: BrokerConfig) -> None:
    """What a broker needs to be one of a cluster."""
    voters = voters_of(config)
    roles_must_fit(config)
    asks = asks_for_voters(config)
    if (asks or not is_controller(config)) and not config.barnabas_cluster_id:
        raise ConfigError(
            "barnabas.cluster.id is missing: a broker is let into no cluster that it does not name; write the "
            f"cluster.id that meta.properties of {'a controller' if asks else ids_told(voters)} has"
        )
    if len(voters) > 1 and not config.barnabas_cluster_id:
        raise ConfigError(
            f"barnabas.cluster.id is missing: {ids_told(voters)} are controllers of one cluster, and must all name it; "
            "write the same one for each of them (a new one is 22 letters, digits, - or _)"
        )
    between = between_brokers(config)
    mine = next((one for one in voters if one.node_id == config.node_id and one.port), None)
    if between is not None and mine is not None:
        bound = listening_endpoints(config)
        here = {one.port for one in (*bound, *advertised_endpoints(config, bound)) if one.listener == between}
        if not here & {mine.port, 0}:
            raise ConfigError(
                f"node.id={config.node_id}: by controller.quorum.voters the controller of that id listens for brokers "
                f"at {mine.host}:{mine.port}, and {between} of this node at port {min(here)}; give it a "
                "node.id of its own, or the controller's port"
            )
    interval_ms, session_ms = config.broker_heartbeat_interval_ms, config.broker_session_timeout_ms
    if interval_ms >= session_ms:
        raise ConfigError(
            f"broker.heartbeat.interval.ms={interval_ms}: no broker would be heard of in time; write less than "
            f"broker.session.timeout.ms ({session_ms})"
        )
    _waits_must_fit(config)


def _waits_must_fit(config: BrokerConfig) -> None:
    """How long a leader may keep a follower's request (Kafka's `KafkaConfig.validateValues`)."""
    wait_ms = config.replica_fetch_wait_max_ms
    lag_ms, answer_ms = config.replica_lag_time_max_ms, config.replica_socket_timeout_ms
    if wait_ms > lag_ms:
        raise ConfigError(
            f"replica.fetch.wait.max.ms={wait_ms}: a follower that waits would leave the ISR; write at most "
            f"replica.lag.time.max.ms ({lag_ms})"
        )
    if wait_ms > answer_ms:
        raise ConfigError(
            f"replica.fetch.wait.max.ms={wait_ms}: no answer would come in time; write at most "
            f"replica.socket.timeout.ms ({answer_ms})"
        )


def _must_fit_together(config: BrokerConfig) -> None:
    listening_endpoints(config)
    http_endpoint(config)
    _groups_must_fit(config)
    if between_brokers(config) is not None:
        _cluster_must_fit(config)
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
