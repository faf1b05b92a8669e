"""Who brings a Kafka node's settings changes nothing: its server.properties, the environments of its compose examples.

The names and values are those of Apache Kafka 4.3 (`config/server.properties`, `docker/examples`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.config import Endpoint, Loaded, advertised_endpoints, listening_endpoints, load

ROOT = Path(__file__).parents[3]
ONE_COPY = {
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
SERVER_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    ),
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "log.dirs": "/tmp/kraft-combined-logs",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    **ONE_COPY,
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}
COMPOSE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "group.initial.rebalance.delay.ms": "0",
    "log.dirs": "/tmp/kraft-combined-logs",
    **ONE_COPY,
}
SINGLE = {
    **COMPOSE,
    "listeners": "CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
    "advertised.listeners": "PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092",
    "controller.quorum.voters": "1@broker:29093",
}
COMBINED = {
    **COMPOSE,
    "listeners": "PLAINTEXT://:19092,CONTROLLER://:9093,PLAINTEXT_HOST://:9092",
    "advertised.listeners": "PLAINTEXT://kafka-1:19092,PLAINTEXT_HOST://localhost:29092",
    "controller.quorum.voters": "1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093",
}
ISOLATED = {
    **COMPOSE,
    "process.roles": "broker",
    "listeners": "PLAINTEXT://:19092,PLAINTEXT_HOST://:9092",
    "advertised.listeners": "PLAINTEXT://kafka-1:19092,PLAINTEXT_HOST://localhost:29092",
    "controller.quorum.voters": "1@controller-1:9093,2@controller-2:9093,3@controller-3:9093",
}


def environment(settings: dict[str, str]) -> dict[str, str]:
    """As Kafka's image is told them, with what else its examples set."""
    variables = {"KAFKA_" + name.replace(".", "_").upper(): value for name, value in settings.items()}
    return {**variables, "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw", "KAFKA_HEAP_OPTS": "-Xmx1g"}


def clients_are_told(loaded: Loaded) -> list[tuple[str, str, int]]:
    bound = listening_endpoints(loaded.config)
    assert "CONTROLLER" not in [one.listener for one in bound]
    return [(one.listener, one.host, one.port) for one in advertised_endpoints(loaded.config, bound)]


def test_kafkas_server_properties_names_what_has_no_meaning_here_in_one_line() -> None:
    loaded = load(properties="\n".join(f"{name}={value}" for name, value in SERVER_PROPERTIES.items()))
    assert listening_endpoints(loaded.config) == (Endpoint("PLAINTEXT", "", 9092),)
    assert clients_are_told(loaded) == [("PLAINTEXT", "localhost", 9092)]
    unused, controllers = loaded.warnings
    kind, _, names = unused.partition(": ")
    assert kind == "settings of Apache Kafka that have no effect here"
    assert names.split(", ") == [
        "process.roles",
        "controller.quorum.bootstrap.servers",
        "inter.broker.listener.name",
        "num.network.threads",
        "num.io.threads",
        "num.recovery.threads.per.data.dir",
        *(name for name in ONE_COPY if not name.startswith("offsets.")),
    ]
    assert controllers == "CONTROLLER://:9093 of listeners is for controllers and not opened"


@pytest.mark.parametrize(
    ("settings", "told", "lines"),
    [
        (SINGLE, [("PLAINTEXT_HOST", "localhost", 9092), ("PLAINTEXT", "broker", 19092)], 2),
        (COMBINED, [("PLAINTEXT", "kafka-1", 19092), ("PLAINTEXT_HOST", "localhost", 29092)], 3),
        (ISOLATED, [("PLAINTEXT", "kafka-1", 19092), ("PLAINTEXT_HOST", "localhost", 29092)], 2),
    ],
    ids=["single", "combined", "isolated"],
)
def test_the_environments_of_kafkas_compose_examples_are_taken(
    settings: dict[str, str], told: list[tuple[str, str, int]], lines: int
) -> None:
    loaded = load(environment=environment(settings))
    assert clients_are_told(loaded) == told
    assert loaded.config.data_dirs == ("/tmp/kraft-combined-logs",)
    assert loaded.config.barnabas_cluster_id == "4L6g3nShT-eMCtK--X86sw"
    assert len(loaded.warnings) == lines, loaded.warnings
    assert "controller.quorum.voters" in loaded.warnings[0]
    several = "this broker, 1, stands alone, with topics of its own" in loaded.warnings[-1]
    assert several == ("," in settings["controller.quorum.voters"]), "three of these are no cluster"


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.properties")), ids=lambda path: path.name)
def test_the_files_that_come_with_the_broker_set_nothing_in_vain(path: Path) -> None:
    assert load(properties=path.read_text()).warnings == ()
