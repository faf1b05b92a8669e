"""A real process under siege: what it takes at its peak, whether others are answered, and what is left afterwards.

Memory is what Linux says of the process (`VmRSS`, `VmHWM`). A bystander asks for ApiVersions all the while, on an old
connection and on a new one, produces to a topic of its own and fetches from it: every answer must be without an
error, and come within 200 ms of the broker's own time (`bystander.py` says which that is). Ten seconds after the
attacker left memory and account must be as they were, by the clock of `broker_s`.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.broker.account import BROKER
from barnabas.broker.host.receive import POOL_BYTES_MAX
from barnabas.cli.look import get
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.host import bystander
from tests.broker.host.fake_core import api_versions_request
from tests.broker.node.world import batch
from tests.cli.process import Process, broker
from tests.hostile.meter import UNIT_MS, unit_ns
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
LOG_BYTES_MAX = 200_000
ANSWER_S_MAX = 0.2
"""Five to twenty times what is usual: 8 to 46 ms over all sieges while six others load two processors. Before each was
mended it was 0.3 s to minutes. As for the memory, a test in which it is more is played three times (`measured`). On a
machine that is slower than that of docs/SPEED.md, at this moment by the measure of `meter.unit`, it is so much more."""


def is_late(worst_s: float) -> bool:
    """Whether the slowest answer took more of the broker's time than it may, on a machine as fast as this one now."""
    return worst_s > ANSWER_S_MAX and worst_s > ANSWER_S_MAX * unit_ns() / 1e6 / UNIT_MS


def memory(process: Process, what: str) -> int:
    """VmRSS or VmHWM of the process (bytes)."""
    for line in Path(f"/proc/{process.popen.pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(what)


TOPIC = "bystander"
"""The bystander's own."""
# correlation id i32 | topics i32 = 1 | name | partitions i32 = 1 | index i32 | error i16
PRODUCED_AT = 4 + 4 + 2 + len(TOPIC) + 4 + 4
# correlation id i32 | throttle i32 | error i16 | session i32 | topics i32 = 1 | name | partitions i32 = 1 | index i32
# | error i16
FETCHED_AT = 4 + 4 + 2 + 4 + 4 + 2 + len(TOPIC) + 4 + 4


def asked() -> dict[str, str]:
    """What a bystander asks for in turn: by what it is called, the request, and where its answer has an error."""
    data = [PartitionProduceData(0, memoryview(batch(b"v", keys=[b"k"], at_ms=time.time_ns() // 10**6)))]
    produce = ProduceRequest(None, 1, 30_000, [TopicProduceData(TOPIC, partition_data=data)])
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(TOPIC, partitions=[FetchPartition(0)])])
    fetch.topics[0].partitions[0].partition_max_bytes = 1000
    return {
        "ApiVersions": f"{api_versions_request(1).hex()}:0",
        "Produce": f"{_frame(ApiKey.PRODUCE, 8, produce)}:{PRODUCED_AT}",
        "Fetch": f"{_frame(ApiKey.FETCH, 11, fetch)}:{FETCHED_AT}",
    }


def _frame(key: int, version: int, request: Any) -> str:
    return b"".join(bytes(one) for one in codec.encode_request(key, version, 1, "bystander", request)).hex()


VERSIONS = ("ApiVersions", "newcomer")
EVERYTHING = (*VERSIONS, "Produce", "Fetch")


def make_topic(process: Process) -> None:
    """Make the bystander's topic, apart from those of the test: all that a start makes may be too many for one more."""
    request = bytes.fromhex(_frame(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)], 60_000)))
    with socket.create_connection(("127.0.0.1", process.port), 60) as sock:
        bystander.ask(sock, request, 0)


class Told(NamedTuple):
    """What a bystander tells of one kind: the broker's time and the whole at most (s), and how many were answered."""

    worst_s: float
    most_s: float
    times: int


