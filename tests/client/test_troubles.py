"""The client says what is wrong while it waits: a warning after the first second, and the cause in every timeout."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from barnabas import TopicPartition, aio
from barnabas.client.produce.placing import Topic, place
from barnabas.net.errors import FeatureMissing
from barnabas.net.host.surroundings import Surroundings, monotonic_ms, wall_ms
from barnabas.net.topology import Node
from barnabas.net.troubles import Troubles, unreached
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.protocol.requests.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.protocol.requests.metadata import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.client.scripted import ScriptedBroker
from tests.client.world import CLOSE, SILENCE, Bench, World

WAIT = 60
WHERE = TopicPartition("t", 0)


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        yield nobody.getsockname()[1]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


# ---- when -----------------------------------------------------------------------------------------------------------


def test_it_is_told_after_a_second_and_then_ever_more_seldom(caplog: pytest.LogCaptureFixture) -> None:
    troubles = Troubles()
    error = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "t")
    told: list[int] = []
    troubles.listeners.append(lambda error: told.append(now_ms))
    troubles.note("t", error, 5000)
    for now_ms in range(5000, 1_005_000, 500):
        troubles.note("t", error, now_ms)
        if troubles.next_ms() <= now_ms:
            troubles.tick(now_ms)
    assert told == [6000, 16_000, 76_000, 376_000, 676_000, 976_000]
    assert warnings(caplog)[:2] == [f"for 1 s: {error}", f"for 11 s: {error}"]


def test_what_is_over_within_the_second_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    troubles = Troubles()
    troubles.note("a", KafkaError(3), 0)
    troubles.tick(999)
    troubles.clear("a")
    troubles.note("a", KafkaError(3), 1100)
    troubles.tick(2099)
    assert not warnings(caplog)
    assert troubles.why() == ": UNKNOWN_TOPIC_OR_PARTITION(3)"
    troubles.clear("a")
    assert (troubles.why(), bool(troubles)) == ("", False)


def test_of_many_some_are_named_and_no_more_are_kept_than_a_thousand(caplog: pytest.LogCaptureFixture) -> None:
    troubles = Troubles()
    for number in range(2000):
        troubles.note(number, KafkaError(3, str(number)), 0)
    troubles.tick(1000)
    assert len(warnings(caplog)) == 4
    assert warnings(caplog)[-1] == "and 997 more of the kind"


# ---- what -----------------------------------------------------------------------------------------------------------


def waiting(caplog: pytest.LogCaptureFixture, world: World, **settings: Any) -> list[str]:
    """What a producer that has something to send says within 1.2 s."""
    bench = Bench(world, **settings)
    bench.metadata.add_topics(("t",), world.now_ms)
    world.run(until_ms=world.now_ms + 1200)
    assert bench.metadata.troubles.why()
    return warnings(caplog)


def test_a_refused_connection(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.nodes[1] = False
    assert waiting(caplog, world) == ["for 1 s: NETWORK_EXCEPTION(13): boot:9092: connection refused"]


def test_a_network_that_swallows_everything(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.nodes[1] = None
    (said,) = waiting(caplog, world)
    assert "boot:9092: no connection for 1 s" in said


def test_a_connection_closed_in_the_handshake(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.handlers[ApiKey.API_VERSIONS] = lambda node, request: CLOSE
    (said,) = waiting(caplog, world)
    hint = (
        "(during the handshake, as a port that speaks TLS ends it, and a broker that takes no more connections: is "
        "this one a broker's, of Kafka 0.10 or later, and its listener PLAINTEXT?)"
    )
    assert f"boot:9092: closed by the broker {hint}" in said


def test_a_port_that_is_slow_is_not_taken_for_one_that_speaks_tls(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.handlers[ApiKey.API_VERSIONS] = lambda node, request: SILENCE
    (said,) = waiting(caplog, world)
    hint = "(during the handshake: is this one a broker's, of Kafka 0.10 or later, and its listener PLAINTEXT?)"
    assert f"boot:9092: no answer for 1 s {hint}" in said


def test_an_unknown_topic(caplog: pytest.LogCaptureFixture) -> None:
    (said,) = waiting(caplog, World(topics={"other": [1]}))
    assert "UNKNOWN_TOPIC_OR_PARTITION(3): the cluster has no topic t, and makes none on first use" in said


async def test_who_asks_for_no_topic_to_be_made_is_not_told_that_the_cluster_makes_none() -> None:
    async with ScriptedBroker() as broker:
        broker.handlers[ApiKey.METADATA] = lambda request: unknown(broker, request)
        async with aio.Consumer(bootstrap_servers=broker.servers, allow_auto_create_topics=False) as consumer:
            consumer.config.default_api_timeout_ms = 300
            said = await told(lambda: consumer.partitions_for("nope"), "the cluster has no topic nope")
            assert "on first use" not in said


def test_no_leader(caplog: pytest.LogCaptureFixture) -> None:
    world = World(topics={"t": [1, -1, -1]})
    (said,) = waiting(caplog, world)
    assert "LEADER_NOT_AVAILABLE(5): topic t has no leader for partitions 1, 2" in said


def test_a_partition_that_its_topic_lacks(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    bench = Bench(world)
    bench.learn()
    waiting = place(bench.core, "t", 7, None, b"x", (), 0, world.now_ms, 60_000)
    wait = next(waiting)
    assert isinstance(wait, Topic)
    bench.metadata.want("t", world.now_ms)
    for _ in range(4):  # looked at with every new answer, as the shells do
        world.run(until_ms=world.now_ms + 300)
        waiting.send(world.now_ms)
    lacks = "UNKNOWN_TOPIC_OR_PARTITION(3): topic t has no partition 7; it has 1, from 0 on"
    assert warnings(caplog) == [f"for 1 s: {lacks}"]
    assert bench.metadata.troubles.why(WHERE) == f": {lacks}"
    waiting.close()
    assert not bench.metadata.troubles


def test_what_is_mended_is_said_to_be_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    world.nodes[1] = False
    bench = Bench(world)
    bench.metadata.add_topics(("t",), world.now_ms)
    world.run(until_ms=world.now_ms + 1200)
    world.nodes[1] = True
    world.run(until_ms=world.now_ms + 3000)
    assert caplog.messages[-1] == "no longer: NETWORK_EXCEPTION(13): boot:9092: connection refused"
    assert not bench.metadata.troubles


def test_a_record_that_expires_says_what_the_broker_refused_it_with() -> None:
    world = World()
    bench = Bench(world, delivery_timeout_ms=3000, request_timeout_ms=1000, linger_ms=0)
    bench.learn()
    refuse = lambda where, data: ErrorCode.NOT_ENOUGH_REPLICAS  # noqa: E731
    world.handlers[ApiKey.PRODUCE] = lambda node, request: world.produce(request, refuse)
    result, _ = bench.send(b"x")
    world.run(until=lambda: result.done)
    assert "were not sent in 3000 ms: NOT_ENOUGH_REPLICAS(19): t-0" in str(result.error)


def test_a_record_that_expires_says_that_its_topic_has_fewer_partitions_now() -> None:
    world = World(topics={"t": [1, 1]})
    bench = Bench(world, delivery_timeout_ms=3000, request_timeout_ms=1000, linger_ms=0)
    bench.learn()
    result, _ = bench.send(b"x", partition=1)
    world.topics["t"] = [1]
    bench.metadata.request_update()
    world.handlers[ApiKey.PRODUCE] = lambda node, request: world.produce(
        request, lambda where, data: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    world.run(until=lambda: result.done)
    lacks = "UNKNOWN_TOPIC_OR_PARTITION(3): topic t has no partition 1; it has 1, from 0 on"
    assert str(result.error).endswith(f"were not sent in 3000 ms: {lacks}")


# ---- at a start, at once ---------------------------------------------------------------------------------------------


async def test_who_waits_for_a_start_hears_at_once_what_is_wrong(
    closed_port: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing = Surroundings(lambda: 1000, wall_ms, lambda: 0.5)  # the first second never ends
    consumer = aio.Consumer(bootstrap_servers=f"127.0.0.1:{closed_port}", surroundings=standing)
    heard = asyncio.Event()
    handle = caplog.handler.handle

    def hear(record: logging.LogRecord) -> bool:
        heard.set()
        return bool(handle(record))

    monkeypatch.setattr(caplog.handler, "handle", hear)
    starting = asyncio.create_task(consumer.start())
    await asyncio.wait_for(heard.wait(), WAIT)
    (said,) = warnings(caplog)
    assert said.startswith("no answer yet, trying for 60000 ms: NETWORK_EXCEPTION(13): cannot connect to 127.0.0.1")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting


async def test_who_has_started_is_told_after_a_second_again(caplog: pytest.LogCaptureFixture) -> None:
    standing = Surroundings(lambda: 1000, wall_ms, lambda: 0.5)
    async with ScriptedBroker() as broker, aio.Consumer(config=broker.servers, surroundings=standing) as consumer:
        troubles = consumer._client.metadata.troubles
        troubles.note("t", KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "t"), 1000)
    assert not warnings(caplog)


async def test_a_start_with_topics_has_one_time_for_all_of_it() -> None:
    late_ms = 0
    async with ScriptedBroker() as broker:

        def first_then_none(request: Any) -> Any:
            nonlocal late_ms
            if late_ms:
                return None
            late_ms = 59_800  # the answer took its time: 200 ms are left at most
            return broker.metadata(request)

        broker.handlers[ApiKey.METADATA] = first_then_none
        slow = Surroundings(lambda: late_ms + monotonic_ms(), wall_ms, lambda: 0.5)
        consumer = aio.Consumer("t", config=broker.servers, surroundings=slow, request_timeout_ms=100_000)
        told = re.search(r"within (\d+) ms", await failure(consumer.start()))
        assert told is not None
        assert int(told[1]) <= 200


async def test_a_topic_made_a_moment_ago_may_be_asked_about() -> None:
    async with ScriptedBroker() as broker, aio.Consumer(config=broker.servers) as consumer:
        asked: list[Any] = []

        def unknown_at_first(request: Any) -> Any:
            asked.append(request)
            answer = broker.metadata(request)
            if len(asked) < 3:
                answer.topics = [MetadataResponseTopic(error_code=3, name=each.name) for each in request.topics or ()]
            return answer

        broker.handlers[ApiKey.METADATA] = unknown_at_first
        assert await consumer.partitions_for("t") == [0]
        assert len(asked) >= 3


async def test_a_topic_that_stays_unknown_is_told_so_soon() -> None:
    late_ms = 0
    async with ScriptedBroker() as broker:
        slow = Surroundings(lambda: late_ms + monotonic_ms(), wall_ms, lambda: 0.5)
        async with aio.Consumer(config=broker.servers, surroundings=slow) as consumer:

            def unknown(request: Any) -> Any:
                nonlocal late_ms
                late_ms += 600
                answer = broker.metadata(request)
                answer.topics = [MetadataResponseTopic(error_code=3, name=each.name) for each in request.topics or ()]
                return answer

            broker.handlers[ApiKey.METADATA] = unknown
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await asyncio.wait_for(consumer.partitions_for("nope"), WAIT)


# ---- in every timeout -----------------------------------------------------------------------------------------------

FAST: Any = {"default_api_timeout_ms": 300, "request_timeout_ms": 200}


async def failure(work: Awaitable[Any]) -> str:
    with pytest.raises(TimeoutError) as caught:
        await asyncio.wait_for(work, WAIT)
    assert str(caught.value)
    return str(caught.value)


async def told(call: Callable[[], Awaitable[Any]], *why: str) -> str:
    """What a call says that runs into its limit; the next one's, where a busy machine did not learn why in it."""
    for _ in range(10):
        said = await failure(call())
        if all(each in said for each in why):
            return said
    pytest.fail(said)


