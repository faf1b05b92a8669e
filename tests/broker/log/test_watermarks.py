"""High watermark, log start, truncation, leader epochs."""

from __future__ import annotations

import pytest

from barnabas.broker.log import Isolation, Log, OffsetMetadata
from barnabas.broker.log.epochs import LeaderEpochs
from barnabas.broker.log.state import Change
from barnabas.protocol.batch import set_place
from barnabas.protocol.errors import ErrorCode, KafkaError
from tests.broker.log.harness import NOW, append, batch, everything, records_in


def test_the_high_watermark_never_goes_back_on_a_leader(memory):
    log = memory.new_log()
    for _ in range(3):
        log.append_as_leader(batch(b"a"), 0, now_ms=NOW)
    assert log.advance_high_watermark(2)
    assert not log.advance_high_watermark(1)
    assert not log.advance_high_watermark(2)
    assert (log.high_watermark, log.last_stable_offset) == (2, 2)
    assert log.placed_high_watermark() == OffsetMetadata(2, 0, 2 * len(batch(b"a")))


def test_the_same_offset_on_a_newer_segment_counts_as_progress(memory):
    log = memory.new_log()
    append(log, b"a")
    log.roll(NOW)
    assert log.advance_high_watermark(log.log_end_metadata)
    assert log.placed_high_watermark().segment_base == 1


def test_log_start_only_rises_and_not_beyond_the_high_watermark(memory):
    log = memory.new_log()
    for _ in range(5):
        append(log, b"a")
    assert log.raise_log_start_offset(3)
    assert not log.raise_log_start_offset(2)
    with pytest.raises(KafkaError) as caught:
        log.raise_log_start_offset(6)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.log_start_offset == 3
    assert log.raise_log_start_offset(5)


