"""A Kafka that answers late, or not, while connections go: what is open is bounded, and no acknowledgement strays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiomqtt
import pytest

from barnabas.mqtt import bridge as bridges
from barnabas.mqtt.bridge import STUCK_MS, Bridge
from barnabas.mqtt.figures import Figures
from barnabas.mqtt.inward import Inward
from barnabas.mqtt.producing import Producing
from barnabas.mqtt.reading import read
from barnabas.mqtt.reconnect import Reconnect
from barnabas.mqtt.settings import Settings
from barnabas.mqtt.tables import File
from tests.mqtt.servers import Mosquitto, needs_mosquitto, until
from tests.mqtt.test_refused_records import Kafka, Outcome, came
from tests.mqtt.witness import Witness

pytestmark = needs_mosquitto

OPEN_MAX = 15
SENT = [b"%d" % number for number in range(40)]
CUTS = 3


class Late(Outcome):
    """A record's future, of which the outcome is known only when Kafka answers."""

    def __init__(self, waiting: list[Callable[[], object]]) -> None:
        super().__init__(None)
        self._waiting = waiting

    def add_done_callback(self, told: Callable[[Any], None]) -> None:
        self._waiting.append(lambda: told(self))


class HeldKafka(Kafka):
    """Answers what it was sent when it is told to; at once after `go`."""

    def __init__(self) -> None:
        super().__init__(lambda sent: None)
        self.waiting: list[Callable[[], object]] = []
        self.held = True

    async def send(self, topic: str, value: bytes, key: bytes | None, *, headers: Any, partition: Any) -> Outcome:
        done = await super().send(topic, value, key, headers=headers, partition=partition)
        return Late(self.waiting) if self.held else done

    def answer(self) -> None:
        """What was sent so far."""
        waiting, self.waiting[:] = list(self.waiting), []
        for told in waiting:
            told()

    def go(self) -> None:
        self.held = False
        self.answer()

    async def start(self) -> HeldKafka:
        return self

    async def close(self, seconds: float) -> None: ...


class AtOnce(Reconnect):
    """Connects again without a pause."""

    def lost(self, now_ms: int) -> int:
        super().lost(now_ms)
        return 0


def settings(port: int) -> Settings:
    text = f'[mqtt]\nhost = "127.0.0.1"\nport = {port}\nclient_id = "x"\nreceive_maximum = {OPEN_MAX}\n'
    return read(File("x", text + '[[rules]]\nfilter = "a/#"\ntopic = "good"\n[web]\nlisten = ""\n'), {})


def inward(port: int, kafka: Kafka) -> Inward:
    producing = Producing(lambda: kafka)  # type: ignore[arg-type,return-value]
    one = Inward(settings(port), producing, Figures(), lambda: 0, lambda: 0, lambda: 0.0)
    one._policy = AtOnce(lambda: 0.0)
    return one


@asynccontextmanager
async def running(one: Inward) -> AsyncIterator[None]:
    task = asyncio.create_task(one.run())
    try:
        await until(lambda: one.side.connected, lambda: one.side.why)
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def publish(mosquitto: Mosquitto, *payloads: bytes, qos: int = 1) -> None:
    async with aiomqtt.Client("127.0.0.1", mosquitto.port) as client:
        client.pending_calls_threshold = len(payloads)
        await asyncio.gather(*(client.publish("a/x", payload, qos=qos) for payload in payloads))


async def turns() -> None:
    """Let everything go on that waits for nothing from outside."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_the_next_connection_is_made_once_all_of_the_last_one_is_settled(
    mosquitto: Mosquitto, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = HeldKafka()
    one = inward(witness.port, kafka)
    wanted, made, ready, make = [0], list[int](), one._ready, one._make_link

    async def asked() -> None:
        wanted[0] += 1
        await ready()

    def making() -> Any:
        made.append(one.unsettled)
        return make()

    monkeypatch.setattr(one, "_ready", asked)
    monkeypatch.setattr(one, "_make_link", making)
    async with running(one):
        await publish(mosquitto, *SENT)
        for cut in range(1, CUTS + 1):
            await until(lambda: len(kafka.waiting) == OPEN_MAX, lambda: one.unsettled)
            for _ in range(3):  # the first cuts it; then there is none to cut
                witness.cut()
                await until(lambda cut=cut: wanted[0] == cut + 1)
                await turns()
                assert (one.unsettled, made, len(witness.connections)) == (OPEN_MAX, [0] * cut, cut)
            kafka.answer()
            await until(lambda cut=cut: len(witness.connections) == cut + 1)
        await until(lambda: len(kafka.waiting) == OPEN_MAX)
        acknowledged = [connection.acknowledged for connection in witness.connections]
        assert acknowledged == [[]] * (CUTS + 1), "Kafka's answers came when their connections were gone"
        assert (one.ledger.late, one.ledger.acknowledged) == (CUTS * OPEN_MAX, 0)
        kafka.go()
        await until(lambda: len(witness.connections[-1].acknowledged) == len(SENT))
        witness.connections[-1].check()
    marked = [sent.value for sent in kafka.sent if "mqtt.dup" in sent.headers]
    assert marked == SENT[:OPEN_MAX] * CUTS, "what was open comes again, marked, and nothing else"
    assert len(kafka.sent) == len(SENT) + CUTS * OPEN_MAX


async def test_an_answer_for_an_earlier_connection_acknowledges_nothing_on_the_next(
    mosquitto: Mosquitto, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were the next connection made at once: it has the same packet ids, of the same or of other messages."""

    async def at_once() -> None: ...

    kafka = HeldKafka()
    one = inward(witness.port, kafka)
    monkeypatch.setattr(one, "_ready", at_once)
    async with running(one):
        await publish(mosquitto, *SENT[:OPEN_MAX])
        await until(lambda: len(kafka.waiting) == OPEN_MAX)
        witness.cut()
        await until(lambda: len(kafka.waiting) == 2 * OPEN_MAX)
        first, second = witness.connections
        assert first.delivered == second.delivered, "packet ids, too"
        late, kafka.waiting[:] = kafka.waiting[:OPEN_MAX], kafka.waiting[OPEN_MAX:]
        for told in late:
            told()
        await turns()
        assert (one.ledger.late, one.ledger.acknowledged, len(one.ledger)) == (OPEN_MAX, 0, OPEN_MAX)
        kafka.go()
        await until(lambda: len(second.acknowledged) == OPEN_MAX)
        assert (first.acknowledged, one.ledger.acknowledged) == ([], OPEN_MAX)
        second.check()


