"""A bridge can be looked at: its pages, and `barnabas health` and `barnabas top`, which know it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from barnabas.broker.metrics import MetricsRegistry
from barnabas.cli.look import get
from barnabas.cli.sections import render_any
from barnabas.mqtt import web
from barnabas.mqtt.bridge import STUCK_MS, Bridge
from barnabas.mqtt.figures import _MEANINGS
from barnabas.mqtt.reading import read
from barnabas.mqtt.tables import File
from barnabas.protocol.errors import ErrorCode, KafkaError
from tests.cli.process import run
from tests.mqtt.servers import Bridge as Process
from tests.mqtt.servers import Mosquitto, needs_mosquitto, settings, until

TEXT = """
[mqtt]
client_id = "looked-at"
[[rules]]
filter = "looked/+"
topic = "looked"
[[out]]
topic = "back"
to = "back/{key}"
"""


@pytest.fixture
async def bridge() -> Bridge:
    return Bridge(read(File("b.toml", settings(TEXT, 1, "127.0.0.1:1")), {}))


def lines(bridge: Bridge, before: dict[str, Any] | None = None) -> list[str]:
    return render_any("localhost:9095", bridge.state(), before, 2.0)


async def test_health_says_why_nothing_is_carried(bridge: Bridge) -> None:
    assert bridge.why_not() == "Kafka has not answered yet"
    bridge._kafka = ""
    assert bridge.why_not() == "not connected to the MQTT broker (in): it has not connected yet"
    bridge.inward.unsettled = 2
    waits = (
        "not connected to the MQTT broker (in): it has not connected yet; 2 messages that came before wait for Kafka"
    )
    assert bridge.why_not() == f"{waits}: their records are not acknowledged"
    bridge.figures.retrying[1] = "looked: TOPIC_AUTHORIZATION_FAILED"
    assert bridge.why_not() == f"{waits}: looked: TOPIC_AUTHORIZATION_FAILED"
    bridge.inward.unsettled = 0
    bridge.figures.retrying.clear()
    for side in (bridge.inward.side, bridge.outward.side):
        side.up()
    assert bridge.why_not() == ""
    one = bridge.inward.ledger.arrived(1, -STUCK_MS)
    bridge.figures.retrying[1] = "looked: NOT_ENOUGH_REPLICAS"
    assert re.fullmatch(r"a message has been open for \d+ ms: looked: NOT_ENOUGH_REPLICAS", bridge.why_not())
    assert any(line.startswith("not carrying: a message has been open") for line in lines(bridge))
    bridge.inward.ledger.settle(one)
    bridge.inward.ledger.leaving()
    assert bridge.why_not() == ""


async def test_a_dead_letter_topic_that_is_not_there_is_told_with_what_creates_it(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(topic: str) -> None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the cluster has no topic {topic}")

    monkeypatch.setattr(bridge._producing.now, "partitions_for", none)
    reaching = asyncio.create_task(bridge._reach_kafka())
    await until(lambda: "the cluster has no topic" in bridge.why_not())
    assert bridge.why_not().endswith("no topic mqtt.dead-letter; create it: barnabas topics create mqtt.dead-letter")
    reaching.cancel()
    await asyncio.gather(reaching, return_exceptions=True)


async def test_top_shows_rules_open_messages_and_rates(bridge: Bridge) -> None:
    before = bridge.state()
    bridge.settings.rules.rules[0].count = 500
    bridge.figures.forwarded = 480
    bridge.inward.ledger.arrived(1, 0)
    shown = lines(bridge, before)
    assert shown[0] == "mqtt bridge looked-at localhost:9095: 127.0.0.1:1 (MQTT 5) and 127.0.0.1:1"
    assert shown[1].startswith("open: 1 message of 1000, the oldest for ")
    (rule,) = (line for line in shown if "filter looked/+" in line)
    assert rule.split()[-2:] == ["500", "250"]
    (forwarded,) = (line for line in shown if line.startswith("records acknowledged by Kafka"))
    assert forwarded.split()[-2:] == ["480", "240"]


async def test_every_metric_has_a_meaning_and_is_told(bridge: Bridge) -> None:
    readings = list(bridge.registry.collect(0))
    assert {reading.name for reading in readings} == set(_MEANINGS)
    bridge.figures.received_qos1, bridge.figures.lost_qos0, bridge.settings.rules.rules[0].count = 7, 3, 5
    bridge.figures.took_ms.update(40)
    bridge.inward.side.up()
    port = await bridge._web.listen("127.0.0.1", 0)
    try:
        status, text = await asyncio.to_thread(get, f"127.0.0.1:{port}", "/metrics")
    finally:
        bridge._web.close()
    assert status == 200
    told = text.splitlines()
    for line in (
        'barnabas_mqtt_receivedmessages_total{qos="0"} 0',
        'barnabas_mqtt_receivedmessages_total{qos="1"} 7',
        "barnabas_mqtt_lostqos0messages_total 3",
        'barnabas_mqtt_rulemessages_total{rule="b.toml:6 [[rules]] 1"} 5',
        'barnabas_mqtt_connected{direction="in"} 1',
        'barnabas_mqtt_connected{direction="out"} 0',
        "barnabas_mqtt_forwardtimems_sum 40",
        "barnabas_mqtt_forwardtimems_count 1",
    ):
        assert line in told, text
    assert text.count("# HELP") == text.count("# TYPE") == len(_MEANINGS)


async def test_who_asks_and_does_not_read_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "SECONDS_MAX", 0.1)
    answer = {"much": "x" * (32 << 20)}
    one = web.Web(MetricsRegistry(), lambda: "", lambda: answer, lambda: 0, ())
    port = await one.listen("127.0.0.1", 0)
    before = asyncio.all_tasks()

    async def asked() -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /state HTTP/1.1\r\nHost: localhost\r\n\r\n")
        if b"200" in await reader.readline():
            return reader, writer
        writer.close()  # it was late
        return None

    reader, writer = await until(asked)
    await until(lambda: asyncio.all_tasks() <= before)
    size = 0
    with suppress(ConnectionResetError):
        while some := await reader.read(1 << 20):
            size += len(some)
    assert size < len(answer["much"])
    writer.close()
    one.close()


async def test_who_connects_and_says_nothing_keeps_nobody_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen of them did, for ten seconds: whoever watches over a bridge by its health would have ended it."""
    monkeypatch.setattr(web, "ASKING_MAX", 20)
    one = web.Web(MetricsRegistry(), lambda: "", dict, lambda: 0, ())
    port = await one.listen("127.0.0.1", 0)
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
    for _, writer in silent[:5]:
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
    await until(lambda: len(one._asking) == 20)
    status, body = await asyncio.to_thread(get, f"127.0.0.1:{port}", "/health")
    assert (status, body) == (200, '{"status": "serving"}\n')
    assert await silent[0][0].read() == b"", "it has taken longest"
    silent[1][1].write(b"\r\n")
    assert b"200" in await silent[1][0].readline(), "the others may still ask"
    for _, writer in silent:
        writer.close()
    await until(lambda: not one._asking)
    one.close()


