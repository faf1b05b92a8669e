"""Reading by offset and by time; what a reader sees, and where it lies."""

from __future__ import annotations

import pytest

from barnabas.broker.log import Isolation, OffsetMetadata, TimestampOffset
from barnabas.protocol.errors import ErrorCode, KafkaError
from tests.broker.log.harness import NOW, append, batch, headers_in, records_in

END = Isolation.LOG_END
HW = Isolation.HIGH_WATERMARK


def filled(world, count=40, per_batch=5, **settings):
    settings.setdefault("index_interval_bytes", 200)
    log = world.new_log(**settings)
    for i in range(count):
        append(log, *[b"%d" % (i * per_batch + j) for j in range(per_batch)], timestamps=[NOW + i] * per_batch)
    return log


def test_any_offset_gives_the_batch_that_contains_it(world):
    log = filled(world, segment_bytes=1500)
    assert len(log.segments) > 3
    for offset in range(log.log_end_offset):
        data = world.call(lambda offset=offset: log.read(offset, 1, END))
        header = headers_in(data.records)[0]
        assert header.base_offset == offset - offset % 5
        assert len(headers_in(data.records)) == 1
        assert data.start == world.call(lambda offset=offset: log.offset_metadata(offset))


def test_out_of_range(memory):
    log = filled(memory, 2)
    log.raise_log_start_offset(3)
    for offset in (-1, 2, 11):
        with pytest.raises(KafkaError) as caught:
            log.read(offset, 100, END)
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(3, 100, END).start.offset == 3


def test_at_the_visible_end_there_is_nothing(memory):
    log = memory.new_log()
    log.append_as_leader(batch(b"a"), 0, now_ms=NOW)
    log.append_as_leader(batch(b"b"), 0, now_ms=NOW)
    log.advance_high_watermark(1)
    assert len(log.read(2, 100, END).records) == 0
    for isolation in (HW, Isolation.TXN_COMMITTED):
        assert [r.value for r in records_in(log.read(0, 1 << 20, isolation).records)] == [b"a"]
        at_end = log.read(1, 100, isolation)
        assert at_end.records == b""
        assert at_end.start == OffsetMetadata(1, 0, len(batch(b"a")))
        beyond = log.read(2, 100, isolation)
        assert (beyond.records, beyond.start) == (b"", log.log_end_metadata)
        assert (beyond.high_watermark, beyond.log_end_offset, beyond.log_start_offset) == (1, 2, 0)


def test_first_batch_whole_even_if_larger_than_asked(world):
    log = world.new_log()
    append(log, b"x" * 100_000)
    append(log, b"y")
    size = len(batch(b"x" * 100_000))
    assert len(world.call(lambda: log.read(0, 1000, HW)).records) == size
    assert len(world.call(lambda: log.read(0, 0, HW)).records) == size
    assert len(world.call(lambda: log.read(0, 1000, HW, min_one=False)).records) == 0
    assert len(world.call(lambda: log.read(0, size, HW, min_one=False)).records) == size


def test_the_byte_limit_may_cut_the_last_batch(world):
    log = filled(world, 3)
    size = len(world.call(lambda: log.read(0, 1, END)).records)
    data = world.call(lambda: log.read(0, size + 10, END))
    assert len(data.records) == size + 10


def test_one_read_stays_in_one_segment(world):
    log = filled(world, segment_bytes=1000)
    data = world.call(lambda: log.read(0, 1 << 20, END))
    assert headers_in(data.records)[-1].next_offset == log.bases[1]


def test_reads_hold_through_truncation(world):
    log = filled(world, 20)
    view = world.call(lambda: log.read(0, 1 << 20, END)).records
    before = bytes(view)
    world.call(lambda: log.truncate_to(20))
    append(log, b"new" * 1000)
    assert bytes(view) == before


def test_tail_reads_need_no_index(memory):
    log = filled(memory, 3)
    log.active.offsets.data = b"broken!!"
    assert headers_in(log.read(10, 1, HW).records)[0].base_offset == 10


def test_timestamps(world):
    log = world.new_log(retention_ms=-1)
    for time in (100, 300, 200):
        append(log, b"v", timestamps=[time])
    assert world.call(log.offset_of_max_timestamp) == TimestampOffset(300, 1, 0)
    assert world.call(lambda: log.offset_for_timestamp(150)) == TimestampOffset(300, 1, 0)
    assert world.call(lambda: log.offset_for_timestamp(100)) == TimestampOffset(100, 0, 0)
    assert world.call(lambda: log.offset_for_timestamp(301)) is None


def test_timestamps_inside_a_batch_and_behind_the_log_start(world):
    log = world.new_log()
    append(log, b"a", b"b", b"c", timestamps=[10, 30, 20], codec=4)
    append(log, b"d", timestamps=[15])
    assert world.call(lambda: log.offset_for_timestamp(15)) == TimestampOffset(30, 1, 0)
    assert world.call(log.offset_of_max_timestamp) == TimestampOffset(30, 1, 0)
    log.raise_log_start_offset(2)
    assert world.call(lambda: log.offset_for_timestamp(15)) == TimestampOffset(20, 2, 0)


@pytest.mark.parametrize("clean", [True, False])
def test_timestamps_over_segments_and_restarts(world, clean):
    log = filled(world, segment_bytes=1500)
    for restarted in (False, True):
        log_now = world.restart(log, clean=clean) if restarted else log
        for i in range(40):
            assert world.call(lambda i=i, log=log_now: log.offset_for_timestamp(NOW + i)) == (NOW + i, i * 5, 0)
        assert world.call(log_now.offset_of_max_timestamp) == (NOW + 39, 195, 0)


def test_an_empty_log_has_no_time(memory):
    log = memory.new_log()
    assert log.offset_of_max_timestamp() is None
    assert log.offset_for_timestamp(0) is None


def test_equal_timestamps_find_the_first(memory):
    log = memory.new_log()
    append(log, b"a", b"b", timestamps=[5, 9])
    append(log, b"c", timestamps=[9])
    assert log.offset_of_max_timestamp() == (9, 1, 0)
    assert log.offset_for_timestamp(9) == (9, 1, 0)
