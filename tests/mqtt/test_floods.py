"""An MQTT broker that sends more than it may, and messages larger than a bridge takes: bounded, and none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from paho.mqtt.client import MQTTMessage

from barnabas.mqtt.figures import Figures
from barnabas.mqtt.inward import Inward
from barnabas.mqtt.link import Link
from barnabas.mqtt.producing import Producing
from barnabas.mqtt.reading import read
from barnabas.mqtt.settings import Mqtt
from barnabas.mqtt.tables import File
from tests.mqtt.servers import Bridge, Mosquitto, needs_mosquitto, until
from tests.mqtt.test_inward import publish, reason
from tests.mqtt.test_inward import read as read_records
from tests.mqtt.test_refused_records import Kafka, came
from tests.mqtt.witness import PUBACK, packets

CONNECT, SUBSCRIBE = 1, 8
COUNT = 3000
OPEN_MAX = 20


class Flood:
    """An MQTT 5 broker that sends `COUNT` messages of QoS 1 once it is subscribed to, without a limit."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = b""
        while data := await reader.read(65536):
            left += data
            size = 0
            for first, body, end in packets(left):
                size = end
                if first >> 4 == CONNECT:
                    writer.write(b"\x20\x03\x00\x00\x00")
                elif first >> 4 == SUBSCRIBE:
                    writer.write(b"\x90\x04" + body[:2] + b"\x00\x01")
                    self._tasks.add(asyncio.ensure_future(self._send(writer)))
                elif first >> 4 == PUBACK:
                    self.acknowledged.append(int.from_bytes(body[:2], "big"))
            left = left[size:]
        writer.close()

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        for mid in range(1, COUNT + 1):
            writer.write(b"\x32\x88\x01\x00\x03a/b" + mid.to_bytes(2, "big") + b"\x00" + b"x" * 128)
            await writer.drain()

    def close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()


@pytest.fixture
async def flood() -> AsyncIterator[Flood]:
    server = Flood()
    await server.start()
    yield server
    server.close()


async def test_what_comes_beyond_the_receive_maximum_is_not_read(flood: Flood) -> None:
    """Nothing leaves until so much has come as will come; then all does, in its order."""
    text = f'[mqtt]\nhost = "127.0.0.1"\nport = {flood.port}\nclient_id = "x"\nreceive_maximum = {OPEN_MAX}\n'
    parked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    most = 0

    def note(sent: object = None) -> None:
        nonlocal most
        most = max(most, len(one.ledger))

    kafka = Kafka(note)
    kafka.missing["t"] = parked
    settings = read(File("x", text + '[[rules]]\nfilter = "a/#"\ntopic = "t"\n'), {})
    producing = Producing(lambda: kafka)  # type: ignore[arg-type,return-value]
    one = Inward(settings, producing, Figures(), lambda: 0, lambda: 0, lambda: 0.0)
    running = asyncio.create_task(one.run())
    try:
        await until(lambda: one.held or len(one.ledger) == COUNT)
        note()
        parked.set_result(None)
        await until(lambda: len(flood.acknowledged) == COUNT)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert most <= OPEN_MAX + 1
    assert flood.acknowledged == list(range(1, COUNT + 1))
    assert len(kafka.sent) == COUNT


async def test_a_link_that_ends_hands_nothing_on() -> None:
    """What comes after that would be taken for a message of the next connection, and acknowledged there."""
    told: list[MQTTMessage] = []
    link = Link(Mqtt("127.0.0.1", 1, "one"), "one", told.append)
    link._on_message(None, None, came("a", b"1", 1))
    await link.__aexit__(None, None, None)
    link._on_message(None, None, came("a", b"2", 2))
    assert [message.payload for message in told] == [b"1"]


@needs_mosquitto
@pytest.mark.slow
@pytest.mark.parametrize("version", ["5", "3.1.1"])
async def test_payloads_that_are_too_large_are_dead_letters_and_hold_nobody_up(
    mosquitto: Mosquitto, kafka: str, bridge: Callable[..., Bridge], version: str
) -> None:
    """More of them than may be open: Mosquitto would count those that it drops as open for ever."""
    name = f"large{version[0]}"
    limits = "receive_maximum = 3" if version == "5" else f'version = "{version}"'
    text = f"""
[mqtt]
client_id = "{name}"
payload_bytes_max = 2000
{limits}
[bridge]
dead_letter = "{name}-dead"
[[rules]]
filter = "{name}/#"
topic = "{name}"
"""
    one = bridge(text, mosquitto.port)
    await one.start()
    large = [b"x" * (2001 + number) for number in range(25)]
    await publish(mosquitto, f"{name}/a", *large, b"y" * 2000)
    assert [record.value for record in await read_records(kafka, name, 1)] == [b"y" * 2000]
    dead = await read_records(kafka, f"{name}-dead", 25)
    assert {dict(record.headers)["mqtt.payload-bytes"] for record in dead} == {b"%d" % len(each) for each in large}
    assert {record.value for record in dead} == {b""}
    assert "a payload of 2001 bytes is more than payload_bytes_max (2000)" in {reason(record) for record in dead}
    await one.counted("acknowledged", 26)
