"""All that a log still has is read, whatever stands between: wrong bits, zeros, foreign bytes, other segments."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.config import TopicConfig
from barnabas.broker.log import apart as apart_module
from barnabas.broker.log import replay as replaying
from barnabas.broker.log import salvage as salvaging
from barnabas.broker.log.replay import RECORDS_PER_STEP
from barnabas.broker.log.salvage import salvage
from barnabas.broker.log.segment import Segment
from barnabas.protocol import batch as batch_module
from barnabas.protocol.batch import HEADER_SIZE, LENGTH_AT, LOG_OVERHEAD, set_crc, set_place
from barnabas.protocol.primitives import crc32c
from barnabas.protocol.records import Record, record_area
from tests.broker.log.harness import NOW, append, batch, everything

COUNT = 20


@pytest.fixture(params=["memory", "late"])
def disk(request, memory):
    memory.disk.late = request.param == "late"
    return memory


def new_log(memory, values=COUNT, roll_at=-1):
    """One record in each batch; where each batch begins, and the size of all."""
    log = memory.new_log()
    starts = []
    for number in range(values):
        if number == roll_at:
            log.roll(NOW)
        starts.append(log.active.size)
        append(log, b"%04d" % number)
    return log, starts, starts[1]


def nothing_is_lost(first, last, reason):
    raise AssertionError(reason)


def read(memory, log):
    """The values that are found, and what is told of what is not."""
    found: list[int] = []
    told: list[tuple[int, int, str]] = []
    memory.run(
        salvage(
            log,
            lambda _, records: found.extend(int(one.value or b"") for one in records),
            lambda *one: told.append(one),
        )
    )
    return found, told


def test_all_records_come_in_order_in_pieces_of_bounded_size(world):
    log = world.new_log()
    many = [b"%d" % number for number in range(2, 2 * RECORDS_PER_STEP + 3)]
    append(log, b"0", b"1")
    append(log, *many, codec=1)
    log.roll(NOW)
    append(log, b"%d" % (len(many) + 2))
    sizes = []
    found: list[int] = []

    def take(header, records):
        sizes.append(len(records))
        found.extend(int(one.value or b"") for one in records)

    world.run(salvage(log, take, nothing_is_lost))
    assert found == list(range(len(many) + 3))
    assert max(sizes) == RECORDS_PER_STEP


@pytest.mark.parametrize("which", [0, 6, 7, COUNT - 1], ids=["first", "inside", "ends a window", "last"])
def test_one_wrong_bit_costs_the_batch_that_it_is_in_and_no_other(disk, monkeypatch, which):
    """By its offset or its length all that followed was passed over, or read for ever, or nothing was read at all."""
    log, starts, size = new_log(disk)
    monkeypatch.setattr(salvaging, "_WINDOW", 8 * size)
    path = log.active.file.path
    others = [number for number in range(COUNT) if number != which]
    for byte in range(HEADER_SIZE + 2):
        for bit in (1, 7):
            disk.disk.flip(path, starts[which] + byte, bit)
            found, told = read(disk, log)
            disk.disk.flip(path, starts[which] + byte, bit)
            if byte < 8 or 12 <= byte < 16:  # offset and epoch are outside of the sum: the records are whole
                assert (found, told) == (list(range(COUNT)), [])
            else:
                assert found == others, (byte, bit)
                assert [one[:2] for one in told] == [(which, which)]
                assert f"byte {starts[which]} of {path}" in told[0][2]
    assert read(disk, log) == (list(range(COUNT)), [])


def test_one_wrong_bit_of_an_offset_was_enough_for_what_goes_by_offsets(memory, monkeypatch):
    """What this is for: who believes offsets is led past all that follows."""
    log, starts, size = new_log(memory)
    monkeypatch.setattr(replaying, "_WINDOW", 8 * size)
    memory.disk.flip(log.active.file.path, starts[7] + 7, 3)
    found: list[int] = []
    memory.run(replaying.replay(log, 0, lambda _, records: found.extend(int(one.value or b"") for one in records)))
    assert found != list(range(COUNT))
    assert read(memory, log)[0] == list(range(COUNT))


@pytest.mark.parametrize(("roll_at", "first", "last"), [(-1, 3, 9), (10, 7, 9), (10, 0, 9), (10, 8, 12), (-1, 15, 19)])
def test_what_is_no_batch_any_more_is_told_and_all_else_is_read(disk, monkeypatch, roll_at, first, last):
    """Zeros over several batches, to the end of a segment or beyond, and over a whole one."""
    log, starts, size = new_log(disk, roll_at=roll_at)
    monkeypatch.setattr(salvaging, "_WINDOW", 3 * size)
    for number in range(first, last + 1):
        path = log.segments[-1 if number >= roll_at else 0].file.path
        for byte, content in enumerate(disk.disk.load(path)[starts[number] : starts[number] + size]):
            for bit in range(8):
                if content >> bit & 1:
                    disk.disk.flip(path, starts[number] + byte, bit)
    found, told = read(disk, log)
    assert found == [number for number in range(COUNT) if not first <= number <= last]
    assert (told[0][0], told[-1][1]) == (first, last)


def test_a_batch_within_the_records_of_another_is_none(disk):
    """Whoever writes a value that looks like a batch is not read in its place, if the place is known otherwise."""
    log = disk.new_log()
    append(log, b"0")
    forged = bytes(disk.disk.load(log.active.file.path)) + b"1"
    start = log.active.size
    append(log, forged)
    append(log, b"2")
    disk.disk.flip(log.active.file.path, start + HEADER_SIZE, 0)
    assert read(disk, log)[0] == [0, 2]


def test_what_compaction_replaces_meanwhile_is_read_in_its_place(disk, monkeypatch):
    log = disk.new_log(cleanup_policy=("compact",))
    for number in range(COUNT):
        append(log, b"%d" % number, keys=[b"%d" % (number % 3)])
    monkeypatch.setattr(salvaging, "_WINDOW", 3 * log.active.size // COUNT)
    log.roll(NOW)
    append(log, b"20", keys=[b"0"])
    newest: dict[bytes, int] = {}

    def take(header, records):
        newest.update((bytes(one.key or b""), int(one.value or b"")) for one in records)

    steps = salvage(log, take, nothing_is_lost)
    while len(newest) < 3:
        if next(steps) is not None:
            disk.deliver()
    disk.run(log.compact(NOW + 1, keys_max=100))
    assert len(everything(disk, log)) < COUNT
    disk.run(steps)
    assert newest == {b"0": 20, b"1": 19, b"2": 17}


# What damage costs


MEBIBYTE = 1024 * 1024
HOSTILE = bytes([0, 2, 0, 0, 1])
"""Repeated, each fifth byte begins what looks like a batch of 65,550 bytes: length, magic, count and delta are good."""


@pytest.fixture
def sums(memory, monkeypatch):
    """Reads a log, and counts the bytes that are summed up: what is found, the most in one step, and all."""

    def counted(log):
        summed, most, total = 0, 0, 0

        def counting(data, value=0):
            nonlocal summed
            summed += len(data)
            return crc32c(data, value)

        for module in (batch_module, salvaging):
            monkeypatch.setattr(module, "crc32c", counting, raising=False)
        found: list[int] = []
        steps = salvage(
            log,
            lambda _, records: found.extend(int(one.value or b"") for one in records),
            lambda first, last, reason: None,
        )
        for token in steps:
            assert token is None
            most, total, summed = max(most, summed), total + summed, 0
        return found, max(most, summed), total + summed

    return counted


def long_value(number, size):
    return b"%04d" % number + b" " * size


def test_bytes_that_look_like_many_batches_are_summed_up_one_in_a_step_and_not_all(memory, sums):
    """Whoever commits such bytes as metadata held a broker for 44 s in one step, once a bit before them was wrong."""
    log = memory.new_log()
    append(log, b"0000")
    start = log.active.size
    append(log, HOSTILE * 7000)
    for number in range(2, COUNT):
        append(log, long_value(number, 6000))
    memory.disk.flip(log.active.file.path, start + LENGTH_AT, 5)
    found, most, total = sums(log)
    assert found in ([0, *range(2, COUNT)], [0, *range(3, COUNT)])
    assert most <= MEBIBYTE
    assert total <= 16 * MEBIBYTE, "7000 times 64 KiB"


def test_batches_that_are_found_within_a_broken_one_earn_no_new_tries(memory, sums):
    """What was spent in vain counts for the whole segment: each find began the next search with a full purse."""
    log = memory.new_log()
    append(log, b"0000")
    whole = bytes(memory.disk.load(log.active.file.path))
    start = log.active.size
    lie = b"\0" * LENGTH_AT + (128 * 1024).to_bytes(4, "big") + b"\0\0\0\0\2" + b"\0" * (HEADER_SIZE - 17)
    append(log, (whole + lie) * 1000)
    for number in range(2, COUNT):
        append(log, long_value(number, 20_000))
    memory.disk.flip(log.active.file.path, start + LENGTH_AT, 5)
    found, most, total = sums(log)
    assert sorted({*found}) in ([0, *range(2, COUNT)], [0, *range(3, COUNT)])
    assert most <= MEBIBYTE
    assert total <= 64 * MEBIBYTE, "1000 times 128 KiB, or more"


@pytest.mark.parametrize("which", [0, 5])
def test_a_wrong_high_bit_of_a_length_is_summed_up_in_steps(memory, sums, which):
    """All that the length spans was read and summed up in one step, up to a whole segment."""
    log = memory.new_log()
    starts = []
    for number in range(COUNT):
        starts.append(log.active.size)
        append(log, long_value(number, 200_000))
    memory.disk.flip(log.active.file.path, starts[which] + LENGTH_AT + 1, 5)
    found, most, _ = sums(log)
    assert found == [number for number in range(COUNT) if number != which]
    assert most <= MEBIBYTE


@pytest.mark.parametrize("broken", [False, True])
def test_a_batch_of_any_size_is_read_in_bounded_steps(memory, sums, broken):
    """Where it begins is known, so that no bound counts: it was written when the topic took more."""
    log = memory.new_log(max_message_bytes=8 * MEBIBYTE)
    append(log, b"0000")
    start = log.active.size
    append(log, b"0001")
    large = batch(long_value(2, 6 * MEBIBYTE))
    set_place(large, 0, 2, len(large) - LOG_OVERHEAD, 0)
    log.append_as_follower(memoryview(large))  # at once, in the midst of a segment, as a leader wrote it once
    append(log, b"0003")
    log.configure(TopicConfig())
    if broken:
        memory.disk.flip(log.active.file.path, start + HEADER_SIZE, 0)
    found, most, _ = sums(log)
    assert found == ([0, 2, 3] if broken else [0, 1, 2, 3])
    assert most <= MEBIBYTE


def test_a_batch_that_holds_more_than_any_honest_one_is_named_and_passed_over(disk, monkeypatch):
    """A few KB were unpacked to 128 MiB and kept whole, and so were those of each other partition beside it."""
    monkeypatch.setattr(salvaging, "UNPACKED_BYTES_MAX", 2 * MEBIBYTE)
    log = disk.new_log()
    append(log, b"0000")
    append(log, long_value(1, 2 * MEBIBYTE), codec=4)
    append(log, long_value(2, 2 * MEBIBYTE - 1000), codec=4)
    append(log, *[b"3"] * (RECORDS_PER_STEP + 1))
    append(log, b"0004")
    found, told = read(disk, log)
    assert (found[:2], found[-2:]) == ([0, 2], [3, 4])
    ((first, last, reason),) = told
    assert (first, last) == (1, 1)
    assert reason.endswith(f"hold more than {2 * MEBIBYTE} bytes, the most allowed")
    log.apart.records_max = RECORDS_PER_STEP
    found, told = read(disk, log)
    assert found == [0, 2, 4]
    assert [one[:2] for one in told] == [(1, 1), (3, 3 + RECORDS_PER_STEP)]


def test_what_holds_much_is_unpacked_in_a_thread_one_at_a_time_over_all_logs(memory, monkeypatch):
    """Each partition's loading is a job of its own, and unpacked on the loop, beside all others."""
    begun = []
    monkeypatch.setattr(memory.disk, "aside", lambda work, done: begun.append((work, done)))
    logs = [memory.new_log(), memory.new_log()]
    for log in logs:
        log.apart = logs[0].apart
        append(log, long_value(1, 2 * MEBIBYTE), codec=4)
    found: list[int] = []
    jobs = [
        salvage(log, lambda _, records: found.extend(int(one.value or b"") for one in records), nothing_is_lost)
        for log in logs
    ]
    waits: list[Any] = [next(token for token in job if token is not None) for job in jobs]
    assert (len(begun), found) == (1, [])
    work, done = begun[0]
    work()
    done(None)
    assert (waits[0].is_open, waits[1].is_open) == (True, False)
    assert next(jobs[0]) is None
    assert (found, len(begun), waits[1].is_open) == ([1], 1, False), "it is kept while it is gone through"
    assert not any(jobs[0])
    assert waits[1].is_open, "then it is the other's turn"
    jobs[1].close()


