"""A clock that jumps ahead removes nothing before its time."""

from __future__ import annotations

import pytest

from barnabas.broker.config import TopicConfig
from barnabas.broker.log.steady import HOLD_MS_MAX, JUMP_MS, SteadyTime
from tests.broker.log.harness import NOW, PARTITION, TOPIC_ID, Clock, append, everything, manager_of

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def test_what_was_written_a_minute_ago_stays_when_the_clock_jumps_two_hours(memory, caplog):
    """Retention of an hour: the record is an hour old by the old time when it goes, not a minute."""
    clock = Clock()
    manager = manager_of(memory, clock)
    manager.start(0)
    log = manager.create(PARTITION, TOPIC_ID, TopicConfig(retention_ms=HOUR))
    append(log, b"a")

    def look(at_ms, jump_ms):
        clock.ms = NOW + at_ms + jump_ms
        for job in manager.due_jobs(at_ms):
            memory.run(job)
        memory.settle()
        return log.log_start_offset

    assert look(MINUTE, 2 * HOUR) == 0
    assert look(HOUR, 2 * HOUR) == 0
    assert look(HOUR + 6 * MINUTE, 2 * HOUR) == 1
    assert caplog.text.count("jumped ahead by 7200 s") == 1


def house_kept(world, clock, manager, at_ms, jump_ms):
    clock.ms = NOW + at_ms + jump_ms
    for job in manager.due_jobs(at_ms):
        world.run(job)
    world.settle()


def test_no_producer_is_forgotten_for_a_jump(memory):
    clock = Clock()
    manager = manager_of(memory, clock)
    manager.start(0)
    log = manager.create(PARTITION, TOPIC_ID, TopicConfig())
    append(log, b"a", pid=7, epoch=0, sequence=0)
    house_kept(memory, clock, manager, HOUR, 2 * DAY)
    assert append(log, b"a", pid=7, epoch=0, sequence=0).duplicate
    house_kept(memory, clock, manager, 25 * HOUR, 2 * DAY)
    assert not append(log, b"a", pid=7, epoch=0, sequence=0).duplicate


def test_no_tombstone_goes_and_nothing_is_compacted_too_early_for_a_jump(memory):
    clock = Clock()
    config = TopicConfig(
        cleanup_policy=("compact",), segment_ms=HOUR, min_compaction_lag_ms=DAY, min_cleanable_dirty_ratio=0
    )
    manager = manager_of(memory, clock, config)
    manager.start(0)
    log = manager.create(PARTITION, TOPIC_ID, config)
    for value in (b"a", b"b"):
        append(log, value)
    log.roll(NOW)
    house_kept(memory, clock, manager, HOUR, 2 * DAY)
    assert [record.value for record in everything(memory, log)] == [b"a", b"b"]
    house_kept(memory, clock, manager, 26 * HOUR, 2 * DAY)
    assert [record.value for record in everything(memory, log)] == [b"b"]


@pytest.mark.parametrize(
    ("looks", "believed"),
    [
        pytest.param([(0, 0), (MINUTE, 0)], MINUTE, id="nothing happens"),
        pytest.param([(0, 0), (MINUTE, JUMP_MS)], MINUTE + JUMP_MS, id="a small step is taken"),
        pytest.param([(0, 0), (MINUTE, JUMP_MS + 1)], MINUTE, id="a jump is not"),
        pytest.param([(0, 0), (MINUTE, -DAY)], MINUTE - DAY, id="one back is"),
        pytest.param([(0, 0), (MINUTE, HOUR), (2 * MINUTE, 0)], 2 * MINUTE, id="set back"),
        pytest.param([(0, 0), (MINUTE, HOUR), (MINUTE + HOUR - 1, HOUR)], MINUTE + HOUR - 1, id="held"),
        pytest.param([(0, 0), (MINUTE, HOUR), (MINUTE + HOUR, HOUR)], MINUTE + 2 * HOUR, id="believed in the end"),
        pytest.param([(0, 0), (1, 9 * DAY), (HOLD_MS_MAX, 9 * DAY)], HOLD_MS_MAX, id="held for a day"),
        pytest.param([(0, 0), (1, 9 * DAY), (HOLD_MS_MAX + 1, 9 * DAY)], HOLD_MS_MAX + 1 + 9 * DAY, id="and no longer"),
        pytest.param([(0, 9 * DAY)], 9 * DAY, id="a start takes what there is"),
    ],
)
def test_which_time_is_gone_by(looks, believed):
    steady = SteadyTime()
    told = [steady.look(NOW + mono_ms + jump_ms, mono_ms) for mono_ms, jump_ms in looks]
    assert told[-1] == NOW + believed


def test_a_second_jump_is_told_again(caplog):
    steady = SteadyTime()
    for mono_ms, jump_ms in ((0, 0), (1, HOUR), (2, HOUR), (3, 0), (4, HOUR), (5, HOUR)):
        steady.look(NOW + mono_ms + jump_ms, mono_ms)
    assert caplog.text.count("jumped ahead") == 2
