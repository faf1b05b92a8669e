"""A real process under siege: what it takes at its peak, whether others are answered, and what is left afterwards.

Memory is what Linux says of the process (`VmRSS`, `VmHWM`). A bystander asks for ApiVersions all the while: every
answer must come within 200 ms of the broker's own time (`bystander.py` says which that is). Ten seconds after the
attacker left memory and account must be as they were, by the clock of `broker_s`.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.account import BROKER
from barnabas.broker.host.receive import POOL_BYTES_MAX
from barnabas.cli.look import get
from tests.broker.host import bystander
from tests.broker.host.fake_core import api_versions_request
from tests.cli.process import Process, broker
from tests.measured import TooMuch

pytestmark = [
    pytest.mark.slow,
    pytest.mark.measured,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]

MB = 1_000_000
PEAK_BYTES_MAX = 400 * MB
LEFT_BYTES_MAX = 150 * MB
LEFT_S_MAX = 10.0
ANSWER_S_MAX = 0.2
"""Five to twenty times what is usual: 8 to 46 ms over all sieges while six others load two processors. Before each was
mended it was 0.3 s to minutes. As for the memory, a test in which it is more is played three times (`measured`)."""


def memory(process: Process, what: str) -> int:
    """VmRSS or VmHWM of the process (bytes)."""
    for line in Path(f"/proc/{process.popen.pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(what)


class Bystander:
    """A process that asks for ApiVersions over and over."""

    def __init__(self, process: Process) -> None:
        request = api_versions_request(1).hex()
        self._popen = subprocess.Popen(
            [sys.executable, bystander.__file__, str(process.port), str(process.popen.pid), request],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._popen.stdout is not None
        assert self._popen.stdout.readline(), "the bystander was not answered"

    def __enter__(self) -> Bystander:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._popen.returncode is None:
            self._popen.kill()
            self._popen.communicate()

    def end(self) -> tuple[float, float]:
        """How long an answer took at most (s): what of that was the broker's, and all of it."""
        told, _ = self._popen.communicate("over\n", 60)
        assert told, "the bystander was not answered"
        worst_s, most_s, count = map(float, told.split())
        assert count > 1
        return worst_s, most_s


@contextmanager
def siege(
    *options: str, data_dir: Path | None = None, kept: Path | None = None, inside: Sequence[str] = ()
) -> Iterator[Process]:
    """A broker to be attacked in the body; what must hold is looked at when it is over.

    It keeps its data in memory, unless a directory is given to have its own in, or one that is `kept` for the next;
    `inside` is a command that runs it.

    Raises:
        TooMuch: it took more memory or time than it may.
    """
    own = kept if data_dir is None else tempfile.mkdtemp(dir=data_dir)
    where = ("--memory",) if own is None else ("--data-dir", str(own))
    with broker("--port", "0", *where, *options, inside=inside) as process, Bystander(process) as onlooker:
        idle = memory(process, "VmRSS")
        assert is_idle(process)
        yield process
        left_s = broker_s(process)
        peak = memory(process, "VmHWM") - idle
        if peak > PEAK_BYTES_MAX:
            raise TooMuch(f"{peak // MB} MB above idle")
        idle_s = soon(process, lambda: is_idle(process), left_s)
        small_s = soon(process, lambda: memory(process, "VmRSS") - idle <= LEFT_BYTES_MAX, left_s)
        worst_s, most_s = onlooker.end()
        measured = f"{peak / MB:.0f} MB at the peak, slowest answer {worst_s * 1e3:.0f} ms of {most_s * 1e3:.0f}"
        print(f"siege: {measured}; idle after {idle_s:.1f} s, its memory after {small_s:.1f}")
        assert process.end() == 0
        assert sum(map(len, process.errors)) < 200_000
        if worst_s > ANSWER_S_MAX:
            raise TooMuch(measured)


def state(process: Process) -> dict[str, Any]:
    """What the broker says of its account."""
    found: dict[str, Any] = json.loads(get(f"127.0.0.1:{process.port}", "/state", 30.0)[1])["memory"]
    return found


