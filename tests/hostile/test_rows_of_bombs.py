"""A few KB that hold millions of records, and what else costs more than its bytes: as `test_rows`, a real process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache

import pytest

from barnabas.cli.look import get, state
from barnabas.protocol.api import ApiKey
from barnabas.protocol.batch import set_max_timestamp
from barnabas.protocol.compression import Codec, compress
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.kafka import codec
from barnabas.protocol.records import RECORD_SIZE_MIN, BatchBuilder
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.requests.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.host.test_siege import siege
from tests.broker.log.test_many_records import counting
from tests.broker.node.world import START_WALL_MS, batch
from tests.cli.process import Process
from tests.hostile.test_rows import Peer, frame

pytestmark = [
    pytest.mark.slow,
    pytest.mark.measured,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]

MANY = 18_000_000
ACCEPTED = 1_000_000
"""`barnabas.batch.records.max`."""
RECORD = bytes([2 * (RECORD_SIZE_MIN - 1), 0, 0, 0, 1, 1, 0])
"""The smallest there is: neither key nor value."""
COMPACT = "log.cleanup.policy=compact"


@cache
def bomb(count: int) -> bytes:
    """A batch of so many records in zstd."""
    return bytes(counting(count, Codec.ZSTD, bytes(compress(Codec.ZSTD, RECORD * count))))


def produce(peer: Peer, records: bytes, topic: str = "t") -> int:
    """The error code of an append."""
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, memoryview(records))])]
    told = peer.ask(frame(ApiKey.PRODUCE, 9, ProduceRequest(None, 1, 20_000, data)))
    assert told is not None
    code: int = codec.decode_response(ApiKey.PRODUCE, 9, told)[1].responses[0].partition_responses[0].error_code
    return code


@pytest.mark.parametrize("settings", [(), ("--set", COMPACT)], ids=["default", "compacted"])
def test_more_records_than_a_batch_may_hold(settings: tuple[str, ...]) -> None:
    """12 KB of zstd, 18 million records, to a compacted topic: 5 GB, 25 s until now."""
    assert len(bomb(MANY)) < 20_000
    with siege("--topic", "t:1", *settings) as process, ExitStack() as stack:
        for _ in range(5):
            assert produce(Peer(stack, process.port), bomb(MANY)) == ErrorCode.MESSAGE_TOO_LARGE


def test_as_many_records_as_a_batch_may_hold_to_a_compacted_topic() -> None:
    with siege("--topic", "t:1", "--set", COMPACT) as process, ExitStack() as stack:
        for _ in range(4):
            assert produce(Peer(stack, process.port), bomb(ACCEPTED)) == ErrorCode.INVALID_RECORD


def test_as_many_records_as_a_batch_may_hold_looked_up_by_time() -> None:
    """To a default topic, then ListOffsets by time: 2.5 GB, 13 s until now."""
    records = bytearray(bomb(ACCEPTED))
    set_max_timestamp(records, 0, len(records), START_WALL_MS + 1, log_append_time=False)  # which none of them has
    topics = [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, START_WALL_MS + 1)])]
    request = frame(ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(-1, topics=topics))
    with siege("--topic", "t:1") as process, ExitStack() as stack:
        assert produce(Peer(stack, process.port), bytes(records)) == 0
        for _ in range(2):
            told = Peer(stack, process.port).ask(request)
            assert told is not None
            (part,) = codec.decode_response(ApiKey.LIST_OFFSETS, 7, told)[1].topics[0].partitions
            assert (part.error_code, part.offset, part.timestamp) == (0, -1, -1), "all were looked at"
        for _ in range(2):  # and gone before the answer
            with ExitStack() as leaving:
                Peer(leaving, process.port).say(request)
        page = f"127.0.0.1:{process.port}"
        soon(lambda: not json.loads(get(page, "/state")[1])["jobs"])


CLIENT = """
import resource, sys
from barnabas import Consumer
from barnabas.protocol.errors import BarnabasError
with Consumer(bootstrap_servers=f"127.0.0.1:{sys.argv[1]}", auto_offset_reset="earliest") as consumer:
    consumer.assign([("t", 0)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        said = str(consumer.poll(10_000, max_records=1))
    except BarnabasError as error:
        said = str(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, said)
"""


def test_the_bundled_client_is_not_filled_either() -> None:
    """`poll(max_records=1)`: 3.2 GB, 75 s until now."""
    with siege("--topic", "t:1", "--set", f"barnabas.batch.records.max={2 * MANY}") as process, ExitStack() as stack:
        assert produce(Peer(stack, process.port), bomb(MANY)) == 0
        told = subprocess.run(
            [sys.executable, "-c", CLIENT, str(process.port)], capture_output=True, text=True, timeout=60, check=False
        )
        assert told.returncode == 0, told.stderr
        grown, _, said = told.stdout.partition(" ")
        assert int(grown) < 400_000_000
        assert said.count("ConsumerRecord(") == 1


@pytest.mark.parametrize("codec", ["uncompressed", "snappy"])
def test_what_unpacks_to_much_for_a_topic_that_wants_it_packed_otherwise(codec: str) -> None:
    """5 KB were there four times as they unpack, of a batch that is too large anyway: 530 MB until now."""
    builder = BatchBuilder(2**31 - 1, Codec.ZSTD)
    for _ in range(126):
        assert builder.try_append(START_WALL_MS, b"key", bytes(1024 * 1024))
    records = bytes(builder.build(-1, -1, -1))
    assert len(records) < 10_000
    with siege("--topic", "t:1", "--set", f"compression.type={codec}") as process, ExitStack() as stack:
        for _ in range(4):
            assert produce(Peer(stack, process.port), records) == ErrorCode.MESSAGE_TOO_LARGE


def test_recompression_at_the_highest_level() -> None:
    """zstd 22: the loop stopped for 3 s and more until now."""
    builder = BatchBuilder(2**31 - 1, Codec.NONE)
    words = [f"{number * 2654435761 % 2**32:x}" for number in range(120)]
    while (
        builder.try_append(START_WALL_MS, None, " ".join(words).encode()) and len(builder.build(-1, -1, -1)) < 900_000
    ):
        words = [*words[1:], words[0] + "x"]
    records = bytes(builder.build(-1, -1, -1))
    settings = ("--set", "compression.type=zstd", "--set", "compression.zstd.level=22")
    with siege("--topic", "t:1", *settings) as process, ExitStack() as stack:
        for _ in range(20):
            assert produce(Peer(stack, process.port), records) == 0


def test_a_malformed_batch_keeps_no_other_topic_from_being_compacted() -> None:
    """The cleaner stopped for all topics, silently, until now. It goes on, and names the batch once."""
    soonest = ("log.initial.task.delay.ms=100", "log.cleaner.backoff.ms=100", "log.cleaner.min.cleanable.ratio=0.01")
    kept = ("log.segment.bytes=1048576", "log.retention.ms=-1")  # the records are years old
    options = [one for setting in (*soonest, *kept) for one in ("--set", setting)]
    lying = bytes(counting(3, Codec.ZSTD, bytes(compress(Codec.ZSTD, b"\x7f" * 500))))
    with siege("--topic", "bad:1", "--topic", "t:1", *options) as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        assert produce(peer, lying, "bad") == 0
        for topic in ("bad", "t"):
            for _ in range(40):
                assert produce(peer, bytes(batch(b"v" * 250_000, keys=[b"k"])), topic) == 0
            assert log_bytes(process, topic) > 9_000_000
        resources = [
            AlterConfigsResource(2, topic, [AlterableConfig("cleanup.policy", 0, "compact")]) for topic in ("bad", "t")
        ]
        request = IncrementalAlterConfigsRequest(resources)
        assert peer.ask(frame(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)) is not None
        soon(lambda: log_bytes(process, "t") < 2_000_000)
        soon(lambda: log_bytes(process, "bad") < 3_000_000)  # its first segment stays as it is
        time.sleep(0.5)  # further rounds, of which none says it again
        where = f"127.0.0.1:{process.port}"
        (shown,) = state(where)["uncleanable"]
        assert shown["partition"] == "bad-0"
        assert re.search(r"uncleanable_?partitions_?count(?:{[^}]*})? 1$", get(where, "/metrics")[1], re.MULTILINE)
    said = [line for line in process.errors if "is not compacted" in line]
    assert len(said) == 1
    assert "bad-0" in said[0]


def log_bytes(process: Process, topic: str) -> int:
    """The size of the log of a topic's only partition."""
    page = get(f"127.0.0.1:{process.port}", "/metrics")[1]
    found = re.search(rf'log_size{{[^}}]*topic="{topic}"[^}}]*}} (\d+)', page)
    assert found is not None
    return int(found[1])


def soon(condition: Callable[[], bool]) -> None:
    """It must hold within a minute."""
    until_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.1)
