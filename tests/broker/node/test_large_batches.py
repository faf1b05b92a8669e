"""Batches that hold much are looked through in steps, and in a thread: the loop goes to others, order is kept."""

from __future__ import annotations

import gc
import gzip
import struct
import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from barnabas.broker.log import look
from barnabas.broker.log.apart import BYTES_AT_ONCE, PACKED_AT_ONCE, RECORDS_AT_ONCE, Apart
from barnabas.protocol.batch import ATTRIBUTES_AT, HEADER_SIZE, LOG_OVERHEAD, set_max_timestamp, set_place
from barnabas.protocol.compression import Codec, compress
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import BatchBuilder, BatchRewriter, walk
from barnabas.protocol.requests.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.node.world import Answer, World, batch

MANY = 3 * RECORDS_AT_ONCE
XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)


def large(world: World, *, codec: int = 0, count: int = MANY, size: int = 1, **more: Any) -> bytearray:
    values = [b"v" * size] * count
    return batch(*values, keys=[b"k"] * count, codec=codec, at_ms=world.wall_ms, **more)


def offset_of(answer: Answer) -> int:
    part = answer.response.responses[0].partition_responses[0]
    assert part.error_code == 0, (part.error_code, part.error_message)
    return int(part.base_offset)


def code_of(answer: Answer) -> int:
    return int(answer.response.responses[0].partition_responses[0].error_code)


@pytest.fixture
def world() -> World:
    world = World()
    world.create("t", partitions=2, cleanup_policy="compact")
    return world


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_no_step_looks_at_more_records_than_it_may(world: World, codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    walked = walk.walk_next

    def counted(area: Any, at: int, first: int, count: int) -> Any:
        looked_at.append(count)
        return walked(area, at, first, count)

    monkeypatch.setattr("barnabas.broker.log.look.walk_next", counted)
    sent = world.produce({("t", 0): large(world, codec=codec)})
    per_step = []
    while not sent.done:
        looked_at.clear()
        world.core.run_job_step(world.now_ms)
        world.disk.deliver()
        world.core.wake(world.now_ms)
        per_step.append(sum(looked_at))
    assert max(per_step) == RECORDS_AT_ONCE
    assert (sum(per_step), offset_of(sent)) == (MANY, 0)


def asked_aside(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with everything that a thread is asked for from now on."""
    asked: list[str] = []
    aside = world.disk.aside

    def counted(work: Any, done: Any) -> None:
        asked.append("aside")
        aside(work, done)

    monkeypatch.setattr(world.disk, "aside", counted)
    return asked


def test_what_is_unpacked_beyond_a_little_is_unpacked_aside(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_aside(world, monkeypatch)
    assert world.put(large(world, codec=4, count=2, size=1000)).error_code == 0
    assert asked == []
    assert world.put(large(world, codec=4, count=2, size=BYTES_AT_ONCE)).error_code == 0
    assert asked == ["aside"]


def in_parts(world: World, codec: int) -> bytearray:
    """A batch of 100 KB whose records lie in parts of 50 bytes."""
    records = batch(b"v" * 100_000, keys=[b"k"], at_ms=world.wall_ms)
    area = bytes(records[HEADER_SIZE:])
    parts = [area[at : at + 50] for at in range(0, len(area), 50)]
    if codec == Codec.GZIP:
        packed = b"".join(gzip.compress(one) for one in parts)
    else:
        blocks = [bytes(compress(codec, one)) for one in parts]
        packed = XERIAL + b"".join(struct.pack(">i", len(one)) + one for one in blocks)
    records[HEADER_SIZE:] = packed
    set_place(records, 0, 0, len(records) - LOG_OVERHEAD, 0)
    struct.pack_into(">h", records, ATTRIBUTES_AT, codec)
    set_max_timestamp(records, 0, len(records), world.wall_ms, log_append_time=False)
    return records


def incompressible(world: World, codec: int) -> bytearray:
    """A batch of more packed bytes than are unpacked on the loop; half of all frames and blocks may hold nothing."""
    return batch(Random(3).randbytes(PACKED_AT_ONCE + 1), keys=[b"k"], at_ms=world.wall_ms, codec=codec)


@pytest.mark.parametrize(
    ("make", "codec"),
    [(in_parts, 1), (in_parts, 2), (incompressible, 1), (incompressible, 3), (incompressible, 4)],
)
@pytest.mark.parametrize("looks", ["produce", "lookup"])
def test_what_costs_more_than_it_holds_is_unpacked_aside(
    make: Callable[[World, int], bytearray], codec: int, looks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A MB of the smallest parts was a step of 0.2 s (gzip, snappy) or 24 ms (zstd), by each Produce and lookup."""
    world = World()
    world.create("t", cleanup_policy="compact" if looks == "produce" else "delete")
    asked = asked_aside(world, monkeypatch)
    assert world.put(make(world, codec)).error_code == 0
    assert bool(asked) is (looks == "produce")
    if looks == "lookup":
        part = ListOffsetsPartition(0, -1, world.wall_ms)
        told = world.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [part])]), 7)
        assert (told.topics[0].partitions[0].error_code, told.topics[0].partitions[0].offset) == (0, 0)
        assert asked


