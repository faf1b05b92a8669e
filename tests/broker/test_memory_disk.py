"""The faults of the disk in memory."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from itertools import accumulate
from mmap import mmap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.memory_disk import Faults, MemoryDisk, MemoryFile, Names
from barnabas.broker.ports import NotYet

MIB = 1024 * 1024


def test_a_full_disk_takes_all_or_nothing():
    disk = MemoryDisk(capacity=10)
    file = disk.open("f", create=True)
    file.append([b"12345"])
    with pytest.raises(OSError, match="space"):
        file.append([b"123", b"456"])
    assert (file.size, bytes(file.read(0, 99))) == (5, b"12345")
    file.append([b"67890"])
    with pytest.raises(OSError, match="space"):
        disk.write_atomic("c", b"x")
    file.truncate(2)
    disk.write_atomic("c", b"x")
    disk.remove("f")
    assert disk.used == 1


def test_a_crash_loses_what_was_not_synced_and_kills_handles():
    disk = MemoryDisk()
    file = disk.open("f", create=True)
    file.append([b"safe"])
    told: list[Any] = []
    file.sync(told.append)
    file.append([b"lost"])
    disk.deliver()
    assert told == [None]
    file.sync(told.append)
    disk.crash()
    assert disk.deliver() == 0
    assert told == [None]
    assert disk.load("f") == b"safe"
    for use in (lambda: file.append([b"x"]), lambda: file.read(0, 1), lambda: file.sync(told.append)):
        with pytest.raises(OSError, match="crashed"):
            use()


def test_a_crash_may_keep_a_torn_part():
    disk = MemoryDisk()
    file = disk.open("f", create=True)
    file.append([b"0123456789"])
    disk.crash(lambda path, synced, size: 4)
    assert disk.load("f") == b"0123"
    disk.open("f").append([b"x"])
    disk.crash(lambda path, synced, size: -5)
    assert disk.load("f") == b"0123", "what survived one crash is durable"


def test_an_atomic_write_is_whole_or_absent_after_a_crash():
    disk = MemoryDisk()
    disk.write_atomic("c", b"old")
    disk.write_atomic("c", b"new", lambda _: None)
    disk.crash()
    assert disk.load("c") == b"old"


def test_a_small_file_that_is_not_durable_may_be_torn():
    disk = MemoryDisk()
    disk.write_atomic("kept", b"whole", durable=False)
    disk.write_atomic("torn", b"whole", lambda _: None, durable=False)
    disk.deliver()
    disk.crash(lambda path, synced, size: 3 if path == "torn" else synced)
    assert (disk.load("kept"), disk.load("torn")) == (b"", b"who")


def test_a_flipped_bit():
    disk = MemoryDisk()
    disk.write_atomic("f", b"\x00\x00")
    disk.flip("f", 1, 3)
    assert disk.load("f") == b"\x00\x08"


def test_late_reads_wait_for_delivery_and_answer_while_the_token_is_held():
    disk = MemoryDisk(late=True)
    file = disk.open("f", create=True)
    file.append([b"abc"])
    with pytest.raises(NotYet) as caught:
        file.read(0, 3)
    token = caught.value.token
    with pytest.raises(NotYet) as again:
        file.read(0, 3)
    assert again.value.token is token
    fired: list[Any] = []
    token.on_ready(lambda: fired.append(True))
    disk.deliver()
    assert fired == [True]
    assert bytes(file.read(0, 3)) == b"abc"
    assert bytes(file.read(0, 3)) == b"abc"
    del token, caught, again
    with pytest.raises(NotYet):
        file.read(0, 3)


def test_who_comes_after_a_kill_does_not_wait_for_a_read_of_who_was_before():
    """The read that was under way went with the process; whoever held its token kept the next from ever reading."""
    disk = MemoryDisk(late=True)
    disk.open("f", create=True).append([b"data"])
    with pytest.raises(NotYet) as before:
        disk.open("f").read(0, 4)
    disk.kill()
    file = disk.open("f")
    with pytest.raises(NotYet) as after:
        file.read(0, 4)
    assert after.value.token is not before.value.token
    disk.deliver()
    assert bytes(file.read(0, 4)) == b"data"


def test_failing_syncs():
    disk = MemoryDisk()
    file = disk.open("f", create=True)
    file.append([b"x"])
    disk.fail_syncs = 1
    told: list[Any] = []
    file.sync(told.append)
    file.sync(told.append)
    disk.deliver()
    assert isinstance(told[0], OSError)
    assert told[1] is None


def test_completions_go_through_post():
    posted: list[Any] = []
    disk = MemoryDisk(posted.append)
    file = disk.open("f", create=True)
    told: list[Any] = []
    file.sync(told.append)
    assert (told, len(posted)) == ([], 1)
    posted[0]()
    assert told == [None]


def chance(*answers: int) -> Callable[[int], int]:
    """A source of chance that says these one after the other."""
    left = list(answers)
    return lambda bound: min(left.pop(0), bound - 1)


def always(answer: int) -> Callable[[int], int]:
    return lambda bound: min(answer, bound - 1)


def written(disk: MemoryDisk, path: str, data: bytes) -> MemoryFile:
    """A file that was synced, with its name."""
    file = disk.open(path, create=True)
    file.append([data])
    told: list[Any] = []
    file.sync(told.append)
    disk.deliver()
    assert told == [None]
    return file


def test_names_that_were_not_synced_are_lost():
    disk = MemoryDisk(faults=Faults(always(0), names=Names.ORDERED))
    disk.make_dir("d")
    written(disk, "d/a", b"a")
    disk.open("d/b", create=True)
    disk.rename("d/a", "d/c")
    disk.make_dir("e")
    assert (disk.list("d"), disk.list("")) == (["b", "c"], ["d", "e"])
    disk.crash()
    assert (disk.list("d"), disk.list("")) == (["a"], ["d"])
    assert disk.load("d/a") == b"a"


def test_a_file_that_was_removed_comes_back_with_what_was_synced():
    disk = MemoryDisk(faults=Faults(always(0), names=Names.ORDERED))
    disk.make_dir("d")
    written(disk, "d/a", b"safe").append([b"lost"])
    disk.remove("d")
    assert disk.used == 0
    disk.crash()
    assert (disk.load("d/a"), disk.used) == (b"safe", 4)


def test_the_first_sync_of_a_process_syncs_the_name_of_a_file_that_another_made():
    disk = MemoryDisk(faults=Faults(always(0), names=Names.LOOSE))
    disk.make_dir("d")
    disk.open("d/a", create=True).append([b"old"])
    disk.kill()
    file = disk.open("d/a")
    file.append([b"new"])
    told: list[Any] = []
    file.sync(told.append)
    disk.deliver()
    disk.crash()
    assert (told, disk.load("d/a")) == ([None], b"oldnew")


@pytest.mark.parametrize(
    ("names", "left"),
    [
        (Names.ORDERED, {("",), ("d",), ("d", "a"), ("d", "a", "e"), ("a", "b", "d", "e")}),
        # Where d's own name is lost, nobody sees what is in it.
        (Names.LOOSE, {("",), ("d",), ("d", "e"), ("a", "d"), ("a", "d", "e"), ("a", "b", "d"), ("a", "b", "d", "e")}),
    ],
)
def test_a_power_failure_leaves_names_in_order_or_loosely(names, left):
    seen = set()
    for seed in range(200):
        disk = MemoryDisk(faults=Faults(random.Random(seed).randrange, names=names))
        disk.make_dir("d")
        disk.open("d/a", create=True)
        disk.make_dir("e")
        disk.open("d/b", create=True)
        disk.crash()
        seen.add(tuple(sorted(disk.list("") + disk.list("d"))) or ("",))
    assert {tuple(sorted(one)) for one in left} == seen


def test_a_rename_is_in_both_directories_or_in_neither():
    for seed in range(50):
        disk = MemoryDisk(faults=Faults(random.Random(seed).randrange, names=Names.LOOSE))
        disk.make_dir("d")
        disk.make_dir("e")
        written(disk, "d/a", b"a")
        written(disk, "e/z", b"z")
        disk.rename("d/a", "e/b")
        disk.open("e/c", create=True)
        disk.crash()
        assert (disk.list("d"), disk.list("e")) in ((["a"], ["z"]), ([], ["b", "z"]), ([], ["b", "c", "z"]))


def test_a_small_file_is_durable_with_its_name():
    disk = MemoryDisk(faults=Faults(always(0), names=Names.LOOSE))
    disk.write_atomic("c", b"old")
    disk.write_atomic("c", b"new", lambda _: None)
    disk.deliver()
    disk.write_atomic("torn", b"whole", durable=False)
    disk.crash()
    assert (disk.load("c"), disk.list("")) == (b"new", ["c"])


def test_blocks_that_were_not_written_read_as_zeros():
    disk = MemoryDisk()
    written(disk, "f", b"s" * 5000).append([b"u" * 9000])
    disk.faults.blocks = True
    disk.faults.below = chance(9000, 0, 1, 0)
    disk.crash()
    assert disk.load("f") == b"s" * 5000 + b"u" * 3192 + bytes(4096) + b"u" * 1712


def test_a_cut_that_was_not_synced_may_be_undone():
    for tossed, left in ((1, b"0123456789"), (0, b"01")):
        disk = MemoryDisk(faults=Faults(always(tossed), cuts=True))
        file = written(disk, "f", b"0123456789")
        view = file.read(0, 10)
        file.append([b"unsynced"])
        file.truncate(2)
        file.append([b"new"])
        disk.crash()
        assert (disk.load("f"), bytes(view)) == (left, b"0123456789")
        file = disk.open("f")
        file.truncate(1)
        file.sync(lambda _: None)
        disk.deliver()
        disk.crash()
        assert disk.load("f") == b"0"


def test_what_was_under_way_may_be_done_in_part_and_nobody_is_told():
    seen = set()
    told: list[Any] = []
    for seed in range(200):
        disk = MemoryDisk(faults=Faults(random.Random(seed).randrange, names=Names.LOOSE, unfinished=True))
        disk.write_atomic("c", b"old")
        disk.write_atomic("c", b"new", told.append)
        disk.crash()
        seen.add((disk.load("c"), disk.exists("c.tmp")))
    assert seen == {(b"old", False), (b"old", True), (b"new", False)}
    assert told == []


def test_the_nth_call_for_room_is_refused():
    disk = MemoryDisk()
    disk.make_dir("d")
    file = written(disk, "d/a", b"kept")
    calls: list[Callable[[], Any]] = [
        lambda: file.append([b"x"]),
        lambda: disk.open("d/a", create=True),
        lambda: disk.open("d/b", create=True),
        lambda: disk.make_dir("e"),
        lambda: disk.rename("d/a", "d/b"),
        lambda: file.truncate(1),
        lambda: disk.write_atomic("d/a", b"small"),
    ]
    disk.faults.refuse(1, len(calls))
    for call in calls:
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            call()
    assert (disk.list(""), disk.list("d"), disk.load("d/a"), file.size) == (["d"], ["a"], b"kept", 4)
    disk.faults.refuse(2, code=errno.EIO)
    file.append([b"1"])
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        file.append([b"2"])
    file.append([b"3"])
    assert disk.load("d/a") == b"kept13"


def test_bad_files_fail_where_they_are_read_and_synced():
    disk = MemoryDisk()
    file = written(disk, "a", b"a")
    disk.rename("a", "b")
    assert file.path == "b"
    disk.faults.bad_reads = {"b"}
    for read in (lambda: file.read(0, 1), lambda: disk.load("b")):
        with pytest.raises(OSError, match=r"\[Errno 5\].*'b'"):
            read()
    disk.faults.bad_syncs = {"b"}
    told: list[Any] = []
    file.append([b"lost"])
    file.sync(told.append)
    disk.write_atomic("b", b"new", told.append)
    disk.deliver()
    assert [error.errno for error in told] == [errno.EIO] * 2
    disk.faults.bad_reads = set()
    assert disk.list("") == ["b"]
    disk.crash()
    assert disk.load("b") == b"a"


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(1, 60), st.integers(0, 99))
def test_a_read_of_some_ends_with_a_batch_and_copies_a_mebibyte_at_most(sizes, length, first):
    """A fetch of 25 MiB that lay in pieces was one step of 18 ms."""
    file, eighth = MemoryDisk().open("f", create=True), MIB // 8
    batches = [bytes([at]) * (size * eighth) for at, size in enumerate(sizes)]
    for one in batches:
        file.append([one])
    first, data = min(first, len(batches) - 1), b"".join(batches)
    ends = list(accumulate(map(len, batches)))
    position, length = ends[first] - len(batches[first]), length * eighth
    found = file.read(position, length, some=True)
    whole = data[position : position + length]
    assert file.read(position, length) == whole, "who asks for all of it has all"
    assert found == whole[: len(found)]
    if found != whole:
        assert length > MIB
        assert position + len(found) in ends
        assert isinstance(found.obj, (bytearray, mmap)) or len(found) <= MIB, "it is no copy, or a small one"
        assert len(found) >= len(batches[first])


def test_what_is_expected_lies_together():
    file = MemoryDisk().open("f", create=True)
    file.append([b"before"])
    data = random.Random(7).randbytes(9 * MIB)
    file.expect(len(data))
    for at in range(0, len(data), MIB):
        file.append([data[at : at + MIB]])
    file.append([b"after"])
    whole = file.read(6, 9 * MIB, some=True)
    assert whole == data
    assert isinstance(whole.obj, mmap), "it is no copy"
    assert bytes(file.read(6 + 9 * MIB, 9)) == b"after"
