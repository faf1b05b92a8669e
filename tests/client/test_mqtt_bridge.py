"""A bridge between a real Mosquitto and a real Apache Kafka: every kind of rule, and both directions."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable

import msgpack
import pytest

from barnabas import Admin, Producer
from barnabas.client.consume.record import ConsumerRecord
from barnabas.client.produce.partitioner import murmur2
from tests.mqtt.conftest import bridge, mosquitto
from tests.mqtt.servers import Bridge, Mosquitto, needs_mosquitto, until
from tests.mqtt.test_inward import publish, read, reason
from tests.mqtt.test_outward import Subscriber, committed

__all__ = ["bridge", "mosquitto"]
pytestmark = [needs_mosquitto, pytest.mark.slow]

Make = Callable[..., Bridge]
IN = """
[mqtt]
client_id = "whole"
subscribe = ["home/#"]
[bridge]
dead_letter = "home-dead"
topics_max = 1
[[rules]]
filter = "home/+/raw"
topic = "home-raw"
key = "$1"
[rules.headers]
room = "$1"
[[rules]]
filter = "home/+/json"
topic = "home-json"
device = "$1"
payload = "json"
[[rules]]
regex = 'home/(?P<room>[a-z]+)/pack/(\\w+)'
topic = "home-pack"
key = "$2"
device = "$room"
payload = "msgpack"
[[rules]]
filter = "home/new/+"
topic = "$1"
[default]
topic = "home-rest"
key = "{topic}"
"""


@pytest.fixture(scope="module")
def kafka(apache_kafka: str) -> str:
    """In the place of this project's broker."""
    return apache_kafka


def told(record: ConsumerRecord) -> dict[str, bytes | None]:
    return dict(record.headers)


def partition(device: bytes) -> int:
    return (murmur2(device) & 0x7FFFFFFF) % 4


async def test_every_kind_of_rule_brings_messages_in(mosquitto: Mosquitto, kafka: str, bridge: Make) -> None:
    one = bridge(IN, mosquitto.port)
    await one.start()
    large = os.urandom(1_048_500)  # fits into a packet, and with key and headers into no request
    for room in ("attic", "cellar"):
        await publish(mosquitto, f"home/{room}/raw", room, qos=2)
    await publish(mosquitto, "home/attic/json", b'{"t": 1}', b"no json")
    await publish(mosquitto, "home/attic/pack/x1", b"\x00\xff", b"")
    await publish(mosquitto, "home/elsewhere", b"rest", large)
    for name in ("home.one", "__consumer_offsets", "home.seventh"):
        await publish(mosquitto, f"home/new/{name}", name)
    await one.counted("acknowledged", 11)
    raw = {record.value: record for record in await read(kafka, "home-raw", 2)}
    assert {(one.key, told(one)["room"], one.partition) for one in raw.values()} == {
        (room, room, partition(room)) for room in (b"attic", b"cellar")
    }
    (record,) = await read(kafka, "home-json", 1)
    assert (json.loads(record.value), record.key, record.partition) == ({"t": 1}, b"attic", partition(b"attic"))
    packed = await read(kafka, "home-pack", 2)
    assert [msgpack.unpackb(one.value)["payload"] for one in packed] == [b"\x00\xff", b""]
    assert [(one.key, one.partition) for one in packed] == [(b"x1", partition(b"attic"))] * 2
    (record,) = await read(kafka, "home-rest", 1)
    assert (record.key, record.value, told(record)["mqtt.qos"]) == (b"home/elsewhere", b"rest", b"1")
    dead = {one.value: reason(one) for one in await read(kafka, "home-dead", 4)}
    assert "the payload is no JSON" in dead.pop(b"no json")
    assert "is larger than max.request.size" in dead.pop(b""), "its payload goes nowhere"
    assert "is a topic of Kafka's own" in dead.pop(b"__consumer_offsets")
    assert "more than topics_max (1) allows" in dead.pop(b"home.seventh")
    assert one.end() == 0


OUT = """
[mqtt]
client_id = "outward"
[bridge]
group = "outward"
dead_letter = "outward-dead"
[[out]]
topic = "commands"
to = "set/{key}"
[[out]]
topic = "commands"
to = "log/{topic}/{partition}"
qos = 0
"""


async def test_records_go_out_and_a_killed_bridge_goes_on_where_it_was(
    mosquitto: Mosquitto, kafka: str, bridge: Make
) -> None:
    """Also when the topic is deleted under it and made anew, and when what it would read next is deleted."""
    one = bridge(OUT, mosquitto.port)

    def send(*numbers: int) -> None:
        with Producer(kafka) as producer:
            for number in numbers:
                producer.send("commands", b"%d" % number, b"lamp", partition=0)

    def anew() -> None:
        with Admin(kafka) as admin:
            admin.delete_topic("commands")
            admin.create_topic("commands", if_absent=True)  # or its reader has brought it about

    async with Subscriber(mosquitto.port, "set") as set_, Subscriber(mosquitto.port, "log") as logged:
        await asyncio.to_thread(send, *range(300))
        await one.start()
        await until(lambda: set_.came, one.said)
        one.end(signal.SIGKILL)
        await one.start()
        await until(lambda: set_.values()[-1:] == [299], one.said)
        assert sorted(set(set_.values())) == list(range(300))
        assert len(set_.came) <= 400, "a window came again, at most"
        await until(lambda: asyncio.to_thread(lambda: committed(kafka, "outward") == 300), one.said)
        await asyncio.to_thread(anew)
        await asyncio.to_thread(send, 1000, 1001)
        await until(lambda: set_.values()[-2:] == [1000, 1001], one.said)
        assert str(logged.came[-1].topic) == "log/commands/0"
        assert one.end() == 0
