"""What the bridge needs of aiomqtt, and of paho beneath it: these fail when a release moves it."""

from __future__ import annotations

import asyncio
import inspect
import re
from importlib.metadata import requires, version
from pathlib import Path

import aiomqtt
import pytest
from paho.mqtt import client as paho

from barnabas.mqtt.figures import Side
from barnabas.mqtt.link import Link, LinkFailed, beneath, keep
from barnabas.mqtt.reconnect import Reconnect
from barnabas.mqtt.settings import Mqtt
from tests.mqtt.servers import Mosquitto, needs_mosquitto, until
from tests.mqtt.witness import Witness


def test_the_releases_are_those_that_are_pinned() -> None:
    assert version("aiomqtt").split(".")[0] == "2"
    assert version("paho-mqtt").split(".")[0] == "2"
    pinned = [one.partition(";")[0].strip() for one in requires("barnabas") or [] if re.search("extra == .mqtt.$", one)]
    assert pinned == ["aiomqtt<3,>=2.3", "paho-mqtt<3,>=2.1"]


def test_paho_has_nothing_of_what_the_last_asyncio_mqtt_calls_first() -> None:
    """The run that docs/MQTT.md shows: were it to succeed, the reason for the other name would be gone."""
    assert not hasattr(paho.Client, "message_retry_set")


async def test_paho_lies_beneath_with_all_that_is_taken_of_it() -> None:
    client = aiomqtt.Client("nowhere")
    found = beneath(client)
    for name in ("manual_ack_set", "disable_logger", "socket", "loop_write", "disconnect", "publish"):
        assert callable(getattr(found, name)), name
    queue = inspect.signature(paho.Client._packet_queue).parameters
    assert list(queue) == ["self", "command", "packet", "mid", "qos", "info"]
    for name in ("on_message", "on_connect", "on_publish", "on_socket_register_write"):
        assert getattr(found, name) is not None, f"aiomqtt uses {name}"


async def test_all_acknowledgements_of_a_turn_are_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of paho's `ack` each is a system call; the witness reads in other tests that these are the same bytes."""
    link, written = Link(Mqtt("127.0.0.1", 1, "one"), "one", lambda message: None), list[bytes]()
    monkeypatch.setattr(link._paho, "_packet_queue", lambda command, packet, mid, qos: written.append(packet))
    link.acknowledge([])
    link.acknowledge([1, 65_535, 300])
    assert written == [bytes.fromhex("40020001 4002ffff 4002012c")]


async def test_an_aiomqtt_without_paho_is_refused_by_name() -> None:
    client = aiomqtt.Client("nowhere")
    client._client = object()  # type: ignore[assignment]
    with pytest.raises(LinkFailed, match=r"install aiomqtt>=2\.3,<3 and paho-mqtt>=2\.1,<3"):
        beneath(client)


@needs_mosquitto
@pytest.mark.parametrize("version", ["5", "3.1.1"])
async def test_nothing_is_acknowledged_unless_the_bridge_says_so(
    mosquitto: Mosquitto, witness: Witness, version: str
) -> None:
    witness.five = version == "5"
    came: list[paho.MQTTMessage] = []
    link = Link(Mqtt("127.0.0.1", witness.port, "one", version), "one", came.append)
    async with link:
        await link.subscribe(["a"], 0)
        async with aiomqtt.Client("127.0.0.1", mosquitto.port) as publisher:
            for payload in (b"1", b"2", b"3"):
                await publisher.publish("a", payload, qos=1)
        await until(lambda: len(came) == 3)
        link.acknowledge([came[0].mid])
        (connection,) = witness.connections
        await until(lambda: connection.acknowledged)
        assert connection.acknowledged == [came[0].mid], "paho acknowledges nothing by itself"
    again: list[paho.MQTTMessage] = []
    async with Link(Mqtt("127.0.0.1", witness.port, "one", version), "one", again.append) as link:
        await until(lambda: len(again) == 2)
        assert link.session_present
        assert [(message.payload, message.dup) for message in again] == [(b"2", True), (b"3", True)]


