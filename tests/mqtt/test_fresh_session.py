"""A session that is kept has the subscriptions of an earlier configuration; one that begins afresh has not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiomqtt
import pytest

from barnabas.mqtt.figures import Figures
from barnabas.mqtt.inward import Inward
from barnabas.mqtt.producing import Producing
from barnabas.mqtt.reading import read
from barnabas.mqtt.tables import File
from tests.mqtt.servers import Mosquitto, needs_mosquitto, until
from tests.mqtt.test_refused_records import Kafka


@asynccontextmanager
async def serving(port: int, version: str, taken: str, *, fresh: bool = False) -> AsyncIterator[Kafka]:
    """A bridge that subscribes to one filter; where its records go."""
    text = f'[mqtt]\nhost = "127.0.0.1"\nport = {port}\nversion = "{version}"\nclient_id = "x"\n'
    settings = read(File("x", text + f'[[rules]]\nfilter = "{taken}"\ntopic = "good"\n'), {})
    settings.mqtt.fresh = fresh
    kafka = Kafka(lambda sent: None)
    producing = Producing(lambda: kafka)  # type: ignore[arg-type,return-value]
    one = Inward(settings, producing, Figures(), lambda: 0, lambda: 0, lambda: 0.0)
    running = asyncio.create_task(one.run())
    try:
        await until(lambda: one.side.connected, lambda: one.side.why)
        yield kafka
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@needs_mosquitto
@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.parametrize("fresh", [False, True])
async def test_subscriptions_of_an_earlier_configuration(mosquitto: Mosquitto, version: str, fresh: bool) -> None:
    async with serving(mosquitto.port, version, "old/#"):
        pass
    async with aiomqtt.Client("127.0.0.1", mosquitto.port) as client:
        await client.publish("old/kept", b"1", qos=1)
        async with serving(mosquitto.port, version, "new/#", fresh=fresh) as kafka:
            await client.publish("old/live", b"2", qos=1)
            await client.publish("new/live", b"3", qos=1)
            await until(lambda: b"3" in [sent.value for sent in kafka.sent])
            assert [sent.value for sent in kafka.sent] == ([b"3"] if fresh else [b"1", b"2", b"3"])
        await client.publish("new/kept", b"4", qos=1)
        async with serving(mosquitto.port, version, "new/#") as kafka:
            await until(lambda: kafka.sent)
            assert kafka.sent[-1].value == b"4", "the session after that is kept as ever"
