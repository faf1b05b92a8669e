"""Producer ids that nobody gave out, 18,000 a second, 429 bytes each, for a day: as `test_rows`, a real process."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from barnabas.protocol.api import ApiKey
from barnabas.protocol.batch import set_producer
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.host.test_siege import MB, memory, siege
from tests.broker.node.world import batch
from tests.cli.process import Process
from tests.hostile.meter import exchange
from tests.hostile.test_rows import Peer, frame
from tests.measured import TooMuch

pytestmark = [
    pytest.mark.slow,
    pytest.mark.measured,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]

AT_ONCE = 100
WARM, MORE = 5_000, 30_000
GROWN_BYTES_MAX = 6 * MB
"""What `MORE` producers may take that are forgotten again: 13 MB if each stayed, at 429 bytes."""


def written(peer: Peer, client_id: str, producer_ids: Iterator[int], count: int) -> None:
    """One batch by each of so many producers."""
    records = batch(b"v", pid=0, epoch=0, sequence=0)
    request = ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])])
    one = bytearray().join(codec.encode_request(ApiKey.PRODUCE, 9, 1, client_id, request))
    at = one.index(records)
    for _ in range(0, count, AT_ONCE):
        many = bytearray()
        for producer_id in itertools.islice(producer_ids, AT_ONCE):
            set_producer(one, at, len(records), producer_id, 0, 0)
            many += one
        told = exchange(peer.sock, bytes(many), answers=AT_ONCE)
        assert told is not None
        answer = codec.decode_response(ApiKey.PRODUCE, 9, told[-1])[1]
        assert answer.responses[0].partition_responses[0].error_code == 0


def remembered(process: Process) -> int:
    """How many producers the partition knows."""
    asked = DescribeProducersRequest([TopicRequest("t", [0])])
    with ExitStack() as stack:
        told = Peer(stack, process.port).ask(frame(ApiKey.DESCRIBE_PRODUCERS, 0, asked))
    assert told is not None
    return len(codec.decode_response(ApiKey.DESCRIBE_PRODUCERS, 0, told)[1].topics[0].partitions[0].active_producers)


def test_what_one_connection_writes_with_is_forgotten_again(tmp_path: Path) -> None:
    producer_ids = itertools.count(2**40)
    with siege("--topic", "t:1", data_dir=tmp_path) as process, ExitStack() as stack:
        peer = Peer(stack, process.port)
        written(peer, "hostile", producer_ids, WARM)
        before = memory(process, "RssAnon")
        written(peer, "hostile", producer_ids, MORE)
        grown = memory(process, "RssAnon") - before
        assert 90 <= remembered(process) <= 100
        print(f"{grown / MB:.1f} MB more")
        if grown > GROWN_BYTES_MAX:
            raise TooMuch(f"{grown / MB:.1f} MB more")


@pytest.mark.parametrize(
    ("connections", "names", "share"),
    [(1, 1, 100), (30, 1, 2_000), (60, 60, 3_600)],
    ids=["a connection", "a client id at an address", "an address"],
)
def test_each_has_its_share_of_a_partition(connections: int, names: int, share: int, tmp_path: Path) -> None:
    """As docs/SECURITY.md has them; a tenth is forgotten at a time."""
    producer_ids = itertools.count(2**40)
    with siege("--topic", "t:1", data_dir=tmp_path) as process, ExitStack() as stack:
        for number in range(connections):
            written(Peer(stack, process.port), f"name-{number % names}", producer_ids, 2 * AT_ONCE)
        assert share * 9 // 10 <= remembered(process) <= share
