"""Commits that come together over one connection: one batch, answers in order, and others where the log refuses it."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

import barnabas.aio
from barnabas.broker.group.shard import Shard
from barnabas.broker.host.channel import REQUESTS_PER_TURN, Channel
from barnabas.broker.host.host import Host
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.requests.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.requests.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.broker.host.fake_core import Raw, client

COMMIT, FETCH, FIND, VERSION = 8, 9, 10, 8


def frame(api_key: int, version: int, number: int, request: Any) -> bytes:
    return b"".join(map(bytes, codec.encode_request(api_key, version, number, "t", request)))


def commit(number: int) -> bytes:
    part = OffsetCommitRequestPartition(0, number, -1, "")
    return frame(
        COMMIT, VERSION, number, OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=[part])])
    )


def fetch(number: int) -> bytes:
    return frame(FETCH, 8, number, OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]))


async def told(raw: Raw, api_key: int = COMMIT, version: int = VERSION) -> tuple[int, Any]:
    return codec.decode_response(api_key, version, memoryview(await raw.frame()))


async def code_of(raw: Raw, number: int) -> int:
    told_number, response = await told(raw)
    assert told_number == number
    return int(response.topics[0].partitions[0].error_code)


async def begun(raw: Raw, broker: barnabas.aio.Broker) -> int:
    """The group's first commits, the last of which the codec knows again; how many batches there are then."""
    while True:
        raw.send(frame(FIND, 4, 0, FindCoordinatorRequest(coordinator_keys=["g"])))
        if not (await told(raw, FIND, 4))[1].coordinators[0].error_code:
            break
    while True:
        raw.send(commit(1))
        if not await code_of(raw, 1):
            break
    raw.send(commit(1))
    assert not await code_of(raw, 1)
    return batches(broker)


def batches(broker: barnabas.aio.Broker) -> int:
    """How often anything was appended to the topic of the groups."""
    core = broker._assembly.host.core
    partition = core.replicas.partition(TopicPartition("__consumer_offsets", 0))
    assert partition is not None
    return partition.stats.total_produces.count


def stop_clock(broker: barnabas.aio.Broker, monkeypatch: pytest.MonkeyPatch) -> Host:
    """No turn is over by time, on a machine however busy."""
    host = broker._assembly.host
    now_ms = host.now_ms()
    monkeypatch.setattr(host, "now_ms", lambda: now_ms)
    host.turns.late_ms = now_ms + 1
    return host


async def test_what_comes_together_is_one_batch_and_who_asks_behind_it_sees_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with barnabas.aio.Broker(topics={"t": 1}) as broker, client(broker.port) as raw:
        before = await begun(raw, broker)
        stop_clock(broker, monkeypatch)
        raw.send(b"".join(map(commit, range(2, 10))) + fetch(10))
        assert [await code_of(raw, number) for number in range(2, 10)] == [0] * 8
        number, response = await told(raw, FETCH, 8)
        assert number == 10
        assert response.groups[0].topics[0].partitions[0].committed_offset == 9
        assert batches(broker) == before + 1


async def test_a_frame_that_is_not_whole_yet_is_not_waited_for() -> None:
    async with barnabas.aio.Broker(topics={"t": 1}) as broker, client(broker.port) as raw:
        await begun(raw, broker)
        raw.send(commit(2) + commit(3) + commit(4)[:20])
        assert [await code_of(raw, number) for number in (2, 3)] == [0, 0]
        raw.send(commit(4)[20:])
        assert await code_of(raw, 4) == 0


async def test_answers_that_were_made_ahead_are_others_where_the_log_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    async with barnabas.aio.Broker(topics={"t": 1}) as broker, client(broker.port) as raw:
        await begun(raw, broker)
        monkeypatch.setattr(Shard, "write_replayed", lambda *given: False)
        alone = Shard.append

        def append(shard: Shard, records: Any, now_ms: int) -> int:
            refused = records[0].committed.offset % 2
            return ErrorCode.NOT_COORDINATOR if refused else alone(shard, records, now_ms)

        monkeypatch.setattr(Shard, "append", append)
        raw.send(b"".join(map(commit, range(2, 8))) + fetch(8))
        assert [await code_of(raw, number) for number in range(2, 8)] == [0, ErrorCode.NOT_COORDINATOR] * 3
        _, response = await told(raw, FETCH, 8)
        assert response.groups[0].topics[0].partitions[0].committed_offset == 6


async def test_nothing_leaves_before_it_is_written_where_a_turn_ends_within_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with barnabas.aio.Broker(topics={"t": 1}) as broker, client(broker.port) as raw:
        await begun(raw, broker)
        host = stop_clock(broker, monkeypatch)
        unwritten: list[int] = []
        transport = Mock(asyncio.Transport)
        transport.get_extra_info.side_effect = {"peername": ("127.0.0.1", 1)}.get
        transport.write.side_effect = transport.writelines.side_effect = lambda out: unwritten.append(
            len(host.core.ahead)
        )
        channel = Channel(host, "PLAINTEXT")
        channel.connection_made(transport)
        data = fetch(1) + b"".join(map(commit, range(2, REQUESTS_PER_TURN + 10)))
        with memoryview(channel.get_buffer(-1)) as target:
            target[: len(data)] = data
        channel.buffer_updated(len(data))
        assert channel.receiver.unread_bytes, "its turn was over within the run"
        assert unwritten
        assert not any(unwritten)
        channel.abort()
        channel.connection_lost(None)
