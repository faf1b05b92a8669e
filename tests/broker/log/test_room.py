"""How many segments all logs have together: whoever may alter a topic may ask for one for each batch."""

from __future__ import annotations

import logging

import pytest

from barnabas.broker.config import TopicConfig
from barnabas.broker.log import Log, LogManager, room
from barnabas.protocol.ids import TopicPartition
from tests.broker.log.harness import NOW, World, append, everything, manager_of

EACH = TopicConfig(segment_ms=1, file_delete_delay_ms=0)


def logs_of(memory: World, count: int = 2) -> tuple[LogManager, list[Log]]:
    manager = manager_of(memory, topic=EACH)
    manager.start(0)
    return manager, [manager.create(TopicPartition("t", number), bytes(16), EACH) for number in range(count)]


def fill(log: Log, batches: int, start: int = 0, size: int = 1) -> int:
    """How many times it rolled: the time between two batches is longer than `segment.ms`."""
    return sum(append(log, b"x" * size, timestamps=[NOW + 10 * (start + one)]).rolled for one in range(batches))


def test_the_segments_of_all_logs_are_bounded_together(
    memory: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(room, "SEGMENTS_MAX", 10)
    manager, logs = logs_of(memory)
    with caplog.at_level(logging.WARNING):
        rolled = [fill(log, 20) for log in logs]
    assert rolled == [8, 0]
    assert manager.room.segments == sum(len(log.segments) for log in logs) == 10
    assert [record.message.count("segments: from now on") for record in caplog.records] == [1]
    for log in logs:
        assert len(everything(memory, log)) == 20, "what is not rolled is written all the same"


def test_a_crowded_log_is_rolled_by_size_alone(memory: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SEGMENTS_MAX", 0)
    monkeypatch.setattr(room, "CROWDED_BYTES_MIN", 1000)
    _, (log, _) = logs_of(memory)
    assert fill(log, 12, size=200) == 3
    assert all(600 <= segment.size < 1000 for segment in log.segments[:-1])


@pytest.mark.parametrize("how", ["cut", "release", "retention", "restart"])
def test_segments_that_go_leave_room(memory: World, how: str) -> None:
    manager, (log, other) = logs_of(memory)
    assert fill(log, 6) == 5
    assert manager.room.segments == 7
    if how == "cut":
        log.truncate_to(2)
        assert manager.room.segments == len(log.segments) + 1 < 7
    elif how == "retention":
        log.commit_all()
        log.raise_log_start_offset(4)
        memory.run(log.retain(NOW))
        assert manager.room.segments == len(log.segments) + 1 == 3
    else:
        log.release()
        assert manager.room.segments == 1
        log.release()
        other.release()
        assert manager.room.segments == 0
    if how == "restart":
        memory.settle()
        manager = manager_of(memory, topic=EACH)
        memory.run(manager.load())
        assert manager.room.segments == sum(len(one.segments) for one in manager.logs.values()) == 7