async def test_a_name_that_is_not_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    said = await told(lambda: aio.Admin("broker.example:9092", **FAST).start(), "Name or service not known")
    assert "no metadata from broker.example:9092 within 300 ms: cannot connect to broker.example:9092" in said


def test_each_server_is_told_with_what_is_wrong_and_how_often_it_was_asked() -> None:
    world = World()
    world.nodes[1] = False
    bench = Bench(world, bootstrap_servers=["one:1", "two:2"], reconnect_backoff_ms=100, reconnect_backoff_max_ms=100)
    bench.metadata.add_topics(("t",), world.now_ms)
    world.run(until_ms=world.now_ms + 1000)
    told = re.fullmatch(
        r": one:1: connection refused \(tried (\d+) times\); two:2: connection refused \(tried (\d+) times\)",
        bench.network.tried(world.now_ms),
    )
    assert told is not None
    assert all(5 <= int(times) <= 15 for times in told.groups())


def test_of_many_servers_some_are_named() -> None:
    world = World()
    world.nodes[1] = False
    bench = Bench(world, bootstrap_servers=[f"s{number}:1" for number in range(8)])
    bench.metadata.add_topics(("t",), world.now_ms)
    world.run(until_ms=world.now_ms + 5000)
    told = bench.network.tried(world.now_ms)
    assert told.count("connection refused") == 5
    assert told.endswith("; and 3 more")


