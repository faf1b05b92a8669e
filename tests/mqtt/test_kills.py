"""Under load, whoever is killed: what the MQTT broker was acknowledged is in the topic, and what comes twice is marked.

A publisher numbers its messages, and sends again what was not acknowledged to it. The witness on the wire knows which
messages reached the bridge, and which it acknowledged.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiomqtt
import pytest

from barnabas import Consumer
from barnabas.client.consume.record import ConsumerRecord
from tests.conformance.targets import Barnabas
from tests.mqtt.servers import Bridge, Mosquitto, needs_mosquitto, until
from tests.mqtt.witness import Witness

pytestmark = [needs_mosquitto, pytest.mark.slow]

Make = Callable[..., Bridge]
BATCH = 50
AHEAD_MAX = 400
OPEN_MAX = 40
AGAIN_MAX = AHEAD_MAX + BATCH
"""So many messages may come again on a connection: those that Mosquitto has, and has read no acknowledgement of.

It is not the receive maximum: before 2.0.13 Mosquitto sends as many more as that with each acknowledgement, as long as
more wait (`db__message_delete_outgoing`). It is what the publisher is ahead. Mosquitto reads one packet of each
client in turn, so it publishes no more while acknowledgements lie unread than it reads of them.
"""
SETTINGS = f"""
[mqtt]
client_id = "bridge"
receive_maximum = {OPEN_MAX}
[[rules]]
filter = "load/+"
topic = "load"
key = "$1"
"""


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Barnabas]:
    target = Barnabas(tmp_path / "kafka")
    target.start()
    yield target
    target.kill()


class Publisher:
    """Publishes numbers at QoS 1 until it is enough; `sent` of them are acknowledged to it.

    It waits for the bridge, that a slow machine has not more to do than a fast one; but (`losing`) not for what
    Mosquitto lost.
    """

    def __init__(self, port: int, witness: Witness, *, losing: bool) -> None:
        self._witness = witness
        self._losing = losing
        self.sent = 0
        self.enough = False
        self._port = port

    def everything(self, first: int = 0) -> set[bytes]:
        return {b"%d" % number for number in range(first, self.sent)}

    async def run(self) -> None:
        while not self.enough:
            try:
                async with aiomqtt.Client("127.0.0.1", self._port, timeout=2) as client:
                    client.pending_calls_threshold = BATCH
                    while not self.enough:
                        for tries in itertools.count():
                            if self._witness.ahead(self.sent) <= AHEAD_MAX or self.enough:
                                break
                            if self._losing and tries == 50:
                                break
                            await asyncio.sleep(0.01)
                        batch = [b"%d" % number for number in range(self.sent, self.sent + BATCH)]
                        await asyncio.gather(*(client.publish("load/device", each, qos=1) for each in batch))
                        self.sent += BATCH
            except (aiomqtt.MqttError, OSError):
                await asyncio.sleep(0.05)  # Mosquitto is away


@asynccontextmanager
async def loaded(port: int, witness: Witness, *, losing: bool = False) -> AsyncIterator[Publisher]:
    publisher = Publisher(port, witness, losing=losing)
    task = asyncio.create_task(publisher.run())
    try:
        yield publisher
        publisher.enough = True
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Reader:
    """All records of the topic, read on as they come."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.records: list[ConsumerRecord] = []

    async def all(self, wanted: set[bytes]) -> list[ConsumerRecord]:
        await asyncio.to_thread(self._read, wanted)
        return self.records

    def _read(self, wanted: set[bytes]) -> None:
        """Until all that is wanted is there, and then to the topic's end."""
        with Consumer("load", config=self._server, auto_offset_reset="earliest") as consumer:
            while came := consumer.poll(30 if wanted else 0.2):
                self.records += came
                wanted = wanted - {record.value for record in came}
        assert not wanted, f"{len(wanted)} are lost: {sorted(wanted, key=int)[:10]}"


