"""Get, format, start and stop a real Apache Kafka 4.3.0 (KRaft; one node, or one of a cluster's) on loopback.

Maven and Java 17 are all it needs: `org.apache.kafka:kafka_2.13` brings the whole broker, `kafka-tools` adds
DumpLogSegments and the performance tools. The jars are kept in `~/.cache/barnabas` (`$XDG_CACHE_HOME` counts).

    with Kafka(directory, {"num.partitions": "3"}) as kafka:
        ...  # kafka.port answers
    text = run_tool("org.apache.kafka.tools.DumpLogSegments", "--files", str(segment))

A machine without Maven or Java gets `KafkaUnavailable`, whose text says what to install.
"""

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.oracle.server_process import ServerProcess

VERSION = "4.3.0"
HEAP_MB = 600
START_SECONDS_MAX = 60.0
PORTS = range(21000, 30000)
"""Below those that systems give to whoever asks for any port, and to connections: Linux 32768, macOS 49152 and up."""

_next_port = itertools.count(os.getpid() * 7)
"""Each process begins elsewhere: of two that look at the same moment, both would find the same one."""

POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>oracle</groupId><artifactId>oracle</artifactId><version>1</version><dependencies>{}</dependencies></project>
"""
DEPENDENCY = """<dependency><groupId>org.apache.kafka</groupId><artifactId>{name}</artifactId>
<version>{version}</version>{without}</dependency>
"""
WITHOUT_OTHERS = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"

# One node: its internal topics cannot have three replicas, and nobody wants to wait for a first rebalance.
ONE_NODE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class KafkaUnavailable(RuntimeError):
    """This machine cannot run Apache Kafka; the text says what is missing."""


def java() -> str:
    """The java command: `$JAVA_HOME` first, then the path.

    Raises:
        KafkaUnavailable: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(os.path.join(home, "bin", "java")) if home else shutil.which("java")
    if found is None:
        raise KafkaUnavailable("Apache Kafka needs Java 17 or newer: install a JRE or set JAVA_HOME")
    return found


def kept_libs(name: str = "kafka") -> Path:
    """Where Kafka's jars are kept, or will be; those of another name beside them."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "barnabas"
    return cache / f"{name}-{VERSION}" / "libs"


def libs() -> Path:
    """The directory with Kafka's jars, fetched by Maven (44 MB) the first time.

    Raises:
        KafkaUnavailable: no Maven, or Maven failed.
    """
    return _fetched(kept_libs(), "kafka_2.13", "kafka-tools")


def streams_libs() -> Path:
    """The directory with the jar of Kafka Streams alone (2 MB): what it needs beside RocksDB is in `libs`.

    Raises:
        KafkaUnavailable: no Maven, or Maven failed.
    """
    return _fetched(kept_libs("kafka-streams"), "kafka-streams", without=WITHOUT_OTHERS)


def _fetched(done: Path, *names: str, without: str = "") -> Path:
    if done.is_dir():
        return done
    cache = done.parent
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable(f"Apache Kafka {VERSION} comes through Maven: install mvn (Debian: apt install maven)")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as work:
        pom = Path(work, "pom.xml")
        wanted = [DEPENDENCY.format(name=name, version=VERSION, without=without) for name in names]
        pom.write_text(POM.format("".join(wanted)))
        jars = Path(work, "libs")
        command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode != 0 or not any(jars.glob(f"{names[0]}-{VERSION}.jar")):
            raise KafkaUnavailable(
                f"Maven could not fetch Apache Kafka {VERSION}:\n{(run.stdout + run.stderr)[-2000:]}"
            )
        with contextlib.suppress(FileExistsError, OSError):  # another process may have been faster
            jars.rename(done)
    return done


def run_tool(main: str, *arguments: str, seconds_max: float = 60.0) -> str:
    """Run one of Kafka's own command-line classes and return what it printed.

    Raises:
        KafkaUnavailable: no Java or Maven.
        subprocess.CalledProcessError: the tool ended with an error; its output is in the exception.
    """
    command = [java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{libs()}/*", main, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds_max)
    if run.returncode != 0:
        raise subprocess.CalledProcessError(run.returncode, command, run.stdout, run.stderr)
    return run.stdout


def free_port() -> int:
    """A port of `PORTS` that nobody listens on, another one each time: who is given it may not listen there yet."""
    for _ in PORTS:
        port = PORTS[next(_next_port) % len(PORTS)]
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise KafkaUnavailable(f"every port of {PORTS.start} to {PORTS.stop} is taken")


class Kafka:
    """One Apache Kafka node as a child process; a context manager that starts and stops it.

    Args:
        directory: holds the configuration, the log of the process and the data (`data/`); kept at the end.
        settings: server properties beside those of a single node.
        heap_mb: size of the Java heap.
        quick: compile with C1 only: starts and warms faster, peaks lower. Off where speed is measured.
        node_id: of a cluster's node; its `settings` name the voters once all have their ports (`controller_port`).
        cluster_id: of its cluster; a new one where it is empty.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        heap_mb: int = HEAP_MB,
        quick: bool = False,
        node_id: int = 1,
        cluster_id: str = "",
    ) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.port = free_port()
        self.controller_port = free_port()
        self.settings = dict(settings or {})
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._heap_mb = heap_mb
        self._quick = quick
        self._process = ServerProcess(directory / "kafka.out", self.port, START_SECONDS_MAX)

    @property
    def pid(self) -> int:
        """The process id while it runs."""
        return self._process.pid

    def _properties(self) -> Path:
        plain, control = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.controller_port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(self._node_id),
            "controller.quorum.voters": f"{self._node_id}@{control}",
            "listeners": f"PLAINTEXT://{plain},CONTROLLER://{control}",
            "advertised.listeners": f"PLAINTEXT://{plain}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data_dir),
            **ONE_NODE,
            **self.settings,
        }
        path = self.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def start(self) -> None:
        """Format the data directory if it is new, start, and return once ApiVersions is answered.

        Raises:
            KafkaUnavailable: it did not come up; the text ends with its log.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self._properties()
        if not (self.data_dir / "meta.properties").exists():
            cluster = self._cluster_id or run_tool("kafka.tools.StorageTool", "random-uuid").split()[-1]
            run_tool("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties))
        options = [f"-Xmx{self._heap_mb}m", f"-Xms{self._heap_mb // 2}m", "-XX:+UseG1GC", "-Djava.awt.headless=true"]
        options.append(f"-Djava.io.tmpdir={self.directory}")  # killed, it leaves a library there
        if self._quick:
            options.append("-XX:TieredStopAtLevel=1")
        command = [java(), *options, "-cp", f"{libs()}/*", "kafka.Kafka", str(properties)]
        try:
            self._process.start(command)
        except RuntimeError as error:
            raise KafkaUnavailable(f"Apache Kafka did not start:\n{error}") from error

    def stop(self) -> None:
        """Stop cleanly (SIGTERM), and for good after a minute. Nothing happens if it does not run."""
        self._process.end(signal.SIGTERM)

    def kill(self) -> None:
        """Stop with SIGKILL, as a power cut of the process."""
        self._process.end(signal.SIGKILL)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
