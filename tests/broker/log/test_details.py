"""Details of starts, indexes and snapshots that other tests pass by: each fails when its line is changed."""

from __future__ import annotations

from barnabas.broker.config import BrokerConfig
from barnabas.broker.log.index import OffsetIndex, TimeIndex
from barnabas.broker.log.producer_state import ProducerBatch, ProducerState
from tests.broker.log.harness import NOW, append


def test_after_a_sudden_end_the_recovery_point_is_what_was_noted(world):
    """What the walk read came from the page cache, maybe: it says nothing of the device."""
    log = world.new_log()
    for _ in range(6):
        append(log, b"a")
    log = world.restart(log, clean=False, recovery_point=2)
    assert (log.recovery_point, log.log_end_offset) == (2, 6)
    log = world.restart(log, clean=False)
    assert log.recovery_point == 0


def test_the_largest_time_may_stand_behind_the_last_index_entry(world):
    log = world.new_log()
    for offset, ms in enumerate([0, 50, 20]):
        append(log, b"%d" % offset, timestamps=[NOW + ms])
    world.run(log.close())
    path = "t-0/00000000000000000000.timeindex"
    world.disk.write_atomic(path, NOW.to_bytes(8, "big") + bytes(4))
    world.reopen()
    log = world.open_log(clean=True)
    found = world.call(log.offset_of_max_timestamp)
    assert (found.timestamp, found.offset) == (NOW + 50, 1)


def test_an_index_is_cut_at_the_offset_itself():
    offsets, times = OffsetIndex(10), TimeIndex(10)
    for number in range(4):
        offsets.append(20 + number, number * 100)
        times.maybe_append(NOW + number, 20 + number)
    offsets.truncate(22)
    times.truncate(22)
    assert (len(offsets), offsets.last_offset, offsets.lookup(99)) == (2, 21, 100)
    assert (len(times), times.last_offset, times.last_timestamp) == (2, 21, NOW + 1)
    offsets.truncate(20)
    times.truncate(20)
    assert (len(offsets), offsets.lookup(99)) == (0, 0)
    assert (len(times), times.last_timestamp) == (0, -1)


def test_of_equal_largest_times_in_two_segments_the_first_counts(world):
    log = world.new_log(segment_bytes=100)
    for ms in (0, 9, 3, 9):
        append(log, b"a", timestamps=[NOW + ms])
    assert len(log.segments) == 4
    found = world.call(log.offset_of_max_timestamp)
    assert (found.timestamp, found.offset) == (NOW + 9, 1)


def test_sequences_wrap_in_a_snapshot():
    state = ProducerState()
    batch = ProducerBatch(2**31 - 2, 1, 7, 3, NOW)  # 2147483646, 2147483647, 0, 1
    state.update(5, 0, batch)
    again = ProducerState.from_snapshot(state.snapshot())
    assert again.producers[5].batches == [batch]
    assert again.check(5, 0, 2**31 - 2, 1) == batch
    assert again.check(5, 0, 2, 2) is None


def test_the_jitter_of_rolls_may_be_given_in_hours():
    assert BrokerConfig(log_roll_jitter_hours=3).roll_jitter_ms == 3 * 3_600_000
    assert BrokerConfig(log_roll_jitter_hours=3, log_roll_jitter_ms=0).roll_jitter_ms == 0
