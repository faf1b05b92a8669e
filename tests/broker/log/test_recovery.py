"""Starting: clean and not, with tails, indexes and leftovers of every kind."""

from __future__ import annotations

import os

import pytest

from barnabas.broker.log import OffsetMetadata, checkpoint
from barnabas.broker.memory_disk import MemoryFile
from barnabas.protocol.ids import ZERO_UUID
from tests.broker.log.harness import NOW, TOPIC_ID, World, append, batch, everything


def filled(world, count=30, **settings):
    log = world.new_log(**{"segment_bytes": 800, "index_interval_bytes": 200, **settings})
    for i in range(count):
        append(log, b"%d" % i, b"x", leader_epoch=i // 10, timestamps=[NOW + i] * 2)
    return log


def cut(world, path, size):
    """Cut a file on disk, as a crash would."""
    if world.kind == "real":
        with open(world.path / path, "r+b") as file:
            file.truncate(size)
    else:
        file = world.disk.open(path)
        file.truncate(size)


def write(world, path, data):
    if world.kind == "real":
        (world.path / path).write_bytes(data)
    else:
        world.disk.write_atomic(path, data)


def put_back(world, path, change):
    write(world, path, bytes(change(bytearray(world.disk.load(path)))))


def files(world, suffix):
    return [name for name in world.disk.list("t-0") if name.endswith(suffix)]


@pytest.mark.parametrize("clean", [True, False])
def test_everything_is_there_after_a_restart(world, clean):
    log = filled(world)
    before = (log.log_end_offset, log.bases, log.epochs.entries, everything(world, log))
    log = world.restart(log, clean=clean, high_watermark=40)
    assert (log.log_end_offset, log.bases, log.epochs.entries, everything(world, log)) == before
    assert log.high_watermark == 40
    assert log.topic_id == TOPIC_ID
    assert append(log, b"next").first_offset == 60


def test_the_recovery_point_of_a_clean_start_is_the_end(world):
    log = world.restart(filled(world), clean=True)
    assert log.recovery_point == log.log_end_offset


def test_a_clean_start_reads_no_old_segment(memory):
    log = filled(memory)
    memory.run(log.close())
    path = f"t-0/{log.bases[0]:020d}.log"
    put_back(memory, path, lambda data: data[:70] + b"\xff" + data[71:])
    log = memory.open_log(clean=True, config=log.config)
    assert log.log_end_offset == 60


def test_a_torn_tail_is_cut(world):
    log = filled(world)
    size = log.active.size
    base = log.active.base
    log = restart_after(world, log, lambda path: cut(world, path, size - 5))
    assert log.log_end_offset == 58
    assert [r.offset for r in everything(world, log)] == list(range(58))
    assert log.active.base == base
    assert append(log, b"z").first_offset == 58
    assert world.call(log.offset_of_max_timestamp).offset in (56, 58)


def restart_after(world, log, damage, **points):
    path = log.active.path(".log")
    log.release()
    world.settle()
    damage(path)
    world.reopen()
    return world.open_log(clean=False, config=log.config, **points)


def test_a_flipped_bit_ends_the_log_there_and_later_segments_go(world):
    log = filled(world)
    first, second = log.bases[:2]
    path = f"t-0/{second:020d}.log"
    log.release()
    world.settle()

    def flip(data):
        data[len(data) // 2] ^= 4
        return data

    put_back(world, path, flip)
    world.reopen()
    log = world.open_log(clean=False, config=log.config)
    assert log.bases == [first, second]
    assert second < log.log_end_offset < 60
    assert [r.offset for r in everything(world, log)] == list(range(log.log_end_offset))
    assert log.epochs.entries[-1][1] < log.log_end_offset
    assert all(snapshot <= log.log_end_offset for snapshot in log.snapshots)


def test_any_flipped_bit_is_found_but_in_what_the_sum_leaves_out(memory):
    """Of the middle one of three batches every byte in turn; base offset and leader epoch lie outside the sum."""
    size = len(batch(b"value"))
    outside = {*range(4, 8), *range(12, 16)}  # an offset that is wrong by more than 2**31 leaves its segment
    for at in range(size):
        memory.disk.remove("t-0")
        log = memory.new_log()
        for _ in range(3):
            append(log, b"value")
        log.release()
        memory.disk.flip(log.active.path(".log"), size + at, 7)
        log = memory.open_log(clean=False, config=log.config)
        if at not in outside:
            assert (log.log_end_offset, log.active.size) == (1, size), f"byte {at}"
            assert append(log, b"again").first_offset == 1


def test_segments_below_the_recovery_point_are_trusted(world):
    log = filled(world)
    world.run(log.flush())
    point = log.bases[2]
    path = f"t-0/{log.bases[0]:020d}.log"
    log.release()
    world.settle()

    def flip(data):
        data[-1] ^= 4
        return data

    put_back(world, path, flip)
    world.reopen()
    log = world.open_log(clean=False, config=log.config, recovery_point=point)
    assert log.log_end_offset == 60


def test_garbage_behind_the_last_batch_is_cut(world):
    log = filled(world)
    log = restart_after(world, log, lambda path: put_back(world, path, lambda data: data + b"\0" * 100))
    assert log.log_end_offset == 60
    assert append(log, b"z").first_offset == 60


@pytest.mark.parametrize("bit", [1, 4, 64])
def test_the_log_ends_before_an_offset_that_is_too_high(world, bit):
    """The next one is below it, and yet the right one: what is between would be missed by nobody."""
    log = world.new_log()
    for value in (b"0", b"1", b"2", b"3", b"4"):
        append(log, value)
    size = log.size_bytes // 5
    world.run(log.close())
    put_back(world, f"t-0/{0:020d}.log", lambda data: data[: 2 * size + 7] + bytes([2 ^ bit]) + data[2 * size + 8 :])
    log = world.open_log(clean=False)
    assert log.log_end_offset == 2
    assert [one.value for one in everything(world, log)] == [b"0", b"1"]


def test_a_gap_alone_ends_nothing(world):
    log = world.new_log()
    for value in (b"0", b"1", b"2", b"3", b"4"):
        append(log, value)
    size = log.size_bytes // 5
    world.run(log.close())
    put_back(world, f"t-0/{0:020d}.log", lambda data: data[:size] + data[2 * size : 3 * size] + data[4 * size :])
    log = world.open_log(clean=False)
    assert log.log_end_offset == 5
    assert [one.value for one in everything(world, log)] == [b"0", b"2", b"4"]
    told = [(loss.first_offset, loss.end_offset) for loss in log.losses.last]
    assert told == [(3, 5)], "before the last one"


def test_offsets_must_rise(world):
    log = filled(world, 1)
    one = log.active.size
    log = restart_after(world, log, lambda path: put_back(world, path, lambda data: data + data))
    assert (log.log_end_offset, log.active.size) == (2, one)
    assert [r.offset for r in everything(world, log)] == [0, 1]


@pytest.mark.parametrize("clean", [True, False])
def test_missing_indexes_are_rebuilt(world, clean):
    log = filled(world)
    world.run(log.close())
    world.settle()
    for name in files(world, "index"):
        world.disk.remove(f"t-0/{name}")
    world.reopen()
    log = world.open_log(clean=clean, config=log.config)
    for i in range(30):
        assert world.call(lambda i=i: log.offset_for_timestamp(NOW + i)) == (NOW + i, i * 2, i // 10)
    assert [len(s.offsets) > 0 for s in log.segments[:-1]] == [True] * (len(log.segments) - 1)


def test_senseless_indexes_are_rebuilt(world):
    log = filled(world)
    world.run(log.close())
    world.settle()
    for name in files(world, "index"):
        write(world, f"t-0/{name}", b"\x7f" * (8 if name.endswith(".index") else 13))
    world.reopen()
    log = world.open_log(clean=True, config=log.config)
    for i in range(30):
        assert world.call(lambda i=i: log.offset_for_timestamp(NOW + i)) == (NOW + i, i * 2, i // 10)


def test_a_clean_start_uses_the_index_files(world):
    log = filled(world)
    expected = [bytes(segment.offsets.data) for segment in log.segments]
    log = world.restart(log, clean=True)
    assert [bytes(world.call(lambda s=s: s.offsets.data)) for s in log.segments] == expected


def test_leftovers_are_tidied(world):
    log = filled(world)
    world.run(log.close())
    world.settle()
    for name in ("00000000000000000007.log.deleted", "00000000000000000007.log.cleaned", "00000000000000000999.index"):
        write(world, f"t-0/{name}", b"x")
    world.reopen()
    log = world.open_log(clean=True, config=log.config)
    assert log.log_end_offset == 60
    assert not [
        n for n in world.disk.list("t-0") if n.endswith((".deleted", ".cleaned")) or n.startswith("0" * 17 + "999")
    ]


@pytest.mark.parametrize("clean", [True, False])
def test_files_with_names_that_no_log_gives_are_left_alone(world, clean):
    log = filled(world)
    world.run(log.close())
    world.settle()
    strange = {"abc.log.swap", "1.log", "5.snapshot", "x.index", "\u00b2.log", "10000000000000000000.log"}
    strange |= {"\u0663" * 20 + ".log", "\u00b2.snapshot", "7.timeindex", "\u00b2.log.swap"}
    for name in strange:
        write(world, f"t-0/{name}", b"x")
    world.reopen()
    log = world.open_log(clean=clean, config=log.config)
    assert [record.offset for record in everything(world, log)] == list(range(60))
    assert log.losses.count == 0
    assert strange <= set(world.disk.list("t-0"))


def test_a_whole_swap_takes_the_place_of_its_segments(world):
    log = filled(world)
    merged = b"".join(world.disk.load(f"t-0/{base:020d}.log") for base in log.bases[:2])
    bases = log.bases
    world.run(log.close())
    world.settle()
    write(world, "t-0/00000000000000000000.log.swap", merged)
    world.reopen()
    log = world.open_log(clean=False, config=log.config)
    assert log.bases == [0, *bases[2:]]
    assert [r.offset for r in everything(world, log)] == list(range(60))


def test_log_start_comes_from_the_checkpoint_or_the_first_segment(world):
    log = filled(world)
    log = world.restart(log, clean=True, log_start_offset=7)
    assert log.log_start_offset == 7
    assert log.high_watermark == 7
    log = world.restart(log, clean=True, log_start_offset=3, high_watermark=99)
    assert (log.log_start_offset, log.high_watermark) == (3, 60)


def test_an_empty_directory_opens_empty(world):
    world.disk.make_dir("t-0")
    log = world.open_log(clean=False)
    assert log.log_end_metadata == OffsetMetadata(0, 0, 0)
    assert log.topic_id in (TOPIC_ID, ZERO_UUID)


def test_epochs_come_back_from_the_batches(world):
    log = filled(world)
    world.settle()
    log.release()
    world.disk.remove("t-0/leader-epoch-checkpoint")
    world.reopen()
    log = world.open_log(clean=False, config=log.config)
    assert log.epochs.entries == [(0, 0), (1, 20), (2, 40)]


@pytest.mark.parametrize("clean", [True, False])
def test_a_checkpoint_of_epochs_that_is_damaged_or_gone_is_learned_anew(memory, clean, caplog):
    """A wrong epoch would be believed for good, and followers would be told to cut in the wrong place."""
    path = "t-0/leader-epoch-checkpoint"
    log = filled(memory)
    epochs = log.epochs.entries
    log.files.save_epochs()
    log = memory.restart(log, clean=True)
    whole = memory.disk.load(path)
    assert checkpoint.parse_epochs(whole) == epochs
    point = 0 if clean else log.log_end_offset
    damages = [
        whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :] for at in range(len(whole)) for bit in range(8)
    ]
    damages += [whole[:size] for size in range(0, len(whole), 5)] + [None]
    for damage in damages:
        memory.settle()
        memory.disk.remove(path) if damage is None else memory.disk.write_atomic(path, damage)
        caplog.clear()
        log.release()
        log = memory.open_log(clean=clean, config=log.config, recovery_point=point)
        assert log.epochs.entries == epochs, damage
        assert (path in caplog.text) == (damage is not None)
        assert log.files.recovery_point_to_save() == 0, "the file on the device says something else"
        log.files.save_epochs()
        memory.settle()
        assert memory.disk.load(path) == whole, "it is written anew"


def test_a_checkpoint_of_epochs_of_kafkas_version_is_read(world):
    log = filled(world)
    log = world.restart(log, clean=True)
    world.disk.write_atomic("t-0/leader-epoch-checkpoint", b"0\n2\n0 0\n2 30\n")
    log = world.restart(log, clean=True)
    assert log.epochs.entries == [(0, 0), (2, 30)]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", ["snapshot", "index", "timeindex", "leader-epoch-checkpoint"])
def test_a_small_file_of_a_log_that_cannot_be_read_costs_no_partition(memory, suffix, clean, caplog):
    """All of them can be rebuilt: it took the partition offline."""
    log = memory.new_log(segment_bytes=300, index_interval_bytes=50)
    for number in range(12):
        append(log, b"%d" % number, leader_epoch=number // 5, pid=1, epoch=0, sequence=number)
    epochs = log.epochs.entries
    log.files.save_epochs()
    log = memory.restart(log, clean=clean)
    memory.settle()
    bad = {f"t-0/{name}" for name in memory.disk.list("t-0") if name.endswith(suffix)}
    assert bad
    log.release()
    memory.disk.faults.bad_reads = bad
    log = memory.open_log(clean=clean, config=log.config, recovery_point=12)
    assert [record.value for record in everything(memory, log)] == [b"%d" % number for number in range(12)]
    assert log.epochs.entries == epochs
    assert append(log, b"11", leader_epoch=2, pid=1, epoch=0, sequence=11).duplicate
    assert append(log, b"12", leader_epoch=2, pid=1, epoch=0, sequence=12).first_offset == 12
    assert any(path in caplog.text for path in bad) or suffix == "timeindex", "which is not read where all is walked"


def test_an_epoch_whose_records_are_lost_is_forgotten(world):
    log = world.new_log()
    append(log, b"a", leader_epoch=3)
    append(log, b"b", leader_epoch=4)
    gate = log.files.save_epochs()
    assert gate is not None
    world.settle()
    log = restart_after(world, log, lambda path: cut(world, path, len(batch(b"a")) + 5))
    assert (log.log_end_offset, log.epochs.entries, log.latest_epoch) == (1, [(3, 0)], 3)


def test_no_step_of_recovery_is_long(memory, monkeypatch):
    log = memory.new_log()
    data = batch(b"x" * 60_000)
    for _ in range(200):
        log.append_as_leader(bytes(data), 0, now_ms=NOW)
    log.release()
    read = bytes_read(monkeypatch)
    job = type(log)(memory.disk, "t-0", log.topic_partition, TOPIC_ID, log.config).recover(clean=False, now_ms=NOW)
    steps = [sum(read[:] + (read.clear() or [])) for _ in job]
    assert max(steps) <= 1 << 20
    assert sum(steps) + sum(read) < 1.1 * 200 * len(data), "12 MB are walked once"


def bytes_read(monkeypatch):
    """How many bytes each read of a memory disk gave."""
    sizes: list[int] = []
    read = MemoryFile.read

    def counting(file, position, length, **how):
        view = read(file, position, length, **how)
        sizes.append(len(view))
        return view

    monkeypatch.setattr(MemoryFile, "read", counting)
    return sizes


@pytest.mark.parametrize("recovery_point", [0, 15, 30])
def test_producers_are_learned_in_the_same_walk(memory, monkeypatch, recovery_point):
    log = memory.new_log(segment_bytes=10 * 2000)
    for i in range(35):
        append(log, b"x" * 1900, pid=7 + i % 2, epoch=0, sequence=i // 2)
    log.files.save_epochs()
    memory.settle()
    log.release()
    total = log.size_bytes - log.segments[log.segment_index(recovery_point)].base // 10 * log.segments[0].size
    read = bytes_read(monkeypatch)
    log = memory.open_log(clean=False, config=log.config, recovery_point=recovery_point)
    assert sum(read) < 1.1 * total + 20 * 1900
    assert {pid: known.batches[-1].last_offset for pid, known in log.producers.producers.items()} == {7: 34, 8: 33}
    assert append(log, b"x" * 1900, pid=7, epoch=0, sequence=17).duplicate
    assert not append(log, b"x" * 1900, pid=8, epoch=0, sequence=17).duplicate


def test_a_torn_tail_is_cut_in_place(tmp_path):
    world = World("real", tmp_path)
    log = world.new_log()
    for _ in range(40):
        append(log, b"x" * 60_000)
    world.settle()
    log.release()
    path = tmp_path / "t-0" / "00000000000000000000.log"
    os.truncate(path, path.stat().st_size - 100)
    before = path.stat().st_ino
    world.reopen()
    log = world.open_log(clean=False, config=log.config)
    assert log.log_end_offset == 39
    assert (path.stat().st_ino, path.stat().st_size) == (before, log.active.size), "nothing was copied"
    world.disk.close()


def test_a_clean_start_without_snapshots_knows_no_producers_and_reads_nothing_for_them(memory, monkeypatch):
    log = memory.new_log()
    for _ in range(20):
        append(log, b"x" * 2000)
    memory.run(log.close())
    assert not [name for name in memory.disk.list("t-0") if name.endswith(".snapshot")]
    read = bytes_read(monkeypatch)
    log = memory.open_log(clean=True, config=log.config)
    assert sum(read) < 3 * 2000
    assert (log.log_end_offset, log.producers.producers) == (20, {})


@pytest.mark.parametrize("recovery_point", [0, 1, 2, 3])
@pytest.mark.parametrize("left", [0, 1])
def test_a_log_ends_where_its_records_do_unless_more_was_on_the_device(world, left, recovery_point):
    """A power failure took the end of one segment and all of the next two: their bases are no place to go on from.

    Whoever read to the end stood still at the first offset that was gone, until a record came.
    """
    log = world.new_log()
    append(log, b"0")
    first = log.active.size
    append(log, b"1")
    for value in (b"2", b"3"):
        log.roll(NOW)
        append(log, value)
    world.settle()
    log.release()
    world.settle()
    world.reopen()
    for base, size in ((0, first * left), (2, 0), (3, 0)):
        cut(world, f"t-0/{base:020d}.log", size)
    log = world.open_log(clean=False, recovery_point=recovery_point)
    if recovery_point <= left:
        assert (log.log_end_offset, log.bases) == (left, [0])
        assert files(world, ".log") == [f"{0:020d}.log"]
    else:
        assert log.log_end_offset == max(2, recovery_point), "what was on the device is not given out again"
    end = log.log_end_offset
    assert append(log, b"next").first_offset == end
    assert [record.value for record in everything(world, log)] == [b"0"] * left + [b"next"]
