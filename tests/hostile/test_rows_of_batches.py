"""What a batch, and what the peer calls itself, could do: as `test_rows`, against a real process."""

from __future__ import annotations

import socket
import struct
import sys
from contextlib import ExitStack, suppress

import pytest

from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.host.test_siege import siege
from tests.broker.log.test_many_records import MANY, counting
from tests.hostile.test_rows import Peer, frame

pytestmark = [
    pytest.mark.slow,
    pytest.mark.measured,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]


@pytest.mark.parametrize("setting", ["log.message.timestamp.type=LogAppendTime", "log.cleanup.policy=compact"])
def test_a_batch_that_counts_records_it_has_no_bytes_for(setting: str) -> None:
    """105 bytes took 5 GB in 13 s until now."""
    records = [PartitionProduceData(0, counting(MANY))]
    request = frame(ApiKey.PRODUCE, 9, ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=records)]))
    refused = struct.pack(">ih", 0, ErrorCode.INVALID_RECORD)
    with siege("--topic", "t:1", "--set", setting) as process, ExitStack() as stack:
        for _ in range(20):
            answer = Peer(stack, process.port).ask(request)
            assert answer is not None
            assert refused in answer


def test_what_peers_call_themselves_forges_no_line_and_floods_no_log() -> None:
    """30 MB a minute, and lines that looked like the broker's own, until now."""
    name = b"\x1b[2J\x1b[1;31m\nERROR the broker is gone\r\xe2\x80\xae" + b"n" * 30_000
    body = struct.pack(">hhih", ApiKey.METADATA, 9, 1, len(name)) + name + b"\0" + b"\xff" * 9
    bad = struct.pack(">i", len(body)) + body
    with siege() as process:
        for _ in range(1000):
            with suppress(OSError), socket.create_connection(("127.0.0.1", process.port), 5) as sock:
                sock.sendall(bad)
                sock.recv(1)
    said = "".join(process.errors)
    assert 0 < said.count("\n") < 30
    assert not {"\x1b", "\r", "\u202e"} & set(said)
    assert not any(line.startswith("ERROR the broker") for line in process.errors)
    assert len(said) < 50_000
