"""Compaction: what stays, what goes, in which round; merging; interruptions."""

from __future__ import annotations

import errno
from functools import partial

import pytest

from barnabas.broker.config import TopicConfig
from barnabas.broker.log import Isolation
from barnabas.broker.log.apart import BYTES_AT_ONCE
from barnabas.broker.log.compaction import cleanable
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.protocol.batch import crc_ok
from barnabas.protocol.errors import KafkaError
from tests.broker.log.harness import NOW, append, append_apart, batch, everything, headers_in

COMPACT = ("compact",)


def new_log(world, **settings):
    return world.new_log(**{"cleanup_policy": COMPACT, **settings})


def put(log, key, value, **fields):
    return append(log, value, keys=[key], **fields)


def clean(world, log, now_ms=NOW, keys_max=1000):
    return world.run(log.compact(now_ms, keys_max=keys_max))


def content(world, log):
    return [(r.offset, r.key, r.value) for r in everything(world, log)]


def test_the_newest_record_of_each_key_stays_and_the_active_segment_is_untouched(world):
    log = new_log(world)
    for key, value in ((b"a", b"1"), (b"a", b"2"), (b"a", b"3"), (b"b", b"4")):
        put(log, key, value)
    log.roll(NOW)
    put(log, b"b", b"5")
    result = clean(world, log)
    assert content(world, log) == [(2, b"a", b"3"), (3, b"b", b"4"), (4, b"b", b"5")]
    assert result.cleaned_to == 4
    assert result.bytes_after < result.bytes_before
    assert log.log_end_offset == 5


def test_batches_keep_their_offsets_and_sums_when_records_go(world):
    log = new_log(world)
    append(log, b"1", b"2", b"3", b"4", keys=[b"a", b"b", b"a", b"c"], codec=4)
    put(log, b"c", b"5")
    log.roll(NOW)
    put(log, b"x", b"")
    clean(world, log)
    data = world.call(lambda: log.read(0, 1 << 20, Isolation.LOG_END)).records
    first = headers_in(data)[0]
    assert (first.base_offset, first.last_offset, first.record_count, first.compression) == (0, 3, 2, 4)
    assert crc_ok(data, 0, first.size)
    assert content(world, log) == [(1, b"b", b"2"), (2, b"a", b"3"), (4, b"c", b"5"), (5, b"x", b"")]
    assert [h.base_offset for h in headers_in(world.call(lambda: log.read(3, 1, Isolation.LOG_END)).records)] == [0]


def test_nulls_take_two_rounds(world):
    log = new_log(world, delete_retention_ms=1000)
    put(log, b"a", b"1")
    put(log, b"a", None)
    put(log, b"b", b"2")
    log.roll(NOW)
    put(log, b"c", b"3")
    clean(world, log)
    assert content(world, log) == [(1, b"a", None), (2, b"b", b"2"), (3, b"c", b"3")]
    header = headers_in(world.call(lambda: log.read(0, 1 << 20, Isolation.LOG_END)).records)[0]
    assert (header.has_delete_horizon, header.base_timestamp) == (True, NOW + 1000)
    assert [r.timestamp for r in everything(world, log)] == [NOW] * 3
    log.roll(NOW)
    put(log, b"d", b"4")
    clean(world, log, NOW + 999)
    assert (1, b"a", None) in content(world, log)
    log.roll(NOW)
    put(log, b"e", b"5")
    clean(world, log, NOW + 1000)
    assert content(world, log) == [(2, b"b", b"2"), (3, b"c", b"3"), (4, b"d", b"4"), (5, b"e", b"5")]


def test_small_segments_are_merged_and_the_log_reads_on(world):
    log = new_log(world, segment_bytes=400, index_interval_bytes=0)
    for i in range(60):
        put(log, b"%d" % (i % 20), b"%d" % i, timestamps=[NOW + i])
    before = len(log.segments)
    clean(world, log)
    log.roll(NOW)
    put(log, b"last", b"60")
    active = log.active.base
    clean(world, log)
    assert len(log.segments) <= before / 2
    assert log.active.base == active
    kept = content(world, log)
    assert [int(value) for _, _, value in kept] == list(range(40, 61))
    assert world.call(lambda: log.offset_for_timestamp(NOW + 50)) == (NOW + 50, 50, 0)
    for offset, _, _ in kept:
        assert (
            headers_in(world.call(lambda o=offset: log.read(o, 1, Isolation.LOG_END)).records)[0].base_offset == offset
        )
    for how in (True, False):
        log = world.restart(log, clean=how, high_watermark=61)
        assert content(world, log) == kept


