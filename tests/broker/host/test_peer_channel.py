"""The listener between brokers, with real sockets: who comes in, who does not, and what either may ask."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import barnabas.aio
from barnabas.broker.account import BROKER, KEPT, PARKED
from barnabas.broker.host import admission, peer_channel
from barnabas.broker.host.assemble import Assembly
from barnabas.broker.host.states import MUTED
from barnabas.broker.introduction import VERSIONS, Introduction, IntroductionError
from barnabas.protocol.api import BROKER_VERSIONS, REQUESTS, SPOKEN, ApiKey, key_of, name_of
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
)
from barnabas.protocol.requests.api_versions import ApiVersionsRequest
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.protocol.requests.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.requests.metadata import MetadataRequest
from barnabas.protocol.requests.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.protocol.requests.sasl_handshake import SaslHandshakeRequest
from tests.broker.host.fake_core import Raw, until

SECRET = b"known to brokers alone"


@asynccontextmanager
async def one_broker(directory: Path, **settings: str) -> AsyncIterator[Assembly]:
    secret = directory / "secret"
    secret.write_bytes(SECRET + b"\n")
    secret.chmod(0o600)
    config = {
        "listeners": "BROKERS://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
        "inter.broker.listener.name": "brokers",
        "barnabas.cluster.secret.file": str(secret),
        **settings,
    }
    async with barnabas.aio.Broker(config, topics={"t": 1}) as broker:
        yield broker._assembly


def port_between(assembly: Assembly) -> int:
    return next(one.endpoint.port for one in assembly.listening if one.endpoint.listener == "BROKERS")


class Caller(Raw):
    """Asks in words of the vocabulary."""

    async def call(self, request: Any, version: int | None = None) -> Any:
        key = key_of(type(request))
        version = VERSIONS.get(key, SPOKEN[key][1]) if version is None else version
        self.send(b"".join(codec.encode_request(key, version, 1, "caller", request)))
        return codec.decode_response(key, version, await self.frame())[1]

    async def introduce(self, one: Introduction) -> int:
        request: Any = one.first()
        while request is not None:
            request = one.answered(await self.call(request))
        return one.peer


@asynccontextmanager
async def caller(port: int) -> AsyncIterator[Caller]:
    raw = Caller(*await asyncio.open_connection("127.0.0.1", port))
    try:
        yield raw
    finally:
        await raw.close()


def introduction(assembly: Assembly, *, secret: bytes = SECRET, cluster: str = "", node: int = 2) -> Introduction:
    return Introduction(secret, cluster or assembly.host.core.services.cluster_id, node, b"n" * 32)


@asynccontextmanager
async def peer(assembly: Assembly, node: int = 2) -> AsyncIterator[Caller]:
    async with caller(port_between(assembly)) as raw:
        assert await raw.introduce(introduction(assembly, node=node)) == 1
        yield raw


def replica_questions(replica: int) -> list[Any]:
    fetch = FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=1000)])
    return [
        FetchRequest(replica_id=replica, max_bytes=1000, topics=[fetch]),
        ListOffsetsRequest(replica, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, -1)])]),
        OffsetForLeaderEpochRequest(replica, [OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0, -1, 0)])]),
    ]


def code_of(response: Any) -> int:
    (topic,) = response.responses if hasattr(response, "responses") else response.topics
    part, *_ = topic.partitions
    return int(part.error_code)


async def test_a_broker_that_knows_the_secret_may_ask_what_replicas_ask(tmp_path: Path) -> None:
    async with one_broker(tmp_path) as assembly, peer(assembly) as raw:
        versions = await raw.call(ApiVersionsRequest("barnabas", "1"))
        told = {one.api_key: (one.min_version, one.max_version) for one in versions.api_keys}
        assert {ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH} < set(told)
        assert ApiKey.METADATA not in told
        assert all(SPOKEN[key] == versions for key, versions in told.items())
        fetch, *others = replica_questions(2)
        # It has no replica of that topic, and is told so, as from Apache Kafka.
        assert code_of(await raw.call(fetch, 11)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert [code_of(await raw.call(one)) for one in others] == [0, 0]


async def test_a_broker_speaks_for_itself_alone(tmp_path: Path) -> None:
    async with one_broker(tmp_path) as assembly, peer(assembly) as raw:
        fetch = FetchRequest(replica_state=ReplicaState(3, -1), max_bytes=1000)
        assert (await raw.call(fetch)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_a_client_that_says_it_is_a_replica_is_refused(tmp_path: Path) -> None:
    async with one_broker(tmp_path) as assembly, caller(assembly.port) as raw:
        fetch, *others = replica_questions(2)
        assert code_of(await raw.call(fetch, 11)) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert [code_of(await raw.call(one)) for one in others] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
        for debugger in replica_questions(-2):
            version = 11 if isinstance(debugger, FetchRequest) else None
            assert code_of(await raw.call(debugger, version)) == 0


@pytest.mark.parametrize("key", BROKER_VERSIONS, ids=name_of)
async def test_a_client_s_listener_knows_nothing_of_what_brokers_ask(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, key: ApiKey
) -> None:
    async with one_broker(tmp_path) as assembly, caller(assembly.port) as raw:
        versions = await raw.call(ApiVersionsRequest("barnabas", "1"))
        assert not {one.api_key for one in versions.api_keys} & set(BROKER_VERSIONS)
        raw.send(b"".join(codec.encode_request(key, SPOKEN[key][1], 1, "me", REQUESTS[key]())))
        assert await raw.ended() == b""
    its_own = {ApiKey.SASL_HANDSHAKE: "it wants SASL", ApiKey.SASL_AUTHENTICATE: "it wants SASL"}
    told = its_own.get(key, f"it asks for {name_of(key)}, which brokers alone ask of each other")
    assert told in caplog.text


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"secret": b"guessed by somebody"}, "it says that it is broker 2 and does not know the secret"),
        ({"cluster": "theirs"}, "broker 2 is of cluster 'theirs', this one is of "),
        ({"node": 1}, "it has the node id of this broker, 1; give each broker a node.id of its own"),
    ],
    ids=["secret", "cluster", "node id"],
)
async def test_who_does_not_belong_here_is_told_why_and_let_go(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: dict[str, Any], told: str
) -> None:
    caplog.set_level(logging.DEBUG)
    async with one_broker(tmp_path) as assembly, caller(port_between(assembly)) as raw:
        before = assembly.host.snapshot()
        with pytest.raises(IntroductionError, match=f"the broker there refuses this one: {told}"):
            await raw.introduce(introduction(assembly, **change))
        assert await raw.ended() == b""
        await until(lambda: not assembly.host.channels)
        after = assembly.host.snapshot()
        assert [before[what] == after[what] for what in ("partitions", "cluster") if what in before]
    closing = [line for line in caplog.messages if "closing the connection" in line]
    assert len(closing) == 1
    assert told in closing[0]
    assert SECRET.decode() not in caplog.text


METADATA = codec.encode_request(3, 9, 1, "me", MetadataRequest([]))


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"".join(METADATA), "it asks for Metadata before it has shown that it is a broker of this cluster"),
        (struct.pack(">ihhih", 10, 99, 0, 1, -1), "it asks for API 99 before it has shown"),
        (struct.pack(">i", 1025) + bytes(8), "frame length 1025 is not between 0 and 1024"),
        (struct.pack(">ihhih", 10, 17, 9, 1, -1), "SASL_HANDSHAKE v9 is not served"),
        (struct.pack(">ihhih", 10, 36, 2, 1, -1), "header: the bytes end within the tagged section"),
        (struct.pack(">i", 1) + b"\0", "request header needs 10 bytes, the frame has 1"),
        (struct.pack(">i", 0), "request header needs 10 bytes, the frame has 0"),
        (b"GET /state HTTP/1.1\r\n\r\n", "brokers alone talk on this listener"),
        (b"BNB1", "brokers alone talk on this listener"),
        (b"\x16\x03\x01\x00", "brokers alone talk on this listener"),
    ],
    ids=["metadata", "unknown", "large", "version", "empty", "short", "nothing", "http", "native", "tls"],
)
async def test_before_it_is_through_nothing_but_an_introduction_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sent: bytes, told: str
) -> None:
    async with one_broker(tmp_path) as assembly, caller(port_between(assembly)) as raw:
        raw.send(sent)
        assert await raw.ended() == b""
    assert told in caplog.text


async def test_after_it_nothing_of_a_client_s_is_served(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with one_broker(tmp_path) as assembly:
        for request in (MetadataRequest([]), SaslHandshakeRequest("PLAIN")):
            async with peer(assembly) as raw:
                key = key_of(type(request))
                raw.send(b"".join(codec.encode_request(key, 1, 1, "me", request)))
                assert await raw.ended() == b""
    assert "it asks for Metadata, which brokers do not ask of each other" in caplog.text
    assert "it asks for SaslHandshake, which brokers do not ask of each other" in caplog.text


async def test_who_does_not_go_on_is_let_go(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is silent, one stops after its first request, one after it is through: that one stays."""
    async with one_broker(tmp_path) as assembly:
        async with peer(assembly) as known:
            monkeypatch.setattr(peer_channel, "INTRODUCTION_MS_MAX", 20)
            async with caller(port_between(assembly)) as silent, caller(port_between(assembly)) as slow:
                slow.send(b"".join(codec.encode_request(17, 1, 1, "me", SaslHandshakeRequest("BARNABAS-HMAC-SHA256"))))
                assert await silent.ended() == b""
                await slow.ended()
            await until(lambda: len(assembly.host.channels) == 1)
            assert (await known.call(ApiVersionsRequest("barnabas", "1"))).error_code == 0
        await until(lambda: not assembly.host.channels)
    assert caplog.text.count("it did not show within 20 ms that it is a broker of this cluster") == 2


