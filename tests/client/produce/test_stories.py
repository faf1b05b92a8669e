"""What the published story of the producer says, where no other test would notice its opposite (`docs/STORIES.md`)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.produce.interceptors import ProducerInterceptor
from barnabas.client.produce.partitioner import partition_for_key
from barnabas.client.produce.records import ProducerRecord
from barnabas.protocol.api import ApiKey
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.init_producer_id import InitProducerIdResponse
from barnabas.protocol.requests.metadata import MetadataResponse
from barnabas.protocol.requests.produce import ProduceRequest
from tests.client.world import SILENCE, Bench, World

LOADING = 14
KEYS = [b"%d" % number for number in range(40)]


def test_a_key_decides_on_the_fast_way_too() -> None:
    world = World(topics={"t": [1, 1, 1, 1]})
    bench = Bench(world)
    bench.learn()
    for number in range(4):  # the fast way is for partitions that have an open batch
        bench.send(b"first", partition=number)
    for key in KEYS:
        assert bench.core.append_fast("t", b"v", key, (), None, 1) is not None
    bench.settle()
    for number in range(4):
        keys = [record.key for record in world.logs[TopicPartition("t", number)].records if record.key is not None]
        assert keys == [key for key in KEYS if partition_for_key(key, 4) == number]
    assert {partition_for_key(key, 4) for key in KEYS} == {0, 1, 2, 3}


def test_interceptors_see_a_record_before_the_serializers() -> None:
    order: list[Any] = []

    class Watching(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            order.append(("interceptor", record.key, record.value))
            record.value = record.value + 1
            return record

    def serialized(what: str) -> Any:
        def serialize(value: Any) -> bytes:
            order.append((what, value))
            return str(value).encode()

        return serialize

    bench = Bench(
        World(),
        interceptor_classes=Watching(),
        key_serializer=serialized("key"),
        value_serializer=serialized("value"),
    )
    record = bench.core.prepare(ProducerRecord("t", 41, "k"))
    assert order == [("interceptor", "k", 41), ("key", "k"), ("value", 42)]
    assert (record.key, record.value) == (b"k", b"42")


def test_any_of_the_bootstrap_servers_will_do() -> None:
    world = World(nodes=(1, 2, 3), topics={"t": [3]})
    world.nodes[1] = world.nodes[2] = False  # nobody listens there
    world.metadata_nodes = (3,)
    bench = Bench(world, bootstrap_servers="one:9092,two:9092,three:9092")
    bench.learn()
    bench.send(b"v")
    bench.settle()
    assert world.values() == [b"v"]


def busy(free: int, **settings: Any) -> tuple[World, Bench]:
    """Three brokers to which the client is connected; all but one have a request in flight that is never answered."""
    world = World(nodes=(1, 2, 3), topics={"t": [1, 2, 3]})
    world.handlers[ApiKey.INIT_PRODUCER_ID] = lambda _, __: InitProducerIdResponse(error_code=LOADING)
    world.handlers[ApiKey.PRODUCE] = lambda _, __: SILENCE
    bench = Bench(world, **settings)
    bench.metadata.want("t", world.now_ms)
    world.run(until=lambda: "t" in bench.metadata.cluster.topics)
    for node in (1, 2, 3):
        bench.network.ready(node, world.now_ms)
    world.run(until_ms=world.now_ms + 10)
    for node in {1, 2, 3} - {free}:
        bench.network.enqueue(node, ProduceRequest(None, 1, 30_000, []), world.now_ms, lambda *_: None)
    world.run(until_ms=world.now_ms + 10)
    world.asked.clear()
    return world, bench


@pytest.mark.parametrize("free", [1, 2, 3])
def test_metadata_is_asked_of_the_node_with_the_fewest_requests_in_flight(free: int) -> None:
    world, _ = busy(free, enable_idempotence=False, metadata_max_age_ms=1000)
    world.run(until_ms=world.now_ms + 3000)
    asked = world.requests(ApiKey.METADATA)
    assert len(asked) > 1
    assert {each.node for each in asked} == {free}


@pytest.mark.parametrize("free", [1, 2, 3])
def test_the_producer_id_is_asked_of_the_node_with_the_fewest_requests_in_flight(free: int) -> None:
    world, _ = busy(free)
    world.run(until_ms=world.now_ms + 3000)
    asked = world.requests(ApiKey.INIT_PRODUCER_ID)
    assert len(asked) > 1
    assert {each.node for each in asked} == {free}


def test_who_the_controller_is_comes_with_the_metadata() -> None:
    world = World(nodes=(1, 2, 3))

    def answer(_: int, request: Any) -> MetadataResponse:
        response = world.metadata(request)
        response.controller_id = 3
        return response

    world.handlers[ApiKey.METADATA] = answer
    bench = Bench(world)
    bench.learn()
    assert bench.metadata.cluster.controller_id == 3


def test_a_topic_that_grows_is_seen_within_its_metadatas_age() -> None:
    world = World(topics={"t": [1]})
    bench = Bench(world, metadata_max_age_ms=3000, linger_ms=0)
    bench.learn()
    bench.send(b"before")
    bench.settle()
    world.topics["t"] = [1, 1]
    world.run(until_ms=world.now_ms + 3100)
    found = {bench.send(b"after", key=key)[0].where.partition for key in KEYS}
    assert found == {0, 1}
    bench.settle()
    assert len(world.values(partition=1)) > 0


def test_a_partition_that_is_not_known_yet_is_asked_for_at_once() -> None:
    world = World(topics={"t": [1]})
    bench = Bench(world, linger_ms=0)
    bench.learn()
    world.topics["t"] = [1, 1]
    assert not hasattr(bench.try_send(b"v", partition=1), "result")
    bench.metadata.want("t", world.now_ms)
    world.run(until_ms=world.now_ms + 500)
    bench.send(b"v", partition=1)
    bench.settle()
    assert world.values(partition=1) == [b"v"]
