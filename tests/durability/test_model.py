"""The model finds what is wrong with what a broker serves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.durability.model import Batch, Broken, PartitionModel, Read, TopicModel

NOW_MS = 10_000_000


def partition(**settings: object) -> PartitionModel:
    """A partition with three acknowledged batches of two records, at 0, 2 and 4, and one that nobody answered."""
    topic = TopicModel("t", bytes(16), **settings)  # type: ignore[arg-type]
    topic.grow(1)
    part = topic.partitions[0]
    for serial in range(4):
        batch = Batch(serial, (b"a", b"b"), (b"%d" % serial, b"x"), serial, b"." * 100)
        part.sent(batch)
        if serial < 3:
            part.acknowledged(batch, serial * 2)
    return part


def served(part: PartitionModel, *offsets: int, start: int = 0, end: int = 6) -> Read:
    """What a faithful broker serves of the acknowledged records at these offsets."""
    records: list[tuple[int, bytes | None, bytes | None, bytes]] = []
    for offset in offsets:
        batch, index = part.batches[offset // 2], offset % 2
        records.append((offset, batch.keys[index], batch.values[index], part.tag(batch, index)))
    return Read(start, end, records)


def test_all_that_was_acknowledged_is_there() -> None:
    part = partition()
    assert part.compare(served(part, *range(6)), NOW_MS) == 0


def test_what_was_not_answered_may_be_there_once_and_stays() -> None:
    part = partition()
    read = served(part, *range(6), end=8)
    unsure = part.unsure[0]
    more: list[tuple[int, bytes | None, bytes | None, bytes]]
    more = [(6 + index, unsure.keys[index], unsure.values[index], part.tag(unsure, index)) for index in (0, 1)]
    part.compare(replace(read, records=read.records + more), NOW_MS)
    with pytest.raises(Broken, match="acknowledged at 6"):
        part.compare(replace(read, end=8), NOW_MS)


@pytest.mark.parametrize("offsets", [(0, 1, 2, 3, 4), (1, 2, 3, 4, 5), (0, 1, 4, 5), ()])
def test_a_record_that_is_lost_is_found(offsets: tuple[int, ...]) -> None:
    part = partition()
    with pytest.raises(Broken, match="is not there"):
        part.compare(served(part, *offsets), NOW_MS)


def test_other_bytes_another_place_and_strangers_are_found() -> None:
    for field, value in enumerate([3, b"z", b"other", b"0000/0/9/9"]):
        part = partition()
        read = served(part, *range(6))
        fields: list[Any] = list(read.records[2])
        fields[field] = value
        read.records[2] = (fields[0], fields[1], fields[2], fields[3])
        with pytest.raises(Broken):
            part.compare(read, NOW_MS)
    part = partition()
    stranger = (6, b"a", b"v", b"of a deleted topic")
    with pytest.raises(Broken, match="nobody wrote"):
        part.compare(replace(served(part, *range(6)), records=[*served(part, *range(6)).records, stranger]), NOW_MS)


def test_a_log_start_is_what_was_asked_or_what_retention_may_take() -> None:
    part = partition()
    with pytest.raises(Broken, match="the log starts at 2"):
        part.compare(served(part, 2, 3, 4, 5, start=2), NOW_MS)
    part.start_asked = 2
    part.compare(served(part, 2, 3, 4, 5, start=2), NOW_MS)
    part = partition(retention_ms=1000)
    part.compare(served(part, 4, 5, start=4), NOW_MS)
    part = partition(retention_ms=NOW_MS)
    with pytest.raises(Broken, match="the log starts at 4"):
        part.compare(served(part, 4, 5, start=4), NOW_MS)
    part = partition(retention_bytes=200)
    part.compare(served(part, 2, 3, 4, 5, start=2), NOW_MS)
    with pytest.raises(Broken, match="the log starts at 4"):
        part.compare(served(part, 4, 5, start=4), NOW_MS)


def test_a_compacted_topic_keeps_the_newest_of_each_key() -> None:
    part = partition(may_compact=True)
    part.compare(served(part, 4, 5), NOW_MS)
    with pytest.raises(Broken, match="acknowledged at 1 "):
        part.compare(served(part, 4), NOW_MS)


def test_an_end_that_goes_back_and_an_offset_given_twice_are_found() -> None:
    part = partition()
    part.start_asked = 6
    with pytest.raises(Broken, match="the log ends at 5"):
        part.compare(Read(6, 5), NOW_MS)
    with pytest.raises(Broken, match="a second time"):
        part.acknowledged(part.unsure[0], 5)
    with pytest.raises(Broken, match="written twice"):
        part.acknowledged(part.batches[0], 6)


def test_a_fault_may_take_records_but_not_make_them() -> None:
    part = partition()
    part.damaged(2)
    assert part.compare(served(part, 0, 1, end=2), NOW_MS) == 4
    part = partition()
    part.damaged(4)
    with pytest.raises(Broken, match="acknowledged at 2 "):
        part.compare(served(part, 0, 1, end=2), NOW_MS)
    part = partition()
    part.damaged(2)
    read = served(part, *range(6))
    read.records[2] = (2, b"a", b"flipped", read.records[2][3])
    with pytest.raises(Broken, match=r"not .* as written"):
        part.compare(read, NOW_MS)


def test_a_refused_batch_of_a_sound_log_is_found() -> None:
    part = partition()
    with pytest.raises(Broken, match="no consumer takes"):
        part.compare(replace(served(part, 0, 1, 4, 5), refused=[range(2, 4)]), NOW_MS)
    part.damaged(2)
    assert part.compare(replace(served(part, 0, 1, 4, 5), refused=[range(2, 4)]), NOW_MS) == 0


def test_what_compaction_took_for_a_record_that_a_fault_took_then_is_gone() -> None:
    part = partition(may_compact=True)
    part.damaged(4)
    assert part.compare(served(part, 1, end=4), NOW_MS) == 2
    part.damaged_from = None
    part.compare(served(part, 1, end=4), NOW_MS)
    with pytest.raises(Broken, match="acknowledged at 1 "):
        part.compare(served(part, end=4), NOW_MS)


def test_what_compaction_took_is_not_called_a_loss_of_the_fault() -> None:
    part = partition(may_compact=True)
    part.damaged(0)
    assert part.compare(served(part, 4, 5), NOW_MS) == 0
    assert part.compare(replace(served(part), refused=[range(4, 6)]), NOW_MS) == 0
    assert part.compare(served(part, 4), NOW_MS) == 3, "nothing that is there is newer than these of the second key"


@pytest.mark.parametrize(("retention_bytes", "holds"), [(200, True), (201, False)])
def test_retention_takes_some_by_the_bytes_behind_them_and_the_rest_by_age(retention_bytes: int, holds: bool) -> None:
    part = partition(retention_bytes=retention_bytes, retention_ms=1000)
    part.batches[0].timestamp_ms = NOW_MS
    read = served(part, start=6)
    if holds:
        part.compare(read, NOW_MS)
        return
    with pytest.raises(Broken, match="may not take 1 batches, the first at 0"):
        part.compare(read, NOW_MS)