class Bystander:
    """A process that asks for ApiVersions, produces and fetches over and over, and as a newcomer, too."""

    def __init__(
        self, process: Process, *, newcomers: bool = True, records: bool = True, every_s: float = 0.01
    ) -> None:
        words = [f"{name}={word}" for name, word in asked().items() if records or name == "ApiVersions"]
        options = ["--newcomers"] if newcomers else []
        self._popen = subprocess.Popen(
            [
                sys.executable,
                bystander.__file__,
                str(process.port),
                str(process.popen.pid),
                str(every_s),
                *options,
                *words,
            ],
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

    def end(self) -> dict[str, Told]:
        """How long answers took, by what was asked for."""
        told, _ = self._popen.communicate("over\n", 60)
        assert told, "the bystander was not answered"
        found = {}
        for line in told.splitlines():
            name, worst_s, most_s, count = line.split()
            found[name] = Told(float(worst_s), float(most_s), int(count))
            assert found[name].times > 1, line
        return found


@contextmanager
def siege(
    *options: str,
    data_dir: Path | None = None,
    kept: Path | None = None,
    inside: Sequence[str] = (),
    newcomers: bool = True,
    prepare: Callable[[Process], None] = lambda process: None,
    held: Collection[str] = EVERYTHING,
    log_bytes: int = LOG_BYTES_MAX,
    every_s: float = 0.01,
) -> Iterator[Process]:
    """A broker to be attacked in the body; what must hold is looked at when it is over.

    It keeps its data in memory, unless a directory is given to have its own in, or one that is `kept` for the next;
    `inside` is a command that runs it. Where one is kept its start is looked at, before records can be asked for.
    `prepare` makes what is no part of the attack. Without `newcomers` the bystander keeps to its first connection.
    `held` is what of its answers has to come in time; all have to come.

    Raises:
        TooMuch: it took more memory or time than it may.
    """
    own = kept if data_dir is None else tempfile.mkdtemp(dir=data_dir)
    where = ("--memory",) if own is None else ("--data-dir", str(own))
    with ExitStack() as stack:
        process = stack.enter_context(broker("--port", "0", *where, *options, inside=inside))
        records = kept is None
        if records:
            make_topic(process)
        prepare(process)
        onlooker = stack.enter_context(Bystander(process, newcomers=newcomers, records=records, every_s=every_s))
        idle = memory(process, "VmRSS")
        assert is_idle(process)
        yield process
        left_s = broker_s(process)
        peak = memory(process, "VmHWM") - idle
        if peak > PEAK_BYTES_MAX:
            raise TooMuch(f"{peak // MB} MB above idle")
        idle_s = soon(process, lambda: is_idle(process), left_s)
        small_s = soon(process, lambda: memory(process, "VmRSS") - idle <= LEFT_BYTES_MAX, left_s)
        answers = onlooker.end()
        slowest = ", ".join(
            f"{name} {one.worst_s * 1e3:.0f} ms of {one.most_s * 1e3:.0f}" for name, one in answers.items()
        )
        measured = f"{peak / MB:.0f} MB at the peak, slowest answers: {slowest}"
        print(f"siege: {measured}; idle after {idle_s:.1f} s, its memory after {small_s:.1f}")
        assert process.end() == 0
        assert sum(map(len, process.errors)) < log_bytes
        if is_late(max(one.worst_s for name, one in answers.items() if name in held)):
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


def connect(stack: ExitStack, port: int, received: int | None = None) -> socket.socket:
    """`received`: the bytes that the system takes for one who does not read; without it they may be all of 33 MB."""
    sock = stack.enter_context(socket.socket())
    if received is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, received)
    sock.settimeout(60)
    sock.connect(("127.0.0.1", port))
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


FLOOD_RATE = 100
FLOOD = 3_000
"""Connections: six times what one address may open at once."""


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
            sock = connect(stack, process.port, 4096)
            with suppress(OSError):
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
    begun = (struct.pack(">i", len(request)) + request) * 6 + struct.pack(">i", 8 * MB)
    own = ("socket.send.buffer.bytes=16384",)  # or the system takes the answers, up to 4 MB of each
    small = ("socket.request.max.bytes=8388608", "queued.max.request.bytes=25165824")
    options = [word for each in own + small for word in ("--set", each)]
    with siege("--topic", "t:2000", *options) as process, ExitStack() as stack:
        socks = [connect(stack, process.port, 4096) for _ in range(300)]
        for sock in socks:
            with suppress(OSError):
                sock.send(begun + bytes(88_000))
        push(socks, bytes(MB // 4), MB, 1)
        soon(process, lambda: (told := state(process))["by_kind"]["unread"] > 5 * MB and told["ended"] > 20)


def test_a_flood_of_connections() -> None:
    """Of what one address opens it has ten seconds' worth at once; all else is refused, and it is let in afterwards."""
    with siege("--set", f"max.connection.creation.rate={FLOOD_RATE}", newcomers=False) as process:
        opened = 0
        while opened < FLOOD:
            with suppress(OSError), socket.create_connection(("127.0.0.1", process.port), 5) as sock:
                opened += 1
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.send(b"\xff\xff\xff\xff")
        soon(process, lambda: refused(process) is not None)
        told = refused(process)
        assert told is not None
        assert FLOOD // 2 < told < FLOOD, "those that were reset before they came in are not told"


def refused(process: Process) -> int | None:
    """How many connections the broker says were one too many; None: this is one of them."""
    try:
        page = get(f"127.0.0.1:{process.port}", "/metrics")[1]
    except BarnabasError:
        return None
    found = re.search(r"connection_refused_total(?:{[^}]*})? (\d+)", page)
    assert found is not None
    return int(found[1])