async def test_so_many_answers_are_under_way_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "ANSWERS_MAX", 2)
    one = web.Web(MetricsRegistry(), lambda: "", lambda: {"much": "x" * (32 << 20)}, lambda: 0, ())
    port = await one.listen("127.0.0.1", 0)
    asked = []
    for _ in range(2):
        asked.append(await asyncio.open_connection("127.0.0.1", port))
        asked[-1][1].write(b"GET /state HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" in await asked[-1][0].readline()
    asked.append(await asyncio.open_connection("127.0.0.1", port))
    asked[-1][1].write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert await asked[-1][0].read() == b""
    for _, writer in asked:
        writer.transport.abort()
    await until(lambda: not one._answering)
    one.close()


@needs_mosquitto
@pytest.mark.slow
async def test_the_pages_of_a_bridge(
    mosquitto: Mosquitto, kafka: str, tmp_path: Path, bridge: Callable[..., Process]
) -> None:
    one = Process(tmp_path / "looked", TEXT, mosquitto.port, kafka)
    await one.start()
    try:
        pages = {path: await asyncio.to_thread(get, one.address, path) for path in ("/", "/health", "/state", "/x")}
        assert {path: status for path, (status, _) in pages.items()} == {
            "/": 200,
            "/health": 200,
            "/state": 200,
            "/x": 404,
        }
        async with aiomqtt.Client("127.0.0.1", mosquitto.port) as client:
            await client.publish("looked/at", b"1", qos=1)
        await one.counted("acknowledged", 1)
        status, metrics = await asyncio.to_thread(get, one.address, "/metrics")
        assert status == 200
        assert "barnabas_mqtt_forwardedmessages_total 1" in metrics.splitlines()
        assert pages["/health"][1] == '{"status": "serving"}\n'
        told = await asyncio.to_thread(run, "top", one.address, "--once")
        assert told.stdout.startswith(f"mqtt bridge looked-at {one.address}: 127.0.0.1:{mosquitto.port} (MQTT 5)")
        assert (await asyncio.to_thread(run, "health", one.address)).returncode == 0
        mosquitto.end()
        await until(lambda: asyncio.to_thread(lambda: get(one.address, "/health")[0] == 503), one.said)
        assert "not connected to the MQTT broker (in)" in (await asyncio.to_thread(get, one.address, "/health"))[1]
        reader, writer = await asyncio.open_connection(*one.address.split(":"))
        writer.write(b"GET /state HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n")
        assert b"421" in await reader.readline()
        writer.close()
    finally:
        assert one.end() == 0
