"""What a bystander tells of a broker: each stall of its loop, however busy the machine is, and no more than that."""

from __future__ import annotations

import socket
import sys

import pytest

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.metadata import MetadataRequest
from tests.broker.host.bystander import Thread, brokers_s, since
from tests.broker.host.test_siege import ANSWER_S_MAX, TOPIC, Bystander
from tests.cli.process import broker
from tests.hostile.meter import exchange
from tests.measured import TooMuch

IDLE = Thread(0.0, 0.0)
STALL_S = 0.3


@pytest.mark.parametrize(
    ("took_s", "own", "loop", "others", "told_s"),
    [
        (0.010, IDLE, Thread(0.009, 0), [IDLE], 0.010),
        (0.500, Thread(0, 0.490), Thread(0.005, 0), [], 0.010),
        (0.500, IDLE, Thread(0.010, 0.480), [], 0.020),
        (0.500, IDLE, Thread(0.010, 0.200), [Thread(0.1, 0.280)], 0.020),
        (0.310, IDLE, Thread(0.300, 0), [Thread(0.3, 0.310)], 0.300),
        (0.900, IDLE, Thread(0.300, 0.590), [Thread(0.1, 0.8)] * 4, 0.300),
        (0.310, IDLE, Thread(0.001, 0.005), [Thread(0.1, 0.05)] * 4, 0.255),
        (0.500, Thread(0, 0.490), Thread(0.400, 0), [], 0.010),
    ],
    ids=[
        "all of it was the broker's",
        "the bystander had no processor",
        "the loop had none",
        "and who held its lock had none either",
        "the loop computed",
        "it computed on a busy machine",
        "it slept while four threads waited",
        "it worked for others while the bystander had no processor",
    ],
)
def test_what_is_the_brokers(took_s: float, own: Thread, loop: Thread, others: list[Thread], told_s: float) -> None:
    assert brokers_s(took_s, own, loop, others) == pytest.approx(told_s)


def test_a_thread_that_begins_meanwhile_has_done_all_of_it_meanwhile() -> None:
    found = since({1: Thread(5, 1)}, {1: Thread(6, 1.5), 2: Thread(2, 3)})
    assert found == {1: Thread(1, 0.5), 2: Thread(2, 3)}


PLANTED = """
import os, sys, threading, time, zlib
from barnabas.broker.__main__ import main
from barnabas.broker.handlers import metadata
how, stall_s, real = sys.argv[1], float(sys.argv[2]), metadata.handle
def packs(data=os.urandom(1 << 20)):  # without the interpreter's lock, as large batches are
    until_s = time.monotonic() + 3 * stall_s
    while stalls or time.monotonic() < until_s:
        zlib.compress(data)
def handle(*arguments):
    global stalls
    if how == "sleeps":
        time.sleep(stall_s)
        return real(*arguments)
    stalls = how == "computes"
    for _ in range(2 * len(os.sched_getaffinity(0))):
        threading.Thread(target=packs).start()
    until_s = time.thread_time() + stall_s
    while stalls:
        stalls = time.thread_time() < until_s
    return real(*arguments)
metadata.handle = handle
sys.exit(main(sys.argv[6:]))
"""
"""`python -c PLANTED HOW SECONDS python -m barnabas.broker OPTIONS`: a broker whose loop stalls at each Metadata,
asleep or computing, or that only has more threads at work then than there are processors."""


@pytest.mark.slow
@pytest.mark.measured
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are looked at in /proc")
@pytest.mark.parametrize(("how", "is_told"), [("computes", True), ("sleeps", True), ("packs", False)])
def test_a_stall_of_the_loop_is_told_and_its_waits_for_a_processor_are_not(how: str, is_told: bool) -> None:
    request = b"".join(bytes(one) for one in codec.encode_request(ApiKey.METADATA, 9, 1, "", MetadataRequest(None)))
    inside = (sys.executable, "-c", PLANTED, how, str(STALL_S))
    with (
        broker("--port", "0", "--memory", "--topic", f"{TOPIC}:1", inside=inside) as process,
        Bystander(process) as onlooker,
    ):
        with socket.create_connection(("127.0.0.1", process.port), 60) as sock:
            assert exchange(sock, request) is not None
        told = onlooker.end()
    worst_s, most_s = max(one.worst_s for one in told.values()), max(one.most_s for one in told.values())
    print(f"{how}: {worst_s * 1e3:.0f} ms of {most_s * 1e3:.0f}")
    if is_told:
        assert worst_s > ANSWER_S_MAX
    elif worst_s > ANSWER_S_MAX:
        raise TooMuch(f"{worst_s:.3f} s")
