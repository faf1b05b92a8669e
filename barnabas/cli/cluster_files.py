"""What `barnabas cluster up` keeps in its directory: who is of the cluster, where each listens, and their secret.

    cluster.json            the cluster's id, and each broker's ports
    secret                  what brokers know each other by; nobody but its owner may read it
    broker-1.properties     the settings of a broker: `barnabas broker --config` starts it alone
    broker-1/               its data
    broker-1.log            what it says
    broker-1.pid            the number of its process, as `cluster up` started it last

Written once; a later start goes by what is there, so that addresses stay as they are.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from barnabas.protocol.errors import ConfigError
from barnabas.protocol.ids import format_uuid

FILE: Final = "cluster.json"
SECRET: Final = "secret"  # noqa: S105 - a file's name
LISTENER: Final = "BROKERS"
CONTROLLER: Final = 1
HOST: Final = "127.0.0.1"
REPLICAS: Final = 3
"""Of a topic, unless it says otherwise, where there are so many brokers; one less must have what is acknowledged."""


@dataclass(frozen=True)
class Place:
    """A broker: its id, and the ports for clients and for brokers."""

    node_id: int
    port: int
    broker_port: int


@dataclass(frozen=True)
class Plan:
    """A cluster on this machine."""

    cluster_id: str
    brokers: tuple[Place, ...]

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to first."""
        return ",".join(f"{HOST}:{one.port}" for one in self.brokers)


def plan_for(directory: Path, brokers: int, port: int | None) -> Plan:
    """The cluster of a directory: the one that is there, else a new one of so many brokers.

    `port` is the first broker's, the others have those above it; 0 takes free ones, None 9092 or what is there.

    Raises:
        ConfigError: what is there is another cluster than was asked for, or is none.
        OSError: the directory cannot be used.
    """
    file = directory / FILE
    if file.exists():
        plan = _read(file)
        if len(plan.brokers) != brokers:
            raise ConfigError(
                f"{file} is of a cluster of {len(plan.brokers)}, not of {brokers}; write --brokers "
                f"{len(plan.brokers)}, or name another directory with --dir"
            )
        if port not in (None, 0, plan.brokers[0].port):
            raise ConfigError(f"{file} has port {plan.brokers[0].port}, not {port}; leave --port out, or name another")
        return plan
    told = directory.as_posix()
    if not told.isprintable() or "," in told or "\\" in told:
        raise ConfigError(
            f"--dir {told!a}: the brokers' settings cannot name it; name one of printable characters, without commas "
            "and backslashes"
        )
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    first = 9092 if port is None else port
    free = _free_ports(2 * brokers)
    while first and not set(free).isdisjoint(range(first, first + brokers)):
        free = _free_ports(2 * brokers)
    plan = Plan(
        _cluster_id(),
        tuple(
            Place(number, first + number - 1 if first else free[brokers + number - 1], free[number - 1])
            for number in range(1, brokers + 1)
        ),
    )
    secret = os.open(directory / SECRET, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(secret, "w", encoding="ascii") as out:
        out.write(secrets.token_hex(32) + "\n")
    for one in plan.brokers:
        (directory / f"broker-{one.node_id}.properties").write_text(_properties(directory, plan, one), encoding="utf-8")
    whole = directory / f"{FILE}.tmp"
    whole.write_text(json.dumps(asdict(plan), indent=1) + "\n", encoding="utf-8")
    whole.replace(file)
    return plan


def _read(file: Path) -> Plan:
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        return Plan(str(told["cluster_id"]), tuple(Place(**one) for one in told["brokers"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file} is not what `cluster up` wrote; restore it, or name another directory") from error


def _cluster_id() -> str:
    """A new one; as Kafka's, none begins with a dash, which a command would take for an option."""
    while (told := format_uuid(secrets.token_bytes(16))).startswith("-"):
        pass
    return told


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, all different."""
    found = [socket.socket() for _ in range(count)]
    try:
        for one in found:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in found]
    finally:
        for one in found:
            one.close()


def _properties(directory: Path, plan: Plan, broker: Place) -> str:
    controller = plan.brokers[CONTROLLER - 1]
    replicas = min(REPLICAS, len(plan.brokers))
    settings = {
        "node.id": broker.node_id,
        "log.dirs": (directory / f"broker-{broker.node_id}").as_posix(),
        "listeners": f"PLAINTEXT://{HOST}:{broker.port},{LISTENER}://{HOST}:{broker.broker_port}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:PLAINTEXT",
        "inter.broker.listener.name": LISTENER,
        "controller.quorum.voters": f"{controller.node_id}@{HOST}:{controller.broker_port}",
        "barnabas.cluster.id": plan.cluster_id,
        "barnabas.cluster.secret.file": (directory / SECRET).as_posix(),
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "min.insync.replicas": max(replicas - 1, 1),
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())