def test_a_batch_that_holds_much_is_compressed_anew_aside(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece, and the end, for what is added to snappy is compressed then."""
    world.create("packed", compression_type="zstd")
    aside_now: list[bool] = []
    seen: list[tuple[str, bool]] = []
    aside = world.disk.aside

    def noted(work: Callable[[], None], done: Any) -> None:
        def inside() -> None:
            aside_now.append(True)
            work()
            aside_now.clear()

        aside(inside, done)

    class Rewriter(BatchRewriter):
        def add(self, records: Any) -> None:
            seen.append(("add", bool(aside_now)))
            super().add(records)

        def build(self) -> Any:
            seen.append(("build", bool(aside_now)))
            return super().build()

    monkeypatch.setattr(world.disk, "aside", noted)
    monkeypatch.setattr(look, "BatchRewriter", Rewriter)
    sent = world.produce({("packed", 0): large(world)})
    world.settle()
    assert offset_of(sent) == 0
    assert set(seen) == {("add", True), ("build", True)}


def test_later_batches_of_its_partition_come_after_it_and_others_at_once(world: World) -> None:
    first = world.produce({("t", 0): large(world, codec=4)})
    second = world.produce({("t", 0): batch(b"2", keys=[b"k"], at_ms=world.wall_ms)})
    both = world.produce(
        {(name, number): batch(b"3", keys=[b"k"], at_ms=world.wall_ms) for name, number in (("t", 0), ("t", 1))}
    )
    other = world.produce({("t", 1): batch(b"4", keys=[b"k"], at_ms=world.wall_ms)})
    assert [answer.done for answer in (first, second, both, other)] == [False, False, False, True]
    assert offset_of(other) == 1, "the second partition's part of both did not wait"
    world.settle()
    assert [offset_of(first), offset_of(second), offset_of(both)] == [0, MANY, MANY + 1]
    assert world.core.replicas.shared.late == {}
    assert world.put(batch(b"5", keys=[b"k"], at_ms=world.wall_ms)).base_offset == MANY + 2


def test_the_batch_of_the_fewest_records_is_next(world: World) -> None:
    """Forty of a million records each, 10 KB of gzip, were looked through first: 49 s."""
    world.create("other", 1, cleanup_policy="compact")
    first = world.produce({("t", 0): large(world)})
    many = world.produce({("t", 1): large(world, count=3 * MANY)})
    few = world.produce({("other", 0): large(world)})
    while not few.done:
        assert not many.done
        world.core.run_job_step(world.now_ms)
        world.disk.deliver()
        world.core.wake(world.now_ms)
    assert first.done
    world.settle()
    assert [offset_of(one) for one in (first, few, many)] == [0, 0, 0]


def test_a_fetch_that_waits_hears_of_it(world: World) -> None:
    waiting = world.fetch({("t", 0): 0}, wait_ms=10_000)
    world.produce({("t", 0): large(world)})
    assert not waiting.done
    world.settle()
    assert waiting.done


@pytest.mark.parametrize("acks", [1, -1])
def test_it_waits_for_its_sync(acks: int) -> None:
    world = World()
    world.create("t", cleanup_policy="compact", flush_messages=1)
    sent = world.produce({("t", 0): large(world)}, acks=acks)
    world.settle()
    assert offset_of(sent) == 0


def test_a_topic_that_is_made_anew_meanwhile_gets_nothing(world: World) -> None:
    sent = world.produce({("t", 0): large(world)})
    world.core.run_job_step(world.now_ms)
    assert not sent.done
    world.delete("t")
    world.create("t", cleanup_policy="compact")
    world.settle()
    assert code_of(sent) in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    partition = world.core.replicas.partition(TopicPartition("t", 0))
    assert partition is not None
    assert partition.log.log_end_offset == 0


def test_the_sequence_of_a_producer_is_asked_when_its_turn_comes(world: World) -> None:
    first = world.produce({("t", 0): large(world, pid=5, epoch=0, sequence=0)})
    again = world.produce({("t", 0): large(world, pid=5, epoch=0, sequence=0)})
    gap = world.produce({("t", 0): batch(b"x", keys=[b"k"], at_ms=world.wall_ms, pid=5, epoch=0, sequence=MANY + 1)})
    world.settle()
    assert (offset_of(first), offset_of(again)) == (0, 0)
    assert code_of(gap) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_settings_that_hold_when_its_turn_comes_are_asked(world: World) -> None:
    without = batch(*[b"v"] * MANY, at_ms=world.wall_ms)
    world.create("u", cleanup_policy="delete", compression_type="zstd")
    sent = world.produce({("u", 0): without})
    assert not sent.done
    log = world.core.replicas.partition(TopicPartition("u", 0)).log  # type: ignore[union-attr]
    compact = world.core.replicas.partition(TopicPartition("t", 0)).log.config  # type: ignore[union-attr]
    log.configure(compact)
    world.settle()
    assert code_of(sent) == ErrorCode.INVALID_RECORD, "it has no keys"


@pytest.mark.parametrize("topic", ["t", "plain"])
@pytest.mark.parametrize("codec", [0, 4])
def test_more_records_than_the_setting_allows_are_too_large(
    topic: str, codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Apart, "take", lambda *_: pytest.fail("its header says so, and nothing of it is unpacked"))
    world = World(barnabas_batch_records_max=MANY - 1)
    world.create("t", cleanup_policy="compact")
    world.create("plain")
    sent = world.produce({(topic, 0): large(world, codec=codec)})
    world.settle()
    part = sent.response.responses[0].partition_responses[0]
    assert part.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "barnabas.batch.records.max 5999" in part.error_message


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_more_bytes_than_the_setting_allows_are_too_large(codec: int) -> None:
    world = World(barnabas_batch_bytes_max=2 * BYTES_AT_ONCE)
    world.create("t", cleanup_policy="compact")
    assert world.put(large(world, codec=codec, count=1, size=BYTES_AT_ONCE)).error_code == 0
    part = world.put(large(world, codec=codec, count=1, size=2 * BYTES_AT_ONCE))
    assert part.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "holds too much" in str(part.error_message)


def test_one_is_unpacked_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[int] = []
    apart = world.core.logs.apart
    take, release = apart.take, apart.release
    monkeypatch.setattr(apart, "release", lambda: (running.pop(), release())[1])

    def taken(records: int) -> Any:
        yield from take(records)
        running.append(1)
        assert len(running) == 1

    monkeypatch.setattr(apart, "take", taken)
    sent = [world.produce({("t", number): large(world, codec=4)}) for number in (0, 1)]
    world.settle()
    assert [offset_of(one) for one in sent] == [0, 0]
    assert running == []


def test_an_answerless_produce_that_fails_late_closes_the_connection(world: World) -> None:
    sent = world.produce({("t", 0): batch(*[b"v"] * MANY, at_ms=world.wall_ms)}, acks=0)
    world.settle()
    assert sent.done
    assert sent.closed is not None
    assert "INVALID_RECORD" in sent.closed


@pytest.mark.parametrize("asked_ms", ["by time", "largest"])
@pytest.mark.parametrize("codec", [0, 4])
def test_a_lookup_by_time_goes_through_a_large_batch_in_steps(
    codec: int, asked_ms: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.create("t")
    times = [world.wall_ms - 1] * (MANY - 1) + [world.wall_ms]
    assert world.put(batch(*[b"v"] * MANY, timestamps=times, codec=codec)).error_code == 0
    looked_at: list[int] = []
    walked = walk.walk_next

    def counted(area: Any, at: int, first: int, count: int) -> Any:
        looked_at.append(count)
        return walked(area, at, first, count)

    monkeypatch.setattr("barnabas.broker.log.search.walk_next", counted)
    part = ListOffsetsPartition(0, -1, world.wall_ms if asked_ms == "by time" else -3)
    sent = world.send(ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [part])]), 7)
    per_step = []
    while not sent.done:
        looked_at.clear()
        world.core.run_job_step(world.now_ms)
        world.disk.deliver()
        world.core.wake(world.now_ms)
        per_step.append(sum(looked_at))
    assert (max(per_step), sum(per_step)) == (RECORDS_AT_ONCE, MANY)
    told = sent.response.topics[0].partitions[0]
    assert (told.error_code, told.offset, told.timestamp) == (0, MANY - 1, world.wall_ms)
    assert not world.core.logs.apart.searches, "forgotten once it is answered"


@pytest.mark.parametrize("settings", [{}, {"cleanup_policy": "compact"}, {"compression_type": "gzip"}])
def test_records_of_many_headers_are_looked_at_in_steps(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few records, which may have ten thousand headers each: one batch stopped everybody for 18 s."""
    world = World()
    world.create("t", **settings)
    builder = BatchBuilder(2**31 - 1, 4)
    for _ in range(20):
        builder.try_append(world.wall_ms, b"k", None, (("", None),) * 4_000)
    passed: list[int] = []
    real = walk._pass_record

    def counted(area: Any, start: int) -> Any:
        found = real(area, start)
        passed.append(found[-1])
        return found

    monkeypatch.setattr(walk, "_pass_record", counted)
    sent = world.produce({("t", 0): builder.build(-1, -1, -1)})
    most = sum(passed)
    while not sent.done:
        passed.clear()
        world.core.run_job_step(world.now_ms)
        world.disk.deliver()
        world.core.wake(world.now_ms)
        most = max(most, sum(passed))
    assert offset_of(sent) == 0
    assert most <= 20_000 or not settings


def test_what_a_refused_batch_unpacked_to_goes_with_its_answer(world: World) -> None:
    """The error held the frames that it came through, and one of them held it: 130 MB stayed for the collector."""
    world.create("u", compression_type="uncompressed")
    records = batch(*[bytes(400_000)] * 10, codec=4)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(3):
            assert world.put(bytes(records), "u").error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
        gc.enable()


def test_what_a_batch_unpacked_to_in_vain_goes_before_it_is_looked_through_apart(world: World) -> None:
    """What says that it is too much for the loop held the frames that it came through, and they held it: for ever."""
    records = bytes(batch(*[bytes(BYTES_AT_ONCE)] * 2, keys=[b"k"] * 2, codec=4))
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(3):
            assert world.put(records).error_code == 0
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
        gc.enable()