def is_idle(process: Process) -> bool:
    """Whether no connection holds anything; the broker itself keeps buffers for whoever comes next."""
    page = state(process)
    holders = {one["connection"] for one in page["largest"]}
    return holders <= {BROKER} and page["held_bytes"] <= POOL_BYTES_MAX


def broker_s(process: Process) -> float:
    """A clock (s) that stands while the broker's loop could run and others on the machine have the processors.

    Of no other thread, so that it never stands for longer than there was time.
    """
    return time.monotonic() - bystander.threads(process.popen.pid)[process.popen.pid].waited_s


def soon(process: Process, condition: Callable[[], bool], since_s: float | None = None) -> float:
    """It must hold ten seconds after `since_s` (from now on) by the broker's clock; how long that took (s).

    Whoever looks late, and finds it so, has no fault to tell.
    """
    began_s = broker_s(process) if since_s is None else since_s
    while True:
        took_s = broker_s(process) - began_s
        if condition():
            return took_s
        if took_s >= LEFT_S_MAX:
            raise TooMuch(f"not so {took_s:.1f} s later: {memory(process, 'VmRSS') // MB} MB, {state(process)}")
        time.sleep(0.05)


def connect(stack: ExitStack, port: int) -> socket.socket:
    sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
    sock.setblocking(False)
    return sock


def push(socks: list[socket.socket], piece: bytes, size: int, seconds: float) -> int:
    """Send up to `size` bytes over each of them, as fast as they are taken, for so long; the bytes sent in all."""
    sent = dict.fromkeys(socks, 0)
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s and sent:
        before = sum(sent.values())
        for sock in list(sent):
            try:
                sent[sock] += sock.send(piece[: size - sent[sock]])
            except BlockingIOError:
                continue
            except OSError:  # ended by the broker
                del sent[sock]
        if sum(sent.values()) == before:
            time.sleep(0.001)  # the processors are the broker's and the bystander's
    return sum(sent.values())


def test_frames_that_never_end() -> None:
    with siege() as process, ExitStack() as stack:
        socks = [connect(stack, process.port) for _ in range(43)]
        for sock in socks:
            sock.send(struct.pack(">ihhih", 100 * MB, 0, 3, 1, -1))
        push(socks, bytes(MB), 70 * MB, 3)
        soon(process, lambda: bool(state(process)["waiting"] > 20))


def test_pages_that_nobody_reads() -> None:
    with siege("--topic", "t:3000") as process, ExitStack() as stack:
        for _ in range(300):
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", process.port))
            with suppress(ConnectionError):
                sock.send(b"GET /state HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(1)


def test_answers_that_nobody_reads() -> None:
    """Metadata of everything, pipelined: a small request with a large answer."""
    request = struct.pack(">hhih", 3, 1, 7, -1) + struct.pack(">i", -1)
    request = struct.pack(">i", len(request)) + request
    with siege("--topic", "t:200") as process, ExitStack() as stack:
        push([connect(stack, process.port) for _ in range(100)], request * 1000, len(request) * 1000, 3)


def test_frames_begun_behind_answers_that_nobody_reads() -> None:
    """2,000 of them took 660 MB, stopped everybody for minutes, turn after turn, and left 167 MiB in the account."""
    request = struct.pack(">hhih", 3, 1, 7, -1) + struct.pack(">i", -1)
    begun = struct.pack(">i", len(request)) + request + struct.pack(">i", 100 * MB) + bytes(88_000)
    with siege("--topic", "t:1000") as process, ExitStack() as stack:
        for _ in range(300):
            sock = connect(stack, process.port)
            with suppress(OSError):
                sock.send(begun)
        soon(process, lambda: bool(state(process)["waiting"] > 20))


def test_a_flood_of_connections() -> None:
    with siege() as process:
        until_s = time.monotonic() + 3
        while time.monotonic() < until_s:
            with suppress(OSError), socket.create_connection(("127.0.0.1", process.port), 5) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.send(b"\xff\xff\xff\xff")
