"""How long the steps of a broker's loop are, counted so that a busy machine does not matter.

A step is what the loop does between two looks at its sockets: one callback. It is charged with the CPU time of its own
thread, the collector's pauses apart, in units of a fixed piece of work that is done in the same seconds: what others do
on the machine slows both.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from barnabas.broker.host.embedded import AsyncBroker

UNIT_MS = 0.57
"""What `unit` takes on the machine of docs/SPEED.md when nothing else runs (ms)."""


class Step(NamedTuple):
    """One step of the loop: its CPU time (ns), and the callback that ran."""

    spent_ns: int
    what: str


class Meter:
    """Remembers the steps of the thread it was started on."""

    def __init__(self, broker: AsyncBroker) -> None:
        self.broker = broker
        self.thread = threading.get_ident()
        self.worst = Step(0, "nothing")
        self.pause_ns = 0
        """The collector's longest pause within a step."""
        self._pauses_ns = 0
        self._pause_began_ns = 0

    def run(self, real: Callable[[asyncio.Handle], None], handle: asyncio.Handle) -> None:
        """Run one step, and remember it if it was the longest."""
        if threading.get_ident() != self.thread:
            real(handle)
            return
        self._pauses_ns = 0
        began_ns = time.thread_time_ns()
        real(handle)
        spent_ns = time.thread_time_ns() - began_ns - self._pauses_ns
        if spent_ns > self.worst.spent_ns:
            self.worst = Step(spent_ns, repr(handle))

    def collector(self, phase: str, info: Mapping[str, int]) -> None:
        """Told by the collector of its beginnings and ends."""
        if threading.get_ident() != self.thread:
            return
        if phase == "start":
            self._pause_began_ns = time.thread_time_ns()
            return
        took_ns = time.thread_time_ns() - self._pause_began_ns
        self._pauses_ns += took_ns
        self.pause_ns = max(self.pause_ns, took_ns)

    def forget(self) -> None:
        """Begin anew."""
        self.worst = Step(0, "nothing")
        self.pause_ns = 0


def unit() -> None:
    """A fixed piece of work of the kind a broker does: small objects made, looked up and written."""
    found: dict[str, list[Any]] = {}
    pack = struct.Struct(">hiq").pack
    for number in range(2_000):
        name = f"topic-{number & 255}"
        found.setdefault(name, []).append((number, pack(number, number, number)))
    b"".join(one for many in found.values() for _, one in many)


def unit_ns() -> int:
    """What the unit takes now (ns of CPU): the least of some."""
    least = 1 << 62
    for _ in range(20):
        began_ns = time.thread_time_ns()
        unit()
        least = min(least, time.thread_time_ns() - began_ns)
    return least


@contextmanager
def metered(**options: Any) -> Iterator[tuple[int, Meter]]:
    """A broker on a thread of this process whose steps are measured: its port, and the meter."""
    loop = asyncio.new_event_loop()  # uvloop has no Python between its steps
    broker = AsyncBroker(**options)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def call(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    async def begin() -> Meter:
        await broker.start()
        return Meter(broker)

    meter = call(begin())
    real = asyncio.Handle._run
    gc.callbacks.append(meter.collector)
    try:
        with patch.object(asyncio.Handle, "_run", lambda handle: meter.run(real, handle)):
            yield broker.port, meter
    finally:
        gc.callbacks.remove(meter.collector)
        call(broker.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def exchange(sock: socket.socket, data: bytes, *, answers: int = 1) -> list[bytes] | None:
    """Send, and read so many answers whole; None where the connection was closed."""
    try:
        sock.sendall(data)
        return [_answer(sock) for _ in range(answers)]
    except ConnectionError:
        return None


def _answer(sock: socket.socket) -> bytes:
    (left,) = struct.unpack(">i", _exactly(sock, 4))
    return _exactly(sock, left)


def _exactly(sock: socket.socket, size: int) -> bytes:
    held = bytearray()
    while len(held) < size:
        piece = sock.recv(min(size - len(held), 1 << 20))
        if not piece:
            raise ConnectionResetError
        held += piece
    return bytes(held)
