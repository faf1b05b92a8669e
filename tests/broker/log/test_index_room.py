"""What the indexes of all logs take in memory: bounded together, and nothing is found otherwise for it."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from barnabas.broker.config import BrokerConfig, TopicConfig
from barnabas.broker.log import Log, LogManager, index_walk
from barnabas.broker.log.index_room import INDEX_BYTES_MAX, INDEX_INTERVAL_MAX, IndexRoom, index_bytes_max
from barnabas.broker.log.index_walk import walk
from barnabas.broker.log.room import Room
from barnabas.broker.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, Segment
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import TopicPartition
from tests.broker.log.harness import NOW, PARTITION, TOPIC_ID, World, append, batch, everything, manager_of

SIZE = len(batch(b"x"))
DENSE: dict[str, Any] = {"index_interval_bytes": 0, "segment_bytes": SIZE * 10}
"""An entry for each batch but the first of a segment, of ten batches."""
FULL = 9 * (8 + 12)
"""What the indexes of such a segment take, less what its first batch has: the offset index does not name it."""


def fill(log: Log, batches: int, start: int = 0) -> None:
    for number in range(start, start + batches):
        append(log, b"x", timestamps=[NOW + number])


def held(log: Log) -> list[int]:
    return [segment.index_bytes for segment in log.segments]


def looked_up(world: World, log: Log) -> list[Any]:
    """What a log says of its offsets and its times."""
    found: list[Any] = [world.call(log.offset_of_max_timestamp)]
    for number in range(0, log.log_end_offset, 3):
        found.append(world.call(partial(log.offset_metadata, number)))
        found.append(world.call(partial(log.offset_for_timestamp, NOW + number)))
    return found


def test_what_is_let_go_is_read_again_and_says_the_same(world: World) -> None:
    log = world.new_log(**DENSE)
    fill(log, 35)
    world.settle()
    before = looked_up(world, log), everything(world, log)
    assert all(size >= FULL for size in held(log)[:-1])
    world.run(walk(IndexRoom(0), [log]))
    assert held(log)[:-1] == [0, 0, 0]
    assert held(log)[-1], "the active segment's are written to"
    assert (looked_up(world, log), everything(world, log)) == before
    assert all(held(log)), "they are there again"
    fill(log, 10, 35)
    assert len(everything(world, log)) == 45


def test_what_is_not_on_disk_stays(memory: World) -> None:
    log = memory.new_log(**DENSE)
    fill(log, 35)  # nothing has come back from the disk
    memory.run(walk(IndexRoom(0), [log]))
    assert all(size >= FULL for size in held(log)[:-1])
    memory.settle()
    memory.run(walk(IndexRoom(0), [log]))
    assert held(log)[:-1] == [0, 0, 0]


def test_what_is_still_to_be_synced_stays() -> None:
    """Its sync writes the indexes, too, and is no reader: it cannot wait for bytes that are cold."""
    world = World("late", None)
    log = world.new_log()
    fill(log, 5)
    world.settle()
    log = world.restart(log, clean=True)
    fill(log, 1)
    log.start_flush()
    append(log, b"x", timestamps=[NOW])  # brings no entry, so the files are as they were
    log.roll(NOW)
    assert log.segments[0].indexes_saved
    before = held(log)
    world.run(walk(IndexRoom(0), [log]))
    assert held(log) == before
    world.settle()
    assert log.recovery_point == 7
    world.run(walk(IndexRoom(0), [log]))
    assert held(log) == [0, 0]


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
@pytest.mark.parametrize("size", [0, 3, 13, 25])
def test_an_index_that_was_cut_short_while_it_was_let_go_hides_nothing(memory: World, suffix: str, size: int) -> None:
    log = memory.new_log(**DENSE)
    fill(log, 35)
    memory.settle()
    before = looked_up(memory, log), everything(memory, log)
    memory.run(walk(IndexRoom(0), [log]))
    path = log.segments[1].path(suffix)
    memory.disk.write_atomic(path, memory.disk.load(path)[:size])
    assert (looked_up(memory, log), everything(memory, log)) == before
    memory.run(log.retain(NOW))


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
def test_an_index_that_is_gone_when_it_is_needed_is_made_anew(memory: World, suffix: str) -> None:
    log = memory.new_log(**DENSE)
    fill(log, 35)
    memory.settle()
    before = looked_up(memory, log), everything(memory, log)
    memory.run(walk(IndexRoom(0), [log]))
    memory.disk.remove(log.segments[1].path(suffix))
    with pytest.raises((KafkaError, OSError)):
        looked_up(memory, log)
    memory.run(log.mend_indexes())  # within a minute, see `Housekeeping`
    assert (looked_up(memory, log), everything(memory, log)) == before
    log.write_again()
    memory.settle()
    assert memory.disk.exists(log.segments[1].path(suffix))


def test_damage_to_a_time_index_does_not_change_what_is_known(memory: World) -> None:
    log = memory.new_log(**DENSE)
    fill(log, 35)
    memory.settle()
    memory.run(walk(IndexRoom(0), [log]))
    path = log.segments[1].path(TIME_INDEX_SUFFIX)
    memory.disk.write_atomic(path, memory.disk.load(path)[:-12] + b"\x7f" * 12)
    memory.call(lambda: log.segments[1].times)
    assert log.segments[1].largest_timestamp == NOW + 19
    found = memory.call(log.offset_of_max_timestamp)
    assert (found.timestamp, found.offset) == (NOW + 34, 34)


def test_a_log_that_is_closed_meanwhile_is_left_alone(memory: World) -> None:
    log = memory.new_log(**DENSE)
    fill(log, 35)
    memory.settle()
    before = held(log)
    log.release()
    memory.run(walk(IndexRoom(0), [log]))
    assert held(log) == before


def test_what_nobody_asked_for_goes_first(memory: World) -> None:
    log = memory.new_log(**DENSE)
    fill(log, 65)
    memory.settle()
    room = IndexRoom(sum(held(log)) - 1)
    for segment in log.segments:
        segment.index_used = False
    memory.call(lambda: log.offset_metadata(11))
    memory.run(walk(room, [log]))
    assert [bool(size) for size in held(log)] == [False, True, False, False, False, True, True], (
        "until half of it is left"
    )
    assert room.held == sum(held(log))
    memory.run(walk(IndexRoom(0), [log]))
    assert [bool(size) for size in held(log)] == [False] * 6 + [True]


def test_nothing_goes_while_there_is_room_and_what_was_used_long_ago_goes_first(memory: World) -> None:
    log = memory.new_log(**DENSE)
    fill(log, 85)
    memory.settle()
    room = IndexRoom(sum(held(log)))
    memory.run(walk(room, [log]))
    assert all(held(log))
    assert not room.crowded
    room.limit -= 1
    memory.run(walk(room, [log]))
    assert [bool(size) for size in held(log)] == [False] * 5 + [True] * 4
    memory.call(lambda: log.offset_for_timestamp(NOW + 5))
    room.limit = sum(held(log)) - 1
    memory.run(walk(room, [log]))
    assert [bool(size) for size in held(log)] == [True] + [False] * 7 + [True], "it was asked for since"


def test_a_walk_looks_at_some_segments_a_step(memory: World, monkeypatch: pytest.MonkeyPatch) -> None:
    log = memory.new_log(**DENSE)
    fill(log, 95)
    memory.settle()
    monkeypatch.setattr(index_walk, "_SEGMENTS_PER_STEP", 4)
    room = IndexRoom(1 << 20)
    assert len(list(walk(room, [log]))) == 3
    assert room.held == sum(held(log)), "each is counted once"
    jobs = walk(IndexRoom(0), [log])
    gone = [held(log).count(0) for _ in jobs]
    assert gone == [0, 0, 0, 0, 0, 0, 4, 8, 9]


def test_the_indexes_of_the_active_segment_stay(memory: World) -> None:
    """After a clean start they are on disk as they are in memory."""
    log = memory.new_log(**DENSE)
    fill(log, 35)
    memory.settle()
    log = memory.restart(log, clean=True)
    assert log.active.indexes_saved
    assert log.active.index_entries == len(log.active.offsets) == 4
    memory.run(walk(IndexRoom(0), [log]))
    assert held(log)[-1]


def test_what_found_no_room_on_disk_stays(memory: World) -> None:
    log = memory.new_log(**DENSE)
    fill(log, 9)
    memory.settle()
    memory.disk.capacity = memory.disk.used + 2 * SIZE
    fill(log, 2)
    memory.settle()
    assert not log.segments[0].indexes_saved
    before = held(log)
    memory.run(log.flush())
    memory.run(walk(IndexRoom(0), [log]))
    assert held(log) == before


def test_what_is_read_again_is_counted(memory: World) -> None:
    log = memory.new_log(**DENSE)
    fill(log, 35)
    memory.settle()
    room = log.active.room
    assert room is not None
    room.limit = 0
    memory.run(walk(room, [log]))
    room.limit = 1 << 20
    looked_up(memory, log)
    assert room._came == sum(held(log)[:-1])


def test_the_largest_timestamp_costs_one_entry(memory: World, monkeypatch: pytest.MonkeyPatch) -> None:
    log = memory.new_log(**DENSE)
    fill(log, 35)
    log = memory.restart(log, clean=True)
    read: list[int] = []
    real = Segment._load

    def load(self: Segment, *what: Any, **last: Any) -> Any:
        data = real(self, *what, **last)
        read.append(len(data))
        return data

    monkeypatch.setattr(Segment, "_load", load)
    assert [segment.largest_timestamp - NOW for segment in log.segments] == [9, 19, 29, 34]
    assert read == [12, 12, 12]
    assert [segment.largest_timestamp - NOW for segment in log.segments] == [9, 19, 29, 34]
    assert len(read) == 3, "it is known then"
    memory.run(walk(IndexRoom(0), [log]))
    assert [segment.largest_timestamp - NOW for segment in log.segments] == [9, 19, 29, 34]
    assert len(read) == 3


def crowded_log(world: World, limit: int) -> tuple[LogManager, Log]:
    """A log with an entry for each batch, of a broker whose indexes may take `limit` bytes."""
    config = TopicConfig(index_interval_bytes=0, segment_bytes=1 << 20)
    manager = manager_of(world, topic=config, queued_max_request_bytes=limit * 5 // 2)
    manager.start(0)
    return manager, manager.create(TopicPartition("t", 0), bytes(16), config)


def walked(world: World, manager: LogManager, now_ms: int = 0) -> int:
    """The jobs that are due, done; returns how many there were."""
    jobs = manager.due_jobs(now_ms)
    for job in jobs:
        world.run(job)
    return len(jobs)


def test_a_walk_is_due_when_the_limit_is_passed(memory: World) -> None:
    manager, log = crowded_log(memory, 4_000)
    fill(log, 150)
    log.roll(NOW)
    memory.settle()
    fill(log, 52)  # 149 entries of 20 bytes, and 51
    assert walked(memory, manager) == 0
    fill(log, 1)
    assert manager.next_deadline_ms() == 0
    assert walked(memory, manager) == 1
    assert held(log)[0] == 0
    assert manager.room.indexes.held == sum(held(log)) < 2_000
    assert not manager.room.indexes.crowded
    assert walked(memory, manager) == 0, "there is no other before it is due"
    fill(log, 160)
    assert walked(memory, manager) == 1


@pytest.mark.parametrize(("held", "more"), [(0, 800), (300, 500), (750, 100), (800, 100), (5_000, 100)])
def test_the_next_walk_is_due_when_the_limit_is_passed_again(held: int, more: int) -> None:
    """Not before an eighth of it has come: a walk goes through 20,000 segments."""
    room = IndexRoom(800)
    asked: list[bool] = []
    room.on_full = lambda: asked.append(room.crowded)
    room.came(800)
    assert not asked
    assert not room.crowded
    for _ in range(3):
        room.came(1)
    assert asked == [True], "it is asked for once"
    room.walk_begins()
    room.came(9)
    assert room.crowded, "until it is through"
    room.walk_ended(held)
    assert room.crowded == (held > 800)
    room.came(more - 9)
    assert len(asked) == 1
    room.came(1)
    assert len(asked) == 2
    room.walk_begins()
    room.came(10_000)
    assert len(asked) == 2, "another cannot begin meanwhile"
    room.walk_ended(0)
    room.came(1)
    assert len(asked) == 3, "what has come meanwhile counts for the next"
    room = IndexRoom(800)
    room.on_full = lambda: asked.append(True)
    room.walk_begins()  # the look of a minute, while it is crowded
    room.came(801)
    assert len(asked) == 3


def test_it_is_said_only_where_entries_lie_far_apart_for_long(caplog: pytest.LogCaptureFixture) -> None:
    room = IndexRoom(800)
    with caplog.at_level(logging.WARNING):
        room.came(801)
        room.walk_begins()
        room.walk_ended(800)
        assert not caplog.records
        room.walk_ended(801)
        assert len(caplog.records) == 1


def test_what_a_log_brings_with_it_is_counted(memory: World) -> None:
    """Indexes that a start made anew, above all."""
    log = memory.new_log(**DENSE)
    fill(log, 35)
    log.release()
    log = memory.open_log(clean=False, config=TopicConfig(**DENSE))
    room = IndexRoom(1_000_000)
    for segment in log.segments:
        segment.enter(room)
    assert room._came == sum(held(log)) > 3 * FULL


def test_a_start_makes_no_more_indexes_than_there_may_be(memory: World) -> None:
    """There is no walk before all logs are open, and one that ends for want of memory is no start."""
    config = TopicConfig(index_interval_bytes=0, segment_bytes=SIZE * 100)
    log = memory.new_log(index_interval_bytes=0, segment_bytes=SIZE * 100)
    fill(log, 2_000)
    memory.settle()
    assert sum(held(log)) > 39_000
    log.release()
    room = Room(4_000)
    log = Log(memory.disk, str(PARTITION), PARTITION, TOPIC_ID, config, room=room)
    memory.run(log.recover(clean=False, now_ms=NOW))
    assert sum(held(log)) <= 4_000 + 20 * len(log.segments)
    assert len(everything(memory, log)) == 2_000
    assert room.indexes.crowded
    memory.settle()
    memory.run(log.flush())
    memory.run(walk(room.indexes, [log]))
    assert not room.indexes.crowded


def test_compaction_makes_no_more_indexes_than_there_may_be(memory: World) -> None:
    log = memory.new_log(index_interval_bytes=1 << 20, segment_bytes=SIZE * 1_000, cleanup_policy=("compact",))
    for number in range(2_001):
        append(log, b"x", keys=[b"%d" % number], timestamps=[NOW])
    memory.settle()
    log.configure(replace(log.config, index_interval_bytes=0))
    room = log.active.room
    assert room is not None
    came = room._came
    room.crowded = True
    memory.run(log.compact(NOW))
    assert sum(held(log)[:-1]) <= 24 * (len(log.segments) - 1)
    assert room._came > came
    assert log.active.like().room is room


def test_a_segment_that_was_cut_while_its_indexes_were_written_has_others(memory: World) -> None:
    log = memory.new_log(**DENSE, cleanup_policy=("compact",))
    for number in range(35):
        append(log, b"x", keys=[b"%d" % number], timestamps=[NOW])
    memory.settle()
    old = log.segments[0]
    job = log.compact(NOW)
    while log.segments[0] is old:
        token = next(job)
        if token is not None:
            memory.settle()
    memory.call(lambda: log.truncate_to(5))
    memory.run(job)
    assert not log.active.indexes_saved


def test_entries_lie_far_apart_where_what_must_stay_is_too_much(
    memory: World, caplog: pytest.LogCaptureFixture
) -> None:
    manager, log = crowded_log(memory, 4_000)
    with caplog.at_level(logging.WARNING):
        fill(log, 300)
        assert walked(memory, manager) == 1
        assert manager.room.indexes.crowded
        dense = len(log.active.offsets)
        before, size = len(log.active.offsets.data), log.active.size
        fill(log, 3 * INDEX_INTERVAL_MAX // SIZE, 300)
        assert len(log.active.offsets) - dense == 3, "one for each 64 KiB"
        walked(memory, manager, 60_000)
    assert [each.message.count("until they take less") for each in caplog.records] == [1]
    assert f"take {before // 8 * 20} bytes, of 4000" in caplog.text
    assert size < log.active.size
    assert [record.offset for record in everything(memory, log)] == list(range(log.log_end_offset))
    for number in range(0, log.log_end_offset, 97):
        found = memory.call(partial(log.offset_for_timestamp, NOW + number))
        assert found is not None
        assert found.offset == number


def test_the_log_grows_dense_again_once_there_is_room(memory: World) -> None:
    manager, log = crowded_log(memory, 4_000)
    fill(log, 300)
    walked(memory, manager)
    assert manager.room.indexes.crowded
    log.roll(NOW)
    memory.settle()
    walked(memory, manager, 59_999)
    assert manager.room.indexes.crowded
    walked(memory, manager, 60_000)
    assert not manager.room.indexes.crowded, "while it is crowded, there is a look a minute"
    fill(log, 3, 300)
    assert len(log.active.offsets) == 2


@pytest.mark.parametrize(
    ("account", "limit"),
    [(-1, INDEX_BYTES_MAX), (167_772_160, INDEX_BYTES_MAX), (104_857_600, 41_943_040), (1 << 40, INDEX_BYTES_MAX)],
)
def test_a_small_container_holds_less(account: int, limit: int) -> None:
    assert index_bytes_max(BrokerConfig(queued_max_request_bytes=account)) == limit


def test_indexes_that_a_stop_put_elsewhere_are_counted(memory: World) -> None:
    log = memory.new_log(**DENSE)
    fill(log, 35)
    segment, room = log.segments[0], IndexRoom(1_000_000)
    segment.room = room
    segment.take_indexes(bytes(segment.offsets.data), bytes(segment.times.data))
    assert room._came == segment.index_bytes >= FULL
