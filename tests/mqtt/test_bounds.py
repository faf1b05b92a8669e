"""However much comes and however little Kafka takes: what is open is bounded in bytes, and nothing of QoS 1 is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from barnabas.cli.sections_mqtt import render
from barnabas.mqtt.bridge import Bridge
from barnabas.mqtt.figures import Figures
from barnabas.mqtt.inward import Inward
from barnabas.mqtt.producing import Producing
from barnabas.mqtt.reading import read
from barnabas.mqtt.tables import File
from tests.mqtt.liar import Peer, liar, packet, publish
from tests.mqtt.servers import until
from tests.mqtt.test_refused_records import Kafka, came, carry

MAX = 1024 * 1024
TEXT = """
[mqtt]
host = "127.0.0.1"
client_id = "x"
[bridge]
dead_letter = "dead"
open_bytes_max = 1048576
[[rules]]
filter = "a/#"
topic = "good"
"""


def bridge(kafka: Kafka, port: int = 1, text: str = TEXT) -> Inward:
    settings = read(File("x", text), {})
    settings.mqtt.port = port
    producing = Producing(lambda: kafka)  # type: ignore[arg-type,return-value]
    return Inward(settings, producing, Figures(), lambda: 0, lambda: 0, lambda: 0.0)


@asynccontextmanager
async def running(one: Inward) -> AsyncIterator[None]:
    task = asyncio.create_task(one.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_no_more_is_read_than_may_be_open_until_kafka_takes_it() -> None:
    size, count = 100_000, 60
    acknowledged: list[int] = []

    async def flood(peer: Peer) -> None:
        """All at once, whatever the receive maximum."""
        peer.write(packet(0x90, await peer.accept() + b"\0\1"))
        for mid in range(1, count + 1):
            peer.write(publish(b"a/x", bytes(size), mid))
        while True:
            acknowledged.append(int.from_bytes(await peer.until(4), "big"))

    kafka = Kafka(lambda sent: None)
    kafka.missing["good"] = asyncio.get_running_loop().create_future()
    async with liar(flood) as port:
        one = bridge(kafka, port)
        async with running(one):
            await until(lambda: one.held)
            for _ in range(100):
                await asyncio.sleep(0)
            assert MAX <= one.open_bytes < MAX + size + 1000
            kafka.missing["good"].set_result(None)
            await until(lambda: len(acknowledged) == count, lambda: acknowledged)
            assert acknowledged == list(range(1, count + 1))
            assert (one.open_bytes, one.unsettled, one.held) == (0, 0, False)


async def test_topics_that_no_publisher_should_send() -> None:
    """Over the wire: no UTF-8, of 32,000 levels, of 65,535 bytes, with a wildcard; those behind them are carried."""
    deep, long = b"a" + b"/" * 32_000, b"a/".ljust(65_535, b"y")
    topics = [b"a/\xff", deep, long, b"a/+", b"elsewhere", b"b/\xff", b"a/x"]

    async def say(peer: Peer) -> None:
        peer.write(packet(0x90, await peer.accept() + b"\0\1"))
        for mid, topic in enumerate(topics, 1):
            peer.write(publish(topic, b"1", mid))
        while True:
            acknowledged.append(int.from_bytes(await peer.until(4), "big"))

    acknowledged: list[int] = []
    kafka = Kafka(lambda sent: None)
    text = TEXT.replace('"x"', '"x"\nsubscribe = ["#"]') + '[default]\ntopic = "rest"\n'
    async with liar(say) as port:
        one = bridge(kafka, port, text)
        async with running(one):
            await until(lambda: len(acknowledged) == len(topics), lambda: (acknowledged, one.side.why))
    assert acknowledged == [1, 2, 3, 4, 5, 6, 7]
    went = {sent.headers["mqtt.topic"]: (sent.topic, sent.headers.get("mqtt.refused", b"")) for sent in kafka.sent}
    no_text = b"its topic is no UTF-8: invalid start byte"
    assert went == {
        b"a/\\xff": ("dead", no_text),
        deep: ("good", b""),
        long: ("good", b""),
        b"a/+": ("good", b""),
        b"elsewhere": ("rest", b""),
        b"b/\\xff": ("dead", no_text),
        b"a/x": ("good", b""),
    }
    assert len(kafka.sent) == len(topics)


async def test_of_qos_0_what_comes_beyond_half_of_it_is_dropped_and_counted() -> None:
    kafka = Kafka(lambda sent: None)
    one = bridge(kafka)
    for _ in range(8):
        one._received(came("a/x", bytes(100_000), 0, qos=0))
    assert (one.unsettled, one.figures.lost_qos0) == (6, 2)
    await carry(one, so=lambda: not one.unsettled)
    assert one.open_bytes == 0
    assert len(kafka.sent) == 6


async def test_that_nothing_is_read_can_be_looked_at() -> None:
    shown = Bridge(read(File("x", TEXT), {}))
    assert shown.state()["open"]["held"] is False
    shown.inward.held = True
    told = render("here", shown.state(), None, 1.0)
    assert "nothing is read: as much is open as may be (receive_maximum, open_bytes_max)" in told
