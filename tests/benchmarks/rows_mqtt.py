"""Rows of the MQTT bridge: Mosquitto, one bridge, our broker, and a compiled publisher (`mosquitto_pub`).

The peer is the bundled client that produces the same payloads without any MQTT. Publisher, Mosquitto, bridge and broker
share the machine's cores; what each of them used is in the notes.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from barnabas import Consumer, Producer
from barnabas.cli.look import state
from tests.benchmarks import load, servers
from tests.benchmarks.peers.clients import PARTITIONS
from tests.benchmarks.report import Row
from tests.benchmarks.rows_client import _rate
from tests.benchmarks.servers import Peers, Server
from tests.mqtt.servers import MOSQUITTO
from tests.oracle.kafka import free_port

ROUNDS = 3
COUNT = 100_000
MEMORY_COUNT = 1_000_000
PAYLOAD_BYTES = 100
OF_ONE_CONNECTION = 50_000
"""It ends when the packet id of its last message is acknowledged: of more than 65,535 the first with that id."""
PACE_S = 0.002
PACED = 1500
MUST_PER_S = 10_000.0
MEMORY_MUST_MB = 2.0
"""A million messages leave no more behind; each of which kept its 100 bytes would be 100 MB."""

_MOSQUITTO = """\
listener {port} 127.0.0.1
allow_anonymous true
max_queued_messages 0
set_tcp_nodelay true
"""
_BRIDGE = """\
[mqtt]
host = "127.0.0.1"
port = {port}
client_id = "bench-{qos}"
qos = {qos}
receive_maximum = {open_max}
[kafka]
"bootstrap.servers" = "{server}"
[[rules]]
filter = "bench/+"
topic = "bench"
key = "$1"
[web]
listen = "127.0.0.1:0"
"""


@contextmanager
def _mosquitto(directory: str) -> Iterator[Server]:
    assert MOSQUITTO, "Mosquitto is not here: ./dev tools brings it"
    port = free_port()
    config = Path(directory, "mosquitto.conf")
    config.write_text(_MOSQUITTO.format(port=port))
    process = subprocess.Popen([MOSQUITTO, "-c", str(config)], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        for line in process.stderr:
            if "running" in line:
                break
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield Server("mosquitto", process.pid, port)
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def _bridge(directory: str, mosquitto: Server, server: Server, qos: int, open_max: int) -> Iterator[Server]:
    config = Path(directory, f"bridge-{qos}.toml")
    config.write_text(_BRIDGE.format(port=mosquitto.port, qos=qos, server=server.bootstrap, open_max=open_max))
    with servers._process("bridge", [sys.executable, "-m", "barnabas", "mqtt", "--config", str(config)]) as found:
        while state(found.bootstrap)["why_not"]:
            time.sleep(0.05)
        yield found


def _publish(mosquitto: Server, qos: int, count: int) -> None:
    """`count` messages, as fast as they go, `OF_ONE_CONNECTION` of a connection."""
    line = b"x" * PAYLOAD_BYTES + b"\n"
    command = ["mosquitto_pub", "-p", str(mosquitto.port), "-t", "bench/device", "-q", str(qos), "-l"]
    while count > 0:
        subprocess.run(command, input=line * min(count, OF_ONE_CONNECTION), check=True, timeout=300)
        count -= OF_ONE_CONNECTION


def _counts(bridge: Server) -> dict[str, Any]:
    found: dict[str, Any] = state(bridge.bootstrap)["counts"]
    return found


def _through(bridge: Server, mosquitto: Server, server: Server, qos: int, count: int) -> tuple[float, str]:
    """Messages per second through the bridge, and a note of who worked how much."""
    before, all_of_them = _counts(bridge), (bridge, mosquitto, server)
    cpu_s = [one.cpu_s() for one in all_of_them]
    began = last = time.monotonic()
    publishing = threading.Thread(target=_publish, args=(mosquitto, qos, count))
    publishing.start()
    done = 0
    while True:
        time.sleep(0.05)
        now = _counts(bridge)["forwarded"] - before["forwarded"]
        if now > done:
            done, last = now, time.monotonic()
        if done >= count or (not publishing.is_alive() and time.monotonic() > last + 2):
            break
    publishing.join()
    took_s = last - began
    shares = [
        f"{one.name} CPU {(one.cpu_s() - then) / took_s:.0%}" for one, then in zip(all_of_them, cpu_s, strict=True)
    ]
    lost = count - done
    if lost and qos:
        raise RuntimeError(f"{lost:,} of {count:,} messages of QoS {qos} did not come through the bridge")
    dropped = _counts(bridge)["lost_qos0"] - before["lost_qos0"]
    return done / took_s, ", ".join(shares) + ("" if qos else _of_qos0(count, lost, dropped))


def _of_qos0(count: int, lost: int, dropped: int) -> str:
    """What did not come through, and whose doing it was."""
    return f"; {lost:,} of {count:,} lost, {dropped:,} of them dropped by the bridge"


def _latencies(server: Server, topic: str, send: Callable[[bytes], object]) -> list[float]:
    """Milliseconds from handing over to a waiting consumer, of messages at an even pace."""
    found: list[float] = []
    ready = threading.Event()

    def read() -> None:
        with Consumer(topic, config=server.bootstrap, auto_offset_reset="latest") as consumer:
            consumer.poll(0.5)
            ready.set()
            while len(found) < PACED and (records := consumer.poll(5)):
                now = time.monotonic()
                found.extend((now - float(bytes(record.value).split()[0])) * 1000 for record in records)

    reading = threading.Thread(target=read)
    reading.start()
    ready.wait()
    due = time.monotonic()
    for _ in range(PACED):
        due += PACE_S
        time.sleep(max(due - time.monotonic(), 0))
        send(b"%f %s" % (time.monotonic(), b"x" * (PAYLOAD_BYTES - 20)))
    reading.join()
    return found


def _by_mqtt(server: Server, mosquitto: Server, qos: int) -> list[float]:
    command = ["mosquitto_pub", "-p", str(mosquitto.port), "-t", "bench/device", "-q", str(qos), "-l"]
    publisher = subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0)
    assert publisher.stdin
    pipe = publisher.stdin
    try:
        return _latencies(server, "bench", lambda data: pipe.write(data + b"\n"))
    finally:
        pipe.close()
        publisher.wait(10)


def _shares(values: list[float]) -> tuple[float, float]:
    cut = statistics.quantiles(values, n=100)
    return cut[49], cut[98]


def rows(_peers: Peers) -> Iterator[Row]:
    """Throughput and end to end at QoS 1 and 0, and what a million messages do to the bridge's memory."""
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-bench-") as directory,
        servers.barnabas() as server,
        _mosquitto(directory) as mosquitto,
    ):
        for topic, partitions in (("bench", 1), ("plain", PARTITIONS), ("paced", 1)):
            load.create_topic(server, topic, partitions)
        with Producer(server.bootstrap, linger_ms=5) as producer:
            plain = _shares(_latencies(server, "paced", lambda data: producer.send("paced", data)))
        produce = max(_rate(server, "ours_produce", "plain", 4 * COUNT, PAYLOAD_BYTES) for _ in range(ROUNDS))
        for qos, open_max in ((1, 1000), (0, 20_000)):
            with _bridge(directory, mosquitto, server, qos, open_max) as bridge:
                _through(bridge, mosquitto, server, qos, COUNT // 4)
                best = max(_through(bridge, mosquitto, server, qos, COUNT) for _ in range(ROUNDS))
                row = Row(f"MQTT bridge, QoS {qos}, {PAYLOAD_BYTES} B", "msg/s", best[0], notes=[best[1]])
                if qos:
                    row.must = row.aim = MUST_PER_S
                yield row
                name = f"MQTT bridge, QoS {qos}, against the client alone"
                yield Row(name, "msg/s", best[0], "client", produce)
                p50, p99 = _shares(_by_mqtt(server, mosquitto, qos))
                for share, mine, theirs in (("p50", p50, plain[0]), ("p99", p99, plain[1])):
                    name = f"MQTT publisher to consumer, QoS {qos}, {share}"
                    yield Row(name, "ms", mine, "client", theirs, better="less")
                if qos:
                    yield _memory(bridge, mosquitto, server)


def _memory(bridge: Server, mosquitto: Server, server: Server) -> Row:
    steps = [bridge.own_mb()]
    for _ in range(5):
        _through(bridge, mosquitto, server, 1, MEMORY_COUNT // 5)
        steps.append(bridge.own_mb())
    told = json.dumps([round(step, 1) for step in steps])
    name = "MQTT bridge, memory after a million messages over that before"
    notes = [f"own memory after each 200,000 (MB): {told}"]
    return Row(name, "MB", steps[-1] - steps[0], must=MEMORY_MUST_MB, better="less", notes=notes)
