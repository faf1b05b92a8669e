"""Two thousand honest clients at once from one address, with default settings: all are let in, and all are served."""

from __future__ import annotations

import asyncio
import resource
import struct
import sys
import time
from typing import Any

import pytest

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.api_versions import ApiVersionsRequest
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.requests.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.host.test_siege import MB, memory, siege
from tests.broker.node.world import batch, records_of
from tests.cli.process import Process
from tests.hostile.test_rows import frame

CLIENTS = 2_000
PARTITIONS = 10
SPARE = 200
"""Files of the test's own."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.measured,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
    pytest.mark.skipif(
        resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2 * CLIENTS + SPARE, reason="it takes 2,000 open files, twice"
    ),
]


class Client:
    """One that asks as clients do: what the broker speaks, who leads, then to write a record, and to read it."""

    def __init__(self, number: int) -> None:
        self.value = f"of {number}".encode()
        self.partition = number % PARTITIONS

    async def connect(self, port: int) -> None:
        """Its one connection."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)

    async def ask(self, key: int, version: int, request: Any) -> Any:
        """The answer to one request."""
        self._writer.write(frame(key, version, request))
        (left,) = struct.unpack(">i", await self._reader.readexactly(4))
        return codec.decode_response(key, version, await self._reader.readexactly(left))[1]

    async def exchange(self) -> bytes:
        """All of it; the value that was read."""
        spoken = await self.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("crowd", "1"))
        assert {ApiKey.PRODUCE, ApiKey.FETCH} <= {one.api_key for one in spoken.api_keys}
        (topic,) = (await self.ask(ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name="t")]))).topics
        assert (topic.error_code, len(topic.partitions)) == (0, PARTITIONS)
        data = [PartitionProduceData(self.partition, memoryview(bytes(batch(self.value))))]
        written = await self.ask(
            ApiKey.PRODUCE, 9, ProduceRequest(None, -1, 30_000, [TopicProduceData("t", partition_data=data)])
        )
        (part,) = written.responses[0].partition_responses
        assert part.error_code == 0
        asked = [FetchTopic("t", partitions=[FetchPartition(self.partition, fetch_offset=part.base_offset)])]
        told = await self.ask(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=MB, topics=asked))
        (part,) = told.responses[0].partitions
        assert part.error_code == 0
        return bytes(records_of(bytes(part.records))[0].value or b"")

    def close(self) -> None:
        """Go."""
        self._writer.close()


async def _crowd(process: Process) -> int:
    """How many connections were open at once, of those that read what they had written."""
    clients = [Client(number) for number in range(CLIENTS)]
    await asyncio.gather(*(one.connect(process.port) for one in clients))
    read = await asyncio.gather(*(one.exchange() for one in clients))
    again = await asyncio.gather(*(one.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("c", "1")) for one in clients))
    for one in clients:
        one.close()
    assert len(again) == CLIENTS
    return sum(value == one.value for value, one in zip(read, clients, strict=True))


def test_two_thousand_honest_clients_at_once() -> None:
    """Each keeps its connection until the last of them was served."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        # a newcomer stands in line behind two thousand others who are let in
        with siege("--topic", f"t:{PARTITIONS}", held=("ApiVersions", "Produce", "Fetch")) as process:
            before, began_s = memory(process, "VmRSS"), time.monotonic()
            assert asyncio.run(_crowd(process)) == CLIENTS
            took_s, grown = time.monotonic() - began_s, memory(process, "VmRSS") - before
            print(f"{CLIENTS} clients were served in {took_s:.1f} s, in {grown / MB:.0f} MB")
        assert not [line for line in process.errors if "refus" in line or "ending" in line]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
