"""Drives the compiled load generators: `load.c`, built once with the system's C compiler, and librdkafka.

Those of consumer groups (`groups.c`) are driven by `group_load.py`.
"""

from __future__ import annotations

import json
import math
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from importlib.metadata import files
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # exported, not declared

from tests.benchmarks import frames
from tests.benchmarks.servers import Server

HERE = Path(__file__).parent


class NoCompiler(RuntimeError):
    """There is no C compiler: the rows that need the load generator say so instead of a figure."""


@dataclass(slots=True, frozen=True)
class Load:
    """What one load run measured. CPU seconds are of the server and of the generator while it ran."""

    count: int
    seconds: float
    bytes: float
    p50_us: float
    p99_us: float
    max_us: float
    server_cpu_s: float
    generator_cpu_s: float

    @property
    def per_s(self) -> float:
        return self.count / self.seconds

    @property
    def mb_per_s(self) -> float:
        return self.bytes / 1e6 / self.seconds

    @property
    def server_cpu_s_per_gb(self) -> float:
        return self.server_cpu_s / (self.bytes / 1e9)

    @property
    def server_share(self) -> float:
        return self.server_cpu_s / self.seconds

    @property
    def generator_share(self) -> float:
        return self.generator_cpu_s / self.seconds


_files = tempfile.TemporaryDirectory(prefix="barnabas-load-")  # goes when the process ends


def librdkafka() -> str:
    """The path of the C library that confluent-kafka brings."""
    import confluent_kafka.cimpl  # loads the library's own dependencies

    assert confluent_kafka.cimpl
    found = [file for file in files("confluent-kafka") or () if file.name.startswith("librdkafka")]
    return str(found[0].locate())


@cache
def generator(name: str = "load") -> str:
    """The path of a built load generator: `load` or `groups`.

    Raises:
        NoCompiler: neither cc, gcc nor clang is on the path.
    """
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise NoCompiler(f"no C compiler (cc, gcc or clang) on the path to build tests/benchmarks/{name}.c")
    target = Path(_files.name) / name
    subprocess.run([compiler, "-O2", "-o", str(target), str(HERE / f"{name}.c"), "-ldl"], check=True)
    return str(target)


def create_topic(server: Server, topic: str, partitions: int = 1, replicas: int = 1, /, **config: str) -> None:
    """Create a topic and wait until its partitions have leaders. The mock is given its topics when it starts.

    Nothing expires: the prepared batches bear an old date.
    """
    if server.name == "mock":
        return
    admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, replicas, config={"retention.ms": "-1", **config})])[topic].result(
        20
    )
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = admin.list_topics(topic, timeout=5).topics[topic]
        if len(found.partitions) == partitions and all(p.leader >= 0 for p in found.partitions.values()):
            return
    raise RuntimeError(f"topic {topic} has no leaders on {server.name} after 20 s")


def _run(server: Server, mode: str, *arguments: str) -> Load:
    before = server.cpu_s()
    done = subprocess.run(
        [generator(), mode, "127.0.0.1", str(server.port), *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    said: dict[str, Any] = json.loads(done.stdout)
    used = server.cpu_s() - before
    return Load(
        said["count"],
        said["seconds"],
        said["bytes"],
        said["p50_us"],
        said["p99_us"],
        said["max_us"],
        used,
        said["cpu_s"],
    )


def touch(count: int) -> None:
    """Have `count` bytes of memory backed by the machine, for what is written next (see `load.c`)."""
    subprocess.run([generator(), "touch", str(count)], check=True, timeout=120)


def ping(server: Server, seconds: float) -> Load:
    """ApiVersions over one connection, one at a time: its longest round trip shows the longest stall of the loop."""
    return _run(server, "requests", _file(frames.api_versions()), "1", "1", str(seconds))


@cache
def _file(data: bytes) -> str:
    path = Path(_files.name) / f"frame-{len(list(Path(_files.name).iterdir()))}"
    path.write_bytes(data)
    return str(path)


def commits(server: Server, group: str, topic: str, connections: int, depth: int, seconds: float) -> Load:
    """OffsetCommit of one partition, by nobody in particular, as fast as they are answered.

    Raises:
        RuntimeError: there is no coordinator, or it refuses the first one.
    """
    frame = frames.offset_commit(group, topic)
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        _find_coordinator(s, group)
        s.sendall(frame)
        told = s.recv(4096)
    if told[-2:] != bytes(2):  # the error code of the only partition
        raise RuntimeError(f"{server.name} refuses a commit with error {int.from_bytes(told[-2:], 'big')}")
    return _run(server, "requests", _file(frame), str(connections), str(depth), str(seconds))


def _find_coordinator(s: socket.socket, group: str) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        s.sendall(frames.find_coordinator(group))
        if s.recv(4096)[12:14] == bytes(2):
            return
        time.sleep(0.1)
    raise RuntimeError(f"no coordinator for {group} after 20 s")


def small_requests(
    server: Server, topic: str, connections: int, depth: int, seconds: float, record_bytes: int = 100
) -> Load:
    """Produce requests of one record, acks=all, as fast as they are answered."""
    frame = frames.produce(topic, 0, frames.batch(1, record_bytes))
    return _run(server, "requests", _file(frame), str(connections), str(depth), str(seconds))


def consume(
    server: Server, topic: str, fetch_bytes: int, bytes_max: float, partitions: int = 1, readers: int = 4
) -> Load:
    """`readers` connections read all partitions from the beginning to the end, or `bytes_max` each.

    A fetch asks for up to `fetch_bytes` of each partition, as a consumer's does.
    """
    frame, offset_at = frames.fetch(topic, fetch_bytes, partitions=partitions)
    return _run(server, "fetch", _file(frame), str(offset_at), str(partitions), str(bytes_max), str(readers))


def wake(server: Server, topic: str, start_offset: int, count: int) -> Load:
    """Produce to a consumer that is already waiting; the time runs from the produce to the consumer's answer."""
    frame, offset_at = frames.fetch(topic, 1_000_000, max_wait_ms=5000)
    produce = frames.produce(topic, 0, frames.batch(1, 100))
    return _run(server, "wake", _file(frame), str(offset_at), _file(produce), str(start_offset), str(count))


def fill(server: Server, frame: bytes, bytes_min: float, connections: int = 4, depth: int = 4) -> Load:
    """Send one prepared produce frame until so many bytes are there (bulk load without a client's own costs)."""
    count = math.ceil(bytes_min / len(frame))
    return _run(server, "fill", _file(frame), str(connections), str(depth), str(count))


def librdkafka_produce(server: Server, topic: str, record_bytes: int, seconds: float, partitions: int) -> Load:
    """Produce with librdkafka, acks=all, until `seconds` have passed and everything is acknowledged."""
    return _run(server, "produce", librdkafka(), topic, str(partitions), str(record_bytes), str(seconds))