async def test_a_bridge_that_ends_waits_for_what_is_open(
    mosquitto: Mosquitto, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is acknowledged over its own connection; what comes meanwhile is not taken, and of QoS 0 it is counted."""
    monkeypatch.setattr(bridges, "DRAIN_SECONDS_MAX", 60.0)
    kafka = HeldKafka()
    one = Bridge(settings(witness.port))
    monkeypatch.setattr(one._producing, "now", kafka)
    await one.start()
    serving = asyncio.create_task(one.serve())
    await until(lambda: one.inward.side.connected, one.why_not)
    await publish(mosquitto, *SENT[:5])
    await until(lambda: len(kafka.waiting) == 5)
    stopping = asyncio.create_task(one.stop(serving))
    await turns()
    (connection,) = witness.connections
    assert (serving.done(), stopping.done(), connection.acknowledged) == (False, False, [])
    await publish(mosquitto, b"late", qos=0)
    await until(lambda: one.figures.lost_qos0 == 1)
    kafka.go()
    await stopping
    await until(lambda: len(connection.acknowledged) == 5)
    connection.check()
    assert [sent.value for sent in kafka.sent] == SENT[:5]
    assert serving.cancelled()
    assert one.state()["counts"]["received_qos0"] == 1


async def test_messages_of_qos_0_that_kafka_does_not_take_are_told_of_too() -> None:
    """While nothing but these came the bridge said that it was serving, and lost them all."""
    clock = [1_000]
    kafka = HeldKafka()
    one = Bridge(settings(1), lambda: clock[0])
    one._kafka = ""
    one._producing.now = kafka  # type: ignore[assignment]
    one.inward.side.up()
    pump = asyncio.create_task(one.inward._pump())
    try:
        for number in range(2):
            one.inward._received(came("a/x", b"x", number, qos=0))
            clock[0] += 1
        await until(lambda: len(kafka.waiting) == 2)
        clock[0] = 1_000 + STUCK_MS
        assert one.why_not() == ""
        clock[0] += 1
        assert one.why_not() == f"a message has been open for {STUCK_MS + 1} ms: its record is not acknowledged"
        kafka.go()
        await until(lambda: not one.inward.unsettled)
        assert one.why_not() == ""
    finally:
        pump.cancel()
        await asyncio.gather(pump, return_exceptions=True)


async def test_how_long_the_oldest_is_open_and_what_one_took_can_be_looked_at() -> None:
    clock = [1_000]
    kafka = HeldKafka()
    one = Bridge(settings(1), lambda: clock[0])
    one._producing.now = kafka  # type: ignore[assignment]
    pump = asyncio.create_task(one.inward._pump())
    try:
        one.inward._received(came("a/x", b"x", 1))
        clock[0] = 1_200
        one.inward._received(came("a/x", b"y", 2))
        await until(lambda: len(kafka.waiting) == 2)
        clock[0] = 1_250
        told = one.state()
        assert (told["open"]["oldest_ms"], told["up_ms"]) == (250, 250)
        assert "\nbarnabas_mqtt_oldestopenms 250\n" in str(one._web._metrics({}).body)
        kafka.go()
        await until(lambda: one.inward.ledger.acknowledged == 2)
        told = one.state()
        assert told["open"]["oldest_ms"] == 0
        assert {name: told["took_ms"][name] for name in ("count", "sum", "max")} == {"count": 2, "sum": 300, "max": 250}
    finally:
        pump.cancel()
        await asyncio.gather(pump, return_exceptions=True)