async def test_who_does_not_answer_is_told_with_what_was_asked() -> None:
    async with ScriptedBroker() as silent:
        silent.handlers[ApiKey.METADATA] = lambda request: None
        settings: Any = {"default_api_timeout_ms": 300, "request_timeout_ms": 5000}
        said = await told(lambda: aio.Admin(silent.servers, **settings).start(), "METADATA")
        assert said.endswith(f"within 300 ms: {silent.servers} has not answered METADATA")


async def test_a_broker_that_is_too_old_is_called_so() -> None:
    async with ScriptedBroker() as broker:

        def old(request: Any) -> ApiVersionsResponse:
            keys = {ApiKey.METADATA: (0, 0), ApiKey.API_VERSIONS: (0, 4)}
            return ApiVersionsResponse(api_keys=[ApiVersion(key, *each) for key, each in keys.items()])

        broker.handlers[ApiKey.API_VERSIONS] = old
        why = f"{broker.servers} is older than what this client needs: Metadata v0 request cannot"
        await told(lambda: aio.Admin(broker.servers, **FAST).start(), why)

        def none(request: Any) -> ApiVersionsResponse:
            return ApiVersionsResponse(api_keys=[ApiVersion(ApiKey.METADATA, 99, 100), ApiVersion(18, 0, 4)])

        broker.handlers[ApiKey.API_VERSIONS] = none
        with pytest.raises(
            FeatureMissing, match=r"serves METADATA at versions 99 to 100, and this release speaks 0 to"
        ):
            await asyncio.wait_for(aio.Admin(broker.servers).start(), WAIT)


