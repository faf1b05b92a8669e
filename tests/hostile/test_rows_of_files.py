"""What lies in files could cost everybody: lookups by time, and answers that nobody reads. As `test_rows`."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from barnabas.protocol.api import ApiKey
from barnabas.protocol.batch import set_max_timestamp
from barnabas.protocol.compression import Codec
from barnabas.protocol.kafka import codec
from barnabas.protocol.records import BatchBuilder
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.requests.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.host.test_siege import siege
from tests.broker.node.world import START_WALL_MS, batch
from tests.hostile.meter import exchange
from tests.hostile.test_rows import Peer, frame

pytestmark = [
    pytest.mark.slow,
    pytest.mark.measured,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]

LYING = 150
KEPT = ("--set", "log.retention.ms=-1")


def test_batches_that_say_they_are_young() -> None:
    """4 KB each, which unpack to 900 KB: one lookup by time in 2,000 of them stopped everybody for 15 s until now."""
    builder = BatchBuilder(2**31 - 1, Codec.ZSTD)
    for _ in range(1_900):
        builder.try_append(START_WALL_MS, b"k", bytes(450))
    records = builder.build(-1, -1, -1)
    set_max_timestamp(records, 0, len(records), START_WALL_MS + 5, log_append_time=False)
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, memoryview(records))])]
    lying = frame(ApiKey.PRODUCE, 9, ProduceRequest(None, 1, 20_000, data))
    topics = [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, START_WALL_MS + 1)])]
    with siege("--topic", "t:1", *KEPT) as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        assert exchange(peer.sock, lying * LYING, answers=LYING) is not None
        told = peer.ask(frame(ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(-1, topics=topics)))
        assert told is not None
        (part,) = codec.decode_response(ApiKey.LIST_OFFSETS, 7, told)[1].topics[0].partitions
        assert (part.error_code, part.offset) == (0, -1)


def append(records: bytes, partitions: Iterable[int]) -> bytes:
    """A Produce to each of these partitions."""
    data = [PartitionProduceData(number, memoryview(records)) for number in partitions]
    request = ProduceRequest(None, 1, 20_000, [TopicProduceData("t", partition_data=data)])
    return frame(ApiKey.PRODUCE, 9, request)


def everything(partitions: int) -> bytes:
    """A Fetch of all that these partitions hold."""
    asked = [FetchPartition(number, partition_max_bytes=1_000_000) for number in range(partitions)]
    return frame(
        ApiKey.FETCH, 11, FetchRequest(max_wait_ms=100, min_bytes=1, topics=[FetchTopic("t", partitions=asked)])
    )


def unread(stack: ExitStack, port: int, request: bytes) -> socket.socket:
    """Ask, and do not read."""
    sock = stack.enter_context(socket.socket())
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", port))
    sock.settimeout(60)
    sock.sendall(request)
    return sock


def begun(socks: Iterable[socket.socket]) -> None:
    """Wait until each has been answered, or ended."""
    for sock in socks:
        with suppress(ConnectionError):
            sock.recv(1)


def test_records_that_were_copied_and_that_nobody_reads(tmp_path: Path) -> None:
    """30 connections kept 1.6 GB until now, of which the account knew nothing."""
    with siege("--topic", "t:400", *KEPT, data_dir=tmp_path) as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        for number in range(400):
            assert peer.ask(append(bytes(batch(b"v" * 120_000)), [number])) is not None
        begun([unread(stack, process.port, everything(400)) for _ in range(30)])


def test_maps_of_files_that_grow_and_that_nobody_reads(tmp_path: Path) -> None:
    """Each takes a handle: 45 connections took all 20,000 until now, and nobody got in."""
    few = ("bash", "-c", 'ulimit -n 512; exec "$@"', "few")
    with siege("--topic", "t:100", *KEPT, data_dir=tmp_path, inside=few) as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        for number in range(100):
            assert peer.ask(append(bytes(batch(b"v" * 140_000)), [number])) is not None
        for _ in range(8):
            assert peer.ask(append(bytes(batch(b"v")), range(100))) is not None
            begun([unread(stack, process.port, everything(100))])
        new = frame(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic("new", 100, 1)], 10_000))
        told = Peer(stack, process.port).ask(new)
        assert told is not None
        assert codec.decode_response(ApiKey.CREATE_TOPICS, 7, told)[1].topics[0].error_code == 0
