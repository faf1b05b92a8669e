"""Settings of clusters: which node decides (`controller.quorum.voters`), and how often records are kept."""

from __future__ import annotations

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


class Voter(NamedTuple):
    """The controller: its node id, and host and port of its listener for brokers."""

    node_id: int
    host: str
    port: int


def controller_of(config: BrokerConfig) -> Voter:
    """Who is the controller; this node itself, without an address, where `controller.quorum.voters` names nobody.

    Raises:
        ConfigError: an entry that is not ID@HOST:PORT, or more than one.
    """
    entries = config.controller_quorum_voters
    if not entries:
        return Voter(config.node_id, "", 0)
    told = f"controller.quorum.voters={','.join(entries)}"
    if len(entries) > 1:
        raise ConfigError(f"{told}: one node is the controller of a cluster so far; name one")
    number, at, address = entries[0].partition("@")
    host, colon, port = address.rpartition(":")
    node_id = number.strip()
    if not (at and colon and host and node_id.isascii() and node_id.isdigit()):
        raise ConfigError(f"{told}: write it as ID@HOST:PORT, such as 1@127.0.0.1:9093")
    if not (port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
        raise ConfigError(f"{told}: {port!r} is no port; write one between 1 and 65535")
    return Voter(int(node_id), host.strip("[]"), int(port))


def roles_must_fit(config: BrokerConfig) -> None:
    """What `process.roles` says, if it says something, is what `controller.quorum.voters` makes of this node.

    Raises:
        ConfigError: it is not, or nobody is said to be the controller in the way that is read here.
    """
    controller, roles, servers = controller_of(config), config.process_roles, config.controller_quorum_bootstrap_servers
    if servers and not config.controller_quorum_voters:
        raise ConfigError(
            f"controller.quorum.bootstrap.servers={','.join(servers)}: a broker must know its controller's id, too; "
            f"write controller.quorum.voters=ID@{servers[0]}"
        )
    told = f"process.roles={','.join(roles)}"
    if roles and "broker" not in roles:
        raise ConfigError(f"{told}: every node is a broker here, the controller too; write broker,controller")
    if "controller" in roles and controller.node_id != config.node_id:
        raise ConfigError(
            f"{told}: controller.quorum.voters names node {controller.node_id}, and this is node {config.node_id}; "
            "write broker"
        )
    if roles == ("broker",) and controller.node_id == config.node_id:
        raise ConfigError(
            f"{told}: this node, {config.node_id}, is to be the controller, too; write broker,controller, or the other "
            "node's ID@HOST:PORT in controller.quorum.voters"
        )
