"""From a real Mosquitto through a bridge to a broker: what becomes of messages, and when they are acknowledged."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiomqtt
import msgpack
import pytest

from barnabas import Consumer
from barnabas.client.consume.record import ConsumerRecord
from tests.cli.process import Process, broker
from tests.mqtt.servers import Bridge, Mosquitto, needs_mosquitto, until
from tests.mqtt.witness import Witness

pytestmark = [needs_mosquitto, pytest.mark.slow]

_numbers = itertools.count(1)
Make = Callable[..., Bridge]


@pytest.fixture
def name() -> str:
    """A topic, and a client id, that nobody used."""
    return f"t{next(_numbers)}"


@pytest.fixture
def stoppable(tmp_path: Path) -> Iterator[Process]:
    """A broker in a process of its own, which can be held."""
    with broker("--port", "0", "--data-dir", str(tmp_path / "kafka")) as process:
        yield process
        process.popen.send_signal(signal.SIGCONT)


def plain(name: str, more: str = "", rule: str = "") -> str:
    return f'[mqtt]\nclient_id = "{name}"\n{more}\n[[rules]]\nfilter = "{name}/#"\ntopic = "{name}"\nkey = "$1"\n{rule}'


async def publish(mosquitto: Mosquitto, topic: str, *payloads: Any, qos: int = 1, **more: Any) -> None:
    async with aiomqtt.Client("127.0.0.1", mosquitto.port, **more.pop("client", {})) as client:
        client.pending_calls_threshold = len(payloads)
        await asyncio.gather(*(client.publish(topic, payload, qos=qos, **more) for payload in payloads))


def records(server: str, topic: str, count: int) -> list[ConsumerRecord]:
    """The first `count` records of a topic."""
    found: list[ConsumerRecord] = []
    with Consumer(topic, config=server, auto_offset_reset="earliest") as consumer:
        while len(found) < count:
            came = consumer.poll(30)
            assert came, f"{len(found)} of {count} records in {topic}"
            found += came
    return found


def reason(record: ConsumerRecord) -> str:
    """Why it is a dead letter."""
    told = dict(record.headers)["mqtt.refused"]
    assert told is not None
    return told.decode()


async def read(server: str, topic: str, count: int) -> list[ConsumerRecord]:
    return await asyncio.to_thread(records, server, topic, count)


async def fresh(one: Bridge, count: int) -> int:
    """How many messages were forwarded that are no duplicates, once there are so many."""

    async def so() -> int:
        counts = (await one.state())["counts"]
        found: int = counts["forwarded"] - counts["duplicates"]
        return found if found >= count else 0

    found: int = await until(so, one.said)
    return found


@pytest.mark.parametrize("version", ["5", "3.1.1"])
async def test_messages_of_every_qos_become_records(
    mosquitto: Mosquitto, kafka: str, bridge: Make, name: str, version: str
) -> None:
    one = bridge(plain(name, f'version = "{version}"'), mosquitto.port)
    await one.start()
    for qos in (0, 1, 2):
        await publish(mosquitto, f"{name}/d{qos}", b"v%d" % qos, qos=qos)
    found = sorted(await read(kafka, name, 3), key=lambda record: record.value)
    assert [(record.key, record.value) for record in found] == [(b"d0", b"v0"), (b"d1", b"v1"), (b"d2", b"v2")]
    assert [dict(record.headers)["mqtt.qos"] for record in found] == [b"0", b"1", b"1"], "2 is granted as 1"
    assert [dict(record.headers)["mqtt.topic"] for record in found] == [f"{name}/d{qos}".encode() for qos in (0, 1, 2)]
    await one.counted("acknowledged", 2)
    state = await one.state()
    assert state["counts"]["received_qos0"] == 1
    assert state["rules"][0]["messages"] == 3
    assert one.end() == 0


@pytest.mark.parametrize("version", ["5", "3.1.1"])
async def test_a_message_is_acknowledged_once_its_record_is_and_in_the_order_of_arrival(
    mosquitto: Mosquitto, witness: Witness, stoppable: Process, bridge: Make, name: str, version: str
) -> None:
    """While the broker is held nothing is acknowledged, whatever has come; and no more comes than may be open."""
    witness.five = version == "5"
    limit = "receive_maximum = 15" if witness.five else 'version = "3.1.1"'
    most = 15 if witness.five else 20  # Mosquitto's own max_inflight_messages
    server = f"127.0.0.1:{stoppable.port}"
    one = bridge(plain(name, limit), witness.port, server)
    await one.start()
    await publish(mosquitto, f"{name}/a", b"first")
    await one.counted("acknowledged", 1)
    stoppable.popen.send_signal(signal.SIGSTOP)
    sent = [b"%d" % number for number in range(60)]
    await publish(mosquitto, f"{name}/a", *sent)
    await one.counted("received_qos1", 1 + most)
    (connection,) = witness.connections
    assert (len(connection.delivered), len(connection.acknowledged)) == (1 + most, 1)
    assert (await one.state())["open"]["messages"] == most
    stoppable.popen.send_signal(signal.SIGCONT)
    await one.counted("acknowledged", 61)
    await until(lambda: len(connection.acknowledged) == 61)
    connection.check()
    assert [record.value for record in await read(server, name, 61)] == [b"first", *sent]


async def test_what_qos_0_loses_is_counted_and_nothing_grows(
    mosquitto: Mosquitto, stoppable: Process, bridge: Make, name: str
) -> None:
    one = bridge(plain(name, "receive_maximum = 5"), mosquitto.port, f"127.0.0.1:{stoppable.port}")
    await one.start()
    await publish(mosquitto, f"{name}/a", b"first")
    await one.counted("acknowledged", 1)
    stoppable.popen.send_signal(signal.SIGSTOP)
    await publish(mosquitto, f"{name}/a", *range(50), qos=0)
    await one.counted("received_qos0", 50)
    state = await one.state()
    assert (state["counts"]["lost_qos0"], state["open"]["unsettled"]) == (45, 5)
    stoppable.popen.send_signal(signal.SIGCONT)
    await one.counted("forwarded", 6)


async def test_payloads_and_what_a_rule_refuses(mosquitto: Mosquitto, kafka: str, bridge: Make, name: str) -> None:
    text = f"""