def test_offsets_inside_a_gap_read_the_next_batch(world):
    log = new_log(world)
    for i in range(5):
        put(log, b"a", b"%d" % i)
    log.roll(NOW)
    put(log, b"b", b"x")
    clean(world, log)
    assert [h.base_offset for h in headers_in(world.call(lambda: log.read(0, 1, Isolation.LOG_END)).records)] == [4]


def test_the_last_batch_of_a_producer_and_of_the_round_stay_empty(world):
    log = new_log(world)
    put(log, b"a", b"1", pid=9, epoch=0, sequence=0)
    put(log, b"a", b"2", pid=9, epoch=0, sequence=1)
    put(log, b"a", b"3")
    put(log, b"z", None)
    log.roll(NOW)
    put(log, b"a", b"4")
    clean(world, log)
    clean(world, log, NOW)
    log.roll(NOW)
    put(log, b"z", b"5")
    clean(world, log, NOW)
    headers = headers_in(world.call(lambda: log.read(0, 1 << 20, Isolation.LOG_END)).records)
    kept = [(h.base_offset, h.record_count, h.producer_id) for h in headers]
    assert (1, 0, 9) in kept, "the producer's last batch is there, empty"
    assert 0 not in [base for base, _, _ in kept]
    log = world.restart(log, clean=False, high_watermark=6)
    world.disk.remove("t-0/00000000000000000004.snapshot")
    assert log.producers.producers[9].batches[-1].last_sequence == 1


def test_the_last_batch_of_the_round_stays_empty_so_that_the_end_of_the_log_is_known(world):
    """Its only record has no key: it was written before the topic was compacted."""
    log = world.new_log(cleanup_policy=("delete",))
    put(log, b"a", b"1")
    put(log, None, b"no key")
    put(log, None, b"no key either")
    log.roll(NOW)
    log.configure(TopicConfig(cleanup_policy=COMPACT))
    clean(world, log)
    headers = headers_in(world.call(lambda: log.read(0, 1 << 20, Isolation.LOG_END)).records)
    assert [(h.base_offset, h.record_count) for h in headers] == [(0, 1), (2, 0)]
    world.disk.remove(f"t-0/{log.active.base:020d}.log")
    log.release()
    world.settle()
    log = world.open_log(clean=False, config=log.config)
    assert log.log_end_offset == 3, "no offset is given away a second time"


def test_nothing_above_the_last_stable_offset_is_touched(memory):
    log = new_log(memory)
    for i in range(4):
        log.append_as_leader(batch(b"%d" % i, keys=[b"a"]), 0, now_ms=NOW)
        log.roll(NOW)
    log.advance_high_watermark(2)
    clean(memory, log)
    assert [offset for offset, _, _ in content(memory, log)] == [1, 2, 3]


def test_what_is_not_committed_yet_replaces_nothing_that_is_in_its_segment(memory):
    """A new leader may not have it: cut, it would have taken the committed record with it."""
    log = new_log(memory)
    for value, following in ((b"old", b""), (b"committed", b"uncommitted")):
        log.append_as_leader(batch(value, keys=[b"a"]), 0, now_ms=NOW)
        if following:
            log.append_as_leader(batch(following, keys=[b"a"]), 0, now_ms=NOW)
        log.roll(NOW)
    log.advance_high_watermark(2)
    clean(memory, log)
    memory.call(lambda: log.truncate_to(2))
    assert (1, b"a", b"committed") in content(memory, log)
    put(log, b"a", b"new")
    log.roll(NOW)
    clean(memory, log)
    assert content(memory, log) == [(2, b"a", b"new")]


def test_young_segments_wait(memory):
    log = new_log(memory, min_compaction_lag_ms=1000)
    put(log, b"a", b"1", timestamps=[NOW - 2000])
    put(log, b"a", b"2", timestamps=[NOW - 2000])
    log.roll(NOW)
    put(log, b"a", b"3", timestamps=[NOW - 10])
    log.roll(NOW)
    clean(memory, log)
    assert [offset for offset, _, _ in content(memory, log)] == [1, 2]


def test_how_dirty(memory):
    log = new_log(memory, max_compaction_lag_ms=5000)
    for i in range(4):
        put(log, b"a", b"%d" % i)
        log.roll(NOW)
    state = memory.run(cleanable(log, NOW))
    assert (state.first_dirty, state.end, state.ratio, state.must) == (0, 4, 1.0, False)
    assert memory.run(cleanable(log, NOW + 5001)).must
    clean(memory, log)
    assert memory.run(cleanable(log, NOW)).ratio == 0
    assert clean(memory, log) is None


def test_a_full_map_ends_the_round_early(memory):
    log = new_log(memory)
    for i in range(10):
        put(log, b"%d" % (i % 5), b"%d" % i)
    log.roll(NOW)
    assert clean(memory, log, keys_max=3).cleaned_to == 3
    assert len(content(memory, log)) == 10
    clean(memory, log)
    assert len(content(memory, log)) == 5


