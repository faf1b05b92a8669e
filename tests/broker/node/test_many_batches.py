"""Batches of one request that are each small enough to be looked at on the loop, but not all in one step."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.log.apart import BYTES_AT_ONCE, RECORDS_AT_ONCE
from barnabas.broker.log.log import Log
from barnabas.broker.log.look import ERRORS_MAX, ROLL, WORK_AT_ONCE
from barnabas.protocol.compression import decompress
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.records import BatchBuilder, BatchRewriter, walk
from tests.broker.node.world import Answer, World, batch

PARTITIONS = 12
MANY = RECORDS_AT_ONCE - 100


@pytest.fixture
def world() -> World:
    world = World()
    world.create("t", PARTITIONS, cleanup_policy="compact")
    world.create("plain", PARTITIONS)
    world.create("gzip", PARTITIONS, compression_type="gzip")
    return world


def each(data: bytearray, topic: str = "t") -> dict[tuple[str, int], bytearray]:
    return {(topic, number): bytearray(data) for number in range(PARTITIONS)}


def keyed(world: World, count: int = MANY, *, key: bytes | None = b"k", codec: int = 0, size: int = 1) -> bytearray:
    return batch(*[b"v" * size] * count, keys=[key] * count, codec=codec, at_ms=world.wall_ms)


def parts(answer: Answer) -> list[Any]:
    return list(answer.response.responses[0].partition_responses)


def per_step(world: World, found: list[int], asked: dict[tuple[str, int], bytearray]) -> tuple[Answer, list[int]]:
    """The answer, and what each step added to `found`."""
    sent = world.produce(asked)
    steps = [sum(found)]
    while not sent.done:
        found.clear()
        world.core.run_job_step(world.now_ms)
        world.disk.deliver()
        world.core.wake(world.now_ms)
        steps.append(sum(found))
    return sent, steps


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    real = walk.walk_next

    def counted(area: Any, at: int, first: int, count: int) -> Any:
        found.append(count)
        return real(area, at, first, count)

    monkeypatch.setattr(walk, "walk_next", counted)
    return found


@pytest.mark.parametrize("codec", [0, 4])
def test_no_step_looks_at_the_records_of_all_batches(world: World, codec: int, looked_at: list[int]) -> None:
    """Two hundred of 1,900 records each, 0.8 MB of zstd, stopped everybody for half a second."""
    sent, steps = per_step(world, looked_at, each(keyed(world, codec=codec)))
    assert max(steps) <= WORK_AT_ONCE + MANY
    assert sum(steps) == PARTITIONS * MANY
    assert [(one.index, one.error_code, one.base_offset) for one in parts(sent)] == [
        (number, 0, 0) for number in range(PARTITIONS)
    ]


def test_few_records_of_all_batches_are_looked_at_in_one_step(world: World, looked_at: list[int]) -> None:
    sent = world.produce(each(keyed(world, 10)))
    assert sent.done
    assert sum(looked_at) == PARTITIONS * 10


def test_records_that_nothing_asks_about_are_appended_in_one_step(world: World) -> None:
    assert world.produce(each(keyed(world), "plain")).done


@pytest.mark.parametrize("beyond", [False, True])
def test_no_step_unpacks_all_batches(world: World, beyond: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where each turns out to hold more than is unpacked on the loop."""
    unpacked: list[int] = []

    def counted(codec: int, data: Any, *, bytes_max: int) -> Any:
        if bytes_max == BYTES_AT_ONCE:
            unpacked.append(BYTES_AT_ONCE)
        return decompress(codec, data, bytes_max=bytes_max)

    monkeypatch.setattr("barnabas.protocol.records.decode.decompress", counted)
    size = BYTES_AT_ONCE + 1 if beyond else BYTES_AT_ONCE - 1000
    sent, steps = per_step(world, unpacked, each(keyed(world, 1, codec=4, size=size)))
    assert max(steps) <= WORK_AT_ONCE * 1024 + BYTES_AT_ONCE
    assert sum(steps) >= PARTITIONS * BYTES_AT_ONCE
    assert {one.error_code for one in parts(sent)} == {0}


