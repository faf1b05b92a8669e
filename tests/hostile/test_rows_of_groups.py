"""What groups could do to everybody: as `test_rows`, against a real process."""

from __future__ import annotations

import socket
import struct
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.config.topics import OFFSETS_TOPIC
from barnabas.broker.host.local import NAME
from barnabas.protocol.api import ApiKey
from barnabas.protocol.compression import Codec
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.kafka import codec
from barnabas.protocol.records import BatchBuilder
from barnabas.protocol.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.requests.describe_groups import DescribeGroupsRequest
from barnabas.protocol.requests.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.requests.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.requests.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.requests.sync_group import SyncGroupRequest
from tests.broker.host.test_siege import MB, PEAK_BYTES_MAX, Bystander, is_late, memory, siege
from tests.broker.node.world import START_WALL_MS
from tests.cli.process import broker
from tests.hostile.meter import exchange
from tests.hostile.test_rows import Peer, frame
from tests.measured import TooMuch

pytestmark = [
    pytest.mark.slow,
    pytest.mark.measured,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]

MEBIBYTE = 1024 * 1024
LONG_TYPE = "\U0001f600" + "t" * 32_000
"""32 KB on the wire, four times that in memory."""
SHORT_NAMES = struct.pack(">hi", 0, 30_000) + b"".join(b"\x00\x05%05d" % number for number in range(30_000))
"""What a consumer subscribes to: 210 KB, and 3.7 MB as names in a set."""
OPTIONS = ("--set", "group.initial.rebalance.delay.ms=100", "--set", "offsets.topic.num.partitions=1")


def ask(peer: Peer, key: int, version: int, request: Any) -> Any:
    """Its answer, decoded."""
    told = peer.ask(frame(key, version, request))
    assert told is not None
    return codec.decode_response(key, version, told)[1]


def coordinated(peer: Peer) -> None:
    """Wait until groups have a coordinator."""
    until_s = time.monotonic() + 60
    request = FindCoordinatorRequest("", 0, ["group"])
    while ask(peer, ApiKey.FIND_COORDINATOR, 4, request).coordinators[0].error_code:
        assert time.monotonic() < until_s
        time.sleep(0.05)


def join(peer: Peer, metadata: bytes, kind: str = "consumer") -> str:
    """The id of the only member of a group, in its first generation."""
    protocols = [JoinGroupRequestProtocol("range", metadata)]
    told = ask(peer, ApiKey.JOIN_GROUP, 3, JoinGroupRequest("group", 60_000, 60_000, "", None, kind, protocols))
    assert (told.error_code, told.generation_id) == (0, 1)
    member_id: str = told.member_id
    return member_id


def test_one_group_described_many_times() -> None:
    """A request of 70 KB took 9 GB until now."""
    with siege(*OPTIONS) as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        coordinated(peer)
        member_id = join(peer, bytes(900_000), "other")
        assert ask(peer, ApiKey.SYNC_GROUP, 3, SyncGroupRequest("group", 1, member_id)).error_code == 0
        (told,) = ask(peer, ApiKey.DESCRIBE_GROUPS, 4, DescribeGroupsRequest(["group"] * 9_900)).groups
        assert len(told.members[0].member_metadata) == 900_000


def test_what_a_group_committed_asked_for_many_times() -> None:
    """A request of 60 KB was answered with 100 million offsets until now."""
    parts = [OffsetCommitRequestPartition(at, 7, -1, "m" * 300) for at in range(10_000)]
    commit = OffsetCommitRequest("group", topics=[OffsetCommitRequestTopic("wide", partitions=parts)])
    every = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("group", topics=None) for _ in range(9_900)])
    topics = [OffsetFetchRequestTopics("wide", partition_indexes=[1] * 900) for _ in range(10)]
    one = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("group", topics=topics)])
    with siege("--topic", "wide:10000", *OPTIONS) as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        coordinated(peer)
        assert ask(peer, ApiKey.OFFSET_COMMIT, 8, commit).topics[0].partitions[9_999].error_code == 0
        (group,) = ask(peer, ApiKey.OFFSET_FETCH, 8, every).groups
        assert len(group.topics[0].partitions) == 10_000
        (group,) = ask(peer, ApiKey.OFFSET_FETCH, 8, one).groups
        assert [part.committed_offset for topic in group.topics for part in topic.partitions] == [7]
        peers = [Peer(stack, process.port) for _ in range(100)]
        for each in peers:  # and everything, by many at once
            each.say(frame(ApiKey.OFFSET_FETCH, 8, every))


