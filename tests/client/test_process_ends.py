"""Programs that end: by an exception, without a close, in the child of a fork. Each is a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from barnabas import Admin, Broker, Consumer, Producer, aio

WAIT = 60
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=False)


def values(broker: Broker, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    with Consumer(topic, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        while len(found) < count and (records := consumer.poll(60)):
            found += [record.value for record in records]
    return found


def test_an_exception_delivers_what_was_handed_over(broker: Broker) -> None:
    futures = []
    with (
        suppress(ZeroDivisionError),
        Producer(broker.bootstrap_servers, linger_ms=60_000, delivery_timeout_ms=120_000) as producer,
    ):
        futures += [producer.send("raised", b"%d" % number) for number in range(10)]
        raise ZeroDivisionError
    assert [future.result(0).offset for future in futures] == list(range(10))


async def test_an_exception_among_coroutines_delivers_too(broker: Broker) -> None:
    futures = []
    with suppress(ZeroDivisionError):
        async with aio.Producer(broker.bootstrap_servers, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
            futures.append(await producer.send("raised-among-coroutines", b"x"))
            raise ZeroDivisionError
    assert [future.result().offset for future in futures] == [0]


def test_a_program_that_ends_without_a_close_delivers(broker: Broker) -> None:
    program = """
import sys
from barnabas import Producer
producer = Producer(sys.argv[1], linger_ms=60_000, delivery_timeout_ms=120_000)
for number in range(10):
    producer.send("unclosed", b"%d" % number)
sys.exit(7)
"""
    ended = run(program, broker.bootstrap_servers)
    assert (ended.returncode, ended.stderr) == (7, "")
    assert len(values(broker, "unclosed", 10)) == 10


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_program_that_ends_before_a_name_is_resolved_delivers(loop: str) -> None:
    program = """
import sys
if sys.argv[1] == "asyncio":
    sys.modules["uvloop"] = None
from barnabas import Broker, Producer
broker = Broker(host="localhost", topics={"named": 1})
assert broker.bootstrap_servers.startswith("localhost:")
later = {"linger_ms": 60_000, "delivery_timeout_ms": 120_000, "enable_idempotence": False}  # nothing goes yet
producer = Producer(broker.bootstrap_servers, **later)
producer.send("named", b"x", on_delivery=lambda metadata, error: print(metadata and metadata.offset, error))
sys.exit(7)
"""
    ended = run(program, loop)
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "0 None\n", "")


def test_a_member_of_a_group_that_just_ends_leaves_and_commits_nothing(broker: Broker) -> None:
    program = """
import sys
from barnabas import Consumer
consumer = Consumer(config=sys.argv[1], group_id="left", auto_offset_reset="earliest", session_timeout_ms=60_000)
consumer.subscribe("left", on_revoked=lambda partitions: print("called too late"))
print(len(consumer.poll(30)), flush=True)
"""
    with Producer(broker.bootstrap_servers) as producer, Admin(broker.bootstrap_servers) as admin:
        producer.send("left", b"x").result(WAIT)
        assert admin.group_offsets("left") == {}  # makes the topic of groups: a long wait for it would be told of
        ended = run(program, broker.bootstrap_servers)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1\n", "")
        assert admin.describe_groups("left")["left"].state == "Empty"
        assert admin.group_offsets("left") == {}


def test_a_program_that_cannot_deliver_says_how_much_it_lost_and_ends() -> None:
    program = """
import sys, socket, threading
from barnabas import Broker, Producer
broker = Broker(topics={"t": 1})
producer = Producer(broker.bootstrap_servers, linger_ms=0, close_timeout_ms=200)
producer.send("t", b"x").result(30)
broker.close()
for number in range(12):
    producer.send("t", b"%d" % number)
sys.exit(7)
"""
    ended = run(program)
    assert ended.returncode == 7
    lines = [line for line in ended.stderr.splitlines() if line.startswith("barnabas: ")]
    assert lines == ["barnabas: 12 records were lost: not delivered in 200 ms at exit"]


@pytest.mark.parametrize("leaving", ["sys.exit(7)", "sys.exit()", "exec('raise KeyboardInterrupt')"])
def test_a_callback_that_leaves_ends_the_program_and_keeps_nothing_from_the_others(leaving: str) -> None:
    program = """
