"""Records become messages, and are committed once the MQTT broker has them."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Callable

import aiomqtt
import pytest

from barnabas import Admin, Producer
from barnabas.client.consume.record import ConsumerRecord
from barnabas.mqtt.mapping import Refused
from barnabas.mqtt.outward import WINDOW, fits, mqtt_topic
from barnabas.mqtt.settings import OutRule
from tests.mqtt.servers import Bridge, Mosquitto, needs_mosquitto, until
from tests.mqtt.test_inward import read, reason
from tests.mqtt.witness import Witness

Make = Callable[..., Bridge]
_numbers = itertools.count(1)


@pytest.fixture
def name() -> str:
    return f"out{next(_numbers)}"


def settings(name: str, more: str = "") -> str:
    return f"""
[mqtt]
client_id = "{name}"
[bridge]
group = "{name}"
dead_letter = "{name}-dead"
[[out]]
topic = "{name}"
to = "{name}/{{key}}"
{more}
"""


def send(
    server: str, topic: str, *values: bytes, key: bytes | None = b"k", headers: tuple[tuple[str, bytes], ...] = ()
):
    with Producer(server) as producer:
        for value in values:
            producer.send(topic, value, key, headers=headers)


class Subscriber:
    """All messages below a topic, as they come."""

    def __init__(self, port: int, name: str) -> None:
        self.port, self.name = port, name
        self.came: list[aiomqtt.Message] = []

    async def run(self, ready: asyncio.Event) -> None:
        async with aiomqtt.Client("127.0.0.1", self.port) as client:
            await client.subscribe(f"{self.name}/#", qos=1)
            ready.set()
            async for message in client.messages:
                self.came.append(message)

    async def __aenter__(self) -> Subscriber:
        ready = asyncio.Event()
        self._task = asyncio.create_task(self.run(ready))
        await asyncio.wait_for(ready.wait(), 30)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def values(self) -> list[int]:
        return [int(message.payload) for message in self.came]


def committed(server: str, group: str) -> int:
    with Admin(server) as admin:
        return sum(each.offset for each in admin.group_offsets(group).values() if each is not None)


@needs_mosquitto
@pytest.mark.slow
@pytest.mark.parametrize("version", ["5", "3.1.1"])
async def test_records_become_messages_and_are_committed(
    mosquitto: Mosquitto, kafka: str, bridge: Make, name: str, version: str
) -> None:
    text = settings(name, "retain = true").replace("[bridge]", f'version = "{version}"\n[bridge]')
    one = bridge(text, mosquitto.port)
    async with Subscriber(mosquitto.port, name) as subscriber:
        send(kafka, name, *(b"%d" % number for number in range(250)), key=b"lamp/7")
        send(kafka, name, b"-1", headers=(("mqtt.topic", b"x"),))
        send(kafka, name, b"-2", key=b"a/+/b")
        await one.start()
        await until(lambda: len(subscriber.came) >= 250, one.said)
        assert subscriber.values() == list(range(250)), "in their order, and none of those that came from MQTT"
        assert {str(message.topic) for message in subscriber.came} == {f"{name}/lamp/7"}
        (dead,) = await read(kafka, f"{name}-dead", 1)
        assert dead.value == b"-2"
        assert f"'{name}/a/+/b' is no MQTT topic" in reason(dead)
        assert dict(dead.headers)["kafka.record"] == f"{name}-0:251".encode()
    await until(lambda: asyncio.to_thread(lambda: committed(kafka, name) == 252), one.said)
    async with Subscriber(mosquitto.port, name) as late:
        await until(lambda: late.came)
        assert late.values() == [249], "it was published to be retained"
    counts = (await one.state())["counts"]
    assert (counts["published"], counts["out_skipped"], counts["out_refused"]) == (250, 1, 1)


@needs_mosquitto
@pytest.mark.slow
async def test_nothing_is_lost_when_the_bridge_is_killed_or_cut_off(
    mosquitto: Mosquitto, witness: Witness, kafka: str, bridge: Make, name: str
) -> None:
    count = 1500
    one = bridge(settings(name), witness.port)
    async with Subscriber(mosquitto.port, name) as subscriber:
        send(kafka, name, *(b"%d" % number for number in range(count)))
        await one.start()
        await until(lambda: len(subscriber.came) > 200, one.said)
        one.end(signal.SIGKILL)
        await one.start()
        await until(lambda: len(subscriber.came) > 700, one.said)
        witness.cut()
        await until(lambda: len(set(subscriber.values())) == count, one.said)
    assert len(subscriber.came) <= count + 2 * WINDOW, "at most a window comes again, each time"


@needs_mosquitto
@pytest.mark.slow
async def test_what_ends_the_connection_each_time_does_not_for_ever(
    mosquitto: Mosquitto, kafka: str, bridge: Make, name: str
) -> None:
    """Mosquitto's answer to a topic of more than 200 levels. Those before it do not come again each time."""
    one = bridge(settings(name), mosquitto.port)
    levels = b"/".join([b"a"] * 300)
    async with Subscriber(mosquitto.port, name) as subscriber:
        send(kafka, name, *(b"%d" % number for number in range(50)))
        send(kafka, name, b"-1", key=levels)
        send(kafka, name, *(b"%d" % number for number in range(50, 100)))
        await one.start()
        await until(lambda: subscriber.values()[-1:] == [99], one.said)
        assert set(subscriber.values()) == set(range(100))
        assert len(subscriber.came) <= 100 + WINDOW, "a window comes again once"
        (dead,) = await read(kafka, f"{name}-dead", 1)
        assert (dead.key, dead.value) == (levels, b"-1")
        assert "3 connections ended when this was published alone: the connection ended" in reason(dead)
    await until(lambda: asyncio.to_thread(lambda: committed(kafka, name) == 101), one.said)


def record(**fields: object) -> ConsumerRecord:
    return ConsumerRecord(**{**dict.fromkeys(ConsumerRecord._fields, 0), "topic": "t", "key": b"k", **fields})  # type: ignore[arg-type]


def test_what_a_record_is_published_to_is_a_topic_or_refused() -> None:
    rule = OutRule("p", "t", "{topic}/{key}/{partition}/{offset}")
    assert mqtt_topic(rule, record(partition=2, offset=3)) == "t/k/2/3"
    assert mqtt_topic(rule, record(key=None)) == "t//0/0"
    with pytest.raises(Refused, match="its key is no UTF-8 text"):
        mqtt_topic(rule, record(key=b"\xff"))
    for key in (b"#", b"\0", b"x" * 70_000, b"a\nb", b"\x7f", "\x9f".encode(), "\ufdd0".encode(), "\uffff".encode()):
        with pytest.raises(Refused, match="is no MQTT topic to publish to"):
            mqtt_topic(rule, record(key=key))
    with pytest.raises(Refused, match="is no MQTT topic"):
        mqtt_topic(OutRule("p", "t", "{key}"), record(key=None))


def test_what_the_mqtt_broker_said_it_would_not_take_is_not_sent() -> None:
    fits(None, "t", b"x" * 10_000)
    fits(1000, "t", b"x" * 900)
    with pytest.raises(Refused, match="is more than the 1000 that the MQTT broker takes"):
        fits(1000, "t", b"x" * 1000)
