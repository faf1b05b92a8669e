"""The host with the real core: what is parked shows, and holds nothing of the receive buffer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import barnabas.aio
from barnabas.broker.host.receive import is_leased
from barnabas.protocol.kafka import codec
from barnabas.protocol.records.build import BatchBuilder
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.host.fake_core import Raw, client, until

FETCH, PRODUCE = 1, 0


def fetch(correlation_id: int, max_wait_ms: int) -> bytes:
    topic = FetchTopic(topic="t", partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[topic])
    return b"".join(map(bytes, codec.encode_request(FETCH, 4, correlation_id, "t", request)))


def produce(correlation_id: int, value: bytes) -> bytes:
    builder = BatchBuilder(1 << 20)
    builder.try_append(1_700_000_000_000, None, value)
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(0, bytes(builder.build()))])
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic])
    return b"".join(map(bytes, codec.encode_request(PRODUCE, 3, correlation_id, "t", request)))


async def look(port: int) -> dict[str, Any]:
    async with client(port) as raw:
        raw.send(b"GET /state HTTP/1.0\r\n\r\n")
        found: dict[str, Any] = json.loads((await raw.ended()).partition(b"\r\n\r\n")[2])
        return found


async def answer(raw: Raw, api_key: int, version: int) -> tuple[int, Any]:
    return codec.decode_response(api_key, version, memoryview(await raw.frame()))


async def test_a_parked_fetch_is_shown_with_keys_age_and_due_time_and_completes_at_a_produce() -> None:
    async with (
        barnabas.aio.Broker(topics={"t": 1}) as broker,
        client(broker.port) as reader,
        client(broker.port) as writer,
    ):
        reader.send(fetch(7, 60_000))
        await until(lambda: any(one["parked_api_key"] == FETCH for one in broker.snapshot()["connections"]))
        state = await look(broker.port)
        (operation,) = [one for purgatory in state["purgatories"] for one in purgatory["operations"]]
        assert operation["kind"] == "DelayedFetch"
        assert operation["keys"] == ["t-0"]
        assert 0 <= operation["age_ms"] < 60_000
        assert operation["age_ms"] + operation["due_in_ms"] == 60_000
        (wheel,) = [purgatory["wheel"] for purgatory in state["purgatories"] if purgatory["operations"]]
        (waiting,) = [(level, bucket) for level in wheel for bucket in level["buckets"]]
        assert waiting[1]["tasks"] == 1
        bucket_ms = waiting[1]["expiration_ms"]
        assert bucket_ms <= operation["deadline_ms"] < bucket_ms + waiting[0]["tick_ms"]
        (partition,) = state["partitions"]
        assert (partition["log_end_offset"], partition["high_watermark"], partition["isr"]) == (0, 0, [1])
        writer.send(produce(8, b"value"))
        assert (await answer(writer, PRODUCE, 3))[0] == 8
        correlation_id, response = await answer(reader, FETCH, 4)
        assert correlation_id == 7
        assert b"value" in bytes(response.responses[0].partitions[0].records)
        assert not any(one["operations"] for one in broker.snapshot()["purgatories"])


async def test_neither_what_is_parked_nor_what_was_appended_looks_into_the_receive_buffer() -> None:
    """Otherwise every parked request would keep 256 KiB alive."""
    async with barnabas.aio.Broker(topics={"t": 1}) as broker, client(broker.port) as raw, client(broker.port) as waits:
        host = broker._assembly.host
        first = host.buffers.current
        raw.send(produce(1, b"x" * 1000))
        await answer(raw, PRODUCE, 3)
        waits.send(fetch(2, 0) + fetch(3, 0))
        await answer(waits, FETCH, 4)
        assert not is_leased(host.buffers.current)
        assert host.buffers.shared() is first


async def test_a_fetch_that_comes_after_the_logs_were_closed_is_answered_as_before(tmp_path: Path) -> None:
    """A stop closes the connections last of all: no disk is to blame for what is asked meanwhile."""
    broker = barnabas.aio.Broker(topics={"t": 1}, data_dir=str(tmp_path))
    async with broker, client(broker.port) as raw:
        raw.send(produce(1, b"value"))
        await answer(raw, PRODUCE, 3)
        host = broker._assembly.host
        abandon, requests = host.abandon, host.requests

        async def asked_before_that() -> None:
            assert all(log.closed for log in host.core.logs.logs.values())
            raw.send(fetch(2, 0))
            await until(lambda: host.requests > requests)
            await abandon()

        host.abandon = asked_before_that  # type: ignore[method-assign]
        await broker.close()
        _, response = await answer(raw, FETCH, 4)
        assert b"value" in bytes(response.responses[0].partitions[0].records)
        assert host.core.logs.losses.failed_reads == 0
        assert await raw.ended() == b""
