"""The scenarios L of one broker, through the whole core."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.protocol.requests import create_topics, delete_records, list_offsets
from tests.broker.node.world import World, bases_of, batch, part_of, records_of, sized


def ten_records(**settings: Any) -> World:
    world = World()
    world.create(**settings)
    world.put(batch(*[b"x"] * 10))
    return world


def delete_up_to(world: World, offset: int) -> tuple[int, int]:
    part = delete_records.DeleteRecordsPartition(0, offset)
    request = delete_records.DeleteRecordsRequest([delete_records.DeleteRecordsTopic("t", [part])], 2000)
    result = world.ask(request, 2).topics[0].partitions[0]
    return result.error_code, result.low_watermark


def test_l01_latest_and_earliest() -> None:
    world = ten_records()
    assert [(world.offsets(which).offset, world.offsets(which).timestamp) for which in (-1, -2)] == [(10, -1), (0, -1)]


def test_l02_by_timestamp() -> None:
    world = World()
    world.create(retention_ms=-1)
    for timestamp in (100, 300, 200):
        world.put(batch(b"x", at_ms=timestamp))
    found = [(one.offset, one.timestamp) for one in (world.offsets(which) for which in (-3, 150, 301))]
    assert found == [(1, 300), (1, 300), (-1, -1)]
    world.restart()
    assert [(one.offset, one.timestamp) for one in (world.offsets(which) for which in (-3, 150, 301))] == found


@pytest.mark.parametrize(
    ("timestamp", "version", "code", "offset"),
    [(-4, 8, 0, 0), (-5, 9, 0, -1), (-4, 7, 35, -1), (-3, 6, 35, -1), (-9, 11, 35, -1), (-6, 11, 0, -1)],
)
def test_l03_special_timestamps_have_their_versions(timestamp: int, version: int, code: int, offset: int) -> None:
    answer = ten_records().offsets(timestamp, version=version)
    assert (answer.error_code, answer.offset) == (code, offset)


def test_l04_a_partition_named_twice() -> None:
    world = ten_records()
    part = list_offsets.ListOffsetsPartition(0, -1, -1)
    request = list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic("t", [part, part])])
    assert [one.error_code for one in world.ask(request, 7).topics[0].partitions] == [42]


def test_l05_deleted_records_are_gone() -> None:
    world = ten_records()
    assert delete_up_to(world, 4) == (0, 4)
    assert part_of(world.fetch({("t", 0): 3})).error_code == 1
    data = part_of(world.fetch({("t", 0): 4}))
    assert (data.error_code, data.log_start_offset, len(records_of(data.records))) == (0, 4, 10)
    assert world.offsets(-2).offset == 4


def test_l06_the_bounds_of_deletion() -> None:
    world = ten_records()
    assert delete_up_to(world, -1) == (0, 10)
    assert delete_up_to(world, 99) == (1, -1)
    assert delete_up_to(world, 2) == (0, 10)


def test_l07_compacted_topics_keep_their_records() -> None:
    world = World()
    world.create(cleanup_policy="compact")
    world.put(batch(b"1", keys=[b"a"]))
    assert delete_up_to(world, 1) == (44, -1)


def test_l09_retention_by_size_keeps_at_least_the_limit() -> None:
    world = World(log_retention_check_interval_ms=1000, log_initial_task_delay_ms=0)
    world.create(segment_bytes=1 << 20, retention_bytes=2 << 20)
    size = 64 * 1024
    for _ in range((5 << 20) // size):
        world.put(sized(size))
    world.advance(2000)
    start = world.offsets(-2).offset
    end = world.offsets(-1).offset
    assert end == 80
    assert 2 << 20 <= (end - start) * size < (3 << 20) + size
    assert bases_of(part_of(world.fetch({("t", 0): start})).records)[0] == start


def test_l10_retention_by_time_empties_the_log_and_reuses_no_offset() -> None:
    world = World(log_retention_check_interval_ms=1000, log_initial_task_delay_ms=0)
    world.create(retention_ms=1000)
    world.put(batch(*[b"x"] * 10, at_ms=world.wall_ms - 60_000))
    world.advance(3000)
    assert [world.offsets(which).offset for which in (-2, -1)] == [10, 10]
    assert world.put(batch(b"x", at_ms=world.wall_ms)).base_offset == 10
    assert "00000000000000000010.log" in world.disk.list("t-0")


def test_l11_a_segment_is_rolled_by_time_only_when_something_comes() -> None:
    world = World()
    world.create(segment_ms=1000)
    world.put(batch(b"1", at_ms=world.wall_ms))
    world.advance(3000)
    logs = [name for name in world.disk.list("t-0") if name.endswith(".log")]
    assert logs == ["00000000000000000000.log"]
    world.put(batch(b"2", at_ms=world.wall_ms))
    logs = [name for name in world.disk.list("t-0") if name.endswith(".log")]
    assert logs == ["00000000000000000000.log", "00000000000000000001.log"]


def compacting(**settings: Any) -> World:
    world = World(log_cleaner_backoff_ms=1000)
    world.create(cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, segment_ms=1000, **settings)
    return world


def keyed(world: World, *pairs: tuple[bytes, bytes | None]) -> None:
    for key, value in pairs:
        world.put(batch(value, keys=[key], at_ms=world.wall_ms))


def kept(world: World) -> list[tuple[int, bytes | None, bytes | None]]:
    data = part_of(world.fetch({("t", 0): 0})).records
    found = []
    offset = 0
    while len(data):
        records = records_of(data)
        found += [(record.offset, record.key, record.value) for record in records]
        if not records:
            break
        offset = records[-1].offset + 1
        data = part_of(world.fetch({("t", 0): offset})).records
    return found


def test_l12_compaction_keeps_the_last_of_each_key() -> None:
    world = compacting()
    keyed(world, (b"a", b"1"), (b"a", b"2"), (b"a", b"3"), (b"b", b"1"))
    world.advance(1500)
    keyed(world, (b"roll", b"1"), (b"a", b"4"))
    world.advance(60_000)
    assert kept(world) == [(2, b"a", b"3"), (3, b"b", b"1"), (4, b"roll", b"1"), (5, b"a", b"4")]


def test_l13_a_tombstone_outlives_one_cleaning() -> None:
    world = compacting(delete_retention_ms=1000)
    keyed(world, (b"a", b"1"), (b"a", None), (b"b", b"1"))
    world.advance(1500)
    keyed(world, (b"roll", b"1"))
    world.advance(60_000)
    found = kept(world)
    assert (1, b"a", None) in found
    assert (0, b"a", b"1") not in found
    for number in range(6):
        world.advance(5000)
        keyed(world, (b"roll", b"%d" % number))
    world.advance(60_000)
    assert b"a" not in [key for _, key, _ in kept(world)]


def test_l14_a_torn_tail_is_cut_and_the_log_goes_on() -> None:
    world = World()
    world.create()
    for value in (b"one", b"two", b"three"):
        world.put(batch(value))
    world.disk.crash(lambda path, synced, size: size - 5 if path.startswith("t-0/") and path.endswith(".log") else size)
    world.core = world._new_core()
    world.start()
    assert world.offsets(-1).offset == 2
    assert world.put(batch(b"again")).base_offset == 2
    values = [record.value for record in records_of(part_of(world.fetch({("t", 0): 0})).records)]
    assert values == [b"one", b"two", b"again"]


def test_l15_deleted_indexes_are_built_anew() -> None:
    world = World()
    world.create(retention_ms=-1, index_interval_bytes=0)
    for timestamp in (100, 300, 200):
        world.put(batch(b"x" * 100, at_ms=timestamp))
    world.stop()
    for name in world.disk.list("t-0"):
        if name.endswith(("index",)):
            world.disk.remove(f"t-0/{name}")
    world.core = world._new_core()
    world.start()
    assert [(one.offset, one.timestamp) for one in (world.offsets(which) for which in (-3, 150, 301))] == [
        (1, 300),
        (1, 300),
        (-1, -1),
    ]
    assert bases_of(part_of(world.fetch({("t", 0): 1})).records) == [1, 2]


def test_l16_a_segment_may_not_be_small() -> None:
    topic = create_topics.CreatableTopic(
        "t", 1, 1, configs=[create_topics.CreatableTopicConfig("segment.bytes", "100000")]
    )
    result = World().ask(create_topics.CreateTopicsRequest([topic]), 7).topics[0]
    assert result.error_code == 40
    assert "segment.bytes" in result.error_message
