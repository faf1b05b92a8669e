"""Retention by log start, size and time."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from barnabas.protocol.errors import KafkaError
from tests.broker.log.harness import NOW, append, batch, everything

SIZE = len(batch(b"x" * 100))


def filled(world, count, **settings):
    log = world.new_log(**{"segment_bytes": 2 * SIZE, "retention_ms": -1, **settings})
    for i in range(count):
        append(log, b"x" * 100, timestamps=[NOW + i])
    return log


def logs_on(world):
    return [int(name[:20]) for name in world.disk.list("t-0") if name.endswith(".log")]


def test_nothing_goes_without_limits(world):
    log = filled(world, 9)
    assert world.run(log.retain(NOW + 10**12)) == 0


def test_size_never_falls_below_the_limit(world):
    log = filled(world, 9, retention_bytes=4 * SIZE)
    assert world.run(log.retain(NOW)) == 2
    assert log.size_bytes == 5 * SIZE
    assert (log.log_start_offset, log.bases) == (4, [4, 6, 8])
    world.settle()
    assert logs_on(world) == [4, 6, 8]
    assert [r.offset for r in everything(world, log)] == [4, 5, 6, 7, 8]


def test_age_is_that_of_the_largest_timestamp(world):
    log = filled(world, 9, retention_ms=1000)
    assert world.run(log.retain(NOW + 1003)) == 1
    assert log.log_start_offset == 2
    assert world.run(log.retain(NOW + 1004)) == 1


def test_age_after_a_restart(world):
    log = world.restart(filled(world, 9, retention_ms=1000), clean=True, high_watermark=9)
    assert world.run(log.retain(NOW + 1004)) == 2


def test_all_may_go_and_no_offset_is_used_again(world):
    log = filled(world, 3, retention_ms=1000)
    assert world.run(log.retain(NOW + 10_000)) == 2
    assert (log.log_start_offset, log.log_end_offset, log.bases) == (3, 3, [3])
    world.settle()
    assert logs_on(world) == [3]
    assert world.run(log.retain(NOW + 10_000)) == 0
    assert append(log, b"y").first_offset == 3


def test_what_comes_while_old_segments_go_stays(memory):
    """Old ones go a few in a step; in between a record comes to the active segment, which was old, too."""
    log = filled(memory, 80, retention_ms=1000)
    job = log.retain(NOW + 10_000)
    while log.log_start_offset == 0:
        next(job)
    assert log.active.size == 2 * SIZE
    log.configure(replace(log.config, segment_bytes=1000 * SIZE))
    fresh = append(log, b"fresh", timestamps=[NOW + 10_000]).first_offset
    assert log.active.base < fresh, "it is in a segment that was to go"
    memory.run(job)
    assert [record.value for record in everything(memory, log)][-1:] == [b"fresh"]
    assert log.log_start_offset == 78


def test_only_what_is_committed_goes(memory):
    log = memory.new_log(segment_bytes=2 * SIZE, retention_ms=1000)
    for _ in range(6):
        log.append_as_leader(batch(b"x" * 100), 0, now_ms=NOW)
    log.advance_high_watermark(3)
    assert memory.run(log.retain(NOW + 10_000)) == 1
    assert log.log_start_offset == 2


@pytest.mark.parametrize("start", [4, 5])
def test_below_the_log_start_whole_segments_go_for_every_policy(world, start):
    log = filled(world, 9, cleanup_policy=("compact",), retention_bytes=0)
    log.raise_log_start_offset(start)
    assert world.run(log.retain(NOW)) == 2
    assert (log.bases, log.log_start_offset) == ([4, 6, 8], start)


def test_the_rules_go_in_order_each_on_what_the_one_before_left(world):
    """Nine batches in segments of two: the log start lets two segments go, size one more, age one more."""
    log = filled(world, 9, retention_bytes=2 * SIZE, retention_ms=1000)
    log.raise_log_start_offset(5)
    assert world.run(log.retain(NOW + 1005)) == 3  # five batches are left, three too many: one more segment
    assert (log.bases, log.log_start_offset) == ([6, 8], 6)
    assert world.run(log.retain(NOW + 1007)) == 0
    assert world.run(log.retain(NOW + 1008)) == 1
    assert log.bases == [8]


def test_size_and_age_are_for_the_delete_policy(memory):
    log = filled(memory, 9, cleanup_policy=("compact",), retention_bytes=0, retention_ms=1)
    assert memory.run(log.retain(NOW + 10_000)) == 0


def test_epochs_of_what_is_gone_go_too(memory):
    log = memory.new_log(segment_bytes=2 * SIZE, retention_ms=-1, retention_bytes=5 * SIZE)
    for i in range(9):
        append(log, b"x" * 100, leader_epoch=i // 3)
    memory.run(log.retain(NOW))
    assert (log.bases[0], log.epochs.entries) == (4, [(1, 4), (2, 6)])


def test_files_are_renamed_and_handed_over(memory):
    log = filled(memory, 5, retention_bytes=0)
    gone: list[str] = []
    log.discard = gone.extend
    memory.run(log.retain(NOW))
    memory.settle()
    assert "t-0/00000000000000000000.log.deleted" in gone
    assert all(memory.disk.exists(path) for path in gone)


@pytest.mark.parametrize("settings", [{"retention_bytes": 0}, {"retention_ms": 1}])
def test_a_step_deletes_a_few_segments(memory, settings):
    log = filled(memory, 201, **settings)
    count = len(log.segments)
    steps = []
    for _ in log.retain(NOW + 10_000):
        steps.append(count - len(log.segments))
        count = len(log.segments)
    assert sum(steps) >= 99
    assert max(steps) <= 32


@pytest.mark.parametrize("count", [1, 1000])
def test_a_segment_that_cannot_be_renamed_stays_in_the_log(memory, count):
    """It was out of the log and still on the disk: the next start served again what retention had taken."""
    log = memory.new_log(segment_bytes=300, retention_ms=1000)
    for number in range(12):
        append(log, b"%d" % number)
    memory.settle()
    values = [record.value for record in everything(memory, log)]
    bases = list(log.bases)
    away: list[str] = []
    log.discard = away.extend
    for nth in range(1, 6):
        memory.disk.faults.refuse(nth, count, errno.EIO)
        with pytest.raises(KafkaError):
            memory.run(log.retain(NOW + 2000))
        memory.disk.faults.refuse(0, 0)
        assert [record.value for record in everything(memory, log)] == values
        assert away == []
        if log.failed is not None:
            break
        assert log.bases[: len(bases)] == bases, nth
    assert (log.failed is None) == (count == 1)
    if log.failed is None:
        memory.run(log.retain(NOW + 2000))
        assert log.log_start_offset == 12
    log.release()
    log = memory.open_log(clean=False, config=log.config)
    left = [record.value for record in everything(memory, log)]
    assert left == values[len(values) - len(left) :]


def test_snapshots_of_deleted_segments_go(world):
    log = filled(world, 9, retention_bytes=4 * SIZE)
    world.settle()
    world.run(log.retain(NOW))
    assert log.snapshots == [4, 6, 8]


def test_an_index_that_is_written_after_its_segment_went_goes_too(world):
    """A start would take it for the trace of a segment that is lost."""
    log = filled(world, 9, retention_bytes=2 * SIZE, index_interval_bytes=50)
    world.run(log.retain(NOW))
    world.settle()
    assert {name[:20] for name in world.disk.list("t-0") if name.endswith("index")} == {f"{6:020d}"}
    log = world.restart(log, clean=False)
    assert log.losses.count == 0


def test_a_reader_keeps_its_bytes(world):
    log = filled(world, 9, retention_bytes=0)
    view = world.call(lambda: log.read(0, 1 << 20, 0)).records
    before = bytes(view)
    world.run(log.retain(NOW))
    world.settle()
    assert bytes(view) == before