async def test_an_advertised_address_that_cannot_be_reached_is_told_with_both(closed_port: int) -> None:
    async with ScriptedBroker(advertised=closed_port) as broker, aio.Producer(broker.servers) as producer:
        sent = await producer.send("t", b"x")
        why = f"broker 1 cannot be reached where it advertises itself: cannot connect to 127.0.0.1:{closed_port}"
        said = await told(lambda: producer.flush(0.3), why)
        assert f"{broker.servers} told that address, and can be reached: see the broker's advertised.listeners" in said
        await producer.close(0)
        assert not isinstance(sent.exception(), type(None))


async def test_an_address_that_was_given_is_not_said_to_be_the_wrong_one(closed_port: int) -> None:
    """A broker that was stopped: nobody is to look into its advertised.listeners for that."""
    async with ScriptedBroker(advertised=closed_port) as broker:
        producer = await aio.Producer(f"{broker.servers},127.0.0.1:{closed_port}").start()
        sent = await producer.send("t", b"x")
        why = f"broker 1 cannot be reached: cannot connect to 127.0.0.1:{closed_port}"
        assert "advertised.listeners" not in await told(lambda: producer.flush(0.3), why)
        await producer.close(0)
        assert sent.exception() is not None


async def test_an_address_where_a_broker_was_is_not_said_to_be_the_wrong_one() -> None:
    arrived = asyncio.Event()
    async with ScriptedBroker() as other:
        async with ScriptedBroker() as broker:

            def metadata(request: Any) -> Any:
                answer = broker.metadata(request)
                answer.brokers.append(MetadataResponseBroker(2, "127.0.0.1", other.port))
                return answer

            broker.handlers[ApiKey.METADATA] = other.handlers[ApiKey.METADATA] = metadata
            broker.handlers[ApiKey.PRODUCE] = lambda _: arrived.set()
            producer = await aio.Producer(other.servers).start()
            sent = await producer.send("t", b"x")
            await arrived.wait()
        why = f"broker 1 cannot be reached: cannot connect to {broker.servers}"
        assert "advertised.listeners" not in await told(lambda: producer.flush(0.3), why)
        await producer.close(0)
        assert sent.exception() is not None


