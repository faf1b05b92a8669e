"""The two clusters of three that scenarios are played against, as child processes with the same settings."""

import os
import signal
import sys
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from barnabas.protocol.ids import format_uuid
from tests.conformance.targets import PEERS, START_SECONDS_MAX
from tests.oracle.kafka import Kafka, free_port
from tests.oracle.server_process import ServerProcess

NODES = (1, 2, 3)
LETTERS = "ABC"
HEAP_MB = 384

LAG_MS, SESSION_MS = 4000, 9000
"""Of both, when they are compared: a Java process that shares two cores must not be missed because it was slow."""
SOON = {"replica.lag.time.max.ms": "2500", "broker.session.timeout.ms": "8000"}
"""Of ours in the tests, which need not wait for another make."""

SETTINGS = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": str(SESSION_MS),
    "default.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "2",
    "offsets.topic.num.partitions": "6",
    "offsets.topic.replication.factor": "3",
    "replica.lag.time.max.ms": str(LAG_MS),
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


def rack_of(node_id: int) -> str:
    """Where a broker stands: each in a rack of its own."""
    return f"rack-{node_id}"


class ClusterTarget(Protocol):
    """A cluster of three; a restart of a broker keeps its ports and its data."""

    name: str
    settings: dict[str, str]
    secret: bytes

    def port(self, node_id: int) -> int:
        """Where this broker serves clients."""

    def peer_port(self, node_id: int) -> int:
        """Where it serves the others."""

    def start_all(self) -> None:
        """Start, and return once all serve."""

    def end_all(self) -> None:
        """End all, in whatever state they are."""

    def start(self, node_id: int) -> None:
        """Start one again."""

    def pause(self, node_id: int) -> None:
        """SIGSTOP to one."""

    def resume(self, node_id: int) -> None:
        """SIGCONT to it."""

    def stop(self, node_id: int) -> None:
        """SIGTERM to one, which stops in good order."""

    def kill(self, node_id: int) -> None:
        """SIGKILL."""


def all_at_once(action: Callable[[int], None]) -> None:
    """For each node, side by side: none of them serves before most of them are there."""
    with ThreadPoolExecutor(len(NODES)) as pool:
        list(pool.map(action, NODES))


class ApacheKafkas:
    """Three brokers of Apache Kafka, each a voter of the controllers' quorum."""

    name = "Apache Kafka"
    secret = b""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.settings = {**SETTINGS, **(settings or {})}
        cluster_id = format_uuid(b"\0" + uuid.uuid4().bytes[1:])  # one that begins with a dash would be an option
        self._nodes = {
            node_id: Kafka(
                directory / f"kafka-{node_id}", heap_mb=HEAP_MB, quick=True, node_id=node_id, cluster_id=cluster_id
            )
            for node_id in NODES
        }
        voters = ",".join(f"{node_id}@127.0.0.1:{node.controller_port}" for node_id, node in self._nodes.items())
        for node_id, node in self._nodes.items():
            node.settings = {**self.settings, "controller.quorum.voters": voters, "broker.rack": rack_of(node_id)}

    def port(self, node_id: int) -> int:
        """Where this broker serves clients, and the others."""
        return self._nodes[node_id].port

    peer_port = port

    def start_all(self) -> None:
        """Start, and return once all serve."""
        all_at_once(self.start)

    def end_all(self) -> None:
        """SIGKILL: whoever stops in good order waits for a quorum that is not there any more."""
        all_at_once(self.kill)

    def start(self, node_id: int) -> None:
        """Start one again."""
        self._nodes[node_id].start()

    def pause(self, node_id: int) -> None:
        """SIGSTOP to one."""
        os.kill(self._nodes[node_id].pid, signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        """SIGCONT to it."""
        os.kill(self._nodes[node_id].pid, signal.SIGCONT)

    def stop(self, node_id: int) -> None:
        """SIGTERM to one, which stops in good order."""
        self._nodes[node_id].stop()

    def kill(self, node_id: int) -> None:
        """SIGKILL."""
        self._nodes[node_id].kill()


class Barnabases:
    """Three of ours, each a voter, too."""

    name = "Barnabas"
    secret = b"of the scenarios' cluster"

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.settings = {**SETTINGS, **(settings or {})}
        self._directory = directory
        self._ports = {node_id: (free_port(), free_port()) for node_id in NODES}
        self._cluster_id = format_uuid(uuid.uuid4().bytes)
        self._processes = {
            node_id: ServerProcess(directory / f"broker-{node_id}.out", self.port(node_id), START_SECONDS_MAX)
            for node_id in NODES
        }

    def port(self, node_id: int) -> int:
        """Where this broker serves clients."""
        return self._ports[node_id][0]

    def peer_port(self, node_id: int) -> int:
        """Where it serves the others."""
        return self._ports[node_id][1]

    def _properties(self, node_id: int) -> dict[str, str]:
        port, peer_port = self._ports[node_id]
        return {
            **self.settings,
            "node.id": str(node_id),
            "broker.rack": rack_of(node_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},{PEERS}://127.0.0.1:{peer_port}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{PEERS}:PLAINTEXT",
            "inter.broker.listener.name": PEERS,
            "controller.quorum.voters": ",".join(f"{one}@127.0.0.1:{self.peer_port(one)}" for one in NODES),
            "barnabas.cluster.id": self._cluster_id,
            "barnabas.cluster.secret.file": str(self._directory / "secret"),
        }

    def start_all(self) -> None:
        """Start, and return once all serve."""
        self._directory.mkdir(parents=True, exist_ok=True)
        secret = self._directory / "secret"
        secret.write_bytes(self.secret)
        secret.chmod(0o600)
        for node_id in NODES:
            lines = (f"{key}={value}\n" for key, value in self._properties(node_id).items())
            (self._directory / f"broker-{node_id}.properties").write_text("".join(lines))
        all_at_once(self.start)

    def end_all(self) -> None:
        """SIGKILL, as theirs."""
        all_at_once(self.kill)

    def start(self, node_id: int) -> None:
        """Start one again."""
        where = self._directory / f"broker-{node_id}"
        arguments = ["--data-dir", str(where), "--config", f"{where}.properties"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("BARNABAS_", "KAFKA_"))}
        try:
            self._processes[node_id].start([sys.executable, "-m", "barnabas.broker", *arguments], environment)
        except RuntimeError as error:
            raise RuntimeError(f"broker {node_id} did not start:\n{error}") from error

    def pause(self, node_id: int) -> None:
        """SIGSTOP to one."""
        os.kill(self._processes[node_id].pid, signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        """SIGCONT to it."""
        os.kill(self._processes[node_id].pid, signal.SIGCONT)

    def stop(self, node_id: int) -> None:
        """SIGTERM to one, which stops in good order."""
        self._processes[node_id].end(signal.SIGTERM)

    def kill(self, node_id: int) -> None:
        """SIGKILL."""
        self._processes[node_id].end(signal.SIGKILL)