@needs_mosquitto
async def test_a_connection_that_is_reset_ends_on_every_loop(mosquitto: Mosquitto, witness: Witness) -> None:
    async with Link(Mqtt("127.0.0.1", witness.port, "one"), "one", lambda message: None) as link:
        await until(lambda: witness.connections)
        witness.cut()
        with pytest.raises(LinkFailed, match="the connection ended"):
            await asyncio.wait_for(link.ended(), 30)


@needs_mosquitto
async def test_a_refused_subscription_is_told(tmp_path: Path) -> None:
    rules = tmp_path / "acl"
    rules.write_text("topic read other\n")
    server = Mosquitto(tmp_path / "mosquitto", f"acl_file {rules}", "max_qos 0")
    await server.start()
    try:
        async with Link(Mqtt("127.0.0.1", server.port, "one"), "one", lambda message: None) as link:
            with pytest.raises(LinkFailed, match=r"grants QoS 0 for other, and 1 is asked for|refuses"):
                await link.subscribe(["other"], 0)
    finally:
        server.end()


async def test_who_refuses_the_connection_is_asked_again_after_a_while() -> None:
    """No MQTT broker at all: the waits grow, and the reason is told."""
    side, waits = Side("in"), []

    class Told(Exception):
        pass

    class Hasty(Reconnect):
        def lost(self, now_ms: int) -> int:
            waits.append(super().lost(now_ms))
            if len(waits) == 3:
                raise Told
            return 0

    policy = Hasty(lambda: 0.5)

    async def never(link: Link) -> None:
        raise AssertionError

    async def ready() -> None: ...

    with pytest.raises(Told):
        await keep(side, ready, lambda: Link(Mqtt("127.0.0.1", 1, "x"), "x", None), never, policy, lambda: 0)
    assert waits == [100, 200, 400]
    assert "127.0.0.1:1: " in side.why
    assert "refused" in side.why
    assert (side.connected, side.connections, side.failures) == (False, 0, 3)


def test_a_connection_that_is_of_no_use_is_none_that_did_not_hold() -> None:
    """Three refused subscriptions say nothing of another client with the same client_id."""
    policy = Reconnect(lambda: 0.5)
    for _ in range(3):
        policy.connected(0)
        policy.refused()
        policy.lost(5)
    assert policy.brief == 0
    for _ in range(2):
        policy.connected(0)
        policy.lost(5)
    assert policy.brief == 2


@needs_mosquitto
async def test_who_is_refused_again_and_again_is_told_of_that_alone(tmp_path: Path) -> None:
    side, tries = Side("in"), []
    server = Mosquitto(tmp_path / "mosquitto", "max_qos 0")
    await server.start()
    mqtt = Mqtt("127.0.0.1", server.port, "one")

    class Told(Exception):
        pass

    class Hasty(Reconnect):
        def lost(self, now_ms: int) -> int:
            super().lost(now_ms)
            tries.append(side.why)
            return 0

    async def ready() -> None:
        if len(tries) == 4:
            raise Told

    async def subscribe(link: Link) -> None:
        await link.subscribe(["other"], 0)

    try:
        with pytest.raises(Told):
            await keep(side, ready, lambda: Link(mqtt, "one", None), subscribe, Hasty(lambda: 0.5), lambda: 0)
    finally:
        server.end()
    assert side.why == "the MQTT broker grants QoS 0 for other, and 1 is asked for"


@needs_mosquitto
async def test_who_is_thrown_out_again_and_again_is_told_why_that_may_be(mosquitto: Mosquitto) -> None:
    side, told = Side("in"), []
    mqtt = Mqtt("127.0.0.1", mosquitto.port, "twin")

    class Told(Exception):
        pass

    class Hasty(Reconnect):
        def lost(self, now_ms: int) -> int:
            told.append(side.why)
            super().lost(now_ms)
            return 0

    async def ready() -> None:
        if len(told) == 3:
            raise Told

    async def twin(link: Link) -> None:
        async with Link(mqtt, "twin", None):
            await link.ended()

    with pytest.raises(Told):
        await keep(side, ready, lambda: Link(mqtt, "twin", None), twin, Hasty(lambda: 0.5), lambda: 0)
    assert not any("client_id" in why for why in told)
    assert "3 connections did not hold: does another client have the same client_id?" in side.why