def test_a_log_cut_during_a_round_is_left_alone(memory):
    log = new_log(memory)
    for i in range(6):
        put(log, b"a", b"%d" % i)
    log.roll(NOW)
    put(log, b"a", b"x")
    job = log.compact(NOW)
    next(job)
    log.truncate_to(3)
    before = content(memory, log)
    assert memory.run(job) is None
    assert content(memory, log) == before
    assert not [n for n in memory.disk.list("t-0") if n.endswith((".cleaned", ".swap"))]
    assert not log.cleaning


def test_what_comes_where_a_log_was_cut_is_not_taken_for_clean(world):
    log = new_log(world, delete_retention_ms=1000)
    put(log, b"a", b"1")
    log.roll(NOW)
    put(log, b"b", b"2")
    put(log, b"b", b"3")
    log.roll(NOW)
    put(log, b"c", b"4")
    assert clean(world, log).cleaned_to == 3
    world.call(lambda: log.truncate_to(1))
    for key in (b"a", b"d", b"e"):  # the first deletes a key that the clean part still has
        put(log, key, None if key == b"a" else b"5")
        log.roll(NOW)
    put(log, b"f", b"6")
    clean(world, log)
    log.roll(NOW)
    put(log, b"g", b"7")
    clean(world, log, NOW + 1000)
    assert [(key, value) for _, key, value in content(world, log)] == [
        (b"d", b"5"),
        (b"e", b"5"),
        (b"f", b"6"),
        (b"g", b"7"),
    ], "what was deleted does not come back with its tombstone's end"


def test_a_cut_in_the_last_step_of_a_round_counts(memory):
    log = new_log(memory)
    for key in (b"a", b"b"):
        put(log, key, b"1")
    log.roll(NOW)
    put(log, b"c", b"2")
    round_ = log.compact(NOW)
    segments = log.segments
    while log.segments is segments:  # until the last group has taken its place, and its indexes are being written
        next(round_)
        memory.settle()
    log.truncate_to(1)
    memory.run(round_)
    assert log.cleaned_to <= 1


def test_what_retention_deletes_during_a_round_stays_deleted(memory):
    """After every step of a round that merges two segments, the first of them is deleted."""
    steps = 0
    while True:
        memory.disk.remove("t-0")
        log = new_log(memory, cleanup_policy=("compact", "delete"), retention_ms=-1)
        for i in range(2):
            put(log, b"a", b"%d" % i)
            put(log, b"b%d" % i, b"x")
            log.roll(NOW)
        put(log, b"a", b"last")
        job = log.compact(NOW)
        for _ in range(steps):
            memory.settle()  # what the last step waits for; what the very last one waits for stays open
            if next(job, job) is job:
                assert steps > 3
                return
        merged = log.bases == [0, 4]
        log.raise_log_start_offset(2)
        memory.run(log.retain(NOW))
        memory.settle()
        memory.run(job)
        if not merged:
            assert log.bases == [2, 4], f"step {steps}"
            assert [offset for offset, _, _ in content(memory, log)] == [2, 3, 4]
        assert not [n for n in memory.disk.list("t-0") if n.endswith((".cleaned", ".swap"))]
        steps += 1


def test_a_full_disk_ends_the_round_and_changes_nothing(memory):
    log = new_log(memory)
    for i in range(6):
        put(log, b"%d" % i, b"%d" % i)
    log.roll(NOW)
    put(log, b"0", b"x")
    memory.settle()
    before = content(memory, log)
    memory.disk.capacity = memory.disk.used + 100
    with pytest.raises(OSError) as caught:
        clean(memory, log)
    assert caught.value.errno == errno.ENOSPC
    assert content(memory, log) == before
    assert not [n for n in memory.disk.list("t-0") if n.endswith(".cleaned")]


