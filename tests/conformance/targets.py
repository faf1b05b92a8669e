"""The two brokers that scenarios are played against, as child processes with the same settings."""

import os
import signal
import sys
from pathlib import Path
from typing import Protocol

from tests.oracle.kafka import Kafka, free_port
from tests.oracle.server_process import ServerProcess

# Both brokers look at their logs often, so that retention and compaction come within a scenario's patience; groups may
# have short sessions for the same reason.
SETTINGS = {
    "auto.create.topics.enable": "true",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "log.cleaner.backoff.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
}

# Apache Kafka walks every record of every batch; ours does so when told to. Both are the only broker of a cluster, and
# ours would wait for two others before it makes the topic of groups.
OUR_SETTINGS = {
    "barnabas.validate.records": "full",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
}

PEERS = "PEERS"
"""Our broker's listener for the other brokers of its cluster."""

START_SECONDS_MAX = 60.0


class Target(Protocol):
    """A broker that can be started, stopped cleanly and killed; a restart keeps its port and its data.

    Another broker of its cluster asks at `peer_port`, after an introduction with `secret` where there is one.
    """

    name: str
    port: int
    data_dir: Path
    peer_port: int
    secret: bytes

    def start(self) -> None:
        """Start, and return once it serves."""

    def stop(self) -> None:
        """Stop cleanly."""

    def kill(self) -> None:
        """SIGKILL."""


class ApacheKafka:
    """Apache Kafka 4.3.0."""

    name = "Apache Kafka"

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self._kafka = Kafka(directory, {**SETTINGS, **(settings or {})}, quick=True)
        self.port, self.data_dir = self._kafka.port, self._kafka.data_dir
        self.peer_port, self.secret = self.port, b""  # without an authorizer a replica is whoever says so
        self.start, self.stop, self.kill = self._kafka.start, self._kafka.stop, self._kafka.kill


class Barnabas:
    """Our broker, `python -m barnabas.broker`, in a process of its own."""

    name = "Barnabas"

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self.port, self.peer_port = free_port(), free_port()
        self.secret = b"of the scenarios' cluster"
        self.data_dir = directory / "data"
        self._directory = directory
        listeners = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},{PEERS}://127.0.0.1:{self.peer_port}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{PEERS}:PLAINTEXT",
            "inter.broker.listener.name": PEERS,
            "process.roles": "broker,controller",
            "barnabas.cluster.secret.file": str(directory / "secret"),
        }
        self._settings = {**SETTINGS, **OUR_SETTINGS, **listeners, **(settings or {})}
        self._process = ServerProcess(directory / "broker.out", self.port, START_SECONDS_MAX)

    def start(self) -> None:
        """Start, and return once ApiVersions is answered.

        Raises:
            RuntimeError: it ended instead; the text is what it printed.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        config = self._directory / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        secret = self._directory / "secret"
        secret.write_bytes(self.secret)
        secret.chmod(0o600)
        arguments = ["--data-dir", str(self.data_dir), "--config", str(config)]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("BARNABAS_", "KAFKA_"))}
        try:
            self._process.start([sys.executable, "-m", "barnabas.broker", *arguments], environment)
        except RuntimeError as error:
            raise RuntimeError(f"the broker did not start:\n{error}") from error

    def stop(self) -> None:
        """Stop cleanly (SIGTERM).

        Raises:
            RuntimeError: it did not, and was killed.
        """
        if not self._process.end(signal.SIGTERM):
            raise RuntimeError("the broker did not stop on SIGTERM")

    def kill(self) -> None:
        """SIGKILL."""
        self._process.end(signal.SIGKILL)
