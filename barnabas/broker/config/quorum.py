"""Settings of clusters: which nodes decide (`controller.quorum.voters`), and how often records are kept."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.protocol.errors import ConfigError

REPLICAS: Final = 3
"""Of a topic, unless it says otherwise, where there are so many brokers; one less must have what is acknowledged."""


def replication(brokers: int) -> dict[str, str]:
    """What keeps acknowledged records through the loss of one of so many brokers, where there are three or more."""
    replicas = min(REPLICAS, brokers)
    return {
        "default.replication.factor": str(replicas),
        "offsets.topic.replication.factor": str(replicas),
        "min.insync.replicas": str(max(replicas - 1, 1)),
    }


def controllers(brokers: int) -> int:
    """How many of so many brokers are controllers, unless somebody says it: three outlive one, two do not."""
    return 3 if brokers >= 3 else 1


class Voter(NamedTuple):
    """A controller: its node id, and host and port of its listener for brokers."""

    node_id: int
    host: str
    port: int


def voters_of(config: BrokerConfig) -> tuple[Voter, ...]:
    """Which nodes are controllers, by id; this node alone, without an address, where nobody is named.

    Raises:
        ConfigError: an entry that is not ID@HOST:PORT, or an id that is named twice.
    """
    entries = config.controller_quorum_voters
    if not entries:
        return (Voter(config.node_id, "", 0),)
    told = f"controller.quorum.voters={','.join(entries)}"
    voters = sorted(_voter(entry, told) for entry in entries)
    for one, other in itertools.pairwise(voters):
        if one.node_id == other.node_id:
            raise ConfigError(f"{told}: node {one.node_id} is named twice; name each controller once")
    return tuple(voters)


def _voter(entry: str, told: str) -> Voter:
    number, at, address = entry.partition("@")
    host, colon, port = address.rpartition(":")
    node_id = number.strip()
    if not (at and colon and host and node_id.isascii() and node_id.isdigit()):
        raise ConfigError(f"{told}: write it as ID@HOST:PORT, such as 1@127.0.0.1:9093")
    if not (port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
        raise ConfigError(f"{told}: {port!r} is no port; write one between 1 and 65535")
    return Voter(int(node_id), host.strip("[]"), int(port))


def is_controller(config: BrokerConfig) -> bool:
    """Whether this node is a controller, the only one or one of several."""
    return any(one.node_id == config.node_id for one in voters_of(config))


def ids_told(voters: Sequence[Voter]) -> str:
    """Whom they are, for people: node 1; nodes 1, 2, 3."""
    return f"node{'s' if len(voters) > 1 else ''} {', '.join(str(one.node_id) for one in voters)}"


def left_alone(config: BrokerConfig) -> Iterator[str]:
    """What is said to a broker without a cluster's secret whose settings name other controllers, as Kafka's do."""
    with suppress(ConfigError):  # what it has no use for may be anything
        voters = voters_of(config)
        if not config.barnabas_cluster_secret_file and any(one.node_id != config.node_id for one in voters):
            yield (
                f"controller.quorum.voters names {ids_told(voters)}, and without barnabas.cluster.secret.file this "
                f"broker, {config.node_id}, stands alone, with topics of its own; docs/CLUSTER.md says what brokers "
                "of a cluster need"
            )


def asks_for_voters(config: BrokerConfig) -> bool:
    """Whether the controllers are to be asked for: somebody's address is known, nobody's id (`host/voters`)."""
    return bool(config.controller_quorum_bootstrap_servers) and not config.controller_quorum_voters


def roles_must_fit(config: BrokerConfig) -> None:
    """What `process.roles` says, if it says something, is what `controller.quorum.voters` makes of this node.

    Raises:
        ConfigError: it is not, or nobody is said to be the controller in a way that is read here.
    """
    voters, roles = voters_of(config), config.process_roles
    told = f"process.roles={','.join(roles)}"
    if roles and "broker" not in roles:
        raise ConfigError(f"{told}: every node is a broker here, the controller too; write broker,controller")
    if asks_for_voters(config):
        _may_ask(config)
        return
    if "controller" in roles and not is_controller(config):
        raise ConfigError(
            f"{told}: controller.quorum.voters names {ids_told(voters)}, and this is node {config.node_id}; "
            "write broker"
        )
    if roles == ("broker",) and is_controller(config):
        raise ConfigError(
            f"{told}: this node, {config.node_id}, is to be the controller, too; write broker,controller, or the other "
            "node's ID@HOST:PORT in controller.quorum.voters"
        )


def _may_ask(config: BrokerConfig) -> None:
    """Only a broker that is no controller asks others: controllers that all asked would wait for each other."""
    servers, roles = config.controller_quorum_bootstrap_servers, config.process_roles
    told = f"controller.quorum.bootstrap.servers={','.join(servers)}"
    whose = config.node_id if len(servers) == 1 and "controller" in roles else "ID"
    named = f"controller.quorum.voters={whose}@{servers[0]}"
    if not roles:
        raise ConfigError(
            f"{told}: write process.roles=broker, too, and these are asked who the controllers are; a controller "
            f"names all of them itself: {named}"
        )
    if "controller" in roles:
        raise ConfigError(
            f"{told}: process.roles makes this node, {config.node_id}, a controller, and a controller is told all of "
            f"them by id; write {named}, an entry for each, the same for all controllers"
        )
    for one in servers:
        host, colon, port = one.rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
            raise ConfigError(f"{told}: write {one!r} as HOST:PORT, such as 127.0.0.1:9093")
