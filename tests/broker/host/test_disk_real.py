"""What only the real disk has: a bound on handles, cold reads in a thread, short writes, swaps under maps."""

from __future__ import annotations

import errno
import mmap
import os
import queue
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.host import disk as disk_module
from barnabas.broker.host import disk_calls, disk_file, disk_root
from barnabas.broker.host.disk import RealDisk
from barnabas.broker.host.disk_root import Root
from barnabas.broker.log.scan import window_at
from barnabas.broker.pages import own_bytes
from barnabas.broker.ports import NotYet


@pytest.fixture
def posted():
    return queue.Queue()


@pytest.fixture
def disk(tmp_path, posted):
    made = RealDisk(tmp_path, posted.put, handles_max=8)
    yield made
    made.close()


def directories_synced(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories that are synced from now on."""
    synced: list[str] = []
    real = Root.sync_directory

    def sync_directory(root: Root, path: str) -> None:
        synced.append(os.path.join(root.path, path)[len(disk.root.path) :].strip("/"))
        real(root, path)

    monkeypatch.setattr(Root, "sync_directory", sync_directory)
    return synced


def handles():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="handles are counted in /proc")
def test_handles_and_maps_are_bounded(disk):
    before = handles()
    files = [disk.open(f"f{i}", create=True) for i in range(100)]
    for i, file in enumerate(files):
        file.append([b"%03d" % i * 70_000])
    for i, file in enumerate(files):
        assert bytes(file.read(0, 210_000)[:3]) == b"%03d" % i
    assert handles() - before <= 2 * 8 + 2
    for i, file in enumerate(files):
        file.append([b"end"])
        assert bytes(file.read(210_000, 3)) == b"end", i


def test_maps_that_are_looked_at_count_and_more_is_copied(disk, posted):
    """An answer that nobody reads keeps its maps, each with a handle; a file that grows is mapped anew."""
    short: list[bool] = []
    disk.on_maps_short = partial(short.append, True)
    before = handles()
    file = disk.open("f", create=True)
    file.append([b"x" * 200_000])
    held: list[Any] = []
    for _ in range(8):
        file.append([b"y"])
        held.append(file.read(0, 300_000))
        assert type(held[-1].obj) is mmap.mmap
    assert not short
    file.append([b"y"])
    with pytest.raises(NotYet) as caught:
        file.read(0, 300_000)
    assert short
    posted.get(timeout=60)()
    assert bytes(file.read(0, 300_000)) == b"x" * 200_000 + b"y" * 9
    assert caught.value.token
    assert handles() - before <= 8 + 2
    held.clear()
    assert type(file.read(0, 400_000).obj) is mmap.mmap


def resident_kb(name: str) -> int:
    """What is resident of the maps of a file."""
    found, of_file = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if not line.split(" ", 1)[0].endswith(":"):
            of_file = line.endswith(name)
        elif of_file and line.startswith("Rss:"):
            found += int(line.split()[1])
    return found


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="pages are counted in /proc")
def test_pages_of_maps_go_back_and_come_again(disk, posted, tmp_path):
    """600 MB of them stayed for as long as their segments did, after a flood that the cleaner had read."""
    name = str(tmp_path / "f")
    file = disk.open("f", create=True)
    file.append([bytes(range(256)) * 4096 * 8])
    view = file.read(0, 8 * 2**20)
    assert sum(view[::4096]) == 0
    assert resident_kb(name) >= 8 * 1024
    assert disk.release_pages()
    posted.get(timeout=60)()
    assert resident_kb(name) == 0
    assert bytes(view[-256:]) == bytes(range(256))
    assert resident_kb(name) > 0


def test_who_looks_through_a_whole_file_maps_nothing(disk):
    """The cleaner had all of its segments resident until now, beside what it makes of them."""
    file = disk.open("f", create=True)
    file.append([bytes(8) + (3 * 2**20 - 12).to_bytes(4, "big") + bytes(3 * 2**20 - 12)])
    assert len(window_at(file, 0, file.size)) == 3 * 2**20
    assert own_bytes([file.read(0, 2**20, once=True)]) == 2**20
    assert not len(disk._alive)
    assert type(file.read(0, 2**20).obj) is mmap.mmap


def test_pages_that_are_much_read_stay(disk, posted):
    file = disk.open("f", create=True)
    file.append([bytes(2**20)])
    for _ in range(17):
        file.read(0, 2**20)
    assert not disk.release_pages()
    file.read(0, 2**20)
    assert disk.release_pages()
    posted.get(timeout=60)()


def test_what_is_copied_counts_as_kept_for_its_reader(disk):
    file = disk.open("f", create=True)
    file.append([b"x" * 1_000_000])
    copied, mapped = file.read(0, 1_000), file.read(0, 500_000)
    assert own_bytes([copied]) == 1_000
    assert own_bytes([b"head", mapped]) == 4


@pytest.mark.parametrize("files_max", [256, 1024, 20_000, 2**20])
def test_connections_files_and_maps_leave_handles_to_spare(monkeypatch, files_max):
    monkeypatch.setattr(disk_calls, "open_files_max", lambda: files_max)
    handles_max = disk_calls.default_handles_max()
    assert files_max // 2 + 2 * handles_max + disk_calls.spare_handles() <= files_max
    assert handles_max >= min(files_max // 8, 4096)


def test_a_cold_range_is_read_by_a_thread(disk, posted, monkeypatch):
    file = disk.open("f", create=True)
    file.append([b"x" * 300_000])

    def cold(fd, buffers, offset, flags=0):
        raise BlockingIOError

    monkeypatch.setattr(os, "preadv", cold)
    for length in (100, 300_000):
        with pytest.raises(NotYet) as caught:
            file.read(0, length)
        token = caught.value.token
        fired: list[Any] = []
        token.on_ready(partial(fired.append, True))
        posted.get(timeout=60)()
        assert fired == [True]
        assert bytes(file.read(0, length)) == b"x" * length
        del token, caught
        with pytest.raises(NotYet):
            file.read(0, length)
        posted.get(timeout=60)()


def test_a_cold_read_answers_for_its_own_file_alone(disk, posted, monkeypatch):
    """Whoever opens a file for one read lets go of it at once, and the next may lie where it lay."""
    for name in ("a", "b"):
        disk.open(name, create=True).append([name.encode() * 100])

    def cold(fd, buffers, offset, flags=0):
        raise BlockingIOError

    def asked(name):
        file = disk.open(name)
        try:
            file.read(0, 100)
        except NotYet as pending:
            return pending.token
        finally:
            file.close()

    monkeypatch.setattr(os, "preadv", cold)
    held = [asked("a")]
    posted.get(timeout=60)()
    for _ in range(100):
        token = asked("b")
        assert token is not None, "what was read of the other file is no answer"
        posted.get(timeout=60)()
        assert token.data == b"b" * 100
        held.append(token)


def test_a_cold_read_that_fails_says_so(disk, posted, monkeypatch):
    file = disk.open("f", create=True)
    file.append([b"x" * 100])

    def cold(fd, buffers, offset, flags=0):
        raise BlockingIOError

    def broken(fd, count, position):
        raise OSError(5, "device failed")

    monkeypatch.setattr(os, "preadv", cold)
    monkeypatch.setattr(os, "pread", broken)
    with pytest.raises(NotYet) as caught:
        file.read(0, 100)
    posted.get(timeout=60)()
    with pytest.raises(OSError, match="device failed"):
        file.read(0, 100)
    assert caught.value.token


@pytest.mark.parametrize("buffers", [[b"a" * 100], [b"a" * 50, b"b" * 50]])
def test_a_short_write_is_finished_or_taken_back(disk, monkeypatch, buffers):
    file = disk.open("f", create=True)
    file.append([b"old"])
    real = os.pwrite

    def some(fd, data, position):
        return real(fd, bytes(data)[:7], position)

    monkeypatch.setattr(os, "pwritev", lambda fd, data, position: real(fd, data[0][:7], position), raising=False)
    monkeypatch.setattr(os, "pwrite", some)
    file.append(buffers)
    assert disk.load("f") == b"old" + b"".join(buffers)

    calls = []

    def full(fd, data, position):
        calls.append(position)
        if len(calls) > 2:
            raise OSError(28, "no space left on device")
        return real(fd, bytes(data)[:7], position)

    monkeypatch.setattr(os, "pwrite", full)
    monkeypatch.setattr(os, "pwritev", lambda fd, data, position: real(fd, data[0][:7], position), raising=False)
    size = file.size
    with pytest.raises(OSError, match="space"):
        file.append(buffers)
    assert file.size == size
    assert disk.load("f") == b"old" + b"".join(buffers)


def test_a_mapped_file_is_swapped_and_not_cut(disk, tmp_path):
    file = disk.open("f", create=True)
    file.append([b"x" * 1_000_000])
    view = file.read(0, 1_000_000)
    inode = os.stat(tmp_path / "f").st_ino
    file.truncate(10)
    assert os.stat(tmp_path / "f").st_ino != inode
    assert bytes(view[-1:]) == b"x", "the page is still there"
    del view
    inode = os.stat(tmp_path / "f").st_ino
    file.append([b"y" * 1_000_000])
    file.read(0, 1_000_000)
    file.truncate(10)
    assert os.stat(tmp_path / "f").st_ino == inode, "without views it is cut in place"


@pytest.mark.parametrize("removed", [False, True])
def test_a_sync_that_a_swap_overtakes_is_no_failure(disk, posted, tmp_path, monkeypatch, removed):
    file = disk.open("f", create=True)
    file.append([b"x" * 1_000_000])
    view = file.read(0, 1_000_000)
    swapped = threading.Event()
    in_a_thread = lambda: threading.current_thread() is not threading.main_thread()  # noqa: E731
    monkeypatch.setattr(disk_file, "sync_handle", lambda fd: in_a_thread() and swapped.wait(60))
    told: list[Any] = []
    file.sync(told.append)
    if removed:
        (tmp_path / "f").unlink()
    else:
        file.truncate(10)
    swapped.set()
    posted.get(timeout=60)()
    assert isinstance(told[0], FileNotFoundError) == removed, "what was swapped in is on the device already"
    assert len(view) == 1_000_000


def test_large_files_are_mapped_in_windows(disk, monkeypatch):
    monkeypatch.setattr(disk_file, "_WINDOW", 1 << 20)
    file = disk.open("f", create=True)
    block = bytes(range(256)) * 4096
    for _ in range(3):
        file.append([block])
    for position in (0, 1 << 20, (1 << 20) - 300_000, 2 << 20):
        assert bytes(file.read(position, 600_000)) == (block * 3)[position : position + 600_000]


def test_readers_of_several_places_share_the_maps(disk, monkeypatch):
    monkeypatch.setattr(disk_file, "_WINDOW", 1 << 20)
    monkeypatch.setattr(disk_file, "_OVERLAP", 1 << 18)
    made: list[int] = []
    real = mmap.mmap

    def counted(*arguments, **keywords):
        made.append(keywords["offset"])
        return real(*arguments, **keywords)

    monkeypatch.setattr(mmap, "mmap", counted)
    file = disk.open("f", create=True)
    file.append([bytes(3 << 20)])
    for _ in range(3):
        for position in (0, 1 << 20, (2 << 20) - 150_000, 2 << 20):
            assert len(file.read(position, 300_000)) == 300_000
    assert made == [0, 1 << 20, 2 << 20]


def test_few_directories_are_synced_for_many_files(disk, posted, monkeypatch):
    synced = directories_synced(disk, monkeypatch)
    for name in ("d", "e", "f"):
        disk.make_dir(name)
    told: list[Any] = []
    for name in ("d", "e", "f"):
        disk.open(f"{name}/log", create=True).sync(told.append)
        posted.get(timeout=60)()
    assert synced == ["d", "", "e", "f"]
    synced.clear()
    disk.write_files([(f"d/{i}", b"x") for i in range(5)], told.append)
    posted.get(timeout=60)()
    assert synced == ["d"]
    assert told == [None] * 4


@pytest.mark.parametrize("made_anew", [False, True])
@pytest.mark.parametrize("at", ["within", "sync_handle", "rename"])
def test_a_small_file_whose_directory_is_renamed_under_its_write_goes_with_it(disk, posted, monkeypatch, at, made_anew):
    """A topic is deleted, and made anew, while a thread is just at a checkpoint of the old one."""
    disk.make_dir("d")
    owner = disk_root if at == "sync_handle" else Root
    real = getattr(owner, at)

    def meanwhile(*arguments):
        monkeypatch.setattr(owner, at, real)
        disk.rename("d", "d-delete")
        if made_anew:
            disk.make_dir("d")
        return real(*arguments)

    monkeypatch.setattr(owner, at, meanwhile)
    told: list[Any] = []
    disk.write_atomic("d/c", b"old", told.append)
    posted.get(timeout=60)()
    assert told == [None]
    assert disk.list("d") == []
    assert disk.list("d-delete") == ([] if at == "within" else ["c"])


def test_a_small_file_that_need_not_be_durable_is_not_synced(disk, posted, monkeypatch):
    monkeypatch.setattr(Root, "sync_directory", None)
    monkeypatch.setattr(disk_root, "sync_handle", None)
    told: list[Any] = []
    disk.write_atomic("c", b"old", durable=False)
    disk.write_atomic("c", b"new", told.append, durable=False)
    posted.get(timeout=60)()
    assert told == [None]
    assert (disk.load("c"), disk.list("")) == (b"new", ["c"])


def test_work_that_was_not_begun_is_dropped_at_the_end(disk, posted, tmp_path):
    begun, held = threading.Semaphore(0), threading.Event()

    def work() -> None:
        begun.release()
        held.wait(60)

    told: list[Any] = []
    for _ in range(disk_module._FILE_THREADS):
        disk.run(work, told.append, urgent=False)
    for _ in range(disk_module._FILE_THREADS):
        assert begun.acquire(timeout=60)
    disk.make_dir("d")
    disk.write_atomic("d/late", b"x", told.append)
    drop = disk._small.drop

    def drop_then_go_on() -> None:
        drop()
        held.set()

    disk._small.drop = drop_then_go_on
    disk.close()
    while not posted.empty():
        posted.get()()
    assert told == [None] * disk_module._FILE_THREADS
    assert os.listdir(tmp_path / "d") == []


def test_syncs_do_not_stand_behind_small_files(disk, posted):
    """Ten thousand new partitions have a small file each on its way; who waits for a sync does not wait for those."""
    held = threading.Event()
    for _ in range(disk_module._FILE_THREADS):
        disk.run(lambda: held.wait(60), lambda _: None, urgent=False)
    told: list[str] = []
    disk.write_atomic("late", b"x", lambda _: told.append("late"))
    file = disk.open("f", create=True)
    file.append([b"x"])
    file.sync(lambda _: told.append("sync"))
    posted.get(timeout=60)()
    disk.write_files([("at the stop", b"x")], lambda _: told.append("stop"))
    posted.get(timeout=60)()
    assert told == ["sync", "stop"]
    held.set()
    while disk.under_way:
        posted.get(timeout=60)()
    assert told == ["sync", "stop", "late"]


def test_small_files_do_not_stand_behind_removals(disk, posted, monkeypatch):
    """Of large logs these take seconds, and the first sync of a new log waits until it is noted whose the log is."""
    held = threading.Event()
    monkeypatch.setattr(disk.root, "remove", lambda path: held.wait(60))
    told: list[str] = []
    for number in range(disk_module._FILE_THREADS):
        disk.remove_later(f"t-{number}", lambda _: told.append("removed"))
    disk.write_atomic("whose", b"x", lambda _: told.append("written"))
    posted.get(timeout=60)()
    held.set()
    first = list(told)
    while disk.under_way:
        posted.get(timeout=60)()
    assert first == ["written"]
    assert told[1:] == ["removed"] * disk_module._FILE_THREADS


def test_a_sync_opens_the_file_where_no_handle_is_open(disk, posted, tmp_path):
    files = [disk.open(f"f{i}", create=True) for i in range(20)]
    told: list[Any] = []
    for file in files:
        file.append([b"x"])
    before = dict(disk._open)
    for file in files:
        file.sync(told.append)
    assert dict(disk._open) == before, "the handles of others are left alone"
    for _ in files:
        posted.get(timeout=60)()
    assert told == [None] * 20
    (tmp_path / "f0").unlink()
    files[0].sync(told.append)
    posted.get(timeout=60)()
    assert isinstance(told[-1], FileNotFoundError)


def test_syncs_of_new_files_reach_their_directory(disk, posted, monkeypatch):
    synced = directories_synced(disk, monkeypatch)
    disk.make_dir("d")
    file = disk.open("d/f", create=True)
    for _ in range(2):
        file.append([b"x"])
        told: list[Any] = []
        file.sync(told.append)
        posted.get(timeout=60)()
        assert told == [None]
    assert synced == ["d", ""]


def test_closing_waits_for_what_is_under_way(tmp_path, posted):
    disk = RealDisk(tmp_path, posted.put)
    told: list[Any] = []
    disk.write_atomic("c", b"x", told.append)
    disk.close()
    posted.get(timeout=60)()
    assert told == [None]
    assert (tmp_path / "c").read_bytes() == b"x"


def test_a_defect_in_a_thread_is_told_and_the_thread_lives_on(disk, posted):
    """Sixteen of them would leave nobody to sync, and whoever waits for one would wait for ever."""

    def work() -> None:
        raise MemoryError

    told: list[Any] = []
    for _ in range(20):
        disk.run(work, told.append)
        posted.get(timeout=60)()
    assert [(type(error), error.errno) for error in told] == [(OSError, errno.EIO)] * 20
    disk.write_files([("after", b"x")], told.append)
    posted.get(timeout=60)()
    assert told[-1] is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f")
    found: list[object] = []

    def look() -> None:
        disk = RealDisk(str(tmp_path), lambda _: None)
        found.append(disk.load("f"))
        found.append(disk.open("f").size)
        disk.write_atomic("f", b"new")
        found.append(disk.load("f"))
        disk.close()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(60)
    assert found == [b"", 0, b"new"]


def lines_run(work: Callable[[], None]) -> int:
    """How many lines of `disk` that takes."""
    count = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename != disk_module.__file__:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_a_rename_looks_at_one_file_of_thousands(disk):
    """A log of 20,000 segments took 2.7 ms for each, and 96 are renamed in one step of retention or compaction."""

    def lines_of(directory: str, count: int) -> int:
        disk.make_dir(directory)
        files = [disk.open(f"{directory}/{number}", create=True) for number in range(count)]
        ran = lines_run(lambda: disk.rename(f"{directory}/0", f"{directory}/0.deleted"))
        assert [file.path for file in files[:2]] == [f"{directory}/0.deleted", f"{directory}/1"]
        return ran

    assert lines_of("t-0", 10) == lines_of("t-1", 100) > 0


def test_open_files_follow_their_names(disk):
    disk.make_dir("t-0")
    one = disk.open("t-0/a", create=True)
    again = disk.open("t-0/a")
    gone = disk.open("t-0/b", create=True)
    disk.rename("t-0/a", "t-0/b")
    del gone
    assert (one.path, again.path) == ("t-0/b", "t-0/b")
    disk.rename("t-0", "u-0")
    assert (one.path, again.path) == ("u-0/b", "u-0/b")
    disk.remove("u-0/b")
    fresh = disk.open("u-0/b", create=True)
    disk.rename("u-0/b", "u-0/c")
    assert (one.path, fresh.path) == ("u-0/b", "u-0/c"), "what was removed has no name any more"
