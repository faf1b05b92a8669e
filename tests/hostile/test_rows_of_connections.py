"""Who connects, waits, dribbles, locks out or looks in from a web page: as `test_rows`, against a real process."""

from __future__ import annotations

import socket
import struct
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.requests.metadata import MetadataRequest
from tests.broker.host.test_siege import (
    LEFT_BYTES_MAX,
    PEAK_BYTES_MAX,
    Bystander,
    broker_s,
    is_idle,
    is_late,
    memory,
    siege,
    soon,
)
from tests.cli.process import Process, broker
from tests.hostile.meter import exchange
from tests.hostile.test_rows import Peer, frame
from tests.measured import TooMuch
from tests.oracle.kafka import free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.measured,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]


@pytest.mark.parametrize("version", [11, 15])
def test_whoever_says_it_is_a_replica_has_no_privileges(version: int) -> None:
    """Any replica id took the sessions of brokers, 3 GB, kept, until now. A consumer is served all the while."""
    topics = [FetchTopic("wide", partitions=[FetchPartition(at) for at in range(1_000)])]
    honest = frame(
        ApiKey.FETCH, 11, FetchRequest(session_epoch=0, topics=[FetchTopic("t", partitions=[FetchPartition(0)])])
    )
    with siege("--topic", "t:1", "--topic", "wide:1000") as process, ExitStack() as stack:
        for number in range(150):
            said = FetchRequest(session_epoch=0, topics=topics, max_wait_ms=0)
            if version >= 15:
                said.replica_state = ReplicaState(number + 5, 0)
            else:
                said.replica_id = number + 5
            Peer(stack, process.port).ask(frame(ApiKey.FETCH, version, said))
            told = Peer(stack, process.port).ask(honest) if number % 50 == 0 else b""
            assert told is not None
            assert not told or codec.decode_response(ApiKey.FETCH, 11, told)[1].error_code == 0


@pytest.mark.parametrize("name", ["max.connections", "max.connections.per.ip", "max.connection.creation.rate"])
def test_nobody_is_locked_out(name: str) -> None:
    """`max.connections=0` by any client: nobody got in again, after a restart neither, until now."""
    with siege() as process, ExitStack() as stack:
        for resource in ("1", ""):
            request = IncrementalAlterConfigsRequest(
                [AlterConfigsResource(4, resource, [AlterableConfig(name, 0, "0")])]
            )
            told = Peer(stack, process.port).ask(frame(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request))
            assert told is not None
            (answer,) = codec.decode_response(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, told)[1].responses
            assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert Peer(stack, process.port).ask(frame(ApiKey.METADATA, 9, MetadataRequest(None))) is not None


@pytest.mark.parametrize("path", ["/state", "/metrics", "/health", "/"])
def test_pages_are_told_to_no_web_page(path: str) -> None:
    """Names were readable from any page in a browser until now."""
    with siege("--topic", "secret:1") as process:
        for head in ("Host: evil.example", "Host: localhost\r\nOrigin: http://evil.example"):
            for _ in range(50):
                said = page(process.port, f"GET {path} HTTP/1.1\r\n{head}\r\n\r\n".encode())
                assert said.split(b" ", 2)[1] in (b"421", b"403")
                assert b"secret" not in said
                assert b"Access-Control" not in said


def page(port: int, request: bytes) -> bytes:
    """All that is answered."""
    with socket.create_connection(("127.0.0.1", port), 60) as sock:
        sock.sendall(request)
        said = bytearray()
        with suppress(ConnectionError):
            while piece := sock.recv(65536):
                said += piece
    return bytes(said)


def test_one_byte_a_second() -> None:
    """Never idle until now: the first bytes, an HTTP head and the rest of a frame must move on."""
    begun = (b"", b"GET /state HTTP/1.1\r\nX: ", b"BNB1", struct.pack(">ihhih", 1_000_000, 0, 3, 1, -1))
    with siege("--set", "barnabas.connection.progress.ms=2000") as process, ExitStack() as stack:
        peers = [stack.enter_context(socket.create_connection(("127.0.0.1", process.port), 60)) for _ in range(80)]
        for number, sock in enumerate(peers):
            sock.sendall(begun[number % 4])
            sock.setblocking(False)
        until_s = time.monotonic() + 60
        while peers:
            assert time.monotonic() < until_s, f"{len(peers)} are still there"
            peers = [sock for sock in peers if dribbles(sock)]
            time.sleep(1)


