"""What MQTT 5 has beside topic and payload goes into headers, and out of them again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import aiomqtt
import pytest
from paho.mqtt import MQTTException, properties
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from barnabas.mqtt.inward import Inward
from barnabas.mqtt.mapping import Refused
from barnabas.mqtt.outward import fits
from barnabas.mqtt.properties import HEADERS_MAX, make_tables_once, of_record, read_any_text, to_headers
from tests.mqtt.servers import Bridge, Mosquitto, needs_mosquitto
from tests.mqtt.test_inward import read
from tests.mqtt.test_outward import record
from tests.mqtt.test_refused_records import Kafka, came, carry, inward


def given(**values: Any) -> Properties:
    made = Properties(PacketTypes.PUBLISH)
    for name, value in values.items():
        setattr(made, name, value)
    return made


ALL: dict[str, Any] = {
    "UserProperty": [("a", "1"), ("a", "2"), ("", "")],
    "ContentType": "text/plain",
    "ResponseTopic": "answers/x",
    "CorrelationData": b"\x00\xff",
}
HEADERS = (
    ("a", b"1"),
    ("a", b"2"),
    ("", b""),
    ("mqtt.content-type", b"text/plain"),
    ("mqtt.response-topic", b"answers/x"),
    ("mqtt.correlation-data", b"\x00\xff"),
)


def test_properties_are_headers_and_headers_properties() -> None:
    assert to_headers(None) == to_headers(given()) == to_headers(given(MessageExpiryInterval=5)) == ()
    assert to_headers(given(**ALL)) == HEADERS
    made: Any = of_record(record(headers=HEADERS))
    assert {name: getattr(made, name) for name in ALL} == ALL
    assert of_record(record(headers=())) is None


def test_tables_that_are_made_once_are_those_that_paho_makes() -> None:
    spec = spec_from_file_location("paho.mqtt.untouched", properties.__file__)
    assert spec is not None
    assert spec.loader is not None
    untouched = module_from_spec(spec)
    spec.loader.exec_module(untouched)
    make_tables_once()
    make_tables_once()
    made: Any = Properties(PacketTypes.CONNECT)
    assert vars(made) == vars(untouched.Properties(PacketTypes.CONNECT))
    with pytest.raises(MQTTException, match="does not apply to packet type"):
        made.ContentType = "text"
    one: Any = Properties(PacketTypes.PUBLISH)
    one.ContentType, one.UserProperty, one.CorrelationData = "text", ("a", "b"), b"1"
    again: Any = Properties(PacketTypes.PUBLISH)
    assert again.unpack(one.pack())[0].json() == one.json() != {}
    assert (made.json(), again.unpack(b"\0")[0].json()) == ({}, {}), "none has another's, nor its own of before"


def test_nobody_forges_a_header_of_the_bridge() -> None:
    assert to_headers(given(UserProperty=[("mqtt.topic", "x"), ("mqtt.dup", "1"), ("b", "c")])) == (("b", b"c"),)


@pytest.mark.parametrize(
    "header",
    [
        ("mqtt.topic", b"a"),
        ("mqtt.dup", b"1"),
        ("a", b"\xff"),
        ("a", b"line\nline"),
        ("a\0", b""),
        ("a", b"x" * 65_536),
        ("x" * 65_536, b""),
        ("mqtt.response-topic", b"a/#"),
        ("mqtt.response-topic", b""),
        ("mqtt.content-type", b"\xff"),
        ("mqtt.correlation-data", b"x" * 65_536),
    ],
)
def test_headers_that_mqtt_has_no_place_for_are_left_out(header: tuple[str, bytes]) -> None:
    assert of_record(record(headers=(header,))) is None


def test_so_many_headers_go_out_and_count_as_size() -> None:
    made: Any = of_record(record(headers=tuple((f"{number}", None) for number in range(HEADERS_MAX + 5))))
    assert len(made.UserProperty) == HEADERS_MAX
    fits(500, "t", b"")
    with pytest.raises(Refused, match="is more than the 500"):
        fits(500, "t", b"", made)


async def test_more_properties_than_may_become_headers_make_a_dead_letter() -> None:
    kafka = Kafka(lambda sent: None)
    one: Inward = inward(kafka)
    message = came("a/b", b"x", 1)
    message.properties = given(UserProperty=[(f"{number}", "") for number in range(HEADERS_MAX + 1)])
    await carry(one, message, so=lambda: not one.unsettled)
    (dead,) = kafka.sent
    assert (dead.topic, dead.value) == ("dead", b"x")
    assert dead.headers["mqtt.refused"] == b"it has 101 properties, and 100 may become headers"
    assert str(HEADERS_MAX - 1) in dead.headers
    assert str(HEADERS_MAX) not in dead.headers


@needs_mosquitto
@pytest.mark.slow
async def test_they_go_through_a_bridge_and_back(
    mosquitto: Mosquitto, kafka: str, bridge: Callable[..., Bridge]
) -> None:
    """U+FEFF, too, which paho alone would end the connection for, again and again."""
    text = """
[mqtt]
client_id = "carried"
[bridge]
group = "carried"
[[rules]]
filter = "carried/+"
topic = "carried"
[rules.headers]
room = "attic"
[[out]]
topic = "carried"
to = "back/{topic}"
from_mqtt = true
"""
    one = bridge(text, mosquitto.port)
    sent = {**ALL, "UserProperty": [("traceparent", "00-1-2-03"), ("bom", "\ufeffx"), ("room", "forged")]}
    await one.start()
    client = aiomqtt.Client("127.0.0.1", mosquitto.port, protocol=aiomqtt.ProtocolVersion.V5)
    read_any_text()
    async with asyncio.timeout(30), client:
        await client.subscribe("back/#", qos=1)
        await client.publish("carried/x", b"1", qos=1, properties=given(**sent))
        back: Any = (await anext(aiter(client.messages))).properties
    sent["UserProperty"].append(("room", "attic"))
    assert {name: getattr(back, name) for name in ALL} == sent
    (found,) = await read(kafka, "carried", 1)
    headers = dict(found.headers)
    assert (headers["traceparent"], headers["bom"]) == (b"00-1-2-03", "\ufeffx".encode())
    assert headers["room"] == b"attic", "the rule's has the last word"
    assert headers["mqtt.content-type"] == b"text/plain"
