from __future__ import annotations

import pytest

from barnabas.broker.config import (
    BrokerConfig,
    ConfigError,
    Endpoint,
    advertised_endpoints,
    listening_endpoints,
    load,
)
from barnabas.broker.config.listeners import between_brokers


def test_listeners_are_read_in_order() -> None:
    config = BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:9092", "inside://:0", "PLAINTEXT://[::1]:9092"),
        listener_security_protocol_map=("PLAINTEXT:PLAINTEXT", "INSIDE:PLAINTEXT"),
    )
    assert listening_endpoints(config) == (
        Endpoint("PLAINTEXT", "127.0.0.1", 9092),
        Endpoint("INSIDE", "", 0),
        Endpoint("PLAINTEXT", "::1", 9092),
    )


def test_a_controllers_listener_of_a_kafka_configuration_is_not_opened_and_said_to_be_so() -> None:
    properties = """
        process.roles=broker,controller
        listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
        controller.listener.names=controller
    """
    loaded = load(properties=properties)
    assert listening_endpoints(loaded.config) == (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    assert "CONTROLLER://127.0.0.1:9093 of listeners is for controllers and not opened" in loaded.warnings
    with pytest.raises(ConfigError, match="controllers' listeners only"):
        load(overrides={"listeners": "CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"})


def test_a_controllers_listener_may_be_advertised_as_kafkas_own_server_properties_do() -> None:
    properties = """
        process.roles=broker,controller
        listeners=PLAINTEXT://:9092,CONTROLLER://:9093
        advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
        controller.listener.names=CONTROLLER
    """
    config = load(properties=properties).config
    bound = listening_endpoints(config)
    assert advertised_endpoints(config, bound) == (Endpoint("PLAINTEXT", "localhost", 9092),)
    only = BrokerConfig(advertised_listeners=("C://localhost:9093",), controller_listener_names=("C",))
    assert advertised_endpoints(only, bound) == (Endpoint("PLAINTEXT", "localhost", 9092),)


def test_the_bound_port_is_advertised() -> None:
    bound = [Endpoint("PLAINTEXT", "127.0.0.1", 4711), Endpoint("PLAINTEXT", "::1", 4711)]
    assert advertised_endpoints(BrokerConfig(), bound) == (Endpoint("PLAINTEXT", "127.0.0.1", 4711),)
    told = BrokerConfig(advertised_listeners=("PLAINTEXT://broker:0",))
    assert advertised_endpoints(told, bound) == (Endpoint("PLAINTEXT", "broker", 4711),)
    fixed = BrokerConfig(advertised_listeners=("PLAINTEXT://broker:29092",))
    assert advertised_endpoints(fixed, bound) == (Endpoint("PLAINTEXT", "broker", 29092),)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_every_address_is_advertised_as_localhost(host: str) -> None:
    assert advertised_endpoints(BrokerConfig(), [Endpoint("PLAINTEXT", host, 1)])[0].host == "localhost"


@pytest.mark.parametrize(
    ("advertised", "message"),
    [
        (("PLAINTEXT://0.0.0.0:1",), "a host that clients can reach"),
        (("SSL://broker:1",), "which listeners does not have"),
        (("PLAINTEXT://a:1", "PLAINTEXT://b:1"), "more than once"),
        (("broker:1",), "NAME://host:port"),
        (("PLAINTEXT://broker:99999",), "between 0 and 65535"),
    ],
)
def test_what_cannot_be_advertised(advertised: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        advertised_endpoints(BrokerConfig(advertised_listeners=advertised), [Endpoint("PLAINTEXT", "127.0.0.1", 1)])


def test_a_protocol_map_that_does_not_parse() -> None:
    with pytest.raises(ConfigError, match="NAME:PROTOCOL"):
        listening_endpoints(BrokerConfig(listener_security_protocol_map=("PLAINTEXT",)))


BOTH = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,BROKERS://127.0.0.1:9094",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "brokers",
    "barnabas.cluster.secret.file": "/run/secret",
}


def test_with_a_secret_a_listener_is_for_brokers_alone() -> None:
    loaded = load(overrides=BOTH)
    assert between_brokers(loaded.config) == "BROKERS"
    assert loaded.warnings == ()


def test_without_a_secret_the_listener_of_a_kafka_configuration_stays_the_clients() -> None:
    loaded = load(overrides={"inter.broker.listener.name": "PLAINTEXT"})
    assert between_brokers(loaded.config) is None
    assert loaded.warnings == ("settings of Apache Kafka that have no effect here: inter.broker.listener.name",)
    assert between_brokers(BrokerConfig()) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"inter.broker.listener.name": ""}, "say which that is in inter.broker.listener.name"),
        (
            {"inter.broker.listener.name": "INSIDE"},
            "INSIDE: listeners has none of that name to open; write one of PLAINTEXT, BROKERS",
        ),
        ({"controller.listener.names": "BROKERS"}, "BROKERS: listeners has none of that name to open"),
        ({"listeners": "BROKERS://:9094"}, "that listener is for brokers alone, and listeners has no other"),
        ({"advertised.listeners": "PLAINTEXT://here:9092"}, "BROKERS: advertised.listeners does not have it"),
        ({"security.inter.broker.protocol": "PLAINTEXT"}, "are both set; keep the former"),
    ],
)
def test_a_listener_between_brokers_that_cannot_be_is_refused(change: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load(overrides=BOTH | change)


def test_its_advertised_address_is_told_as_any_other() -> None:
    told = {"advertised.listeners": "PLAINTEXT://here:9092,BROKERS://there:9094"}
    config = load(overrides=BOTH | told).config
    assert between_brokers(config) == "BROKERS"
    assert [one.host for one in advertised_endpoints(config, listening_endpoints(config))] == ["here", "there"]
