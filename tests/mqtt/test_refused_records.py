"""What becomes of a message that Kafka refuses, and of one that fails for now; Kafka is a stub here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from paho.mqtt.client import MQTTMessage

from barnabas.client.errors import RecordTooLarge
from barnabas.mqtt.figures import Figures
from barnabas.mqtt.inward import Inward
from barnabas.mqtt.producing import Producing
from barnabas.mqtt.reading import read
from barnabas.mqtt.settings import Settings
from barnabas.mqtt.tables import File
from barnabas.net.errors import ClientClosed, ClientTimeout
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from tests.mqtt.servers import until

TEXT = """
[mqtt]
client_id = "x"
[bridge]
dead_letter = "dead"
[[rules]]
filter = "a/#"
topic = "good"
[[rules]]
filter = "slow/#"
topic = "slow"
"""
Verdict = Callable[["Sent"], BarnabasError | None]


class Sent(NamedTuple):
    """One record that the bridge handed over."""

    topic: str
    value: bytes
    headers: dict[str, bytes]


class Outcome:
    """A record's future, of which the outcome is known."""

    def __init__(self, error: BarnabasError | None) -> None:
        self._error = error

    def outcome(self) -> tuple[None, BarnabasError | None]:
        return None, self._error

    def add_done_callback(self, told: Callable[[Any], None]) -> None:
        asyncio.get_running_loop().call_soon(told, self)


