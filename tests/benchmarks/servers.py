"""The servers under measurement: ours, librdkafka's mock cluster, asyncio streams; each a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.oracle.kafka import Kafka

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Server:
    """A running server: its name in the tables, its process and where it listens."""

    name: str
    pid: int
    port: int
    process: subprocess.Popen[str] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cpu_s(self) -> float:
        """CPU seconds the process has used so far, user and system."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def cpu_ns(self) -> int:
        """As `cpu_s`, in ns, of the threads that it has (Linux alone tells so finely)."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split(maxsplit=1)[0]) for task in tasks)

    def resident_mb(self) -> float:
        """Resident memory in MB (10^6 bytes), files that are mapped with it."""
        return self._status_mb("VmRSS")

    def own_mb(self) -> float:
        """What of it is the process' own (MB): without the pages of mapped files, which the system can take back."""
        return self._status_mb("RssAnon")

    def _status_mb(self, name: str) -> float:
        match = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert match
        return int(match[1]) * 1024 / 1e6


@dataclass(slots=True, frozen=True)
class Peers:
    """Who is measured beside ours: librdkafka's mock and asyncio streams (`others`), and a running Apache Kafka.

    `several`: where ours are several brokers, as many Apache Kafka.
    """

    kafka: Server | None = None
    others: bool = True
    several: bool = False


MODES = ("full", "header")
"""`barnabas.validate.records`: every record walked, as Apache Kafka does; or what the header of a batch can tell."""


def warm_up_s(server: Server) -> float:
    """How long a server is loaded before it is measured: a JVM compiles for seconds, the others are what they are."""
    return 10.0 if server.name == "kafka" else 1.0


def warm_rounds(server: Server) -> int:
    """Rounds before the first that counts: Apache Kafka's fetch path is compiled to its best after some twenty."""
    return 20 if server.name == "kafka" else 1


def installed(directory: str) -> dict[str, str]:
    """The environment of an installed package, whose modules are compiled: here in `directory`, by who runs first."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": directory}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


@contextmanager
def _process(
    name: str, arguments: list[str], environment: dict[str, str] | None = None, place: Path | None = None
) -> Iterator[Server]:
    """Start a server whose first line of output ends in `127.0.0.1:PORT`, or names it; end it with SIGTERM."""
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.Popen(arguments, stdout=pipe, stderr=nothing, text=True, env=environment, cwd=place)
    try:
        assert process.stdout
        line = process.stdout.readline()
        match = re.search(r"127\.0\.0\.1:(\d+)$", line.rstrip()) or re.search(r"127\.0\.0\.1:(\d+)", line)
        if not match:
            raise RuntimeError(f"{name} did not start: it said {line!r}")
        yield Server(name, process.pid, int(match[1]), process)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout
        process.stdout.close()


@contextmanager
def barnabas(
    *flags: str,
    data_dir: str | None = None,
    mode: str | None = None,
    environment: dict[str, str] | None = None,
    place: Path | None = None,
) -> Iterator[Server]:
    """Our broker on a data directory of its own, on real disk; `mode` of MODES is in its name, None is its default.

    `place`: the directory whose package `barnabas` is run, instead of this checkout's.
    """
    if place is not None:
        environment = {**(environment or os.environ), "PYTHONPATH": str(place)}
    flags += ("--set", f"barnabas.validate.records={mode}") if mode else ()
    name = f"ours, {mode}" if mode else "ours"
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as own:
        arguments = [sys.executable, "-m", "barnabas.broker", "--port", "0", "--data-dir", data_dir or own, *flags]
        with _process(name, arguments, environment, place) as server:
            yield server


@contextmanager
def mock(*topics: str) -> Iterator[Server]:
    """librdkafka's mock cluster of one broker (no disk, no checksums, written in C) with topics `NAME:PARTITIONS`."""
    with _process("mock", [sys.executable, "-m", "tests.benchmarks.peers.mock", *topics]) as server:
        yield server


@contextmanager
def streams(path: str, batch_bytes: int, batch_records: int, *, joined: bool) -> Iterator[Server]:
    """A fetch server as one would write it with asyncio streams and pread, over one file of equal batches.

    `joined`: an answer leaves in one `writelines`, which joins it before Python 3.12; else in a `write` for each piece.
    """
    name = "streams" if joined else "streams piecewise"
    style = "joined" if joined else "pieces"
    arguments = ["-m", "tests.benchmarks.peers.streams", path, str(batch_bytes), str(batch_records), style]
    with _process(name, [sys.executable, *arguments]) as server:
        yield server


@contextmanager
def kafka() -> Iterator[Server]:
    """A real Apache Kafka 4.3.0 of one node.

    Raises:
        KafkaUnavailable: this machine has no Java or Maven.
    """
    with (
        tempfile.TemporaryDirectory(prefix="kafka-bench-") as directory,
        Kafka(Path(directory), heap_mb=1000) as running,
    ):
        yield Server("kafka", running.pid, running.port)
