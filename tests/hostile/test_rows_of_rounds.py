"""What thousands of connections that send in one moment could do to everybody: as `test_rows`, a real process."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import pytest

from barnabas.protocol.api import ApiKey
from barnabas.protocol.compression import Codec
from barnabas.protocol.native import codec as native
from barnabas.protocol.records import BatchBuilder
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.requests.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.host.test_siege import VERSIONS, siege
from tests.broker.node.world import START_WALL_MS
from tests.hostile.test_rows import Peer, frame

pytestmark = [
    pytest.mark.slow,
    pytest.mark.measured,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]

MANY = 2_000
"""One address may have 5,000; what they wait for then is more of the same."""
ANSWER_S_MAX = 120.0
"""Against hanging alone: how long all of it takes is the machine's."""


def fetch(topics: Sequence[str], partitions: int) -> FetchRequest:
    parts = [FetchPartition(at, partition_max_bytes=1) for at in range(partitions)]
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(name, partitions=parts) for name in topics])


def bomb() -> bytes:
    """1,900 records in a few hundred bytes."""
    builder = BatchBuilder(2**31 - 1, Codec.ZSTD)
    for _ in range(1_900):
        builder.try_append(START_WALL_MS, b"k", b"v" * 400)
    return bytes(builder.build(-1, -1, -1))


def produce(topic: str, records: bytes) -> bytes:
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, memoryview(records))])]
    return frame(ApiKey.PRODUCE, 9, ProduceRequest(None, 1, 20_000, data))


def native_fetch(partitions: int) -> bytes:
    parts = [FetchPartition() for _ in range(partitions)]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic("t", partitions=parts)])
    return b"BNB1" + b"".join(map(bytes, native.encode_request(ApiKey.FETCH, 12, 1, "h", request)))


ROWS: dict[str, tuple[int, Callable[[], bytes]]] = {
    "fetch of 200 partitions": (1_000, lambda: frame(ApiKey.FETCH, 11, fetch(["wide"], 200))),
    "metadata of 490 partitions": (
        MANY,
        lambda: frame(ApiKey.METADATA, 9, MetadataRequest([MetadataRequestTopic(name="mid")])),
    ),
    "a batch to unpack": (1_000, lambda: produce("keyed", bomb())),
    "native fetch of 60 partitions": (2 * MANY, lambda: native_fetch(60)),
}


@pytest.mark.parametrize("name", ROWS)
def test_many_requests_in_one_moment(name: str) -> None:
    """Others waited until all had been served: for 0.3 s (native fetches) to 8.5 s (batches, 4,000 of them)."""
    count, make = ROWS[name]
    data = make()
    topics = ("--topic", "t:1", "--topic", "keyed:1", "--topic", "mid:490", "--topic", "wide:200")
    # what asks for records waits in the same line as all the others
    with siege(*topics, "--set", "log.cleanup.policy=compact", held=VERSIONS) as process, ExitStack() as stack:
        peers = [Peer(stack, process.port) for _ in range(count)]
        for peer in peers:
            peer.say(data)
        until_answered(peers)


def until_answered(peers: Sequence[Peer]) -> None:
    """All have something to read, if only the end."""
    for peer in peers:
        peer.sock.settimeout(ANSWER_S_MAX)
        try:
            peer.sock.recv(1, socket.MSG_PEEK)
        except ConnectionError:
            continue