@pytest.mark.parametrize("size", [2, 6])
def test_a_subscription_of_millions_of_names(size: int) -> None:
    """One JoinGroup of 8 MB stopped the loop for 0.8 s until now, and again with every rebalance."""
    count = 7_500_000 // size
    name = struct.pack(">h", size - 2) + b"n" * (size - 2)
    with siege(*OPTIONS) as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        coordinated(peer)
        join(peer, struct.pack(">hi", 0, count) + name * count)


def test_groups_without_end(tmp_path: Path) -> None:
    """One for every request, of either protocol, with long names: what one address may bring is bounded."""
    count, at_once, name = 1_500, 250, "n" * 20_000
    range_of = [JoinGroupRequestProtocol("range", b"")]
    session_ms = 600_000  # a line is logged for each that is missed, and a slow machine takes more than a minute
    patient = [f"group.consumer.{key}session.timeout.ms={session_ms}" for key in ("max.", "")]
    options = [*OPTIONS, *(each for setting in patient for each in ("--set", setting))]
    with siege(*options, data_dir=tmp_path) as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        coordinated(peer)
        codes: set[int] = set()
        for start in range(0, count, at_once):
            numbers = range(start, start + at_once)
            joins = [
                JoinGroupRequest(f"classic-{n}{name}", session_ms, session_ms, "", None, "test", range_of)
                for n in numbers
            ]
            told = exchange(peer.sock, b"".join(frame(ApiKey.JOIN_GROUP, 9, one) for one in joins), answers=at_once)
            assert told is not None
            codes |= {codec.decode_response(ApiKey.JOIN_GROUP, 9, one)[1].error_code for one in told[-3:]}
            key = ApiKey.CONSUMER_GROUP_HEARTBEAT
            beats = [
                ConsumerGroupHeartbeatRequest(f"{n}{name}", "m", 0, None, None, session_ms, ["t"], None, None, [])
                for n in numbers
            ]
            told = exchange(peer.sock, b"".join(frame(key, 1, one) for one in beats), answers=at_once)
            assert told is not None
            codes |= {codec.decode_response(key, 1, one)[1].error_code for one in told[-3:]}
        assert codes == {0, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.GROUP_MAX_SIZE_REACHED}
        one = JoinGroupRequest(name, 60_000, 60_000, "", None, "test", range_of)
        assert ask(peer, ApiKey.JOIN_GROUP, 3, one).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


PARTITIONS = 8


def written_as_the_administrator(data_dir: str, partition: int, batch: bytes) -> int:
    """A batch for the groups' log, over the local socket; the error."""
    topic = TopicProduceData(OFFSETS_TOPIC, partition_data=[PartitionProduceData(partition, batch)])
    request = ProduceRequest(None, 1, 30_000, [topic])
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(f"{data_dir}/{NAME}")
        told = exchange(sock, b"".join(codec.encode_request(ApiKey.PRODUCE, 9, 1, "__admin_client", request)))
    assert told is not None
    (one,) = codec.decode_response(ApiKey.PRODUCE, 9, told[0])[1].responses[0].partition_responses
    code: int = one.error_code
    return code