class Kafka:
    """In the producer's place: `verdict(sent)` says what is wrong with a record."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.sent: list[Sent] = []
        self.missing: dict[str, asyncio.Future[None]] = {}
        self.failed: BarnabasError | None = None

    async def partitions_for(self, topic: str) -> tuple[int, ...]:
        if topic in self.missing:
            await self.missing[topic]
        return (0,)

    async def send(self, topic: str, value: bytes, key: bytes | None, *, headers: Any, partition: Any) -> Outcome:
        await self.partitions_for(topic)
        self.sent.append(Sent(topic, value, dict(headers)))
        return Outcome(self.verdict(self.sent[-1]))

    def topics(self) -> list[str]:
        return [one.topic for one in self.sent]


def settings() -> Settings:
    return read(File("x", TEXT), {})


def inward(kafka: Kafka) -> Inward:
    producing = Producing(lambda: kafka)  # type: ignore[arg-type,return-value]
    return Inward(settings(), producing, Figures(), lambda: 0, lambda: 0, lambda: 0.0)


def came(topic: str, payload: bytes, mid: int, qos: int = 1) -> MQTTMessage:
    message = MQTTMessage(mid, topic.encode())
    message.payload, message.qos = payload, qos
    return message


async def carry(one: Inward, *messages: MQTTMessage, so: Callable[[], bool]) -> None:
    """Let messages come, and the bridge work until it is so."""
    pump = asyncio.create_task(one._pump())
    try:
        for message in messages:
            one._received(message)
        await until(so)
    finally:
        pump.cancel()
        await asyncio.gather(pump, return_exceptions=True)


def too_large(limit: int) -> Verdict:
    def verdict(sent: Sent) -> BarnabasError | None:
        size = len(sent.value) + sum(len(value) for value in sent.headers.values())
        return RecordTooLarge(f"{size} bytes") if size > limit else None

    return verdict


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_dead_letter_that_is_too_large_itself_goes_without_its_payload(qos: int) -> None:
    kafka = Kafka(too_large(100))
    one = inward(kafka)
    await carry(one, came("a/b", b"x" * 200, 1, qos), came("a/b", b"y", 2, qos), so=lambda: not one.unsettled)
    assert sorted(kafka.topics()) == ["dead", "dead", "good", "good"]
    bare = kafka.sent[-1]
    assert (bare.topic, bare.value) == ("dead", b"")
    assert bare.headers["mqtt.payload-bytes"] == b"200"
    assert bare.headers["mqtt.refused"] == b"204 bytes", "why the message was refused, not why its dead letter was"
    assert (one.figures.dead_lettered, one.figures.forwarded, one.figures.lost_dead_letters) == (1, 1, 0)


async def test_a_message_of_which_not_even_that_is_taken_is_counted_told_and_holds_nobody_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kafka = Kafka(lambda sent: KafkaError(ErrorCode.POLICY_VIOLATION, "no") if sent.value != b"y" else None)
    one = inward(kafka)
    await carry(one, came("a/b", b"x", 1), came("a/b", b"y", 2), so=lambda: not one.unsettled)
    assert [one.topic for one in kafka.sent].count("dead") == 2, "once with its payload, once without"
    await until(lambda: one.ledger.acknowledged == 2)
    assert (one.figures.lost_dead_letters, one.figures.forwarded) == (1, 1)
    assert "a/b" in caplog.text
    assert "POLICY_VIOLATION" in caplog.text


@pytest.mark.parametrize("code", [ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_RECORD])
async def test_a_clock_that_is_wrong_loses_nothing(code: ErrorCode) -> None:
    """Kafka refuses timestamps far from its own, in every topic: they are the bridge's, and no message's fault."""
    right = False

    def verdict(sent: Sent) -> BarnabasError | None:
        return None if right else KafkaError(code, "an hour ahead")

    kafka = Kafka(verdict)
    one = inward(kafka)

    async def so() -> None:
        nonlocal right
        await until(lambda: one.figures.retried)
        right = True

    told = asyncio.create_task(so())
    await carry(one, came("a/b", b"x", 1), so=lambda: not one.unsettled)
    await told
    assert (kafka.sent[-1].topic, kafka.sent[-1].value) == ("dead", b"x")
    assert (one.figures.lost_dead_letters, one.ledger.acknowledged) == (0, 1)


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NOT_ENOUGH_REPLICAS])
async def test_dead_letters_that_find_no_place_for_now_wait(code: ErrorCode) -> None:
    """The topic of the dead letters is not theirs to write to, or has too few replicas: both can be set right."""
    failures = iter([KafkaError(code, "no"), None])
    kafka = Kafka(lambda sent: next(failures) if sent.topic == "dead" else RecordTooLarge("x"))
    one = inward(kafka)
    await carry(one, came("a/b", b"x", 1), so=lambda: not one.unsettled)
    assert [(each.topic, each.value) for each in kafka.sent] == [("good", b"x"), ("dead", b"x"), ("dead", b"x")]
    assert (one.figures.retried, one.figures.lost_dead_letters) == (1, 0)


async def test_a_record_that_fails_again_and_again_is_sent_later_and_later(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = iter([*[ClientTimeout("no answer")] * 9, None])
    kafka = Kafka(lambda sent: next(failures))
    producing = Producing(lambda: kafka)  # type: ignore[arg-type,return-value]
    one = Inward(settings(), producing, Figures(), lambda: 0, lambda: 0, lambda: 0.5)
    waits: list[int] = []
    loop = asyncio.get_running_loop()
    later: Any = loop.call_later

    def soon(seconds: float, told: Any, *arguments: Any, **more: Any) -> Any:
        if told == one._again_now:
            waits.append(round(seconds * 1000))
            seconds = 0
        return later(seconds, told, *arguments, **more)

    monkeypatch.setattr(loop, "call_later", soon)
    await carry(one, came("a/b", b"x", 1), so=lambda: not one.unsettled)
    assert waits == [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
    assert (one.figures.retried, one.figures.forwarded, one.figures.retrying) == (9, 1, {})


@pytest.mark.parametrize("refused", [False, True])
async def test_a_record_that_is_sent_again_says_that_it_may_be_a_second_one(refused: bool) -> None:
    """The first may be there: Kafka wrote it, and its answer was lost."""
    failures = iter([ClientTimeout("no answer"), None])
    topic = "dead" if refused else "good"
    kafka = Kafka(lambda sent: next(failures) if sent.topic == topic else RecordTooLarge("x"))
    one = inward(kafka)
    await carry(one, came("a/b", b"x", 1), so=lambda: not one.unsettled)
    first, again = [each for each in kafka.sent if each.topic == topic]
    assert "mqtt.dup" not in first.headers
    assert again == first._replace(headers={**first.headers, "mqtt.dup": b"1"})


async def test_of_qos_0_what_kafka_took_not_is_lost_and_counted_and_nobody_waits_for_it() -> None:
    kafka = Kafka(lambda sent: KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "no") if sent.value == b"x" else None)
    one = inward(kafka)
    await carry(one, came("a/b", b"x", 0, qos=0), came("a/b", b"y", 0, qos=0), so=lambda: not one.unsettled)
    figures = one.figures
    assert (figures.received_qos0, figures.lost_qos0, figures.forwarded, figures.retried) == (2, 1, 1, 0)


async def test_what_comes_while_the_bridge_drains_comes_again_or_is_counted() -> None:
    """Of QoS 1 the MQTT broker delivers it again; of QoS 0 nobody does, and no record is made of it."""
    kafka = Kafka(lambda sent: None)
    one = inward(kafka)
    await one.drain()
    one._received(came("a/b", b"x", 1))
    one._received(came("a/b", b"y", 0, qos=0))
    figures = one.figures
    assert (figures.received_qos1, figures.received_qos0, figures.lost_qos0) == (0, 1, 1)
    assert (one.unsettled, len(one.ledger)) == (0, 0)


async def test_of_qos_0_what_a_bridge_that_ends_still_had_is_counted() -> None:
    """The producer is closed with the records of both in it: of QoS 1 it comes again, to the next bridge."""
    kafka = Kafka(lambda sent: ClientClosed("the producer is closed"))
    one = inward(kafka)
    one._received(came("a/b", b"x", 1))
    one._received(came("a/b", b"y", 0, qos=0))
    draining = asyncio.create_task(one.drain())
    await carry(one, so=lambda: one.figures.lost_qos0 == 1)
    assert (one.unsettled, len(one.ledger), one.figures.retried) == (1, 1, 0)
    draining.cancel()
    await asyncio.gather(draining, return_exceptions=True)


@pytest.mark.parametrize("comes", [True, False])
async def test_a_topic_that_is_not_there_holds_up_no_other(comes: bool) -> None:
    """Its messages wait for it alone, and go in their order when it comes; or they are dead letters."""
    kafka = Kafka(lambda sent: None)
    absent = kafka.missing["slow"] = asyncio.get_running_loop().create_future()
    one = inward(kafka)

    async def so() -> None:
        await until(lambda: one.figures.forwarded == 2)
        assert [sent.topic for sent in kafka.sent] == ["good", "good"]
        assert one.unsettled == 2
        if comes:
            absent.set_result(None)
        else:
            absent.set_exception(ClientTimeout("not in the metadata: UNKNOWN_TOPIC_OR_PARTITION(3)"))

    told = asyncio.create_task(so())
    messages = [came("slow/1", b"1", 1), came("a/1", b"x", 2), came("slow/2", b"2", 3), came("a/2", b"y", 4)]
    await carry(one, *messages, so=lambda: told.done() and not one.unsettled)
    await told
    where = "slow" if comes else "dead"
    assert [(sent.topic, sent.value) for sent in kafka.sent[2:]] == [(where, b"1"), (where, b"2")]


async def test_a_topic_that_is_called_like_an_error_is_none() -> None:
    """A passing failure names its topic, whose messages are not dead letters for that."""
    failures = iter([ClientTimeout("topic UNKNOWN_TOPIC_OR_PARTITION: no answer"), None])
    kafka = Kafka(lambda sent: next(failures))
    one = inward(kafka)
    await carry(one, came("a/b", b"x", 1), so=lambda: not one.unsettled)
    assert [sent.topic for sent in kafka.sent] == ["good", "good"]


async def test_an_accident_while_a_topic_is_looked_up_ends_the_bridge() -> None:
    """What is parked for the topic would wait for ever, and nobody would know."""
    kafka = Kafka(lambda sent: None)
    one = inward(kafka)
    accident = asyncio.get_running_loop().create_future()
    accident.set_exception(ZeroDivisionError("by accident"))
    kafka.missing["slow"] = accident
    one._received(came("slow/b", b"y", 1))
    with pytest.raises(ZeroDivisionError, match="by accident"):
        await asyncio.wait_for(one._pump(), 30)
