"""What `barnabas cluster up` keeps in its directory: who is of the cluster, where each listens, and their secret.

    cluster.json            the cluster's id, and each broker's ports
    secret                  what brokers know each other by; nobody but its owner may read it
    broker-1.properties     the settings of a broker: `barnabas broker --config` starts it alone
    broker-1/               its data
    broker-1.log            what it says
    broker-1.pid            the number of its process, as it was started last
    settings                what all were given beside (`cluster up --set`), a line each, as `cluster up` ran last

But for the last two all is written once; a later start goes by what is there, so that addresses stay as they are.
Who the controllers are changes once, from one to three (`cluster grow`).
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from barnabas.broker.config.properties import parse_properties
from barnabas.broker.config.quorum import controllers, replication
from barnabas.broker.host.data_dir import default_data_dir
from barnabas.broker.host.disk_calls import FILE_MODE, NO_LINK
from barnabas.cli.cluster import BROKERS_MAX
from barnabas.protocol.errors import ConfigError
from barnabas.protocol.ids import format_uuid

FILE: Final = "cluster.json"
SETTINGS: Final = "settings"
SECRET: Final = "secret"  # noqa: S105 - a file's name
GROWING: Final = "growing"
"""There while `cluster grow` restarts brokers: that none runs is no end then."""
VOTERS: Final = "controller.quorum.voters"
LISTENER: Final = "BROKERS"
CONTROLLER: Final = 1
BROKERS: Final = 3
"""How many there are unless somebody says so."""
HOST: Final = "127.0.0.1"
_OWN: Final = ("node.id", "log.dirs", "listeners")
"""Settings in which brokers of one cluster differ."""
OF_EACH: Final = (*_OWN, "broker.id", "log.dir", "controller.quorum.voters", "inter.broker.listener.name")
"""What is decided here: one value for all brokers would have them wait for each other, or serve one directory."""


def default_directory() -> Path:
    """Where a cluster lies unless somebody says so."""
    return Path(f"{default_data_dir(os.environ)}-cluster").absolute()


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

    def place(self, node_id: int) -> Place:
        """A broker of it.

        Raises:
            ConfigError: it has none of that id.
        """
        for one in self.brokers:
            if one.node_id == node_id:
                return one
        *others, last = [str(one.node_id) for one in self.brokers]
        known = f"{', '.join(others)} and {last}" if others else last
        raise ConfigError(f"the cluster has no broker {node_id}, it has {known}")


def plan_of(directory: Path) -> Plan:
    """The cluster of a directory.

    Raises:
        ConfigError: there is none.
    """
    if not (directory / FILE).exists():
        _no_brokers(directory)
        raise ConfigError(f"there is no cluster in {directory}; barnabas cluster up --dir makes one")
    return _read(directory / FILE)


def plan_for(directory: Path, brokers: int | None, port: int | None) -> Plan:
    """The cluster of a directory: the one that is there, else a new one of so many brokers (None: three).

    `port` is the first broker's, the others have those above it; 0 takes free ones, None 9092 or what is there.

    Raises:
        ConfigError: what is there is another cluster than was asked for, or is none.
        OSError: the directory cannot be used.
    """
    file = directory / FILE
    if file.exists():
        plan = _read(file)
        if brokers not in (None, len(plan.brokers)):
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
    _no_brokers(directory)
    brokers = BROKERS if brokers is None else brokers
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
    keep(directory / SECRET, secrets.token_hex(32) + "\n")
    for one in plan.brokers:
        lines = (f"{name}={value}" for name, value in _properties(directory, plan, one).items())
        _write_properties(directory, one, lines)
    _write(directory, plan)
    return plan


def _no_brokers(directory: Path) -> None:
    """A cluster that began inside would know nothing of what the broker has.

    Raises:
        ConfigError: it is the data directory of a broker.
    """
    from barnabas.broker.node import identity

    if (directory / identity.FILE).exists():
        raise ConfigError(
            f"{directory} is the data directory of a broker ({identity.FILE}), and a cluster in it would have none of "
            "its topics; name another with --dir; docs/CLUSTER.md says how who stood alone becomes one of several"
        )


def grown(directory: Path, plan: Plan) -> Place:
    """One more broker, with the controller's settings but for what is its own, and the next port if it is free.

    Raises:
        ConfigError: there are as many as there may be.
    """
    if len(plan.brokers) >= BROKERS_MAX:
        raise ConfigError(f"the cluster has {len(plan.brokers)} brokers, and no more than {BROKERS_MAX} are started")
    last = plan.brokers[-1]
    port, broker_port = _free_ports(2)
    node_id = last.node_id + 1
    while (directory / f"broker-{node_id}.properties").exists():  # one that was removed, whose data is here
        node_id += 1
    place = Place(node_id, last.port + 1 if _is_free(last.port + 1) else port, broker_port)
    text = (directory / f"broker-{CONTROLLER}.properties").read_text(encoding="utf-8")
    shared = [line for line in text.splitlines() if line.partition("=")[0].strip() not in _OWN]
    own = _properties(directory, plan, place)
    _write_properties(directory, place, [*(f"{name}={own[name]}" for name in _OWN), *shared])
    _write(directory, Plan(plan.cluster_id, (*plan.brokers, place)))
    return place


def controllers_settings(directory: Path) -> dict[str, str]:
    """The settings of the first broker."""
    return parse_properties((directory / f"broker-{CONTROLLER}.properties").read_text(encoding="utf-8"))


def controllers_of(directory: Path) -> list[int]:
    """Which brokers are controllers, as the settings of the first have it."""
    voters = controllers_settings(directory).get(VOTERS, "")
    return [int(one.partition("@")[0]) for one in voters.split(",") if one.partition("@")[0].strip().isdigit()]


def with_controllers(directory: Path, plan: Plan, changes: Mapping[str, object]) -> None:
    """Write other controllers into every broker's settings, and what changes with them; the first one's come last.

    So `controllers_of` tells of them once all are written.
    """
    for place in reversed(plan.brokers):
        file = directory / f"broker-{place.node_id}.properties"
        lines = file.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if line.partition("=")[0].strip() not in changes]
        _write_properties(directory, place, [*kept, *(f"{name}={value}" for name, value in changes.items())])


def voters_told(places: Iterable[Place]) -> str:
    """These as controllers (`controller.quorum.voters`)."""
    return ",".join(f"{one.node_id}@{HOST}:{one.broker_port}" for one in places)


def shrunk(directory: Path, plan: Plan, node_id: int) -> None:
    """The cluster without a broker, whose files stay; its id is given to no other."""
    _write(directory, Plan(plan.cluster_id, tuple(one for one in plan.brokers if one.node_id != node_id)))


def keep(path: Path, text: str) -> None:
    """Write a file of a cluster."""
    with open(path, "w", encoding="utf-8", opener=private) as out:
        out.write(text)


def private(path: str, flags: int) -> int:
    """Open a file of a cluster (`opener`): its owner's alone, whoever may look into the directory, and no link."""
    return os.open(path, flags | NO_LINK, FILE_MODE)


