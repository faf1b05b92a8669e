"""What a well-formed request could do to everybody: each is played against a real process, and looked at.

`siege` looks on: resident memory at most 400 MB above idle, 150 MB ten seconds after the attacker left, the account as
before, and every ApiVersions of a bystander answered within 200 ms.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from barnabas.cli.look import get
from barnabas.protocol.api import ApiKey
from barnabas.protocol.ids import Buffer
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.requests.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.requests.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.requests.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.host.test_siege import is_idle, siege, soon
from tests.cli.process import Process
from tests.hostile.meter import exchange

pytestmark = [
    pytest.mark.slow,
    pytest.mark.measured,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]


def frame(key: int, version: int, request: Any) -> bytes:
    buffers: list[Buffer] = codec.encode_request(key, version, 1, "hostile", request)
    return b"".join(bytes(one) for one in buffers)


class Peer:
    """One connection of the attacker, kept open until the test is over."""

    def __init__(self, stack: ExitStack, port: int) -> None:
        self.sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))

    def ask(self, data: bytes) -> bytes | None:
        """Send a frame; its answer without the length, or None: the connection was closed."""
        told = exchange(self.sock, data)
        return None if told is None else told[0]

    def say(self, data: bytes) -> None:
        """Send a frame, and read nothing."""
        with suppress(ConnectionError):
            self.sock.sendall(data)


def test_one_thing_named_many_times() -> None:
    """DescribeConfigs with the broker 250,000 times: 5 GB, 90 s until now. FindCoordinator, 500,000 keys: 3.2 GB."""
    describe = DescribeConfigsRequest([DescribeConfigsResource(4, "1") for _ in range(250_000)], True)
    within = DescribeConfigsRequest([DescribeConfigsResource(4, "1") for _ in range(20_000)], True)
    with siege() as process, ExitStack() as stack:
        assert Peer(stack, process.port).ask(frame(ApiKey.DESCRIBE_CONFIGS, 4, describe)) is None
        told = Peer(stack, process.port).ask(frame(ApiKey.DESCRIBE_CONFIGS, 4, within))
        assert told is not None
        assert len(told) < 100_000
        keys = FindCoordinatorRequest("", 0, [f"g{number}" for number in range(500_000)])
        assert Peer(stack, process.port).ask(frame(ApiKey.FIND_COORDINATOR, 4, keys)) is None
        keys = FindCoordinatorRequest("", 0, [f"g{number}" for number in range(10_000)])
        for _ in range(30):
            Peer(stack, process.port).say(frame(ApiKey.FIND_COORDINATOR, 4, keys) * 3)


def test_fetches_that_wait_and_whose_connections_are_closed() -> None:
    """1.6 MB each, for 24 days: 4 GB until now. They are in the account while their peers are there, no longer."""
    topics = [FetchTopic("t", partitions=[FetchPartition(0) for _ in range(9_000)]) for _ in range(2)]
    request = frame(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=2**31 - 1, min_bytes=2**31 - 1, topics=topics))
    wide = [FetchTopic("w", partitions=[FetchPartition(number) for number in range(2_000)])]
    parked = frame(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=2**31 - 1, min_bytes=2**31 - 1, topics=wide))
    with siege("--topic", "t:1", "--topic", "w:2000") as process:
        for data in (request, parked):
            with ExitStack() as stack:
                for _ in range(40):
                    Peer(stack, process.port).say(data)
                soon(process, lambda: waiting_fetches(process) > 0)
                assert not is_idle(process), "they are in the account"
            soon(process, lambda: waiting_fetches(process) == 0 and is_idle(process))


def waiting_fetches(process: Process) -> int:
    """How many fetches wait in their purgatory."""
    told = json.loads(get(f"127.0.0.1:{process.port}", "/state?partitions=0")[1])
    return sum(int(one["delayed"]) for one in told["purgatories"] if one["name"] == "Fetch")


def test_refused_admin_requests() -> None:
    """Ten of 3.4 MB: 5 GB, kept, until now."""
    topics = CreateTopicsRequest([CreatableTopic(f"{'n' * 150}.{number}", 0, 1) for number in range(20_000)])
    resources = [
        AlterConfigsResource(2, f"{'n' * 200}{number}", [AlterableConfig("retention.ms", 0, "1")])
        for number in range(5_000)
    ]
    with siege() as process, ExitStack() as stack:
        for _ in range(10):
            assert Peer(stack, process.port).ask(frame(ApiKey.CREATE_TOPICS, 7, topics)) is not None
            alter = frame(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(resources))
            assert Peer(stack, process.port).ask(alter) is not None


def test_sessions_over_names_that_nobody_knows() -> None:
    """3 GB, kept, until now."""
    with siege("--topic", "t:1") as process, ExitStack() as stack:
        for number in range(60):
            topics = [
                FetchTopic(f"{'n' * 240}{number}-{name}", partitions=[FetchPartition(0)]) for name in range(5_000)
            ]
            Peer(stack, process.port).ask(frame(ApiKey.FETCH, 11, FetchRequest(session_epoch=0, topics=topics)))


def test_names_that_might_collide() -> None:
    """Names times topics, compared: up to 34 s until now."""
    new = CreateTopicsRequest([CreatableTopic(f"a.{number}", 1, 1) for number in range(2_000)])
    asked = MetadataRequest([MetadataRequestTopic(name=f"b_{number}..") for number in range(15_000)], True)
    with siege() as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        assert peer.ask(frame(ApiKey.CREATE_TOPICS, 7, new)) is not None
        check = CreateTopicsRequest([CreatableTopic(f"c_{number}.", 1, 1) for number in range(9_000)], 1000, True)
        assert peer.ask(frame(ApiKey.CREATE_TOPICS, 7, check)) is not None
        assert peer.ask(frame(ApiKey.METADATA, 9, asked)) is not None


def test_words_of_a_list() -> None:
    """Appended to each other word by word: 6 s until now."""
    words = ",".join(f"w{number}" for number in range(4_000))
    changes = [AlterableConfig("follower.replication.throttled.replicas", 2, words)]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(2, "t", changes)])
    with siege("--topic", "t:1") as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        for _ in range(5):
            assert peer.ask(frame(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)) is not None


def test_tagged_fields_that_say_nothing() -> None:
    """50 million of two bytes each in one frame: 10 s until now."""
    head = struct.pack(">hhih", ApiKey.METADATA, 12, 1, -1)
    many = b"\x80\x89\x7a"  # two million
    for place in (head + many, head + b"\0" + b"\0\0\0" + many):
        body = place + b"\x63\0" * 2_000_000
        with siege() as process, ExitStack() as stack:
            assert Peer(stack, process.port).ask(struct.pack(">i", len(body)) + body) is None


def test_a_native_fetch_of_empty_maps() -> None:
    """Eight million partitions of one byte each, 5 s until now."""
    inner = b"\xdd" + struct.pack(">I", 100_000) + b"\x80" * 100_000
    topic = b"\x81\xaapartitions" + inner
    head = b"\x95\x01\x12\x01\xc0\x81\xa6topics\xdc" + struct.pack(">H", 19) + topic * 19
    data = b"BNB1" + struct.pack(">II", 4 + len(head), len(head)) + head
    with siege() as process, ExitStack() as stack:
        assert Peer(stack, process.port).ask(data) is None


def test_topics_made_on_first_use() -> None:
    """57,000 in 20 s until now."""
    with siege() as process, ExitStack() as stack:
        began_s = time.monotonic()
        number = 0
        peers = [Peer(stack, process.port) for _ in range(4)]
        while time.monotonic() < began_s + 4:
            for peer in peers:
                peer.sock.settimeout(0.5)
                names = [MetadataRequestTopic(name=f"t{number + more}") for more in range(500)]
                number += 500
                with suppress(TimeoutError):
                    peer.ask(frame(ApiKey.METADATA, 9, MetadataRequest(names, True)))
        made = json.loads(get(f"127.0.0.1:{process.port}", "/state")[1])["broker"]["topics"]
        took_s = time.monotonic() - began_s
        assert made <= 7_170 + 34 * took_s  # 20,000 partitions and what one request has over, then 100 a second
