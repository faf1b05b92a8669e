"""MQTT brokers that lie, close, or are none: each is told with what to do about it, and none ends the bridge."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from unittest.mock import patch

import pytest
from paho.mqtt.client import convert_disconnect_error_code_to_reason_code
from paho.mqtt.enums import MQTTErrorCode

from barnabas.mqtt import remedies
from barnabas.mqtt.figures import Side
from barnabas.mqtt.link import Link, LinkFailed, keep
from barnabas.mqtt.reconnect import Reconnect
from barnabas.mqtt.settings import Mqtt
from tests.mqtt.liar import DISCONNECT, Peer, Says, liar, packet

SUBACK, CONNECT_ANSWER = 0x90, 0x20


async def why_not(says: Says, mqtt: Mqtt | None = None) -> str:
    """What a link that connects, subscribes to two filters and waits says of such a broker."""
    async with liar(says) as port:
        mqtt = mqtt or Mqtt()
        mqtt.host, mqtt.port, mqtt.client_id = "127.0.0.1", port, "one"

        async def carry() -> None:
            async with Link(mqtt, "one", lambda message: None) as link:
                await link.subscribe(["a", "b"], 0)
                await link.ended()

        with pytest.raises(LinkFailed) as failed, patch("barnabas.mqtt.link.ANSWER_SECONDS_MAX", 600.0):
            await asyncio.wait_for(carry(), 60)  # less than the time that an answer may take
        return str(failed.value).replace(str(port), "PORT")


def suback(codes: bytes) -> Says:
    async def says(peer: Peer) -> None:
        peer.write(packet(SUBACK, await peer.accept() + b"\0" + codes))
        await peer.until(DISCONNECT)

    return says


@pytest.mark.parametrize("codes", [b"", b"\1", b"\1\1\1"])
async def test_as_many_subscriptions_are_answered_as_were_asked_for(codes: bytes) -> None:
    """It was a ValueError, which ended the whole bridge."""
    assert await why_not(suback(codes)) == f"the MQTT broker answers 2 subscriptions with {len(codes)} reason codes"


async def test_a_subscription_that_is_refused_is_named() -> None:
    assert await why_not(suback(b"\1\x87")) == "the MQTT broker refuses a subscription to b: Not authorized"


async def close(peer: Peer) -> None:
    await peer.read()


async def test_a_connection_that_is_closed_unanswered_is_noticed_at_once() -> None:
    """aiomqtt waits for the answer all the same, 15 s long."""
    assert await why_not(close) == (
        "127.0.0.1:PORT: CONNECT was not answered; is it an MQTT broker's port? If it speaks TLS, write [mqtt.tls] "
        "(and port = PORT in [mqtt])"
    )


def connack(code: int) -> Says:
    async def says(peer: Peer) -> None:
        await peer.read()
        peer.write(packet(CONNECT_ANSWER, bytes([0, code, 0])))

    return says


@pytest.mark.parametrize(
    ("code", "username", "told"),
    [
        (0x84, "", 'Unsupported protocol version (0x84); write version = "3.1.1" in [mqtt]'),
        (0x85, "", "Client identifier not valid (0x85); 'one' is its client_id: choose another"),
        (0x87, "", "Not authorized (0x87); write username and password_file in [mqtt]"),
        (
            0x86,
            "bridge",
            "Bad user name or password (0x86); look at username and password (or password_file) of [mqtt], "
            "and at the rights of that user",
        ),
        (0x89, "", "Server busy (0x89)"),
    ],
)
async def test_a_refused_connection_says_what_to_do(code: int, username: str, told: str) -> None:
    """The broker closes behind its answer, and the answer is what counts."""
    assert await why_not(connack(code), Mqtt(username=username)) == (
        f"127.0.0.1:PORT: the MQTT broker refuses the connection: {told}"
    )


def then(*packets: bytes) -> Says:
    async def says(peer: Peer) -> None:
        mid = await peer.accept()
        peer.write(packet(SUBACK, mid + b"\0\1\1"))
        for each in packets:
            peer.write(each)

    return says


@pytest.mark.parametrize(
    ("says", "told"),
    [
        (then(), "it was closed without a reason"),
        (
            then(packet(0xE0, b"\x8e\0")),
            "the MQTT broker ended it: Session taken over (0x8e); another client has the client_id 'one': "
            "give each bridge its own",
        ),
        (
            then(packet(0xE0, b"\x98\x0a\x1f\0\7go away")),
            "the MQTT broker ended it: Administrative action (0x98), 'go away'",
        ),
        (then(packet(0xE0, b"")), "the MQTT broker ended it: Normal disconnection (0x00)"),
        (then(packet(0xE0, b"\xee\0")), "the MQTT broker sent what is no MQTT"),
        (then(packet(0x36, b"\0\1a\0\1\0x")), "the MQTT broker sent what is no MQTT"),
        (then(packet(0x32, b"\xff\xffab")), "the MQTT broker sent what is no MQTT"),
        (then(b"\x32\xff\xff\xff\xff\x7f"), "the MQTT broker sent what is no MQTT"),
        (then(packet(0x40, b"\0\5"), packet(0x62, b"\0\6"), packet(0x00, b"")), "the MQTT broker sent what is no MQTT"),
    ],
)
async def test_how_a_connection_ended_is_told(says: Says, told: str) -> None:
    assert await why_not(says) == f"the connection ended: {told}"


def refused_certificate(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, "it is not to be trusted"
    return error


def wrong_version() -> ssl.SSLError:
    error = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)")
    error.reason = "WRONG_VERSION_NUMBER"
    return error


def alert() -> ssl.SSLError:
    """TLS 1.2 says so in the handshake."""
    error = ssl.SSLError(1, "[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca (_ssl.c:1006)")
    error.reason = "TLSV1_ALERT_UNKNOWN_CA"
    return error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            refused_certificate(19),
            "TLS: it is not to be trusted; as ca_file of [mqtt.tls] write the authority",
        ),
        (refused_certificate(62), "TLS: it is not to be trusted; write as host a name that its certificate has"),
        (refused_certificate(64), "TLS: it is not to be trusted; write as host a name that its certificate has"),
        (
            wrong_version(),
            "TLS: WRONG_VERSION_NUMBER; if port 1883 speaks none, write another, or leave [mqtt.tls] out",
        ),
        (alert(), "TLS: TLSV1_ALERT_UNKNOWN_CA. If it asks for a certificate of the bridge, write as cert_file"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known; look at host in [mqtt]"),
        (
            ConnectionResetError(104, "Connection reset by peer"),
            "Connection reset by peer; is it an MQTT broker's port?",
        ),
        (TimeoutError("timed out"), "timed out"),
    ],
)
def test_what_keeps_a_connection_from_being_made_says_what_to_do(error: OSError, told: str) -> None:
    assert remedies.unreached(Mqtt(), error).startswith(told)


def test_a_ping_without_an_answer_is_told_with_its_setting() -> None:
    reason = convert_disconnect_error_code_to_reason_code(MQTTErrorCode.MQTT_ERR_KEEPALIVE)
    told = remedies.ended(Mqtt(keepalive_s=7), reason, "", by_broker=False)
    assert told == "the MQTT broker has answered no ping for 7 s (keepalive_s)"


async def test_nothing_listens_there() -> None:
    async with liar(close) as port:
        pass
    with pytest.raises(LinkFailed, match=r"Connection refused: nothing listens there$"):
        async with Link(Mqtt("127.0.0.1", port, "one"), "one", None):
            pass


async def test_the_same_again_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    side, tries, clock = Side("in"), 0, 0
    last = 8

    class Enough(Exception):
        pass

    class Hasty(Reconnect):
        def lost(self, now_ms: int) -> int:
            nonlocal tries, clock
            tries, clock = tries + 1, clock + 10_000
            if tries == last:
                raise Enough
            return 0

    async def ready() -> None: ...

    async def refused(link: Link) -> None:
        raise LinkFailed("a subscription is refused")

    async with liar(connack(0)) as port:
        mqtt = Mqtt("127.0.0.1", port, "one")
        with suppress(Enough):
            await keep(side, ready, lambda: Link(mqtt, "one", None), refused, Hasty(lambda: 0.5), lambda: clock)
    lines = [record.getMessage() for record in caplog.records if record.name == "barnabas.mqtt.link"]
    assert (tries, len(lines)) == (last, 2), "at 10 s, and at 70 s"
    assert lines[0].endswith("again in 0 ms, then later and later")


async def test_what_is_no_mqtt_at_all_is_noticed_at_once() -> None:
    async def http(peer: Peer) -> None:
        peer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 20)
        await asyncio.Event().wait()

    assert "CONNECT was not answered" in await why_not(http)
