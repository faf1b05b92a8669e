"""Clusters under measurement: ours as `barnabas cluster up` runs them, and Apache Kafka's; each broker a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.servers import Server
from tests.oracle.kafka import free_port, java, libs, run_tool
from tests.oracle.server_process import ServerProcess

REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
HEAP_MB = 600
"""Of each of three."""
START_SECONDS_MAX = 120.0


@dataclass(slots=True)
class Cluster(Server):
    """All brokers as one server: the first one's port, and what all of them use."""

    members: dict[int, Server] = field(default_factory=dict)
    """By node id."""
    directory: Path = Path()

    def cpu_s(self) -> float:
        """CPU seconds of all processes."""
        return sum(one.cpu_s() for one in self.members.values())

    def _status_mb(self, name: str) -> float:
        return sum(one._status_mb(name) for one in self.members.values())

    def kill(self, node_id: int) -> None:
        """SIGKILL to one broker."""
        os.kill(self.members[node_id].pid, signal.SIGKILL)

    def restart(self, node_id: int) -> None:
        """Start a broker again that was killed; returns once it serves."""
        words = ["-m", "barnabas", "cluster", "start", str(node_id), "--dir", str(self.directory)]
        subprocess.run([sys.executable, *words], check=True, capture_output=True, timeout=120)
        self.members[node_id].pid = _pid(self.directory, node_id)


def _pid(directory: Path, node_id: int) -> int:
    return int((directory / f"broker-{node_id}.pid").read_text())


@contextmanager
def barnabas(brokers: int) -> Iterator[Cluster]:
    """So many brokers of ours, on real disk."""
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as own:
        directory = Path(own, "cluster")
        words = ["cluster", "up", "--dir", str(directory), "--brokers", str(brokers), "--port", "0"]
        process = subprocess.Popen(
            [sys.executable, "-m", "barnabas", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert process.stdout
            line = process.stdout.readline()
            if " serve on " not in line:
                raise RuntimeError(f"the cluster did not start: it said {line!r}")
            addresses = line.partition(" on ")[2].partition(";")[0].split(",")
            members = {
                number: Server("ours", _pid(directory, number), int(address.rpartition(":")[2]))
                for number, address in enumerate(addresses, 1)
            }
            yield Cluster("ours", members[1].pid, members[1].port, process, members, directory)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
            assert process.stdout
            process.stdout.close()


@contextmanager
def kafka(brokers: int = 3) -> Iterator[Cluster]:
    """So many Apache Kafka 4.3.0, each a broker and a controller.

    Raises:
        KafkaUnavailable: this machine has no Java or Maven.
    """
    ports = {number: (free_port(), free_port()) for number in range(1, brokers + 1)}
    voters = ",".join(f"{number}@127.0.0.1:{control}" for number, (_, control) in ports.items())
    cluster_id = run_tool("kafka.tools.StorageTool", "random-uuid").split()[-1]
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as work, ExitStack() as stack:
        processes = {}
        for number, (port, control) in ports.items():
            settings = {
                **REPLICATED,
                "node.id": str(number),
                "process.roles": "broker,controller",
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}",
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "log.dirs": f"{work}/data-{number}",
            }
            file = Path(work, f"{number}.properties")
            file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
            run_tool("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(file))
            processes[number] = process = ServerProcess(Path(work, f"{number}.out"), port, START_SECONDS_MAX)
            stack.callback(process.end, signal.SIGTERM)
        options = [f"-Xmx{HEAP_MB}m", f"-Xms{HEAP_MB // 2}m", "-XX:+UseG1GC", "-cp", f"{libs()}/*", "kafka.Kafka"]
        with ThreadPoolExecutor(brokers) as at_once:  # none answers before most are there
            starting = [
                at_once.submit(process.start, [java(), *options, f"{work}/{number}.properties"])
                for number, process in processes.items()
            ]
            for one in starting:
                one.result()
        members = {number: Server("kafka", process.pid, ports[number][0]) for number, process in processes.items()}
        yield Cluster("kafka", members[1].pid, members[1].port, None, members)