[mqtt]
client_id = "{name}"
subscribe = ["{name}/#"]
[bridge]
dead_letter = "{name}-dead"
[[rules]]
filter = "{name}/json"
topic = "{name}"
payload = "json"
[[rules]]
regex = '{name}/(?P<device>[a-z]+)/pack'
topic = "{name}"
key = "$device"
payload = "msgpack"
"""
    one = bridge(text, mosquitto.port)
    await one.start()
    await publish(mosquitto, f"{name}/json", b'{"t": 1}', b"no json")
    await publish(mosquitto, f"{name}/lamp/pack", b"\x00\xff")
    await publish(mosquitto, f"{name}/LAMP/pack", b"nobody's")
    as_json, packed = await read(kafka, name, 2)
    assert (as_json.value, packed.key) == (b'{"t": 1}', b"lamp")
    envelope = msgpack.unpackb(packed.value)
    assert (envelope.pop("time") > 1_700_000_000_000, envelope) == (
        True,
        {"topic": f"{name}/lamp/pack", "qos": 1, "retain": False, "payload": b"\x00\xff"},
    )
    dead = await read(kafka, f"{name}-dead", 2)
    assert [(record.key, record.value) for record in dead] == [
        (f"{name}/json".encode(), b"no json"),
        (f"{name}/LAMP/pack".encode(), b"nobody's"),
    ]
    reasons = [reason(record) for record in dead]
    assert "[[rules]] 1: the payload is no JSON" in reasons[0]
    assert reasons[1] == "no rule takes it, and there is no [default]"
    await one.counted("acknowledged", 4)
    assert (await one.state())["counts"]["dead_lettered"] == 2


async def test_what_kafka_refuses_for_good_is_a_dead_letter_and_keeps_nobody_waiting(
    mosquitto: Mosquitto, tmp_path: Path, bridge: Make, name: str
) -> None:
    """Too large for its topic, and a topic that Kafka neither knows nor makes."""
    topics = f"{name}:1{{max.message.bytes=1000}},mqtt.dead-letter:1"
    options = ["--set", "auto.create.topics.enable=false", "--set", f"barnabas.topics={topics}"]
    rule = f'[[rules]]\nfilter = "absent/{name}"\ntopic = "absent"\n'
    with broker("--port", "0", "--data-dir", str(tmp_path / "kafka"), *options) as process:
        server = f"127.0.0.1:{process.port}"
        one = bridge(plain(name, "", rule), mosquitto.port, server)
        one.config.write_text(one.config.read_text().replace("[kafka]", '[kafka]\n"max.block.ms" = 500'))
        await one.start()
        large = os.urandom(5000)
        await publish(mosquitto, f"{name}/a", b"small", large, b"behind")
        await publish(mosquitto, f"absent/{name}", b"1", b"2")
        await one.counted("acknowledged", 5)
        assert [record.value for record in await read(server, name, 2)] == [b"small", b"behind"]
        dead = await read(server, "mqtt.dead-letter", 3)
        assert {record.value: reason(record).split(":")[0] for record in dead} == {
            large: "MESSAGE_TOO_LARGE(10)",
            b"1": "topic absent is not in the metadata after max.block.ms (500 ms)",
            b"2": "topic absent is not in the metadata after max.block.ms (500 ms)",
        }


@pytest.mark.parametrize(
    ("version", "retained", "first", "second"),
    [
        ("5", "once", 1, 0),
        ("5", "start", 1, 1),
        ("5", "never", 0, 0),
        ("3.1.1", "start", 1, 1),
        ("3.1.1", "never", 0, 0),
    ],
)
async def test_retained_messages_are_handled_as_often_as_was_asked_for(
    mosquitto: Mosquitto,
    witness: Witness,
    bridge: Make,
    name: str,
    version: str,
    retained: str,
    first: int,
    second: int,
) -> None:
    """One retained message; a bridge that starts, loses its connection, and starts again."""
    await publish(mosquitto, f"{name}/a", b"kept", retain=True)
    one = bridge(plain(name, f'version = "{version}"\nretained = "{retained}"'), witness.port)
    await one.start()
    await publish(mosquitto, f"{name}/a", b"fresh")
    assert await fresh(one, first + 1) == first + 1
    witness.cut()
    await until(lambda: len(witness.connections) == 2)
    await one.healthy()
    await publish(mosquitto, f"{name}/a", b"fresher")
    assert await fresh(one, first + 2) == first + 2, "a reconnect brings none"
    one.end()
    await one.start()
    await publish(mosquitto, f"{name}/a", b"freshest")
    assert await fresh(one, second + 1) == second + 1


async def test_what_comes_while_the_bridge_is_away_waits_for_it(
    mosquitto: Mosquitto, kafka: str, bridge: Make, name: str
) -> None:
    one = bridge(plain(name), mosquitto.port)
    await one.start()
    one.end()
    await publish(mosquitto, f"{name}/a", *range(40))
    await one.start()
    found = await read(kafka, name, 40)
    assert [int(record.value) for record in found] == list(range(40))
    await one.counted("acknowledged", 40)
    assert (await one.state())["counts"]["duplicates"] == 0


async def test_several_bridges_share_the_messages(mosquitto: Mosquitto, kafka: str, bridge: Make, name: str) -> None:
    pair = [bridge(plain(f"{name}", 'share = "both"'), mosquitto.port, name=f"b{number}") for number in (1, 2)]
    for number, one in enumerate(pair):
        one.config.write_text(one.config.read_text().replace(f'id = "{name}"', f'id = "{name}-{number}"'))
        await one.start()
    await publish(mosquitto, f"{name}/a", *range(100))
    found = await read(kafka, name, 100)
    assert sorted(int(record.value) for record in found) == list(range(100)), "each once"
    shares = [(await one.state())["counts"]["received_qos1"] for one in pair]
    assert sum(shares) == 100
    assert min(shares) > 0