async def test_no_flood_of_clients_keeps_a_broker_out(tmp_path: Path) -> None:
    async with one_broker(tmp_path, **{"max.connections": "1"}) as assembly, caller(assembly.port) as client:
        assert (await client.call(ApiVersionsRequest("c", "1"))).error_code == 0
        async with caller(assembly.port) as another:
            assert await another.ended() == b""
        async with peer(assembly), peer(assembly) as raw:
            assert (await raw.call(ApiVersionsRequest("b", "1"))).error_code == 0
            assert (assembly.host.admission.open, assembly.host.admission.refused) == (1, 1)
        await until(lambda: len(assembly.host.channels) == 1)


async def test_strangers_keep_no_broker_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They took all places there are for ten seconds, and then again: whoever came later was refused."""
    monkeypatch.setattr(admission, "STRANGERS_MAX", 2)
    async with one_broker(tmp_path) as assembly, peer(assembly) as known:
        counts, port = assembly.host.admission, port_between(assembly)
        async with caller(port) as first, caller(port) as second:
            await until(lambda: counts.strangers == 2)
            async with peer(assembly) as third:
                assert await first.ended() == b""
                assert (await third.call(ApiVersionsRequest("b", "1"))).error_code == 0
                assert counts.strangers == 1
            async with caller(port), caller(port):
                assert await second.ended() == b""
                assert (await known.call(ApiVersionsRequest("b", "1"))).error_code == 0
        await until(lambda: len(assembly.host.channels) == 1)
        assert (counts.strangers, counts.refused) == (0, 0)
    assert counts.open == 0


async def test_clients_that_take_all_sockets_keep_no_broker_out(tmp_path: Path) -> None:
    """A process that may open few files has places for fewer clients than the settings allow; brokers had them, too."""
    async with one_broker(tmp_path) as assembly:
        assembly.host.admission.sockets_max = 1
        async with caller(assembly.port) as client:
            assert (await client.call(ApiVersionsRequest("c", "1"))).error_code == 0
            async with caller(assembly.port) as another:
                assert await another.ended() == b""
            async with peer(assembly) as raw:
                assert (await raw.call(ApiVersionsRequest("b", "1"))).error_code == 0


async def test_large_requests_are_read_once_it_is_through(tmp_path: Path) -> None:
    async with one_broker(tmp_path) as assembly, peer(assembly) as raw:
        topics = [ListOffsetsTopic("x" * 100, [ListOffsetsPartition(number, -1, -1)]) for number in range(100)]
        response = await raw.call(ListOffsetsRequest(2, 0, topics))
        assert sum(len(topic.partitions) for topic in response.topics) == 100


async def test_what_took_long_to_decode_is_served_in_a_step_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_channel, "DECODING_MS_MAX", -1)
    decoding = False
    served_in: list[bool] = []
    decode = peer_channel.PeerChannel._handle

    def handle(*asked: Any) -> None:
        nonlocal decoding
        decoding = True
        decode(*asked)
        decoding = False

    monkeypatch.setattr(peer_channel.PeerChannel, "_handle", handle)
    async with one_broker(tmp_path) as assembly, peer(assembly) as raw:
        core = assembly.host.core
        serve = core.handle_peer

        def handle_peer(*asked: Any) -> None:
            served_in.append(decoding)
            serve(*asked)

        monkeypatch.setattr(core, "handle_peer", handle_peer)
        assert code_of(await raw.call(many_offsets(1))) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        response = await raw.call(many_offsets(200))
    assert {part.error_code for topic in response.topics for part in topic.partitions} == {3}, "as a broker is told"
    assert served_in == [True, False]


async def test_what_clients_hold_neither_ends_a_broker_nor_keeps_it_waiting(tmp_path: Path) -> None:
    async with one_broker(tmp_path) as assembly, peer(assembly) as raw:
        account, (channel,) = assembly.host.account, assembly.host.channels.values()
        held = ((BROKER, PARKED, account.limit - account.total), (channel.connection.id, KEPT, 100_000))
        for one in held:
            account.charge(*one)
        assert code_of(await raw.call(many_offsets(1_000))) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topics = [
            AlterPartitionTopic(number.to_bytes(16, "big"), [AlterPartitionPartition()]) for number in range(1, 100)
        ]
        assert (await raw.call(AlterPartitionRequest(2, 7, topics))).error_code == ErrorCode.STALE_BROKER_EPOCH
        assert assembly.host.relief.ended == 0
        raw.send(
            b"".join(codec.encode_request(19, 7, 1, "b", CreateTopicsRequest([CreatableTopic("x" * 2_000, 1, 1)])))
        )
        assert await raw.ended() == b"", "a client asks for that"
        account.release(*held[0])


def many_offsets(count: int) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        2, 0, [ListOffsetsTopic("x" * 100, [ListOffsetsPartition(at, -1, -1)]) for at in range(count)]
    )


async def test_clients_are_led_to_the_other_listener(tmp_path: Path) -> None:
    async with one_broker(tmp_path) as assembly:
        assert assembly.bootstrap_servers == f"127.0.0.1:{assembly.port}"
        assert assembly.port != port_between(assembly)
        assert not any(one.endswith(f":{port_between(assembly)}") for one in assembly.addresses)
        node = assembly.host.core.image.brokers[1]
        assert {name for name, _, _ in node.endpoints} == {"PLAINTEXT", "BROKERS"}
        async with caller(assembly.port) as raw:
            (told,) = (await raw.call(MetadataRequest([]))).brokers
            assert told.port == assembly.port


async def test_the_secret_and_its_file_are_told_nobody(tmp_path: Path) -> None:
    async with one_broker(tmp_path) as assembly, peer(assembly):
        seen = str(assembly.host.snapshot())
        assert SECRET.decode() not in seen
        assert str(tmp_path / "secret") not in seen
        assert "Broker:2" not in seen or SECRET.decode() not in seen


async def test_a_client_that_must_wait_keeps_no_lane_between_brokers_waiting(tmp_path: Path) -> None:
    """What broker 2 sends on for its clients comes from all of them; it mutes the one that has to wait, itself."""
    quota = {"barnabas.controller.mutation.burst": "1", "barnabas.controller.mutation.rate": "1"}
    async with one_broker(tmp_path, **quota) as assembly, peer(assembly) as raw:
        topics = [CreatableTopic("many", 100, 1)]
        response = await raw.call(CreateTopicsRequest(topics, validate_only=False))
        assert response.throttle_time_ms > 10_000
        (channel,) = assembly.host.channels.values()
        assert not channel.waits & MUTED
        assert code_of(await raw.call(replica_questions(2)[1])) == 0
