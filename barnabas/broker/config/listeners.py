"""Listeners: where the broker listens and what it tells clients to connect to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.protocol.errors import ConfigError

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
WILDCARDS: Final = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, never bound


LOCAL: Final = "LOCAL"
"""The listener of the socket in the data directory, which only the user who runs the broker can open."""
HTTP: Final = "HTTP"
"""The listener that answers HTTP and nothing else (`barnabas.http`)."""


class Endpoint(NamedTuple):
    """One listener: its name, its security protocol, a host without brackets ("" = every address) and a port."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


def listening_endpoints(config: BrokerConfig) -> tuple[Endpoint, ...]:
    """What to bind (`listeners`), in order, without those of controllers (see `left_to_controllers`).

    Raises:
        ConfigError: an entry that is not `NAME://host:port`, or a name without security protocol.
    """
    ours, others = _by_user(config, config.listeners)
    endpoints = _endpoints("listeners", ours, _protocols(config))
    if not endpoints:
        why = "names controllers' listeners only" if others else "is empty"
        raise ConfigError(f"listeners {why}; write at least one for clients such as PLAINTEXT://127.0.0.1:9092")
    return endpoints


def between_brokers(config: BrokerConfig) -> str | None:
    """The listener of brokers alone (`inter.broker.listener.name`); None for a broker without a cluster's secret.

    Whoever connects there must prove that it knows the secret, so clients need another one; Apache Kafka lets both use
    it. Without `barnabas.cluster.secret.file` the name has no effect, and that listener is for clients.

    Raises:
        ConfigError: no name, or one that no listener of `listeners`, or of `advertised.listeners`, has; or no other.
    """
    if not config.barnabas_cluster_secret_file:
        return None
    name = (config.inter_broker_listener_name or "").strip().upper()
    if not name:
        raise ConfigError(
            "barnabas.cluster.secret.file is for the listener between brokers; say which that is in "
            "inter.broker.listener.name"
        )
    told = f"inter.broker.listener.name={name}"
    names = list(dict.fromkeys(one.listener for one in listening_endpoints(config)))
    if name not in names:
        raise ConfigError(f"{told}: listeners has none of that name to open; write one of {', '.join(names)}")
    if names == [name]:
        raise ConfigError(
            f"{told}: that listener is for brokers alone, and listeners has no other; add one for clients, such as "
            "PLAINTEXT://127.0.0.1:9092"
        )
    advertised, _ = _by_user(config, config.advertised_listeners)
    if advertised and name not in {one.partition("://")[0].strip().upper() for one in advertised}:
        raise ConfigError(f"{told}: advertised.listeners does not have it; add the address that other brokers reach")
    return name


def http_endpoint(config: BrokerConfig) -> Endpoint | None:
    """Where HTTP has a listener of its own; None when it is answered beside Kafka, or not at all.

    Raises:
        ConfigError: `barnabas.http` is neither of its words nor an address.
    """
    told = config.barnabas_http
    if told in ("shared", "off"):
        return None
    host, colon, port = told.rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ConfigError(
            f"barnabas.http={told}: write shared (beside Kafka, on every listener), off, or host:port for a listener "
            "of its own"
        )
    return Endpoint(HTTP, host.strip("[]"), int(port))


def left_to_controllers(config: BrokerConfig) -> tuple[str, ...]:
    """The entries of `listeners` that `controller.listener.names` names, as a Kafka node's configuration has them.

    Only controllers talk there, never clients, and this broker is its own controller: nothing is bound.
    """
    return _by_user(config, config.listeners)[1]


def _by_user(config: BrokerConfig, entries: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The entries of listeners for clients, and of those for controllers."""
    names = {name.upper() for name in config.controller_listener_names}
    theirs = tuple(one for one in entries if one.partition("://")[0].strip().upper() in names)
    return tuple(one for one in entries if one not in theirs), theirs


def advertised_endpoints(config: BrokerConfig, bound: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    """What clients are told, given what was really bound.

    An advertised listener with port 0 gets the port that was bound under its name. Without `advertised.listeners`
    the bound ones are advertised; one that listens on every address is advertised as localhost. Listeners of
    controllers may be among them (KIP-853: Kafka's own `server.properties` has one) and are left out as well.

    Raises:
        ConfigError: an entry that does not parse, that names no listener, or that advertises every address.
    """
    ports: dict[str, int] = {}
    for endpoint in bound:
        ports.setdefault(endpoint.listener, endpoint.port)
    advertised, _ = _by_user(config, config.advertised_listeners)
    if not advertised:
        first: dict[str, Endpoint] = {}
        for endpoint in bound:
            host = "localhost" if endpoint.host in WILDCARDS else endpoint.host
            first.setdefault(endpoint.listener, endpoint._replace(host=host))
        return tuple(first.values())
    told = _endpoints("advertised.listeners", advertised, _protocols(config))
    for endpoint in told:
        if endpoint.listener not in ports:
            raise ConfigError(
                f"advertised.listeners names {endpoint.listener}, which listeners does not have; "
                f"write one of {', '.join(ports)}"
            )
        if endpoint.host in WILDCARDS:
            raise ConfigError(
                f"advertised.listeners has {endpoint.listener} on every address; write a host that clients can reach"
            )
    return tuple(one._replace(port=ports[one.listener]) if one.port == 0 else one for one in told)


def _protocols(config: BrokerConfig) -> dict[str, str]:
    protocols = {}
    for entry in config.listener_security_protocol_map:
        name, colon, protocol = entry.partition(":")
        if not colon or protocol.upper() not in _PROTOCOLS:
            raise ConfigError(
                f"listener.security.protocol.map has {entry!r}; write NAME:PROTOCOL with one of {', '.join(_PROTOCOLS)}"
            )
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def _endpoints(key: str, entries: Sequence[str], protocols: dict[str, str]) -> tuple[Endpoint, ...]:
    endpoints = []
    for entry in entries:
        name, slashes, address = entry.partition("://")
        host, colon, port = address.rpartition(":")
        if not (name and slashes and colon and port.isascii() and port.isdigit() and int(port) <= 65535):
            raise ConfigError(f"{key} has {entry!r}; write NAME://host:port with a port between 0 and 65535")
        name = name.strip().upper()
        if name not in protocols:
            raise ConfigError(
                f"{key} names {name}, which has no security protocol; add {name}:PLAINTEXT to "
                "listener.security.protocol.map"
            )
        endpoints.append(Endpoint(name, host.strip().strip("[]"), int(port), protocols[name]))
    if key == "advertised.listeners":
        twice = {one.listener for one in endpoints if [e.listener for e in endpoints].count(one.listener) > 1}
        if twice:
            raise ConfigError(f"{key} names {', '.join(sorted(twice))} more than once; keep one entry for each name")
    return tuple(endpoints)