import sys
from barnabas import Broker, Producer
told = []
with Broker(topics={"left": 1}) as broker:
    producer = Producer(broker.bootstrap_servers, linger_ms=60_000, delivery_timeout_ms=120_000)
    left = producer.send("left", b"x", on_delivery=lambda metadata, error: LEAVING)
    producer.send("left", b"y", on_delivery=lambda metadata, error: told.append(metadata.offset))
    try:
        producer.flush(30)
        while True:
            pass
    finally:
        print(left.result(0).offset, told)
""".replace("LEAVING", leaving)
    ended = run(program)
    code = {"sys.exit(7)": 7, "sys.exit()": 0}.get(leaving, -signal.SIGINT)
    assert (ended.returncode, ended.stdout) == (code, "0 [1]\n")


@needs_fork
def test_a_callback_that_leaves_interrupts_a_program_that_stands_still() -> None:
    program = """
import sys, threading
from barnabas import Broker, Producer
with Broker(topics={"left": 1}) as broker, Producer(broker.bootstrap_servers) as producer:
    left = producer.send("left", b"x", on_delivery=lambda metadata, error: sys.exit(7))
    try:
        threading.Event().wait(60)
    except KeyboardInterrupt:
        print("interrupted", left.result(0).offset)
"""
    ended = run(program)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "interrupted 0\n", "")


@pytest.mark.parametrize("loop", ["asyncio.new_event_loop", "uvloop.new_event_loop"])
def test_a_callback_that_leaves_a_loop_ends_the_program_too(loop: str) -> None:
    if loop.startswith("uvloop"):
        pytest.importorskip("uvloop")
    program = """
import asyncio, sys
try:
    import uvloop
except ImportError:
    pass
from barnabas import Broker, aio
told = []
async def main():
    async with aio.Producer(sys.argv[1], linger_ms=20) as producer:
        futures.append(await producer.send("left", b"x", on_delivery=lambda metadata, error: sys.exit(7)))
        await producer.send("left", b"y", on_delivery=lambda metadata, error: told.append(metadata.offset))
        await asyncio.sleep(60)
futures = []
with Broker(topics={"left": 1}) as broker:
    sys.argv[1:] = [broker.bootstrap_servers]
    with asyncio.Runner(loop_factory=LOOP) as runner:
        try:
            runner.run(main())
        finally:
            print(futures[0].result().offset, told)
""".replace("LOOP", loop)
    ended = run(program)
    assert (ended.returncode, ended.stdout) == (7, "0 [1]\n")


ERROR_CB = {"bootstrap_servers": "127.0.0.1:1", "error_cb": "leave"}
STATS_CB = {"bootstrap_servers": "servers", "stats_cb": "leave", "statistics_interval_ms": "1"}


@needs_fork
@pytest.mark.parametrize("callback", [ERROR_CB, STATS_CB], ids=["error_cb", "stats_cb"])
@pytest.mark.parametrize("one", ["Producer", "Consumer", "Admin"])
def test_a_callback_of_the_client_that_leaves_ends_the_program(one: str, callback: dict[str, str]) -> None:
    program = """
import sys
from barnabas import Broker, Admin, Consumer, Producer
def leave(told):
    sys.exit(7)
with Broker(topics={"left": 1}) as broker:
    servers = broker.bootstrap_servers
    handle = ONE(SETTINGS)
    while True:
        pass
""".replace("ONE", one).replace("SETTINGS", ", ".join(f"{name}={value}" for name, value in callback.items()))
    ended = run(program.replace("=127.0.0.1:1", "='127.0.0.1:1'"))
    starting = one != "Producer" and callback is ERROR_CB  # stands in a wait, which a Ctrl-C ends
    assert ended.returncode in ({7, -signal.SIGINT} if starting else {7}), ended.stderr
    assert "Exception in" not in ended.stderr


@pytest.mark.parametrize("callback", [ERROR_CB, STATS_CB], ids=["error_cb", "stats_cb"])
@pytest.mark.parametrize("one", ["Producer", "Consumer", "Admin"])
def test_a_callback_of_the_client_that_leaves_a_loop_ends_the_program(one: str, callback: dict[str, str]) -> None:
    program = """
import asyncio, sys
from barnabas import Broker, aio
def leave(told):
    sys.exit(7)
async def main():
    async with aio.ONE(SETTINGS):
        await asyncio.sleep(60)
with Broker(topics={"left": 1}) as broker:
    servers = broker.bootstrap_servers
    asyncio.run(main())
