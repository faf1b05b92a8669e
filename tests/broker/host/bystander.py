"""A process of its own that asks a broker for ApiVersions over and over, and tells how long an answer took at most.

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
from typing import NamedTuple


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


def ask(sock: socket.socket, request: bytes, pid: int) -> tuple[float, float]:
    """Ask once: what of it was the broker's, and what it took in all (s)."""
    before = threads(pid), threads(os.getpid())
    began_s = time.monotonic()
    sock.sendall(request)
    exactly(sock, int.from_bytes(exactly(sock, 4), "big"))
    took_s = time.monotonic() - began_s
    broker, own = since(before[0], threads(pid)), since(before[1], threads(os.getpid()))
    loop = broker.pop(pid)
    return brokers_s(took_s, own[os.getpid()], loop, list(broker.values())), took_s


def exactly(sock: socket.socket, size: int) -> bytes:
    """So many bytes."""
    held = b""
    while len(held) < size:
        piece = sock.recv(size - len(held))
        assert piece, "the connection was closed"
        held += piece
    return held


def main(port: int, pid: int, request: bytes) -> None:
    """Ask until a line is said, and tell the largest of both, and how many were answered."""
    with socket.create_connection(("127.0.0.1", port), 60) as sock:
        asked = [ask(sock, request, pid)]
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], 0.01)[0]:
            asked.append(ask(sock, request, pid))
        asked.append(ask(sock, request, pid))
    print(max(one for one, _ in asked), max(most for _, most in asked), len(asked))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), bytes.fromhex(sys.argv[3]))