def check(records: list[ConsumerRecord], witness: Witness, *, republished: int = 0, retried: int = 0) -> None:
    """Nothing is lost that the bridge acknowledged, further copies are marked, and a delivery makes one record.

    Each connection but the first may bring again what was open, and no more: `AGAIN_MAX`. The publisher `republished`,
    and the bridge `retried`, so many at most; what was published twice may be open twice.
    """
    for connection in witness.connections:
        connection.check()
    values = Counter(record.value for record in records)
    acknowledged = {payload for connection in witness.connections for payload in connection.acknowledged_payloads()}
    assert acknowledged <= values.keys()
    marked = Counter(record.value for record in records if ("mqtt.dup", b"1") in record.headers)
    assert sum(max(0, copies - 1 - marked[value]) for value, copies in values.items()) <= republished
    assert marked.total() <= (len(witness.connections) - 1) * AGAIN_MAX + republished + retried
    delivered = Counter(payload for connection in witness.connections for _, payload in connection.delivered)
    assert values <= delivered, "a delivery makes one record at most"


async def test_the_bridge_is_killed(mosquitto: Mosquitto, witness: Witness, target: Barnabas, bridge: Make) -> None:
    one = bridge(SETTINGS, witness.port, f"127.0.0.1:{target.port}")
    await one.start()
    async with loaded(mosquitto.port, witness) as publisher:
        for _ in range(3):
            await one.counted("forwarded", 300)
            one.end(signal.SIGKILL)
            await one.start(connected=False)
    records = await Reader(f"127.0.0.1:{target.port}").all(publisher.everything())
    await until(lambda: not len(witness.connections[-1].delivered) - len(witness.connections[-1].acknowledged))
    check(records, witness)
    assert len(witness.connections) == 4


async def test_the_kafka_broker_is_killed(
    mosquitto: Mosquitto, witness: Witness, target: Barnabas, bridge: Make
) -> None:
    one = bridge(SETTINGS, witness.port, f"127.0.0.1:{target.port}")
    await one.start()
    async with loaded(mosquitto.port, witness) as publisher:
        for part in (1, 2):
            await one.counted("forwarded", part * 700)
            target.kill()
            await asyncio.to_thread(target.start)
    records = await Reader(f"127.0.0.1:{target.port}").all(publisher.everything())
    check(records, witness, retried=(await one.state())["counts"]["retried"])
    assert len(records) == publisher.sent, "an idempotent producer writes none twice"
    assert len(witness.connections) == 1


async def test_mosquitto_is_restarted(mosquitto: Mosquitto, witness: Witness, target: Barnabas, bridge: Make) -> None:
    """It keeps what it had: nothing is lost, and what was open comes again."""
    one = bridge(SETTINGS, witness.port, f"127.0.0.1:{target.port}")
    await one.start()
    async with loaded(mosquitto.port, witness) as publisher:
        for part in (1, 2):
            await one.counted("forwarded", part * 700)
            mosquitto.end()
            await mosquitto.start()
            await until(lambda part=part: len(witness.connections) > part)
            await one.healthy()
    records = await Reader(f"127.0.0.1:{target.port}").all(publisher.everything())
    check(records, witness, republished=2 * BATCH)
    state = await one.state()
    assert state["sides"][0]["sessions_lost"] == 0
    assert state["sides"][0]["connections"] >= 3


async def test_mosquitto_is_killed(mosquitto: Mosquitto, witness: Witness, target: Barnabas, bridge: Make) -> None:
    """It loses what it had not saved, the session too: the bridge begins a new one, and says so."""
    one = bridge(SETTINGS, witness.port, f"127.0.0.1:{target.port}")
    await one.start()
    async with loaded(mosquitto.port, witness, losing=True) as publisher:
        await one.counted("forwarded", 700)
        mosquitto.end(signal.SIGKILL)
        await until(lambda: "again in" in one.said(), one.said)
        await mosquitto.start()
        await one.healthy()
        sent = publisher.sent
        await until(lambda: publisher.sent > sent + 5 * BATCH)
    records = await Reader(f"127.0.0.1:{target.port}").all(publisher.everything(sent + BATCH))
    check(records, witness, republished=BATCH)
    assert (await one.state())["sides"][0]["sessions_lost"] == 1


async def test_the_network_goes_again_and_again(
    mosquitto: Mosquitto, witness: Witness, target: Barnabas, bridge: Make
) -> None:
    one = bridge(SETTINGS, witness.port, f"127.0.0.1:{target.port}")
    await one.start()
    async with loaded(mosquitto.port, witness) as publisher:
        for part in range(1, 6):
            await one.counted("forwarded", part * 300)
            witness.cut()
            await until(lambda part=part: len(witness.connections) > part)
    records = await Reader(f"127.0.0.1:{target.port}").all(publisher.everything())
    check(records, witness)
    assert len(witness.connections) == 6