def test_truncation_cuts_at_the_batch_that_contains_the_offset(world):
    log = world.new_log(segment_bytes=1000, index_interval_bytes=100)
    for i in range(30):
        append(log, b"%d" % i, b"x", b"y", leader_epoch=i // 10, timestamps=[NOW + i] * 3)
    bases = log.bases
    assert world.call(lambda: log.truncate_to(50))
    assert log.log_end_offset == 48
    assert log.high_watermark == 48
    assert log.bases == [base for base in bases if base <= 48]
    assert log.epochs.entries == [(0, 0), (1, 30)]
    assert [r.offset for r in everything(world, log)] == list(range(48))
    assert world.call(log.offset_of_max_timestamp) == (NOW + 15, 45, 1)
    assert not world.call(lambda: log.truncate_to(48))
    assert append(log, b"z").first_offset == 48
    assert [r.offset for r in everything(world, log)] == list(range(49))


def follow(log: Log, base: int, *values: bytes) -> None:
    data = batch(*values)
    set_place(data, 0, base, len(data) - 12, 0)
    log.append_as_follower(data, now_ms=NOW)


@pytest.mark.parametrize("policy", ["compact", "delete"], ids=["it is compacted", "it is not any more"])
def test_a_cut_behind_what_was_compacted_away_gives_no_offset_away_twice(memory, policy):
    """Else the high watermark falls with it, and who leads with this log writes where consumers have been."""
    log = memory.new_log(cleanup_policy=(policy,))
    follow(log, 0, b"a", b"b")
    follow(log, 10, b"never committed")
    log.advance_high_watermark(10)
    assert log.truncate_to(10)
    assert (log.log_end_offset, log.high_watermark) == (10, 10)


@pytest.mark.parametrize("end", [0, 2], ids=["the only one", "the last"])
def test_a_cut_where_a_batch_has_a_wrong_offset_ends_the_log_before_it(memory, end):
    """What is right at that place comes from the leader, whatever the offset that was wrong."""
    log = memory.new_log()
    if end:
        follow(log, 0, b"a", b"b")
    follow(log, end + 1, b"c")
    assert log.truncate_to(end + 1)
    assert log.log_end_offset == end


def test_truncation_to_the_base_of_a_segment(world):
    log = world.new_log(segment_bytes=1000)
    for i in range(30):
        append(log, b"%d" % i, b"x", b"y")
    base = log.bases[2]
    assert world.call(lambda: log.truncate_to(base))
    assert log.log_end_offset == base
    assert append(log, b"z").first_offset == base


def test_a_cut_at_the_end_forgets_an_epoch_that_has_no_record(memory):
    """Who led for a moment and wrote nothing: his epoch is not the next leader's, and there is nothing else to cut."""
    log = memory.new_log()
    append(log, b"a", b"b", leader_epoch=1)
    assert log.assign_epoch(2)
    assert not log.truncate_to(2)
    assert log.epochs.entries == [(1, 0)]
    assert (log.log_end_offset, log.latest_epoch) == (2, 1)
    assert not log.truncate_to(2)


def test_truncation_takes_back_producer_state(world):
    log = world.new_log()
    for sequence in range(8):
        append(log, b"a", pid=1, epoch=0, sequence=sequence)
    world.call(lambda: log.truncate_to(5))
    assert [b.last_sequence for b in log.producers.producers[1].batches] == [0, 1, 2, 3, 4]
    assert append(log, b"a", pid=1, epoch=0, sequence=5).first_offset == 5


def test_full_truncation_starts_anew(world):
    log = world.new_log()
    for sequence in range(3):
        append(log, b"a", pid=1, epoch=0, sequence=sequence)
    log.truncate_fully_and_start_at(100, now_ms=NOW)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (100, 100, 100)
    assert not log.producers.producers
    assert log.end_offset_for_epoch(0) == (-1, -1)
    assert append(log, b"b").first_offset == 100
    assert [r.offset for r in everything(world, log)] == [100]


def test_end_offset_for_epoch():
    epochs = LeaderEpochs([(2, 10), (4, 20), (5, 30)])
    assert epochs.end_offset_for(-1, 40) == (-1, -1)
    assert epochs.end_offset_for(6, 40) == (-1, -1)
    assert epochs.end_offset_for(5, 40) == (5, 40)
    assert epochs.end_offset_for(1, 40) == (1, 10)
    assert epochs.end_offset_for(2, 40) == (2, 20)
    assert epochs.end_offset_for(3, 40) == (2, 20)
    assert LeaderEpochs().end_offset_for(0, 0) == (-1, -1)


def test_assigning_epochs_drops_what_they_contradict():
    epochs = LeaderEpochs([(2, 10), (4, 20), (5, 30)])
    assert not epochs.assign(5, 35)
    assert not epochs.assign(4, 40)
    assert epochs.assign(6, 25)
    assert epochs.entries == [(2, 10), (4, 20), (6, 25)]


def test_truncating_epochs():
    epochs = LeaderEpochs([(2, 10), (4, 20), (5, 30)])
    epochs = epochs.up_to(30)
    assert epochs.entries == [(2, 10), (4, 20)]
    epochs = epochs.from_start(15)
    assert epochs.entries == [(2, 15), (4, 20)]
    epochs = epochs.from_start(20)
    assert epochs.entries == [(4, 20)]


def test_becoming_leader_records_the_epoch_without_data(world):
    log = world.new_log()
    assert log.assign_epoch(3)
    assert not log.assign_epoch(3)
    append(log, b"a", leader_epoch=3)
    assert log.assign_epoch(5)
    assert log.epochs.entries == [(3, 0), (5, 1)]
    log = world.restart(log, clean=True)
    assert world.disk.load("t-0/leader-epoch-checkpoint") == b"1\n2\n3 0\n5 1\nsum 3d72add9\n"
    assert log.end_offset_for_epoch(3) == (3, 1)


def test_an_epoch_without_a_record_writes_no_file(world):
    log = world.new_log()
    assert log.assign_epoch(3)
    assert log.files.save_epochs() is None
    log = world.restart(log, clean=True)
    assert log.assign_epoch(5)
    world.settle()
    assert not world.disk.exists("t-0/leader-epoch-checkpoint")


def test_epochs_that_were_cut_off_are_written_down_at_once(world):
    log = world.new_log()
    for epoch in (3, 4):
        append(log, b"a", leader_epoch=epoch)
    log.files.save_epochs()
    world.settle()
    world.call(lambda: log.truncate_to(1))
    world.settle()
    assert world.disk.load("t-0/leader-epoch-checkpoint") == b"1\n1\n3 0\nsum 5b4f7300\n"


@pytest.mark.parametrize(
    "change",
    [
        Change(segments=[]),
        Change(log_end_offset=1),
        Change(log_start_offset=4),
        Change(recovery_point=4),
        Change(log_start_offset=-1),
    ],
)
def test_a_state_that_cannot_be_is_not_adopted(memory, change):
    log = memory.new_log()
    append(log, b"a", b"b", b"c")
    with pytest.raises(AssertionError):
        log.adopt(change)


def test_the_last_stable_offset_has_one_seam(memory, monkeypatch):
    """When transactions hold it back, readers see less, and are told so, without a change outside of `Log`."""
    log = memory.new_log()
    append(log, b"a")
    stable = log.log_end_metadata
    append(log, b"b")
    monkeypatch.setattr(Log, "last_stable_offset", property(lambda self: stable.offset))
    monkeypatch.setattr(Log, "placed_last_stable", lambda self: stable)
    for isolation, offsets in ((Isolation.HIGH_WATERMARK, [0, 1]), (Isolation.TXN_COMMITTED, [0])):
        data = memory.call(lambda isolation=isolation: log.read(0, 1 << 20, isolation))
        assert [record.offset for record in records_in(data.records)] == offsets
        assert (data.high_watermark, data.last_stable_offset) == (2, 1)