def write_settings(directory: Path, settings: Sequence[str]) -> None:
    """Keep what all brokers are given beside their files, for those that are started alone later."""
    keep(directory / SETTINGS, "".join(f"{one}\n" for one in settings))


def settings_of(directory: Path) -> list[str]:
    """The same; nothing where the cluster was never up."""
    try:
        return (directory / SETTINGS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


def _write(directory: Path, plan: Plan) -> None:
    whole = directory / f"{FILE}.tmp"
    keep(whole, json.dumps(asdict(plan), indent=1) + "\n")
    whole.replace(directory / FILE)


def _write_properties(directory: Path, broker: Place, lines: Iterable[str]) -> None:
    file = directory / f"broker-{broker.node_id}.properties"
    whole = file.with_suffix(".tmp")
    keep(whole, "".join(f"{line}\n" for line in lines))
    whole.replace(file)


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


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind((HOST, port))
        except (OSError, OverflowError):
            return False
    return True


def _properties(directory: Path, plan: Plan, broker: Place) -> dict[str, object]:
    voters = plan.brokers[: controllers(len(plan.brokers))]
    return {
        "node.id": broker.node_id,
        "log.dirs": (directory / f"broker-{broker.node_id}").as_posix(),
        "listeners": f"PLAINTEXT://{HOST}:{broker.port},{LISTENER}://{HOST}:{broker.broker_port}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:PLAINTEXT",
        "inter.broker.listener.name": LISTENER,
        VOTERS: voters_told(voters),
        "barnabas.cluster.id": plan.cluster_id,
        "barnabas.cluster.secret.file": (directory / SECRET).as_posix(),
    } | replication(len(plan.brokers))