def dribbles(sock: socket.socket) -> bool:
    """Send one byte more; whether the connection is still there."""
    try:
        sock.send(b"G")
        return sock.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_a_fetch_that_would_wait_for_ever() -> None:
    """For 24 days, and never idle, until now."""
    request = FetchRequest(
        max_wait_ms=2**31 - 1, min_bytes=2**31 - 1, topics=[FetchTopic("t", partitions=[FetchPartition(0)])]
    )
    with siege("--topic", "t:1", "--set", "barnabas.fetch.max.wait.ms=1000") as process, ExitStack() as stack:
        peers = [Peer(stack, process.port) for _ in range(100)]
        for peer in peers:
            peer.say(frame(ApiKey.FETCH, 11, request))
        for peer in peers:
            assert exchange(peer.sock, b"") is not None


PARTITIONS = 4_000
FLOOD = 500
"""Requests of 19,000 partitions each. Without a bound there were the more of them, the slower the machine is."""


class Flood:
    """A thread that opens connections to a port as soon as somebody listens there, each with one request."""

    def __init__(self, port: int, request: bytes) -> None:
        self._address = ("127.0.0.1", port)
        self._request = request
        self._over = False
        self.sent = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with ExitStack() as stack:
            while not self._over and self.sent < FLOOD:
                try:
                    sock = stack.enter_context(socket.create_connection(self._address, 5))
                    sock.sendall(self._request)
                    self.sent += 1
                except OSError:
                    time.sleep(0.01)

    def end(self) -> None:
        """Close them all."""
        self._over = True
        self._thread.join(20)


WITH_ITS_PID = ("bash", "-c", 'echo $$ > "$0"; exec "$@"')
"""A command that runs another, and says first who that will be."""


def watched_from_the_start(port: int, pid: Path) -> Bystander:
    """A bystander as soon as somebody listens: the banner comes when the logs are recovered."""
    until_s = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            break
        except OSError:
            assert time.monotonic() < until_s, "nobody listens"
            time.sleep(0.01)
    process = SimpleNamespace(port=port, popen=SimpleNamespace(pid=int(pid.read_text())))
    return Bystander(cast("Process", process), records=False)


def test_requests_that_are_held_while_logs_are_recovered(tmp_path: Path) -> None:
    """2 GB in 4 s until now."""
    pid = tmp_path / "pid"
    tmp_path = Path(tempfile.mkdtemp(dir=tmp_path))
    with broker("--port", "0", "--data-dir", str(tmp_path)) as process, ExitStack() as stack:
        new = CreateTopicsRequest([CreatableTopic("t", PARTITIONS, 1)], 60_000)
        assert Peer(stack, process.port).ask(frame(ApiKey.CREATE_TOPICS, 7, new)) is not None
        made, moved_s = 0, time.monotonic()
        while made < PARTITIONS:  # as long as it takes: a disk that others write to makes a hundred in a second
            time.sleep(0.2)
            now = len(list(tmp_path.glob("t-*")))
            if now > made:
                made, moved_s = now, time.monotonic()
            assert time.monotonic() < moved_s + 30, f"nothing is made any more, after {made}"
        process.end(9)
    with broker("--port", "0", "--data-dir", str(tmp_path)) as process:  # what such a start takes without a flood
        idle = memory(process, "VmRSS")
        process.end(9)
    port = free_port()  # of those that no connection goes out from: one that asks for its own port is let in by itself
    topics = [FetchTopic("t", partitions=[FetchPartition(at) for at in range(19_000)])]
    request = frame(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=60_000, min_bytes=10**6, topics=topics))
    flood = Flood(port, request)
    onlooker = ThreadPoolExecutor(1).submit(watched_from_the_start, port, pid)
    inside = (*WITH_ITS_PID, str(pid))
    try:
        with broker("--port", str(port), "--data-dir", str(tmp_path), inside=inside) as process, ExitStack() as stack:
            assert onlooker.done(), "the start was too fast"
            bystander = stack.enter_context(onlooker.result())
            flood.end()
            assert flood.sent > 20, "the start was too fast"
            peak = memory(process, "VmHWM") - idle
            left_s = broker_s(process)
            idle_s = soon(process, lambda: is_idle(process), left_s)
            small_s = soon(process, lambda: memory(process, "VmRSS") - idle <= LEFT_BYTES_MAX, left_s)
            answers = bystander.end()
            slowest = ", ".join(f"{name} {one.worst_s * 1e3:.0f} ms" for name, one in answers.items())
            measured = f"{flood.sent} requests, {peak // 10**6} MB at the peak, slowest answers: {slowest}"
            print(f"recovering: {measured}; idle after {idle_s:.1f} s, its memory after {small_s:.1f}")
            if peak > PEAK_BYTES_MAX or is_late(max(one.worst_s for one in answers.values())):
                raise TooMuch(measured)
    finally:
        flood.end()
