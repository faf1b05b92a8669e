"""A bridge to a real Apache Kafka: nothing of this project is on that side."""

from __future__ import annotations

from collections.abc import Callable

import aiomqtt
import pytest

from barnabas import Producer
from barnabas.aio import Admin
from tests.client.conftest import apache_kafka  # noqa: F401
from tests.mqtt.servers import Bridge, Mosquitto, needs_mosquitto
from tests.mqtt.test_inward import publish, read, reason
from tests.mqtt.witness import Witness

pytestmark = [needs_mosquitto, pytest.mark.slow]

TEXT = """
[mqtt]
client_id = "apache"
[bridge]
dead_letter = "apache.dead"
group = "apache"
[[rules]]
filter = "apache/in/+"
topic = "apache.in"
device = "$1"
[[rules]]
filter = "apache/small"
topic = "apache.small"
[[out]]
topic = "apache.out"
to = "apache/out/{key}"
"""


async def test_both_directions_and_the_dead_letters_with_apache_kafka(
    mosquitto: Mosquitto,
    witness: Witness,
    apache_kafka: str,  # noqa: F811
    bridge: Callable[..., Bridge],
) -> None:
    async with Admin(apache_kafka) as admin:
        await admin.create_topic("apache.in", partitions=4)
        await admin.create_topic("apache.small", config={"max.message.bytes": 1000})
        for name in ("apache.out", "apache.dead"):
            await admin.create_topic(name)
    one = bridge(TEXT, witness.port, apache_kafka)
    await one.start()
    sent = [b"%d" % number for number in range(200)]
    large = bytes(range(256)) * 20
    await publish(mosquitto, "apache/in/lamp", *sent)
    await publish(mosquitto, "apache/small", large, b"behind")
    await one.counted("acknowledged", 202)
    records = await read(apache_kafka, "apache.in", 200)
    assert [record.value for record in records] == sent
    assert {(record.key, record.partition) for record in records} == {(b"lamp", records[0].partition)}
    assert [record.value for record in await read(apache_kafka, "apache.small", 1)] == [b"behind"]
    (dead,) = await read(apache_kafka, "apache.dead", 1)
    assert (dead.value, reason(dead).split(":")[0]) == (large, "MESSAGE_TOO_LARGE(10)")
    for connection in witness.connections:
        connection.check()
    assert sum(len(connection.acknowledged) for connection in witness.connections) == 202
    async with aiomqtt.Client("127.0.0.1", mosquitto.port) as subscriber:
        await subscriber.subscribe("apache/out/#", qos=1)
        with Producer(apache_kafka) as producer:
            for value in sent:
                producer.send("apache.out", value, b"lamp")
        came = [await anext(subscriber.messages) for _ in sent]
    assert [bytes(message.payload) for message in came] == sent
    assert {str(message.topic) for message in came} == {"apache/out/lamp"}
    await one.counted("published", 200)
