"""What many small requests at once could do to everybody, and one small batch: as `test_rows`, a real process."""

from __future__ import annotations

import sys
from contextlib import ExitStack, suppress

import pytest

from barnabas.protocol.api import ApiKey
from barnabas.protocol.compression import Codec
from barnabas.protocol.kafka import codec
from barnabas.protocol.records import BatchBuilder
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.requests.metadata import MetadataRequest
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.host.test_siege import siege
from tests.broker.node.world import START_WALL_MS
from tests.hostile.test_rows import Peer, frame

pytestmark = [
    pytest.mark.slow,
    pytest.mark.measured,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]


def test_all_topics_asked_for_by_many_at_once() -> None:
    """Four hundred requests of eleven bytes at 19,000 topics: 2.8 GB until now."""
    long = "n" * 200
    with siege() as process, ExitStack() as stack:
        new = [CreatableTopic(f"{long}-{at}", 1, 1) for at in range(4_000)]
        assert Peer(stack, process.port).ask(frame(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(new, 60_000)))
        peers = [Peer(stack, process.port) for _ in range(400)]
        for peer in peers:
            peer.say(frame(ApiKey.METADATA, 9, MetadataRequest(None)))
        with suppress(ConnectionError):
            assert len(peers[0].sock.recv(1)) == 1


def test_few_records_of_many_headers() -> None:
    """21 KB of zstd with 40 million headers: 18 s until now."""
    builder = BatchBuilder(2**31 - 1, Codec.ZSTD)
    for _ in range(200):
        builder.try_append(START_WALL_MS, b"k", None, (("", None),) * 9_900)
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, memoryview(builder.build(-1, -1, -1)))])]
    request = frame(ApiKey.PRODUCE, 9, ProduceRequest(None, 1, 20_000, data))
    assert len(request) < 100_000
    with siege("--topic", "t:1", "--set", "log.cleanup.policy=compact") as process, ExitStack() as stack:
        told = Peer(stack, process.port).ask(request)
        assert told is not None
        (part,) = codec.decode_response(ApiKey.PRODUCE, 9, told)[1].responses[0].partition_responses
        assert part.error_code == 0
