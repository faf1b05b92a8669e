"""Lookups by time that many batches stand in the way of, or that many partitions are asked for: no step is long."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.context import Connection
from barnabas.broker.handlers.list_offsets import BY_TIME_AT_ONCE
from barnabas.broker.log import search
from barnabas.broker.log.apart import RECORDS_AT_ONCE
from barnabas.broker.log.search import BATCHES_AT_ONCE, HEADERS_AT_ONCE
from barnabas.protocol.batch import set_max_timestamp, set_place
from barnabas.protocol.compression import compress, decompress
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.node.world import Answer, World, batch


@pytest.fixture
def world() -> World:
    made = World()
    made.create("t")
    return made


def ask(world: World, at_ms: int, partitions: int = 1, connection: Connection | None = None) -> Answer:
    topics = [ListOffsetsTopic("t", [ListOffsetsPartition(number, -1, at_ms) for number in range(partitions)])]
    return world.send(ListOffsetsRequest(-1, 0, topics), 7, connection=connection)


def most_per_step(world: World, sent: Answer, count: Callable[[], int]) -> int:
    """The most that was counted in one step, up to the answer."""
    before = most = count()
    while not sent.done:
        world.core.run_job_step(world.now_ms)
        world.disk.deliver()
        world.core.wake(world.now_ms)
        now = count()
        before, most = now, max(most, now - before)
    return most


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Any]:
    """What `search` calls under that name from now on."""
    calls: list[Any] = []
    real = getattr(search, name)

    def called(*args: Any) -> Any:
        calls.append(args)
        return real(*args)

    monkeypatch.setattr(search, name, called)
    return calls


def lying(world: World) -> bytearray:
    """A batch that says it has a record a second younger than all it has."""
    records = batch(b"v", b"w", at_ms=world.wall_ms, codec=4)
    set_max_timestamp(records, 0, len(records), world.wall_ms + 1000, log_append_time=False)
    return records


@pytest.mark.parametrize("last", [0, 1])
def test_batches_that_lie_are_looked_into_a_few_at_a_time(
    world: World, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(30):
        assert world.put(lying(world)).error_code == 0
    for _ in range(last):
        assert world.put(batch(b"x", at_ms=world.wall_ms + 1000)).error_code == 0
    looked_into = counted(monkeypatch, "walk_next")
    sent = ask(world, world.wall_ms + 500)
    assert most_per_step(world, sent, lambda: len(looked_into)) <= BATCHES_AT_ONCE
    assert len(looked_into) >= 30
    assert sent.response.topics[0].partitions[0].offset == (60 if last else -1)


def test_older_batches_are_passed_a_thousand_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for at_ms in (world.wall_ms, *[world.wall_ms - 9] * (2 * HEADERS_AT_ONCE), world.wall_ms + 1000):
        assert world.put(batch(b"", at_ms=at_ms)).error_code == 0
    passed = counted(monkeypatch, "_may_have")
    sent = ask(world, world.wall_ms + 500)
    assert most_per_step(world, sent, lambda: len(passed)) <= HEADERS_AT_ONCE + 1
    assert sent.response.topics[0].partitions[0].offset == 2 * HEADERS_AT_ONCE + 1


@pytest.mark.parametrize("asked_ms", [500, -3])
def test_many_partitions_are_looked_up_a_few_at_a_time(asked_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.create("t", 40)
    for number in range(40):
        assert world.put(batch(b"v", at_ms=world.wall_ms, codec=4), partition=number).error_code == 0
    looked_into = counted(monkeypatch, "walk_next")
    sent = ask(world, world.wall_ms - asked_ms if asked_ms > 0 else asked_ms, 40)
    assert most_per_step(world, sent, lambda: len(looked_into)) <= BY_TIME_AT_ONCE
    assert [part.offset for part in sent.response.topics[0].partitions] == [0] * 40


def connected(world: World, number: int) -> Connection:
    return Connection(number, "PLAINTEXT", "127.0.0.1", "kafka", world.now_ms)


def test_a_lookup_ends_with_its_connection(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(30):
        assert world.put(lying(world)).error_code == 0
    looked_into = counted(monkeypatch, "walk_next")
    mine = connected(world, 71)
    gone = ask(world, world.wall_ms + 500, connection=mine)
    world.core.run_job_step(world.now_ms)
    world.core.disconnected(mine)
    world.settle()
    assert len(looked_into) < 10
    assert not gone.done
    assert not world.core.logs.apart.searches
    assert not world.core.jobs.snapshot()


def test_a_lookup_goes_on_for_whoever_else_waits_for_it(world: World) -> None:
    for _ in range(30):
        assert world.put(lying(world)).error_code == 0
    mine = connected(world, 71)
    ask(world, world.wall_ms + 500, connection=mine)
    other = ask(world, world.wall_ms + 500, connection=connected(world, 72))
    world.core.run_job_step(world.now_ms)
    world.core.disconnected(mine)
    world.settle()
    assert other.response.topics[0].partitions[0].offset == -1
    assert not world.core.logs.apart.searches
    assert not world.core.jobs.snapshot()


@pytest.mark.parametrize("leaves", [72, 73])
def test_whoever_leaves_while_he_waits_for_his_turn_keeps_nobody_from_theirs(world: World, leaves: int) -> None:
    """His turn came all the same, nobody took it, and no batch that holds much was ever looked into again."""
    many = batch(*[b"v"] * (RECORDS_AT_ONCE + 1), at_ms=world.wall_ms, codec=4)
    set_max_timestamp(many, 0, len(many), world.wall_ms + 1000, log_append_time=False)
    assert world.put(many).error_code == 0
    apart = world.core.logs.apart
    asking = {number: connected(world, number) for number in (71, 72, 73)}
    sent = {number: ask(world, world.wall_ms + number, connection=one) for number, one in asking.items()}
    while world.core.run_job_step(world.now_ms):
        pass
    assert (apart._taken, len(apart._waiting)) == (True, 2)
    world.core.disconnected(asking[leaves])
    world.settle()
    assert [number for number, one in sent.items() if not one.done] == [leaves]
    assert (apart._taken, apart._waiting) == (False, [])
    later = ask(world, world.wall_ms + 500)
    world.settle()
    assert later.done


def test_a_job_that_is_dropped_while_it_waits_for_its_turn_is_in_line_no_more(world: World) -> None:
    apart = world.core.logs.apart
    turns = [apart.take(number) for number in range(3)]
    assert not list(turns[0])
    waits = [next(turn) for turn in turns[1:]]
    assert all(waits)
    turns[1].close()
    apart.release()
    assert not list(turns[2])
    apart.release()
    assert (apart._taken, apart._waiting) == (False, [])


def test_what_a_broken_batch_unpacked_to_goes_with_the_answer(world: World) -> None:
    """The search held the error, which held the frames it came through, and one of them the search."""
    records = batch(*[bytes(400_000)] * 10, at_ms=world.wall_ms, codec=4)
    area = bytes(decompress(4, memoryview(records)[61:]))
    records[61:] = compress(4, area + b"more")
    set_place(records, 0, 0, len(records) - 12, 0)
    set_max_timestamp(records, 0, len(records), world.wall_ms + 1000, log_append_time=False)
    assert world.put(records).error_code == 0
    del area
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for number in range(3):
            sent = ask(world, world.wall_ms + 500 + number)
            world.settle()
            assert sent.response.topics[0].partitions[0].error_code == ErrorCode.CORRUPT_MESSAGE
            del sent
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
        gc.enable()