@pytest.mark.parametrize("count", [1, 1000])
def test_a_name_that_cannot_be_changed_leaves_the_log_as_it_was_or_whole_anew(memory, count):
    """The old segments were renamed away, and removed later, while the log went on to read from them.

    One call fails, or all from that one on: then not even names can be put back, and the next start finishes it.
    """
    nth, failed = 1, 0
    while True:
        memory.disk = MemoryDisk()
        log = new_log(memory, segment_bytes=300, index_interval_bytes=50)
        away: list[str] = []
        log.discard = away.extend
        for i in range(20):
            put(log, b"%d" % (i % 4), b"%d" % i)
        memory.run(log.flush())
        memory.settle()
        memory.disk.faults.refuse(nth, count, errno.EIO)
        first_call = memory.disk.faults.calls + nth
        refused = False
        try:
            clean(memory, log)
        except (OSError, KafkaError):
            refused = True
        if memory.disk.faults.calls < first_call:
            assert failed > 5
            return
        memory.disk.faults.refuse(0, 0)
        for path in away:
            memory.disk.remove(path)
        failed += log.failed is None and refused
        now = content(memory, log)
        assert {key: value for _, key, value in now} == {b"%d" % key: b"%d" % (16 + key) for key in range(4)}
        if log.failed is None:
            put(log, b"0", b"later")
            log.roll(NOW)
            put(log, b"last", b"x")
            clean(memory, log)
            assert [key for _, key, _ in content(memory, log)] == [b"1", b"2", b"3", b"0", b"last"], nth
            now = content(memory, log)
        memory.settle()
        log.release()
        log = memory.open_log(clean=False, config=log.config, recovery_point=20, high_watermark=20)
        again = content(memory, log)
        assert again == now or set(again) <= set(now), nth
        newest = {key: value for _, key, value in again}
        assert newest == {key: value for _, key, value in now}, nth
        assert len({offset for offset, _, _ in again}) == len(again)
        nth += 1


def test_the_cleaner_unpacks_a_little_on_the_loop_and_the_rest_aside(memory, monkeypatch):
    asked = []
    aside = memory.disk.aside

    def counted(work, done):
        asked.append(1)
        aside(work, done)

    monkeypatch.setattr(memory.disk, "aside", counted)
    for size, expected in ((1000, 0), (BYTES_AT_ONCE, 2)):  # once for the map, once for the rewrite
        log = new_log(memory)
        (append if not expected else partial(append_apart, memory))(
            log, b"a" * size, b"b" * size, keys=[b"k", b"k"], codec=4
        )
        log.roll(NOW)
        put(log, b"x", b"")
        asked.clear()
        clean(memory, log)
        assert len(asked) == expected
        assert [offset for offset, _, _ in content(memory, log)] == [1, 2]
        memory.run(log.close())


def test_a_group_is_small_enough_to_be_replaced_in_one_step(memory):
    log = new_log(memory)
    for i in range(100):
        put(log, b"%d" % (i % 7), b"v")
        log.roll(NOW)
    result = clean(memory, log)
    assert (result.segments_before, result.segments_after) == (100, 4)


class Killed(BaseException):
    """The process ends here."""


class KillingDisk(MemoryDisk):
    """Ends the process before the call of that number which changes a name."""

    def __init__(self):
        super().__init__()
        self.calls_left = -1

    def _count(self):
        if self.calls_left == 0:
            raise Killed
        self.calls_left -= 1

    def open(self, path, *, create=False):
        if create:
            self._count()
        return super().open(path, create=create)

    def rename(self, old, new):
        self._count()
        super().rename(old, new)

    def remove(self, path):
        self._count()
        super().remove(path)


def test_a_kill_between_any_two_changes_of_names_leaves_every_offset_readable(memory):
    """An index that was left beside the segment that took the place of its own would lead reads astray."""
    kills = 0
    while True:
        memory.disk = KillingDisk()
        log = new_log(memory, segment_bytes=3000, index_interval_bytes=600)
        for i in range(100):
            put(log, b"%d" % (i or 50), b"v%d" % i)
        memory.run(log.flush())
        memory.settle()
        memory.disk.calls_left = kills
        try:
            clean(memory, log)
        except Killed:
            memory.disk.calls_left = -1
        else:
            assert kills > 10
            return
        log = memory.open_log(clean=False, config=log.config, recovery_point=100, high_watermark=100)
        for offset in range(1, 100):
            data = memory.call(partial(log.read, offset, 1, Isolation.LOG_END)).records
            assert [h.base_offset for h in headers_in(data)] == [offset], f"killed before call {kills}"
        kills += 1


def test_power_loss_at_any_step_loses_no_key(memory):
    """The disk goes down after every single step of a round; the newest value of each key is always there."""
    for stop in range(1, 60):
        memory.disk.remove("t-0")
        log = new_log(memory, segment_bytes=300)
        for i in range(20):
            put(log, b"%d" % (i % 4), b"%d" % i)
        memory.run(log.flush())
        memory.settle()
        job = log.compact(NOW)
        ended = False
        for _ in range(stop):
            try:
                token = next(job)
            except StopIteration:
                ended = True
                break
            if token is not None:
                memory.disk.deliver()
        memory.disk.crash()
        log = memory.open_log(clean=False, config=log.config, recovery_point=20, high_watermark=20)
        newest = {key: value for _, key, value in content(memory, log)}
        assert newest == {b"%d" % k: b"%d" % (16 + k) for k in range(4)}
        assert log.log_end_offset == 20
        if ended:
            return
    raise AssertionError("the round never ended")
