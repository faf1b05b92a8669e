"""A process of its own that asks a broker for a few things over and over, and tells how long an answer took at most.

Each of them is asked for in turn on one connection; then the first as a newcomer, whose time begins before it connects.

What others on the machine took is not the broker's. Linux tells of each thread for how long it ran, and for how long it
could have run and had no processor (`/proc/PID/task/TID/schedstat`); from what an answer took is taken off

    own      the bystander's waits: it sleeps while the broker works, so none of them lies within the broker's time
    loop     the waits of the broker's loop
    others   of its other threads those of the one that waited longest: who holds the interpreter's lock and has no
             processor keeps the loop waiting. Never their sum: four threads that wait at the same time wait once

and never so much that less is left than the loop has run for: that it would have taken on an idle machine, too. So
what the loop computes is told in full, however busy the machine is; what it sleeps through (a file, a lock) is told
but for the waits of one other thread.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

READY_S_MAX = 300.0


class Thread(NamedTuple):
    """For how long a thread ran, and for how long it waited for a processor (s)."""

    ran_s: float
    waited_s: float


def brokers_s(took_s: float, own: Thread, loop: Thread, others: list[Thread]) -> float:
    """What of an answer's time was the broker's; threads as they ran and waited meanwhile."""
    answer_s = max(took_s - own.waited_s, 0.0)
    lost_s = loop.waited_s + max((other.waited_s for other in others), default=0.0)
    return max(answer_s - lost_s, min(loop.ran_s, answer_s))


def threads(pid: int) -> dict[int, Thread]:
    """All threads of a process, by id; the first has the process' own."""
    found = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                ran_ns, waited_ns, _ = map(int, file.read().split())
        except OSError:  # it has ended
            continue
        found[int(thread)] = Thread(ran_ns / 1e9, waited_ns / 1e9)
    return found


def since(before: dict[int, Thread], now: dict[int, Thread]) -> dict[int, Thread]:
    """What threads have done since then."""
    new = Thread(0.0, 0.0)
    then = {thread: before.get(thread, new) for thread in now}
    return {
        thread: Thread(at.ran_s - then[thread].ran_s, at.waited_s - then[thread].waited_s) for thread, at in now.items()
    }


class Slowest:
    """The slowest answers of one kind: what of it was the broker's, and what it took in all (s)."""

    def __init__(self) -> None:
        self.worst_s = self.most_s = 0.0
        self.count = 0

    def add(self, worst_s: float, took_s: float) -> None:
        """One more answer."""
        self.worst_s, self.most_s = max(self.worst_s, worst_s), max(self.most_s, took_s)
        self.count += 1


def timed(pid: int, ask: Callable[[], None]) -> tuple[float, float]:
    """Ask once: what of it was the broker's, and what it took in all (s)."""
    before = threads(pid), threads(os.getpid())
    began_s = time.monotonic()
    ask()
    took_s = time.monotonic() - began_s
    broker, own = since(before[0], threads(pid)), since(before[1], threads(os.getpid()))
    loop = broker.pop(pid)
    return brokers_s(took_s, own[os.getpid()], loop, list(broker.values())), took_s


def until_served(kind: Callable[[], None]) -> None:
    """Ask until there is no error: its topic may be one of many that are being made."""
    until_s = time.monotonic() + READY_S_MAX
    while True:
        try:
            return kind()
        except AssertionError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.05)


def ask(sock: socket.socket, request: bytes, error_at: int) -> None:
    """Send a request, and read its answer, which must have no error at `error_at` (0: it is not looked at)."""
    sock.sendall(request)
    told = exactly(sock, int.from_bytes(exactly(sock, 4), "big"))
    error = int.from_bytes(told[error_at : error_at + 2], "big", signed=True) if error_at else 0
    assert error == 0, f"error {error}"


def ask_anew(port: int, request: bytes, error_at: int) -> None:
    """The same on a connection that is opened for it."""
    with socket.create_connection(("127.0.0.1", port), 60) as sock:
        ask(sock, request, error_at)


def exactly(sock: socket.socket, size: int) -> bytes:
    """So many bytes."""
    held = b""
    while len(held) < size:
        piece = sock.recv(size - len(held))
        assert piece, "the connection was closed"
        held += piece
    return held


def main(port: int, pid: int, every_s: float, words: list[str]) -> None:
    """Ask until a line is said, and tell of each kind the largest of both, and how many were answered."""
    asked: dict[str, tuple[bytes, int]] = {}
    for word in words:
        name, _, said = word.partition("=")
        if said:
            request, _, error_at = said.partition(":")
            asked[name] = bytes.fromhex(request), int(error_at)
    with socket.create_connection(("127.0.0.1", port), 60) as sock:
        kinds = {name: partial(ask, sock, *what) for name, what in asked.items()}
        if "--newcomers" in words:
            kinds["newcomer"] = partial(ask_anew, port, *next(iter(asked.values())))
        slowest = {name: Slowest() for name in kinds}
        for kind in kinds.values():
            until_served(kind)
        print("ready", flush=True)
        is_over = False
        while not is_over:
            for name, kind in kinds.items():
                slowest[name].add(*timed(pid, kind))
                is_over = bool(select.select([sys.stdin], [], [], every_s)[0])
        for name, kind in kinds.items():
            slowest[name].add(*timed(pid, kind))
    for name, one in slowest.items():
        print(name, one.worst_s, one.most_s, one.count)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:])