def test_who_takes_connections_and_is_silent_can_be_reached() -> None:
    """A process that is paused: its system takes them. Its address is right, and nobody is to look for another."""
    node, told_by = Node(1, "one.example", 9092), "boot.example:9092"
    said = unreached(node, told_by, "no answer for 1 s", reached=True, handshake=True, ended=False).detail
    why = "broker 1 takes connections and does not answer, as one that is paused: one.example:9092: no answer for 1 s"
    assert said == why
    for reached, ended in ((False, False), (True, True)):
        said = unreached(node, told_by, "why", reached=reached, handshake=reached, ended=ended).detail
        assert "broker 1 cannot be reached where it advertises itself: one.example:9092: why" in said


async def test_offsets_that_a_leader_cannot_read_name_its_error() -> None:
    def refused(request: Any) -> ListOffsetsResponse:
        parts = [ListOffsetsPartitionResponse(0, error_code=ErrorCode.KAFKA_STORAGE_ERROR)]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", parts)])

    async with ScriptedBroker() as broker, aio.Consumer(bootstrap_servers=broker.servers) as consumer:
        consumer.config.default_api_timeout_ms = 300
        broker.handlers[ApiKey.LIST_OFFSETS] = refused
        consumer.assign([WHERE])
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: consumer.beginning_offsets([WHERE]),
            lambda: consumer.end_offsets([WHERE]),
            lambda: consumer.offsets_for_times({WHERE: 5}),
            lambda: consumer.position(WHERE),
        ]
        for call in calls:
            await told(call, "KAFKA_STORAGE_ERROR(56)")


def unknown(broker: ScriptedBroker, request: Any) -> Any:
    """As a broker tells of topics that it does not have."""
    answer = broker.metadata(request)
    answer.topics = [MetadataResponseTopic(error_code=3, name=each.name) for each in request.topics or ()]
    return answer


async def test_an_unknown_topic_is_named_with_its_error() -> None:
    async with ScriptedBroker() as broker, aio.Producer(broker.servers, max_block_ms=200) as producer:
        broker.handlers[ApiKey.METADATA] = lambda request: unknown(broker, request)
        why = "UNKNOWN_TOPIC_OR_PARTITION(3): the cluster has no topic nope"
        await told(lambda: producer.partitions_for("nope"), why)
        assert why in str((await producer.send("nope", b"x")).exception())


async def test_a_leader_that_is_missing_is_named() -> None:
    async with ScriptedBroker() as broker, aio.Producer(broker.servers, linger_ms=0) as producer:

        def homeless(request: Any) -> Any:
            answer = broker.metadata(request)
            part = MetadataResponsePartition(error_code=5, partition_index=0, leader_id=-1)
            answer.topics = [MetadataResponseTopic(name=each.name, partitions=[part]) for each in request.topics or ()]
            return answer

        broker.handlers[ApiKey.METADATA] = homeless
        await producer.send("t", b"x", partition=0)
        await told(lambda: producer.flush(0.3), "LEADER_NOT_AVAILABLE(5): topic t has no leader for partitions 0")
        await producer.close(0)


# ---- the client's life, for who asks --------------------------------------------------------------------------------


def test_logging_tells_a_producer_s_life(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    world = World()
    bench = Bench(world, linger_ms=0)
    bench.learn()
    answers = iter([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_RECORD])
    world.handlers[ApiKey.PRODUCE] = lambda node, request: world.produce(request, lambda *_: next(answers))
    bench.send(b"x")
    bench.settle()
    world.cut(1)
    said = [
        "node -1: connecting to boot:9092",
        "node -1: API_VERSIONS v4, request 1",
        "node -1: ready, it serves 4 APIs",
        "node -1: METADATA v13, request 2",
        "metadata 1: nodes [1], topics ['t']",
        "t-0: 1 records go again, attempt 2",
        "t-0: 1 records failed: INVALID_RECORD(87): t-0",
        "node 1: no longer connected: NETWORK_EXCEPTION(13): node 1: closed by the broker",
    ]
    assert [each for each in caplog.messages if each in said] == said
    assert sum("PRODUCE v13" in each for each in caplog.messages) == 2


async def test_logging_tells_a_consumer_s_life(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with aio.Broker(topics={"t": 1}) as broker, aio.Producer(broker.bootstrap_servers) as producer:
        await producer.send_and_wait("t", b"x")
        config = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}
        async with aio.Consumer("t", config=config) as consumer:
            assert await consumer.poll(WAIT)
    assert "t-0: the position is reset to offset 0" in caplog.messages
    assert any(each.startswith("a fetch session of 1 partitions begins: ") for each in caplog.messages)
