"""All that a log still has is read, whatever stands between: wrong bits, zeros, foreign bytes, other segments."""

from __future__ import annotations

import pytest

from barnabas.broker.log import replay as replaying
from barnabas.broker.log import salvage as salvaging
from barnabas.broker.log.replay import RECORDS_PER_STEP
from barnabas.broker.log.salvage import salvage
from barnabas.protocol.batch import HEADER_SIZE
from tests.broker.log.harness import NOW, append, everything

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
