"""Indexes have no sum: what a wrong bit in one says hides no record, and lets none go before its time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from barnabas.broker.log import Isolation, Log
from barnabas.broker.log.index_room import INDEX_INTERVAL_MAX
from barnabas.broker.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from tests.broker.log.harness import NOW, World, append, batch, headers_in

PER_BATCH = 3
BATCHES = 30
SETTINGS = {"segment_bytes": 10 * len(batch(b"v", b"v", b"v")), "index_interval_bytes": 100, "retention_ms": 1000}
END = PER_BATCH * BATCHES


def closed(world: World) -> Log:
    """Three segments, all with indexes of many entries; released after a clean end."""
    log = world.new_log(**SETTINGS)
    for number in range(BATCHES):
        append(log, b"v", b"v", b"v", timestamps=[NOW + number] * PER_BATCH)
    assert len(log.segments) == 3
    world.run(log.close())
    world.settle()
    return log


def reopened(world: World, log: Log) -> Log:
    world.reopen()
    return world.open_log(clean=True, config=log.config, high_watermark=END)


def flips(world: World, path: str) -> Iterator[str]:
    """Every bit of a file in turn is another; what is the matter then."""
    for at in range(len(world.disk.load(path))):
        for bit in range(8):
            world.disk.flip(path, at, bit)
            yield f"bit {bit} of byte {at} of {path}"
            world.disk.flip(path, at, bit)


def first_given(world: World, log: Log, offset: int) -> int:
    data = world.call(lambda: log.read(offset, 1, Isolation.LOG_END))
    return headers_in(data.records)[0].base_offset


@pytest.mark.parametrize("number", [0, 2], ids=["sealed", "active"])
def test_no_wrong_bit_of_an_index_hides_a_record(memory, number):
    log = closed(memory)
    for what in flips(memory, log.segments[number].path(INDEX_SUFFIX)):
        log = reopened(memory, log)
        assert log.log_end_offset == END, what
        for offset in range(END):
            assert first_given(memory, log, offset) == offset - offset % PER_BATCH, f"{what}: {offset}"
        log.release()


def test_an_index_that_is_all_wrong_hides_no_record_and_is_made_anew(world):
    """Each of its entries has the place of the next one."""
    log = closed(world)
    first = log.segments[0].path(INDEX_SUFFIX)
    right = world.disk.load(first)
    wrong = b"".join(right[at : at + 4] + right[at + 12 : at + 16] for at in range(0, len(right) - 8, 8))
    world.disk.write_atomic(first, wrong)
    log = reopened(world, log)
    for offset in range(END):
        assert first_given(world, log, offset) == offset - offset % PER_BATCH
    assert log.losses.failed_reads == 1, "it is said once"
    world.run(log.mend_indexes())
    log.write_again()
    world.settle()
    assert world.disk.load(first) == right
    assert log.segments[0].indexes_saved
    for offset in range(END):
        assert first_given(world, log, offset) == offset - offset % PER_BATCH
    assert log.losses.failed_reads == 1


def test_no_wrong_bit_of_a_time_index_hides_a_record_behind_an_entry(memory):
    log = closed(memory)
    path = log.segments[0].path(TIME_INDEX_SUFFIX)
    last = len(memory.disk.load(path)) - 12
    for what in flips(memory, path):
        if int(what.split()[4]) < last:
            log = reopened(memory, log)
            for number in range(10):
                found = memory.call(partial(log.offset_for_timestamp, NOW + number))
                assert found[:2] == (NOW + number, number * PER_BATCH), what
            log.release()


def test_no_wrong_bit_of_a_time_index_lets_records_go_before_their_time(memory):
    log = closed(memory)
    for what in flips(memory, log.segments[0].path(TIME_INDEX_SUFFIX)):
        log = reopened(memory, log)
        assert memory.run(log.retain(NOW + 9 + 1000)) == 0, what
        assert memory.run(log.retain(NOW + 10_000_000)) == 3, what
        log.release()
        memory.disk.remove("t-0")
        log = closed(memory)


def test_a_wrong_place_in_the_index_of_the_active_segment_is_no_loss(memory):
    log = closed(memory)
    path = log.active.path(INDEX_SUFFIX)
    memory.disk.flip(path, len(memory.disk.load(path)) - 1, 0)
    log = reopened(memory, log)
    assert log.log_end_offset == END
    assert log.losses.count == 0
    assert not [name for name in memory.disk.list("t-0") if name.endswith(".cut")]


def test_a_wrong_bit_of_an_index_lets_no_producer_be_forgotten(memory):
    log = memory.new_log(**SETTINGS)
    for number in range(BATCHES):
        append(log, b"v", b"v", b"v", timestamps=[NOW + number] * PER_BATCH, pid=number, epoch=0, sequence=0)
    memory.run(log.close())
    memory.settle()
    for name in memory.disk.list("t-0"):
        if name.endswith(".snapshot"):
            memory.disk.remove(f"t-0/{name}")
    state = log.producers.snapshot()
    for what in flips(memory, log.segments[0].path(INDEX_SUFFIX)):
        memory.disk.write_atomic("t-0/00000000000000000006.snapshot", _state_of(log, 2))
        log = reopened(memory, log)
        assert log.producers.snapshot() == state, what
        log.release()


def test_entries_are_never_far_from_each_other(memory):
    """With none, each fetch passed all batches before its offset: 200 ms where there were 200,000."""
    log = memory.new_log(index_interval_bytes=2**31 - 1)
    while log.segments[0].size < 5 * INDEX_INTERVAL_MAX:
        append(log, b"v" * 500)
    entries = log.segments[0].index_entries
    assert 3 <= entries <= 5
    log.advance_high_watermark(log.log_end_metadata)
    assert memory.call(lambda: log.read(log.log_end_offset - 2, 1000, Isolation.HIGH_WATERMARK, True)).records


def _state_of(log: Log, count: int) -> bytes:
    """A snapshot of the first `count` producers alone."""
    state = type(log.producers)()
    for producer_id in range(count):
        state.producers[producer_id] = log.producers.producers[producer_id]
    return state.snapshot()


@pytest.mark.parametrize("interval", [0, 100, 200, 10_000])
def test_what_a_cut_leaves_is_found_by_time(memory, interval):
    """Wherever it is cut: at a batch that the indexes name, and anywhere between two."""
    for end in range(1, 30):
        log = memory.new_log(index_interval_bytes=interval, segment_bytes=15 * len(batch(b"x")))
        times = [NOW + 2 * (number ^ 1) for number in range(30)]  # every second one is older than the one before
        for time in times:
            append(log, b"x", timestamps=[time])
        memory.settle()
        memory.call(lambda: log.truncate_to(end))  # noqa: B023
        for wanted in range(NOW, NOW + 62, 2):
            found = memory.call(lambda: log.offset_for_timestamp(wanted))  # noqa: B023
            first = next((offset for offset in range(end) if times[offset] >= wanted), None)
            assert (found and found.offset) == first
        youngest = memory.call(log.offset_of_max_timestamp)
        assert youngest.timestamp == max(times[:end])
        log.release()
        memory.disk.remove(log.directory)
