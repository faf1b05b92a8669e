"""Records out, and an MQTT broker that answers a message with a refusal: it is a dead letter, or it comes again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

import pytest

from barnabas.client.consume.record import ConsumerRecord
from barnabas.client.errors import RecordTooLarge
from barnabas.mqtt import outward
from barnabas.mqtt.figures import Figures
from barnabas.mqtt.link import Link, LinkFailed
from barnabas.mqtt.producing import Producing
from barnabas.mqtt.reading import read
from barnabas.mqtt.settings import Settings
from barnabas.mqtt.tables import File
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from tests.mqtt.test_outward import record
from tests.mqtt.witness import PUBLISH, packets

CONNECT, DISCONNECT = 1, 14


class Answering:
    """An MQTT 5 broker that answers messages of QoS 1, and nothing else; `code(payload)` is its answer."""

    def __init__(self) -> None:
        self.came: list[bytes] = []
        self.code: Callable[[bytes], int] = lambda payload: 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = b""
        while data := await reader.read(65536):
            left += data
            size = 0
            for first, body, end in packets(left):
                self._answer(first, body, writer)
                size = end
            left = left[size:]
        writer.close()

    def _answer(self, first: int, body: bytes, writer: asyncio.StreamWriter) -> None:
        if first >> 4 == CONNECT:
            writer.write(b"\x20\x03\x00\x00\x00")
        elif first >> 4 == DISCONNECT:
            writer.close()
        elif first >> 4 == PUBLISH:
            at = 2 + int.from_bytes(body[:2], "big")
            payload = body[at + 3 :]
            self.came.append(payload)
            writer.write(b"\x40\x03" + body[at : at + 2] + bytes([self.code(payload)]))

    def close(self) -> None:
        self._server.close()


class Source:
    """In the consumer's and the producer's place: what was committed, and what went to the dead letters."""

    def __init__(self, *values: bytes) -> None:
        self.records = [record(value=value, offset=at, headers=()) for at, value in enumerate(values)]
        self.log: list[Any] = []
        self.refusals: list[BarnabasError | None] = []
        self.failed: BarnabasError | None = None

    def __call__(self, *topics: str, config: object) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None: ...

    async def poll(self, timeout: float | None, max_records: int) -> list[ConsumerRecord]:
        if self.log[-1:] == ["committed"]:
            raise EndOfRecords("all was read")
        return self.records

    async def commit(self) -> None:
        self.log.append("committed")

    async def send_and_wait(self, topic: str, value: Any, key: Any, *, headers: Any) -> None:
        refused = self.refusals.pop(0) if self.refusals else None
        self.log.append((topic, value, dict(headers)))
        if refused is not None:
            raise refused


class EndOfRecords(BarnabasError):
    pass


@pytest.fixture
async def answering() -> AsyncIterator[Answering]:
    server = Answering()
    await server.start()
    yield server
    server.close()


def settings(port: int) -> Settings:
    text = f'[mqtt]\nhost = "127.0.0.1"\nport = {port}\nclient_id = "x"\n[bridge]\ndead_letter = "dead"\n'
    return read(File("x", text + '[[out]]\ntopic = "t"\nto = "m/{key}"\n'), {})


async def serve(answering: Answering, source: Source, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Figures]:
    """One connection's service, until it fails; how it did."""
    monkeypatch.setattr(outward, "Consumer", source)
    given, figures = settings(answering.port), Figures()
    producing = Producing(lambda: source)  # type: ignore[arg-type,return-value]
    one = outward.Outward(given, producing, figures, lambda: 0, lambda: 0.0)
    async with one._make_link() as link:
        with pytest.raises(BarnabasError) as failed:
            await asyncio.wait_for(one._serve(link), 30)
    return str(failed.value), figures


async def test_what_is_refused_for_good_is_a_dead_letter_before_its_offset_is_committed(
    answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering.code = lambda payload: 0x87 if payload == b"2" else 0
    source = Source(b"1", b"2", b"3")
    why, figures = await serve(answering, source, monkeypatch)
    assert why == "all was read"
    assert answering.came == [b"1", b"2", b"3"]
    dead, committed = source.log
    assert (dead[0], dead[1], dead[2]["kafka.record"]) == ("dead", b"2", b"t-0:1")
    assert b"[[out]] 1: the MQTT broker refuses a message to 'm/k': Not authorized (0x87)" in dead[2]["mqtt.refused"]
    assert committed == "committed"
    assert (figures.published, figures.out_refused) == (2, 1)


@pytest.mark.parametrize("code", [0x80, 0x83, 0x97])
async def test_what_is_refused_for_now_is_not_committed(
    answering: Answering, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    answering.code = lambda payload: code if payload == b"2" else 0
    source = Source(b"1", b"2", b"3")
    why, figures = await serve(answering, source, monkeypatch)
    assert f"(0x{code:02x})" in why
    assert source.log == [], "neither committed nor a dead letter: it comes again"
    assert figures.out_refused == 0


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_link_tells_the_answer_to_each_message(answering: Answering, qos: int) -> None:
    answering.code = lambda payload: 0x10 if payload == b"nobody's" else 0x97
    async with Link(settings(answering.port).mqtt, "x", None) as link:
        assert await link.publish("a", b"nobody's", qos, False) is None, "no subscribers: a success"
        refusal = await link.publish("a", b"much", qos, False)
        assert (refusal and refusal.value) == (0x97 if qos else None)
    with pytest.raises(LinkFailed, match="publishing: "):
        await link.publish("a", b"late", qos, False)


@pytest.mark.parametrize("refusals", [1, 2])
async def test_a_dead_letter_that_kafka_refuses_for_good_holds_up_nothing(
    answering: Answering, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, refusals: int
) -> None:
    answering.code = lambda payload: 0x87
    source = Source(b"large")
    source.refusals = [RecordTooLarge("too large")] * refusals
    why, figures = await serve(answering, source, monkeypatch)
    assert why == "all was read"
    whole, bare, committed = source.log
    assert (whole[1], bare[1], bare[2]["mqtt.payload-bytes"]) == (b"large", b"", b"5")
    assert bare[2].items() >= whole[2].items()
    assert committed == "committed"
    assert figures.lost_dead_letters == refusals - 1
    assert ("t-0:0 is lost" in caplog.text) is (refusals == 2)


async def test_a_dead_letter_that_kafka_does_not_take_now_keeps_its_offset(
    answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering.code = lambda payload: 0x87
    source = Source(b"1")
    source.refusals = [KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "two are away")]
    why, _ = await serve(answering, source, monkeypatch)
    assert "two are away" in why
    assert "committed" not in source.log
