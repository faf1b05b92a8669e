"""A producer that Kafka will never hear again: the bridge makes a new one, and what was open goes by that."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.aio import Producer
from barnabas.mqtt import producing
from barnabas.mqtt.figures import Figures
from barnabas.mqtt.inward import Inward
from barnabas.mqtt.producing import Producing
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.init_producer_id import InitProducerIdResponse
from barnabas.protocol.requests.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.client.scripted import ScriptedBroker
from tests.mqtt.servers import until
from tests.mqtt.test_refused_records import came, carry, settings


def taken(request: Any) -> ProduceResponse:
    """Every record is."""
    topics = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[
                PartitionProduceResponse(index=each.index, base_offset=0) for each in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    return ProduceResponse(responses=topics)


async def test_a_producer_that_cannot_go_on_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its id was refused three times: whoever set the rights set them right then."""
    monkeypatch.setattr(producing, "RENEW_SECONDS", 0.0)
    refusals = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 3
    made: list[Producer] = []

    def identified(request: Any) -> InitProducerIdResponse:
        return InitProducerIdResponse(error_code=refusals.pop() if refusals else 0, producer_id=1, producer_epoch=0)

    async with ScriptedBroker() as broker:
        broker.handlers |= {ApiKey.INIT_PRODUCER_ID: identified, ApiKey.PRODUCE: taken}

        def make() -> Producer:
            made.append(Producer(broker.servers, linger_ms=0))
            return made[-1]

        several = Producing(make)
        await several.now.start()
        one = Inward(settings(), several, Figures(), lambda: 0, lambda: 0, lambda: 0.0)
        await carry(one, came("a/b", b"x", 1), came("a/b", b"y", 2), so=lambda: not one.unsettled)
        await until(lambda: one.ledger.acknowledged == 2)
        assert one.figures.forwarded == 2
        assert len(made) == 4
        failures = [each.failed for each in made[:-1]]
        assert {each.code for each in failures if isinstance(each, KafkaError)} == {31}
        assert several.now.failed is None
        await several.close(1.0)
    assert "the producer could not go on, and there is a new one: CLUSTER_AUTHORIZATION_FAILED(31)" in caplog.text