""".replace("ONE", one).replace("SETTINGS", ", ".join(f"{name}={value}" for name, value in callback.items()))
    ended = run(program.replace("=127.0.0.1:1", "='127.0.0.1:1'"))
    assert ended.returncode == 7, ended.stderr
    assert "Exception in" not in ended.stderr


@needs_fork
@pytest.mark.parametrize("way", ["fork", "multiprocessing"])
def test_a_child_knows_that_it_is_one(broker: Broker, way: str) -> None:
    program = """
import multiprocessing, os, sys
from barnabas import Admin, Consumer, Producer, TopicPartition
from barnabas.net.errors import ClientClosed
servers, way = sys.argv[1:]
producer = Producer(servers, linger_ms=60_000, delivery_timeout_ms=120_000)
producer.send("forked-" + way, b"first")
producer.flush(30)
consumer = Consumer("forked-" + way, bootstrap_servers=servers, auto_offset_reset="earliest")
assert [record.value for record in consumer.poll(30)] == [b"first"]
admin = Admin(bootstrap_servers=servers)
pending = producer.send("forked-" + way, b"second")

def child():
    calls = [
        lambda: producer.send("forked-" + way, b"child"),
        producer.flush,
        lambda: producer.partitions_for("forked-" + way),
        lambda: pending.result(),
        lambda: consumer.poll(0.01),
        lambda: next(iter(consumer)),
        lambda: consumer.pause(TopicPartition("forked-" + way, 0)),
        admin.list_topics,
    ]
    for number, call in enumerate(calls):
        try:
            call()
        except ClientClosed as error:
            assert "parent process" in str(error), (number, error)
        else:
            raise AssertionError(f"call {number} went through")
    for handle in (producer, consumer, admin):
        handle.close()
    with Producer(servers) as own:
        own.send("forked-" + way, b"child").result(30)

if way == "fork":
    pid = os.fork()
    if pid == 0:
        child()
        sys.exit(5)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 5, code
else:
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(30)
    assert process.exitcode == 0, process.exitcode
producer.flush(30)
assert pending.result(0).offset >= 1
consumer.close()
producer.close()
"""
    ended = run(program, broker.bootstrap_servers, way)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(values(broker, f"forked-{way}", 3)) == [b"child", b"first", b"second"]


@needs_fork
def test_children_that_just_end_do_so_cleanly_whatever_is_open(broker: Broker) -> None:
    program = """
import os, sys
from barnabas import Consumer, Producer
producer = Producer(sys.argv[1])
producer.send("preforked", b"x").result(30)
consumer = Consumer("preforked", bootstrap_servers=sys.argv[1], auto_offset_reset="earliest")
consumer.poll(30)
pids = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        sys.exit(3)
    pids.append(pid)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
assert codes == [3, 3, 3], codes
"""
    ended = run(program, broker.bootstrap_servers)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("looked", [False, True])
def test_a_refusal_of_the_broker_nobody_looked_at_is_said_once(caplog: pytest.LogCaptureFixture, looked: bool) -> None:
    with Broker() as broker, Producer(broker.bootstrap_servers, max_request_size=4_000_000) as producer:
        sent = producer.send("refused", bytes(2_000_000))
        producer.flush(WAIT)
        assert not looked or sent.exception(0) is not None
        del sent
    said = [record.getMessage() for record in caplog.records if "nobody looked" in record.getMessage()]
    assert len(said) == (0 if looked else 1)
    assert looked or "refused-0 failed, and nobody looked: MESSAGE_TOO_LARGE(10)" in said[0]


def test_a_failure_nobody_looked_at_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with Producer(f"127.0.0.1:{nobody.getsockname()[1]}", max_block_ms=10) as producer:
            producer.send("dropped", b"x")
            looked_at = producer.send("looked-at", b"x")
            assert looked_at.exception(WAIT) is not None
            told: list[object] = []
            producer.send("told", b"x", on_delivery=lambda metadata, error: told.append(error))
            del looked_at
    said = [record.getMessage() for record in caplog.records if "nobody looked" in record.getMessage()]
    assert len(said) == 1
    assert "dropped--1 failed" in said[0]
    assert told[0] is not None


async def test_a_failure_among_coroutines_that_nobody_looked_at_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        async with aio.Producer(f"127.0.0.1:{nobody.getsockname()[1]}", max_block_ms=10) as producer:
            await producer.send("dropped", b"x")
            looked_at = await producer.send("looked-at", b"x")
            assert looked_at.exception() is not None
            del looked_at
    said = [record.getMessage() for record in caplog.records if "nobody looked" in record.getMessage()]
    assert len(said) == 1
    assert "dropped--1 failed" in said[0]
