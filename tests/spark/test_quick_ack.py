"""Acknowledgements of what Spark sends a worker: at once, on Spark's connections alone, and only while they live."""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
from collections.abc import Iterator

import pytest

from barnabas.spark_bridge import quick_ack

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="TCP_QUICKACK is Linux's")

WAIT_S = 30
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Both ends of a connection within the machine: Spark's, and the worker's."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        spark = socket.create_connection(listening.getsockname())
        worker, _ = listening.accept()
    with spark, worker:
        yield spark, worker


def quick(each: socket.socket) -> int:
    return each.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)


def talk(spark: socket.socket, worker: socket.socket) -> None:
    """Questions and answers, after which the kernel delays acknowledgements."""
    for _ in range(3):
        spark.sendall(b"question")
        assert worker.recv(8) == b"question"
        worker.sendall(b"answer")
        assert spark.recv(6) == b"answer"


def test_whatever_arrives_is_acknowledged_at_once(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    spark, worker = pair
    seen: queue.Queue[tuple[int, int]] = queue.Queue()
    acknowledge = quick_ack.acknowledge

    def watched(each: int) -> bool:
        before = quick(worker)
        done = acknowledge(each)
        seen.put((before, quick(worker)))
        return done

    talk(spark, worker)
    assert quick(worker) == 0, "this is what costs 40 ms"
    monkeypatch.setattr(quick_ack, "acknowledge", watched)
    watching = threading.Thread(target=quick_ack.watch, args=([worker.fileno()],), daemon=True)
    watching.start()
    assert seen.get(timeout=WAIT_S) == (0, 1)
    for _ in range(3):  # it holds for a while only
        while not seen.empty():  # one piece may wake it twice
            seen.get()
        spark.sendall(b"a piece that nobody reads yet")
        assert seen.get(timeout=WAIT_S)[1] == 1
    assert worker.recv(100).startswith(b"a piece"), "the thread takes nothing away"
    spark.close()
    watching.join(WAIT_S)
    assert not watching.is_alive()


def test_only_connections_within_the_machine_are_touched_and_each_once(pair: Pair) -> None:
    spark, worker = pair
    copies = [os.dup(worker.fileno()) for _ in range(2)]  # Spark's worker has three descriptors of one socket
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        datagrams.connect(("127.0.0.1", 9))
        left, right = socket.socketpair()
        with left, right:
            found = [socket.socket(fileno=os.dup(each)) for each in quick_ack.loopback_connections()]
        names = [each.getsockname() for each in found]
        for each in found:
            each.close()
        assert names.count(worker.getsockname()) == 1
        assert names.count(spark.getsockname()) == 1
        assert listening.getsockname() not in names
        assert datagrams.getsockname() not in names
    for copy in copies:
        os.close(copy)


def test_it_is_done_once_a_process(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[list[int]] = []
    done = threading.Event()

    def watch(descriptors: list[int]) -> None:
        begun.append(descriptors)
        done.set()

    monkeypatch.setattr(quick_ack, "watch", watch)
    monkeypatch.setattr(quick_ack, "_started", set())
    for _ in range(3):
        quick_ack.acknowledge_quickly()
    assert done.wait(WAIT_S)
    assert len(begun) == 1
    assert pair[1].fileno() in begun[0]


@pytest.mark.parametrize("why", ["nothing to watch", "another system", "sockets with a time limit"])
def test_there_may_be_nothing_to_do(pair: Pair, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    monkeypatch.setattr(quick_ack, "_started", set())
    if why == "nothing to watch":  # Unix sockets, say
        monkeypatch.setattr(quick_ack, "loopback_connections", lambda: iter(()))
    elif why == "another system":
        monkeypatch.setattr(sys, "platform", "darwin")
    else:  # a new handle of a socket would make the socket itself non-blocking
        monkeypatch.setattr(socket, "getdefaulttimeout", lambda: 5.0)
    monkeypatch.setattr(threading, "Thread", lambda *_, **__: pytest.fail("nothing is to be watched"))
    quick_ack.acknowledge_quickly()


def test_what_its_owner_closes_is_closed(pair: Pair) -> None:
    """A copy of the descriptor would keep the connection open, and whoever waits for its end would wait on."""
    spark, worker = pair
    watching = threading.Thread(target=quick_ack.watch, args=([worker.fileno()],), daemon=True)
    watching.start()
    spark.settimeout(WAIT_S)
    worker.close()
    assert spark.recv(1) == b""
    assert not quick_ack.acknowledge(spark.fileno() + 1_000_000), "a descriptor that is none any more is passed over"