def holding(records: int, size: int) -> bytes:
    """A batch of so many records in zstd, each with so many bytes that nobody can read."""
    builder = BatchBuilder(2**31 - 1, Codec.ZSTD)
    for _ in range(records):
        assert builder.try_append(START_WALL_MS, b"key", bytes(size))
    return bytes(builder.build())


def test_a_log_of_groups_that_unpacks_to_a_hundred_times_as_much(tmp_path: Path) -> None:
    """Every partition's load unpacked its own on the loop: ten batches of 15 KB took 1.4 GB until now."""
    bombs = holding(120, MEBIBYTE), holding(30, MEBIBYTE), holding(50_000, 60)
    assert max(map(len, bombs)) < 200_000
    where = tempfile.mkdtemp(dir=tmp_path)
    options = ("--port", "0", "--data-dir", where, "--set", f"offsets.topic.num.partitions={PARTITIONS}")
    with broker(*options) as process, ExitStack() as stack:
        idle = memory(process, "VmRSS")
        coordinated(Peer(stack, process.port))
        for partition in range(PARTITIONS):
            assert [written_as_the_administrator(where, partition, one) for one in bombs] == [0, 0, 0]
        assert process.end() == 0
    with broker(*options) as process, Bystander(process, records=False) as onlooker, ExitStack() as stack:
        peer = Peer(stack, process.port)
        for number in range(4 * PARTITIONS):
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(f"g{number}", topics=None)])
            until_s = time.monotonic() + 300
            while ask(peer, ApiKey.OFFSET_FETCH, 8, request).groups[0].error_code:
                assert time.monotonic() < until_s
                time.sleep(0.1)
        peak = memory(process, "VmHWM") - idle
        worst_s = max(one.worst_s for one in onlooker.end().values())
        measured = f"{peak / MB:.0f} MB at the peak, slowest answer {worst_s * 1e3:.0f} ms"
        print(f"start: {measured}")
        assert process.end() == 0
    told = [line for line in process.errors if "hold more than" in line]
    assert len(told) == PARTITIONS, "each is named"
    assert sum(map(len, process.errors)) < 200_000
    if peak > PEAK_BYTES_MAX or is_late(worst_s):
        raise TooMuch(measured)


@pytest.mark.parametrize(
    ("kind", "metadata", "count"), [(LONG_TYPE, b"", 5_000), ("consumer", SHORT_NAMES, 250)], ids=["types", "names"]
)
def test_groups_that_say_much_of_themselves(kind: str, metadata: bytes, count: int) -> None:
    """Neither was counted: 5,000 types of 131 KB, or 250 times 30,000 names, took 0.7 and 1 GB until now."""
    session_ms, at_once = 600_000, 25
    protocols = [JoinGroupRequestProtocol("range", metadata)]
    with siege(*OPTIONS, "--set", "group.initial.rebalance.delay.ms=0") as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        coordinated(peer)
        codes: set[int] = set()
        for start in range(0, count, at_once):
            joins = [
                frame(
                    ApiKey.JOIN_GROUP, 3, JoinGroupRequest(f"g{n}", session_ms, session_ms, "", None, kind, protocols)
                )
                for n in range(start, start + at_once)
            ]
            told = exchange(peer.sock, b"".join(joins), answers=at_once)
            assert told is not None
            codes |= {codec.decode_response(ApiKey.JOIN_GROUP, 3, one)[1].error_code for one in told}
        assert codes == {0, ErrorCode.GROUP_MAX_SIZE_REACHED}


def test_settings_by_connections_that_are_gone() -> None:
    """What is seen through was counted for its connection, and then for nobody: 45 of these held 560 MB until now."""
    settings = [AlterableConfig("consumer.session.timeout.ms", 0, "50000")]
    with siege(*OPTIONS) as process:
        for number in range(45):
            named = [AlterConfigsResource(32, f"{number}-{at}{'g' * 40}", settings) for at in range(9_900)]
            with ExitStack() as stack:
                request = IncrementalAlterConfigsRequest(named)
                Peer(stack, process.port).say(frame(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request))
