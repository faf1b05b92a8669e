"""One contract, three disks: the real one, the one in memory, and the one that answers late (`ports.Disk`)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker.log.harness import World


@pytest.fixture(params=["memory", "late", "real"])
def world(request, tmp_path):
    made = World(request.param, tmp_path)
    made.disk.make_dir("d")
    yield made
    if made.kind == "real":
        made.disk.close()


def read(world, file, position, length):
    return bytes(world.call(lambda: file.read(position, length)))


def test_append_and_read(world):
    file = world.disk.open("d/f", create=True)
    assert file.size == 0
    file.append([b"hello"])
    file.append([b" ", bytearray(b"wor"), memoryview(b"ld")])
    assert file.size == 11
    assert read(world, file, 0, 11) == b"hello world"
    assert read(world, file, 6, 100) == b"world"
    assert read(world, file, 11, 5) == b""
    assert read(world, file, 99, 5) == b""
    assert file.path == "d/f"


def test_the_appended_buffer_is_copied(world):
    file = world.disk.open("d/f", create=True)
    buffer = bytearray(b"abc")
    file.append([buffer])
    buffer[:] = b"xyz"
    assert read(world, file, 0, 3) == b"abc"


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 200_000, 5_000_000])
def test_reads_of_all_sizes(world, size):
    file = world.disk.open("d/f", create=True)
    data = bytes(range(251)) * (size // 251 + 1)
    step = max(1, size // 7)
    for start in range(0, size, step):
        file.append([data[start : min(start + step, size)]])
    assert file.size == size
    assert read(world, file, 0, size) == data[:size]
    for position, length in ((0, 1), (size // 2, size // 3), (size - 1, 10)):
        assert read(world, file, position, length) == data[position : min(position + length, size)]


def test_many_buffers_in_one_append(world):
    file = world.disk.open("d/f", create=True)
    file.append([b"%04d" % i for i in range(3000)])
    assert read(world, file, 4 * 2999, 4) == b"2999"


def test_views_stay_when_the_file_grows_is_cut_closed_and_removed(world):
    file = world.disk.open("d/f", create=True)
    file.append([b"a" * 300_000])
    view = world.call(lambda: file.read(0, 300_000))
    file.append([b"b" * 300_000])
    both = world.call(lambda: file.read(0, 600_000))
    file.truncate(100)
    file.append([b"c" * 900_000])
    assert read(world, file, 0, 200) == b"a" * 100 + b"c" * 100
    file.close()
    world.disk.remove("d/f")
    assert bytes(view) == b"a" * 300_000
    assert bytes(both[299_999:300_001]) == b"ab"


def test_truncate_without_views(world):
    file = world.disk.open("d/f", create=True)
    file.append([b"0123456789"])
    file.truncate(20)
    assert file.size == 10
    file.truncate(4)
    assert file.size == 4
    file.append([b"x"])
    assert read(world, file, 0, 10) == b"0123x"
    assert world.disk.load("d/f") == b"0123x"


def test_open_again(world):
    file = world.disk.open("d/f", create=True)
    file.append([b"abc"])
    file.close()
    again = world.disk.open("d/f")
    assert again.size == 3
    again.append([b"d"])
    assert read(world, again, 0, 9) == b"abcd"
    assert world.disk.open("d/f", create=True).size == 0


def test_absent_files(world):
    with pytest.raises(FileNotFoundError):
        world.disk.open("d/none")
    with pytest.raises(FileNotFoundError):
        world.disk.open("none/f", create=True)
    with pytest.raises(FileNotFoundError):
        world.disk.load("d/none")
    with pytest.raises(FileNotFoundError):
        world.disk.rename("d/none", "d/x")
    world.disk.remove("d/none")
    assert not world.disk.exists("d/none")
    assert world.disk.list("none") == []


def test_names(world):
    world.disk.open("d/b", create=True)
    world.disk.open("d/a", create=True)
    world.disk.make_dir("d/sub")
    assert world.disk.list("d") == ["a", "b", "sub"]
    assert world.disk.list("") == ["d"]
    assert world.disk.exists("d")
    world.disk.rename("d/a", "d/b")
    assert world.disk.list("d") == ["b", "sub"]
    world.disk.remove("d")
    assert world.disk.list("") == []
    world.disk.make_dir("d")
    assert world.disk.list("d") == []


def test_several_files_are_replaced_as_each_alone(world):
    told: list[Any] = []
    world.disk.write_atomic("d/a", b"old", told.append)
    world.disk.write_files([("d/a", b"new"), ("d/b", b"b")], told.append)
    world.disk.write_files([("d/c", b"c"), ("d/b", b"newer")], told.append)
    assert told == [], "never from inside the call"
    world.settle()
    assert told == [None] * 3
    assert world.disk.list("d") == ["a", "b", "c"]
    assert [world.disk.load(f"d/{name}") for name in "abc"] == [b"new", b"newer", b"c"]
    world.disk.write_files([("none/a", b""), ("none/b", b"")], told.append)
    world.settle()
    assert isinstance(told[-1], OSError)


def test_what_is_removed_later_goes_off_the_loops_thread(world):
    world.disk.open("d/a", create=True).append([b"x" * 10])
    world.disk.make_dir("d/sub")
    world.disk.open("d/sub/b", create=True)
    told: list[Any] = []
    for path in ("d/a", "d/none", "d/sub"):
        world.disk.remove_later(path, told.append)
    assert told == [], "never from inside the call"
    world.settle()
    assert told == [None] * 3
    assert world.disk.list("d") == []


def test_a_directory_moves_with_all_it_holds(world):
    world.disk.make_dir("d/sub")
    world.disk.open("d/sub/f", create=True).append([b"abc"])
    world.disk.rename("d", "e")
    assert world.disk.list("") == ["e"]
    assert world.disk.load("e/sub/f") == b"abc"
    assert not world.disk.exists("d/sub/f")


def test_open_files_follow_a_rename(world):
    file = world.disk.open("d/f", create=True)
    file.append([b"abc"])
    world.disk.rename("d/f", "d/g")
    file.append([b"d"])
    world.disk.rename("d", "e")
    file.append([b"e"])
    assert read(world, file, 0, 9) == b"abcde"
    assert world.disk.load("e/g") == b"abcde"


def test_syncs_complete_once_and_never_inside_the_call(world):
    file = world.disk.open("d/f", create=True)
    file.append([b"abc"])
    told: list[Any] = []
    file.sync(told.append)
    file.sync(told.append)
    assert told == []
    world.settle()
    assert told == [None, None]


def test_a_sync_under_way_survives_close(world):
    file = world.disk.open("d/f", create=True)
    file.append([b"abc"])
    told: list[Any] = []
    file.sync(told.append)
    file.close()
    world.settle()
    assert told == [None]


def test_write_atomic_at_once(world):
    world.disk.write_atomic("d/c", b"one")
    world.disk.write_atomic("d/c", b"two")
    assert world.disk.load("d/c") == b"two"
    assert world.disk.list("d") == ["c"]


def test_later_atomic_writes_win_and_all_are_told(world):
    told: list[Any] = []
    for i in range(20):
        world.disk.write_atomic("d/c", b"%d" % i, lambda error, i=i: told.append((i, error)))
    assert told == []
    world.settle()
    assert sorted(told) == [(i, None) for i in range(20)]
    assert world.disk.load("d/c") == b"19"
    assert world.disk.list("d") == ["c"]


def test_what_waits_for_a_directory_that_is_renamed_away_is_not_written_to_the_next_of_its_name(world):
    told: list[Any] = []
    for i in range(8):
        world.disk.write_atomic("d/c", b"old %d" % i, told.append)
    world.disk.rename("d", "away")
    world.disk.make_dir("d")
    world.settle()
    assert len(told) == 8
    assert not world.disk.exists("d/c"), "the first, which was under way, went with its directory"
    world.disk.write_atomic("d/c", b"new", told.append)
    world.settle()
    assert told[8] is None
    assert world.disk.load("d/c") == b"new"


def test_an_atomic_write_that_fails_says_so(world):
    told: list[Any] = []
    world.disk.write_atomic("none/c", b"x", told.append)
    world.settle()
    assert isinstance(told[0], OSError)
    with pytest.raises(OSError, match="none"):
        world.disk.write_atomic("none/c", b"x")


def test_data_is_there_for_the_next_process(world):
    file = world.disk.open("d/f", create=True)
    file.append([b"abc"])
    world.settle()
    world.reopen()
    assert world.disk.load("d/f") == b"abc"


def test_the_names_of_a_directory_one_by_one(world):
    names = [f"f{number}" for number in range(10)]
    for name in names:
        world.disk.open(f"d/{name}", create=True)
    assert sorted(world.disk.names("d")) == names
    some = world.disk.names("d")
    first = [next(some) for _ in range(4)]
    world.disk.remove(f"d/{first[0]}")  # who looks at some removes them, and goes on
    assert sorted({*first, *some}) == names
    assert list(world.disk.names("nothing")) == []


def test_nothing_is_remembered_of_paths_that_were_written_or_renamed(world):
    def remembered():
        return sum(len(one) for one in vars(world.disk).values() if isinstance(one, dict | list | set))

    before = remembered()
    for number in range(20):
        world.disk.make_dir(f"e{number}")
        world.disk.write_atomic(f"e{number}/f", b"now")
        world.disk.write_atomic(f"e{number}/f", b"later", lambda _: None)
        world.settle()
        assert world.disk.load(f"e{number}/f") == b"later"
        world.disk.write_atomic(f"e{number}/f", b"too late", lambda _: None)
        world.disk.rename(f"e{number}", f"g{number}")
        world.settle()
        world.disk.remove(f"g{number}")
    assert remembered() == before