@pytest.mark.parametrize("cut", [0, 5], ids=["whole", "broken"])
def test_many_small_batches_that_hold_a_mebibyte_each_are_not_unpacked_in_one_step(memory, monkeypatch, cut):
    """A window of 32 KiB has hundreds of them."""
    log = memory.new_log()
    whole = batch(long_value(1, 900_000), codec=4)
    del whole[len(whole) - cut :]
    set_place(whole, 0, 0, len(whole) - LOG_OVERHEAD, 0)
    set_crc(whole, 0, len(whole))
    for _ in range(COUNT):
        log.append_as_leader(memoryview(bytearray(whole)), 0, now_ms=NOW)
    unpacked, most = 0, 0

    def counting(*args):
        nonlocal unpacked
        unpacked += 1
        return record_area(*args)

    monkeypatch.setattr(apart_module, "record_area", counting)
    found: list[Record] = []
    told: list[tuple[int, int, str]] = []
    for token in salvage(log, lambda _, records: found.extend(records), lambda *one: told.append(one)):
        assert token is None
        most, unpacked = max(most, unpacked), 0
    assert (len(found), len(told), most) == ((0, COUNT, 1) if cut else (COUNT, 0, 1))


def test_other_segments_are_not_looked_through_for_each_batch(memory):
    """Where a segment ends was asked of all segments, for each batch: 20 s for a million with 200 segments."""
    bases = 0

    class Counted(list[Segment]):
        def __iter__(self):
            nonlocal bases
            bases += len(self)
            return super().__iter__()

    log = memory.new_log()
    for number in range(30 * COUNT):
        if number and not number % 30:
            log.roll(NOW)
        append(log, b"%04d" % number)
    log.segments = Counted(log.segments)
    found, told = read(memory, log)
    assert (found, told) == (list(range(30 * COUNT)), [])
    assert bases <= COUNT * COUNT, "each once for each"


def test_a_segment_that_was_the_last_ends_where_the_next_begins(memory, monkeypatch):
    """What is lost is told up to there, and the place goes on, if a roll comes while the segment is read."""
    log, starts, size = new_log(memory)
    monkeypatch.setattr(salvaging, "_WINDOW", 8 * size)
    memory.disk.flip(log.active.file.path, starts[-1] + HEADER_SIZE, 0)
    found: list[int] = []
    told: list[tuple[int, int]] = []
    steps = salvage(
        log,
        lambda _, records: found.extend(int(one.value or b"") for one in records),
        lambda first, last, reason: told.append((first, last)),
    )
    next(steps)
    log.roll(NOW)
    append(log, b"%04d" % COUNT)
    memory.run(steps)
    assert found == [*range(COUNT - 1), COUNT]
    assert told == [(COUNT - 1, COUNT - 1)]
