"""A broker that lies about what its batches hold: both shells name the partition, and the others go on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest

from barnabas.aio import Consumer as AsyncConsumer
from barnabas.client.consumer import Consumer
from barnabas.protocol import batch as wire
from barnabas.protocol.api import ApiKey
from barnabas.protocol.compression import Codec, compress, decompress
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.protocol.requests.metadata import MetadataResponse
from tests.broker.node.world import batch
from tests.client.scripted import ScriptedBroker

MIB = 1024 * 1024
IDS = {"bad": b"b" * 16, "good": b"g" * 16}
BAD, GOOD = TopicPartition("bad", 0), TopicPartition("good", 0)


@cache
def holding(size: int, count: int = 1) -> bytes:
    """A batch of so many records, as it says, and so many zeros in zstd."""
    area = bytes(compress(Codec.ZSTD, bytes(size)))
    raw = bytearray(wire.HEADER_SIZE) + area
    length = len(area) + wire.LENGTH_MIN
    wire.write_header(raw, 0, wire.BatchHeader(0, length, 0, 2, 0, Codec.ZSTD, count - 1, 7, 7, -1, -1, -1, count))
    wire.set_crc(raw, 0, len(raw))
    return bytes(raw)


LIES: dict[str, tuple[Callable[[], bytes], int, str]] = {
    "more bytes than a batch may hold": (lambda: holding(128 * MIB + 1), 32_768, "hold more than 134217728 bytes"),
    "more for a byte than any honest one": (lambda: holding(8 * MIB), 1_000, "hold more than 1048576 bytes"),
    "more records than there are bytes": (lambda: holding(1_000, 2**31 - 1), 32_768, "2147483647 records"),
}


def told_of(broker: ScriptedBroker, request: Any) -> MetadataResponse:
    """Each topic has an id of its own."""
    response = broker.metadata(request)
    for topic in response.topics:
        topic.topic_id = IDS[topic.name or ""]
    return response


def fetched(records: bytes) -> Callable[[Any], FetchResponse]:
    """What is answered to Fetch: these for one topic, an honest batch for the other."""

    def answer(request: Any) -> FetchResponse:
        told = []
        for topic in request.topics:
            (part,) = topic.partitions
            data = records if topic.topic_id == IDS["bad"] else bytes(batch(b"honest"))
            some = memoryview(data if part.fetch_offset == 0 else b"")
            told.append(
                FetchableTopicResponse(topic.topic, topic.topic_id, [PartitionData(0, 0, 1, 1, 0, records=some)])
            )
        return FetchResponse(responses=told)

    return answer


async def polled(consumer: AsyncConsumer) -> tuple[list[bytes], KafkaError]:
    """Values until there is one, and the error until there is one; who is at fault is paused."""
    values: list[bytes] = []
    errors: list[KafkaError] = []
    while not values or not errors:
        try:
            values += [bytes(record.value or b"") for record in await consumer.poll(60)]
        except KafkaError as error:
            errors.append(error)
            consumer.pause(BAD)
    return values, errors[0]


def polled_blocking(consumer: Consumer) -> tuple[list[bytes], KafkaError]:
    """The same."""
    values: list[bytes] = []
    errors: list[KafkaError] = []
    while not values or not errors:
        try:
            values += [bytes(record.value or b"") for record in consumer.poll(60)]
        except KafkaError as error:
            errors.append(error)
            consumer.pause(BAD)
    return values, errors[0]


@pytest.mark.parametrize("shell", ["blocking", "asyncio"])
@pytest.mark.parametrize("lie", LIES)
async def test_a_lie_about_what_a_batch_holds_names_its_partition(
    lie: str, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, ratio_max, why = LIES[lie]
    assert decompress.__kwdefaults__ is not None
    monkeypatch.setitem(decompress.__kwdefaults__, "ratio_max", ratio_max)  # zstd comes near the real one, not above it
    async with ScriptedBroker() as broker:
        broker.handlers[ApiKey.FETCH] = fetched(made())
        broker.handlers[ApiKey.METADATA] = partial(told_of, broker)
        settings: dict[str, Any] = {"bootstrap_servers": broker.servers, "auto_offset_reset": "none"}
        if shell == "asyncio":
            async with AsyncConsumer(**settings) as consumer:
                consumer.assign([BAD, GOOD])
                for where in (BAD, GOOD):
                    consumer.seek(where, 0)
                values, error = await polled(consumer)
        else:
            values, error = await asyncio.to_thread(blocking, settings)
    assert values[0] == b"honest"
    assert error.code == ErrorCode.CORRUPT_MESSAGE
    assert "bad-0" in str(error)
    assert "good" not in str(error)
    assert re.search(why, str(error)), error


def blocking(settings: dict[str, Any]) -> tuple[list[bytes], KafkaError]:
    """The other shell's, on a thread beside the broker's."""
    with Consumer(**settings) as consumer:
        consumer.assign([BAD, GOOD])
        for where in (BAD, GOOD):
            consumer.seek(where, 0)
        return polled_blocking(consumer)
