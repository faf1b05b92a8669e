"""Rows of the broker itself: start, idle memory, memory per connection, and the longest stall under background work."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks import frames, load, servers
from tests.benchmarks.report import Row
from tests.benchmarks.servers import Peers, Server

STARTS = 7
STARTS_AS_IS = 3
CONNECTIONS = 2000
PARTITIONS = 10_000
RECOVER_BYTES = 10 * 2**30
COMPACT_BYTES = 400e6
PARTITIONS_PER_REQUEST = 1000


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _first_reply_ms(environment: dict[str, str]) -> tuple[float, float, float]:
    """Milliseconds from the start of the process to its first answer; its resident MB then; its own among them."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as data_dir:
        start = time.perf_counter()
        arguments = [sys.executable, "-m", "barnabas.broker", "--port", str(port), "--data-dir", data_dir]
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        try:
            while True:
                with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)) as s:
                    s.sendall(frames.api_versions())
                    assert s.recv(4)
                    elapsed_ms = (time.perf_counter() - start) * 1e3
                    server = Server("ours", process.pid, port)
                    return elapsed_ms, server.resident_mb(), server.own_mb()
                if time.perf_counter() - start > 20 or process.poll() is not None:
                    raise RuntimeError(f"no answer after {time.perf_counter() - start:.1f} s")
        finally:
            process.terminate()
            process.wait(10)


def _start() -> Iterator[Row]:
    """The start as an installed package has it, with compiled modules, whatever the environment here says of them."""
    with tempfile.TemporaryDirectory() as compiled:
        environment = servers.installed(compiled)
        _first_reply_ms(environment)  # compiles
        samples = sorted(_first_reply_ms(environment) for _ in range(STARTS))
    times = f"of {STARTS}: {samples[0][0]:.0f} to {samples[-1][0]:.0f} ms"
    as_is_ms = sorted(_first_reply_ms(dict(os.environ))[0] for _ in range(STARTS_AS_IS))[STARTS_AS_IS // 2]
    notes = [times, f"compiled, as an installed package is; from this checkout as it lies here: {as_is_ms:.0f} ms"]
    yield Row("start to first reply", "ms", samples[STARTS // 2][0], must=300, aim=120, better="less", notes=notes)
    own = f"{samples[STARTS // 2][2]:.1f} MB of it the process' own, the rest its program and libraries"
    yield Row("resident memory, idle", "MB", samples[STARTS // 2][1], must=40, aim=26, better="less", notes=[own])


def _idle_connections() -> Row:
    with servers.barnabas() as server, contextlib.ExitStack() as stack:
        before = server.resident_mb()
        for _ in range(CONNECTIONS):
            s = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            s.sendall(frames.api_versions())
            s.recv(4096)
        kb = (server.resident_mb() - before) * 1e3 / CONNECTIONS
    return Row(f"memory per idle connection ({CONNECTIONS:,} of them)", "KB", kb, must=8, aim=2, better="less")


def _stall(name: str, server: Server, seconds: float, note: str) -> Row:
    pinged = load.ping(server, seconds)
    notes = [
        note,
        f"round trips: p50 {pinged.p50_us:.0f} µs, p99 {pinged.p99_us:.0f} µs, server CPU {pinged.server_share:.0%}",
    ]
    return Row(
        f"longest stall of the loop, {name}", "ms", pinged.max_us / 1e3, must=20, aim=5, better="less", notes=notes
    )


def _open_partitions() -> Row:
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as data_dir:
        with servers.barnabas(data_dir=data_dir) as server:
            for part in range(PARTITIONS // PARTITIONS_PER_REQUEST):
                load.create_topic(server, f"many-{part}", PARTITIONS_PER_REQUEST)
        start = time.monotonic()
        with servers.barnabas(data_dir=data_dir) as server:
            return _stall(
                f"opening {PARTITIONS:,} partitions",
                server,
                5.0,
                f"serving {time.monotonic() - start:.2f} s after its start",
            )


def _recover() -> Row:
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as data_dir:
        with servers.barnabas(data_dir=data_dir) as server:
            load.create_topic(server, "big", 4)
            for partition in range(4):
                load.fill(server, frames.produce("big", partition, frames.batch(64, 1000)), RECOVER_BYTES / 4)
            assert server.process
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
        with servers.barnabas(data_dir=data_dir) as server:
            note = f"{_size(data_dir) / 2**30:.1f} GiB of log after SIGKILL"
            return _stall("recovering 10 GiB of log", server, 12.0, note)


def _size(directory: str) -> int:
    return sum(path.stat().st_size for path in Path(directory).rglob("*.log"))


def _compact() -> Row:
    flags = ["--set", "log.cleaner.backoff.ms=500", "--set", "log.cleaner.min.cleanable.ratio=0.01"]
    with servers.barnabas(*flags) as server:
        config = {"cleanup.policy": "compact", "segment.bytes": "16777216"}
        load.create_topic(server, "keyed", 1, **config)
        frame = frames.produce("keyed", 0, frames.keyed_batch(range(500), 200))
        filled = load.fill(server, frame, COMPACT_BYTES)
        return _stall("compacting", server, 8.0, f"{filled.bytes / 1e6:.0f} MB of 500 keys in segments of 16 MiB")


def rows(_peers: Peers) -> Iterator[Row]:
    """Measure our own process from outside."""
    yield from _start()
    yield _idle_connections()
    yield _open_partitions()
    yield _compact()
    yield _recover()
