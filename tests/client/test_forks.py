"""Forks with whatever is open, and asyncio producers that nobody closed. Each program is a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from barnabas import Broker, Consumer

WAIT = 60
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

FORK = """
import os, sys
def fork(child):
    pid = os.fork()
    if pid == 0:
        child()
        sys.exit(3)
    return pid
def code_of(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
def refuses(call):
    try:
        call()
    except Exception as error:
        return "belongs to the parent process; make a new one after fork" in str(error)
    return False
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=False)


def values(servers: str, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    with Consumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        while len(found) < count and (records := consumer.poll(60)):
            found += [record.value for record in records]
    return found


# ---- forks ----------------------------------------------------------------------------------------------------------


@needs_fork
@pytest.mark.parametrize("data_dir", [False, True])
def test_a_broker_stays_with_the_parent(tmp_path: object, data_dir: bool) -> None:
    program = """
from barnabas import Broker, Producer
directory = sys.argv[1] or None
broker = Broker(topics={"t": 1}, data_dir=directory)
producer = Producer(broker.bootstrap_servers)
producer.send("t", b"before").result(30)
stay, go = os.pipe()
def child():
    assert refuses(broker.snapshot)
    broker.close()
    os.close(go)
    os.read(stay, 1)  # lives until the parent has closed and opened anew
pid = fork(child)
os.close(stay)
assert producer.send("t", b"after").result(30).offset == 1
producer.close()
port = broker.port
broker.close()
with Broker(topics={"t": 1}, data_dir=directory, port=port) as again:  # neither port nor directory is held by the child
    with Producer(again.bootstrap_servers) as producer:
        assert producer.send("t", b"again").result(30).offset == (2 if directory else 0)
os.close(go)
assert code_of(pid) == 3
"""
    ended = run(program, str(tmp_path) if data_dir else "")
    assert (ended.returncode, ended.stderr) == (0, "")


@needs_fork
def test_children_end_cleanly_with_a_broker_a_producer_a_consumer_and_an_admin_open() -> None:
    program = """
import multiprocessing
from barnabas import Admin, Broker, Consumer, Producer
broker = Broker(topics={"t": 1})
producer = Producer(broker.bootstrap_servers)
consumer = Consumer("t", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
admin = Admin(bootstrap_servers=broker.bootstrap_servers)
assert [code_of(fork(lambda: None)) for _ in range(3)] == [3, 3, 3]
process = multiprocessing.get_context("fork").Process(target=sys.exit, args=(4,))
process.start()
process.join(30)
assert process.exitcode == 4
producer.send("t", b"x").result(30)
assert [record.value for record in consumer.poll(30)] == [b"x"]
assert admin.list_topics() == ["t"]
"""
    ended = run(program)
    assert (ended.returncode, ended.stderr) == (0, "")


@needs_fork
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_the_handles_of_a_loop_refuse_in_the_child_and_go_on_in_the_parent(loop: str) -> None:
    pytest.importorskip(loop)
    program = """
import asyncio, multiprocessing, LOOP
from barnabas import aio
def told(work):
    return refuses(lambda: work.send(None))
async def main():
    async with aio.Broker(topics={"t": 1}) as broker:
        servers = broker.bootstrap_servers
        async with aio.Producer(servers) as producer, aio.Admin(bootstrap_servers=servers) as admin, aio.Consumer(
            "t", bootstrap_servers=servers, auto_offset_reset="earliest"
        ) as consumer:
            await producer.send_and_wait("t", b"x")
            assert len(await consumer.poll(30)) == 1
            pending = await producer.send("t", b"y")
            def child():
                assert told(producer.send("t", b"z"))
                assert told(producer.flush())
                assert told(producer.partitions_for("t"))
                assert refuses(pending.result)
                assert told(consumer.poll(60))
                assert told(consumer.position(("t", 0)))
                assert refuses(lambda: consumer.assign([("t", 0)]))
                assert told(admin.list_topics())
                assert refuses(broker.snapshot)
            process = multiprocessing.get_context("fork").Process(target=child)
            process.start()
            await asyncio.get_running_loop().run_in_executor(None, process.join, 30)
            assert process.exitcode == 0, process.exitcode
            assert (await pending).offset == 1
            assert (await producer.send_and_wait("t", b"z")).offset == 2
            got = []
            while len(got) < 2:
                got += [record.value for record in await consumer.poll(30)]
            assert got == [b"y", b"z"]
            assert await admin.list_topics() == ["t"]
with asyncio.Runner(loop_factory=LOOP.new_event_loop) as runner:
    runner.run(main())
""".replace("LOOP", loop)
    ended = run(program)
    assert (ended.returncode, ended.stderr) == (0, "")


@needs_fork
def test_workers_forked_beforehand_work_on_their_own_and_end_on_a_signal(broker: Broker) -> None:
    """As gunicorn does with `preload_app`: the master loads and sends, workers are forked, and ended by SIGTERM."""
    program = """
import signal
from barnabas import Producer
servers = sys.argv[1]
master = Producer(servers)
master.send("workers", b"master").result(30)
ready, tell = os.pipe()

def work():
    assert refuses(lambda: master.send("workers", b"never"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    own = Producer(servers, linger_ms=60_000, delivery_timeout_ms=120_000)
    own.send("workers", b"worker")
    os.write(tell, b".")
    while True:
        signal.pause()

pids = [fork(work) for _ in range(3)]
for _ in pids:
    os.read(ready, 1)
for pid in pids:
    os.kill(pid, signal.SIGTERM)
assert [code_of(pid) for pid in pids] == [0, 0, 0]
master.send("workers", b"master").result(30)
"""
    ended = run(program, broker.bootstrap_servers)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(values(broker.bootstrap_servers, "workers", 5)) == 2 * [b"master"] + 3 * [b"worker"]


# ---- asyncio producers that nobody closed ---------------------------------------------------------------------------

SEND = """
import asyncio, threading
from barnabas import aio
async def send(**settings):
    producer = await aio.Producer(sys.argv[1], linger_ms=60_000, delivery_timeout_ms=120_000, **settings).start()
    for number in range(12):
        await producer.send("unclosed-loop", b"%d" % number)
    return producer
"""


def test_what_a_closed_loop_left_is_counted_in_one_line(broker: Broker) -> None:
    ended = run(SEND + "asyncio.run(send())\nsys.exit(7)", broker.bootstrap_servers)
    assert ended.returncode == 7
    assert ended.stderr.splitlines() == [
        "barnabas: 12 records were lost: the loop ended before their producer was closed; "
        "use `async with`, or await its close"
    ]


def test_what_an_earlier_loop_left_is_told_when_the_next_begins(broker: Broker) -> None:
    program = """
asyncio.run(send())
async def next():
    async with aio.Producer(sys.argv[1]):
        print("begun", file=sys.stderr)
asyncio.run(next())
"""
    lines = run(SEND + program, broker.bootstrap_servers).stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["barnabas", "begun"]


@pytest.mark.parametrize(
    ("ending", "topic"),
    [
        ("loop = asyncio.new_event_loop(); kept = loop.run_until_complete(send())", "stopped-loop"),
        (
            "loop = asyncio.new_event_loop(); threading.Thread(target=loop.run_forever, daemon=True).start()\n"
            "asyncio.run_coroutine_threadsafe(send(), loop).result(30)",
            "running-loop",
        ),
    ],
    ids=["stopped", "running"],
)
def test_a_loop_that_is_open_at_the_end_delivers(broker: Broker, ending: str, topic: str) -> None:
    ended = run(SEND.replace("unclosed-loop", topic) + ending + "\nsys.exit(7)", broker.bootstrap_servers)
    assert (ended.returncode, ended.stderr) == (7, "")
    assert len(values(broker.bootstrap_servers, topic, 12)) == 12


def test_a_loop_that_cannot_deliver_at_the_end_says_so_in_time(broker: Broker) -> None:
    ending = """
import barnabas
own = barnabas.Broker(topics={"unclosed-loop": 1})
sys.argv[1] = own.bootstrap_servers
loop = asyncio.new_event_loop()
async def begin():
    return await send(close_timeout_ms=200)
kept = loop.run_until_complete(begin())
own.close()
sys.exit(7)
"""
    ended = run(SEND + ending, broker.bootstrap_servers)
    assert ended.returncode == 7
    lines = [line for line in ended.stderr.splitlines() if line.startswith("barnabas: ")]
    assert lines == ["barnabas: 12 records were lost: not delivered in 200 ms at exit"]