def test_no_step_unpacks_very_many_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may be in 33 parts that hold nothing, and cost a hundred times what its record does."""
    world, count = World(), 150
    world.create("t", count, cleanup_policy="compact")
    unpacked: list[int] = []

    def counted(codec: int, data: Any, *, bytes_max: int) -> Any:
        unpacked.append(1)
        return decompress(codec, data, bytes_max=bytes_max)

    monkeypatch.setattr("barnabas.protocol.records.decode.decompress", counted)
    data = keyed(world, 1, codec=1)
    sent, steps = per_step(world, unpacked, {("t", number): bytearray(data) for number in range(count)})
    assert max(steps) <= WORK_AT_ONCE // 150 + 1
    assert sum(steps) == count
    assert {one.error_code for one in parts(sent)} == {0}


def test_no_step_writes_all_of_large_batches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    real = Log._write

    def counted(self: Any, data: memoryview, *rest: Any) -> None:
        written.append(len(data))
        real(self, data, *rest)

    monkeypatch.setattr(Log, "_write", counted)
    sent, steps = per_step(world, written, each(keyed(world, 1, size=1_000_000), "plain"))
    assert max(steps) <= WORK_AT_ONCE * 1024 // 4 + 1_100_000
    assert sum(steps) > PARTITIONS * 1_000_000
    assert {one.error_code for one in parts(sent)} == {0}


def test_no_step_writes_all_batches_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    real = BatchRewriter.add

    def counted(self: Any, records: Any) -> None:
        built.append(len(records))
        real(self, records)

    monkeypatch.setattr(BatchRewriter, "add", counted)
    sent, steps = per_step(world, built, each(keyed(world, size=30), "gzip"))
    assert max(steps) <= 2 * MANY
    assert sum(steps) == PARTITIONS * MANY
    assert {one.error_code for one in parts(sent)} == {0}


def test_no_step_writes_all_headers_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two batches of 4,500 headers were one step of 20 ms and more: each is made, and written."""
    builder = BatchBuilder(2**31 - 1, 0)
    for _ in range(10):
        builder.try_append(world.wall_ms, b"k", None, (("", None),) * 450)
    built: list[int] = []
    real = BatchRewriter.add

    def counted(self: Any, records: Any) -> None:
        built.append(sum(len(record.headers) for record in records))
        real(self, records)

    monkeypatch.setattr(BatchRewriter, "add", counted)
    sent, steps = per_step(world, built, each(builder.build(-1, -1, -1), "gzip"))
    assert max(steps) == 4_500
    assert sum(steps) == PARTITIONS * 4_500
    assert {one.error_code for one in parts(sent)} == {0}


def test_no_step_opens_segments_for_all_batches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is made for each: two hundred of them took 33 ms on a disk."""
    partitions = 4 * WORK_AT_ONCE // ROLL
    world.create("rolls", partitions, segment_ms=1)
    asked = {("rolls", number): keyed(world, 1) for number in range(partitions)}
    world.produce(asked)
    world.settle()
    rolled: list[int] = []
    real = Log.roll

    def counted(self: Any, now_ms: int) -> None:
        rolled.append(1)
        real(self, now_ms)

    monkeypatch.setattr(Log, "roll", counted)
    world.advance(100)
    later = {key: keyed(world, 1) for key in asked}
    sent, steps = per_step(world, rolled, later)
    assert max(steps) <= WORK_AT_ONCE // ROLL
    assert sum(steps) == partitions
    assert {one.error_code for one in parts(sent)} == {0}


def test_a_refused_batch_is_the_last_of_its_step(world: World, looked_at: list[int]) -> None:
    """Each of its records is told of, which takes longer than to look at it."""
    sent, steps = per_step(world, looked_at, each(keyed(world, key=None)))
    assert max(steps) == MANY
    assert sum(steps) == PARTITIONS * MANY
    assert {one.error_code for one in parts(sent)} == {ErrorCode.INVALID_RECORD}
    assert all("without key" in one.error_message for one in parts(sent))
    told = [len(one.record_errors) for one in parts(sent)]
    whole = ERRORS_MAX // MANY
    assert told == [MANY] * whole + [0] * (PARTITIONS - whole), "what an answer may hold is bounded"


def test_headers_are_counted_as_records_are(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = BatchBuilder(2**31 - 1, 0)
    for _ in range(2):
        builder.try_append(world.wall_ms, b"k", None, (("", None),) * 2_000)
    passed: list[int] = []
    real = walk._pass_record

    def counted(area: Any, start: int) -> Any:
        found = real(area, start)
        passed.append(found[-1])
        return found

    monkeypatch.setattr(walk, "_pass_record", counted)
    sent, steps = per_step(world, passed, each(builder.build(-1, -1, -1)))
    assert max(steps) <= WORK_AT_ONCE + 4_000
    assert sum(steps) == PARTITIONS * 4_000
    assert {one.error_code for one in parts(sent)} == {0}


def test_who_comes_in_between_is_answered_and_each_partition_keeps_its_order(world: World) -> None:
    first = world.produce(each(keyed(world)))
    assert not first.done
    begun, ahead = (world.produce({("t", number): keyed(world, 1)}) for number in (0, PARTITIONS - 1))
    assert begun.done
    assert ahead.done
    world.settle()
    assert [parts(one)[0].base_offset for one in (begun, ahead)] == [MANY, 0]
    assert [one.base_offset for one in parts(first)] == [0] * (PARTITIONS - 1) + [1]


@pytest.mark.parametrize("acks", [0, -1])
def test_what_fails_in_a_later_step_fails_alone(world: World, acks: int) -> None:
    asked = each(keyed(world))
    asked["t", PARTITIONS - 1] = batch(b"v", at_ms=world.wall_ms)
    sent = world.produce(asked, acks=acks)
    world.settle()
    if acks:
        codes = [one.error_code for one in parts(sent)]
        assert codes == [0] * (PARTITIONS - 1) + [ErrorCode.INVALID_RECORD]
    else:
        assert sent.closed is not None
        assert "INVALID_RECORD" in sent.closed
