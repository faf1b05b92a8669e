"""The real disk: one data directory, and threads for what may take long (see `ports.Disk`).

Appends run on the loop (a write into the page cache costs a few µs, a hop to a thread 38); syncs, atomic writes and
reads of cold bytes run in a small pool, and `post` brings their completions back to the loop's thread.

Reads give slices of memory maps, which cost no copy. A map would block the loop on bytes that are not in the page
cache, so a range is probed first (`preadv` with RWF_NOWAIT, 1 µs) and a cold one is read by a thread. The end of a
growing file, where maps would be renewed all the time, is copied while reads are small. A mapped file is never cut
(touching the lost page kills the process): with views about, `truncate` copies the prefix and swaps it in.

Handles and maps are opened when needed and bounded in number: above the bound the oldest is closed.

Files that somebody else removes under a living broker: one that a handle is open of can be written and read on, and
its next sync fails; one that is to be opened again is not found; a directory that went takes its small files along.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import mmap
import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from barnabas.broker.host.disk_calls import default_handles_max, named, read_whole
from barnabas.broker.host.disk_file import READ_WRITE, ColdRead, Folder, RealFile
from barnabas.broker.host.disk_root import Root
from barnabas.broker.host.disk_threads import Lane
from barnabas.broker.ports import Done, Volume, countdown

logger = logging.getLogger(__name__)

_THREADS: Final = 16
"""For syncs and reads. They wait most of the time, and the system makes durable at once what several of them ask for:
1,000 syncs take 140 ms with four threads and 60 ms with sixteen."""
_CALM_BYTES_MAX: Final = 16 * 1024 * 1024
"""Pages are not released while more than so much was read through maps since that was asked for last."""
_FILE_THREADS: Final = 4
"""For small files, which nobody waits for but a log's first sync: each is many calls, more would only cost the loop."""
_REMOVING_THREADS: Final = 2
"""For removals, of which one may take seconds."""


class RealDisk:
    """One data directory.

    Args:
        data_dir: the directory; it exists.
        post: hands a callable to the loop's thread (from any thread).
        handles_max: most files and maps held open at a time (default: a quarter of what the process may have).
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str],
        post: Callable[[Callable[[], None]], None],
        *,
        handles_max: int | None = None,
    ) -> None:
        self.root = Root(data_dir)
        self.cold_reads: weakref.WeakValueDictionary[tuple[int, int, int], ColdRead] = weakref.WeakValueDictionary()
        self._post = post
        self._syncs = Lane("sync", _THREADS)
        self._small = Lane("files", _FILE_THREADS)
        self._removals = Lane("removals", _REMOVING_THREADS)
        self._codec = Lane("codec", 1)
        self._handles_max = handles_max or default_handles_max()
        self._open: OrderedDict[RealFile, None] = OrderedDict()
        self._mapped: OrderedDict[tuple[RealFile, int], None] = OrderedDict()
        self._alive: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()  # maps that were let go, and are looked at, too
        self.mapped_read_bytes = 0
        """Read through maps, so far."""
        self._mapped_read_bytes_told = 0
        self._folders: dict[str, Folder] = {}
        self._atomic: dict[str, tuple[bytes, list[Done], bool, int]] = {}
        self._atomic_running: set[str] = set()
        self._moved: dict[str, int] = {}  # how often a directory was renamed away while small files were under way
        self.on_maps_short: Callable[[], None] = lambda: None
        """Called when a range is copied for want of a map."""
        self._made = 0  # directories made and names changed so far, and how many of them the root holds durably
        self._made_synced = -1

    # What files ask of their disk

    def opened(self, file: RealFile) -> None:
        """A handle was opened: close the oldest above the bound."""
        self._open[file] = None
        while len(self._open) > self._handles_max:
            self._open.popitem(last=False)[0].release()

    def may_map(self) -> bool:
        """Whether there may be another map.

        One that was let go lives on in answers that nobody reads, with a handle of its own, and a file that grows is
        mapped anew: without a bound they take all the handles that there are.
        """
        if len(self._alive) >= self._handles_max and self._mapped:
            self._let_go_of_oldest()
        if len(self._alive) < self._handles_max:
            return True
        self.on_maps_short()
        return False

    def mapped(self, file: RealFile, start: int, made: mmap.mmap) -> None:
        """A window was mapped: let go of the oldest above the bound."""
        self._alive.add(made)
        self._mapped[file, start] = None
        self._mapped.move_to_end((file, start))
        while len(self._mapped) > self._handles_max:
            self._let_go_of_oldest()

    def _let_go_of_oldest(self) -> None:
        oldest, at = self._mapped.popitem(last=False)[0]
        oldest.forget_window(at)

    def release_pages(self) -> bool:
        """Have the system take the pages of all maps back, unless they are much read from; whether it does.

        They count as this process' memory as long as they are mapped, whoever read them last. They stay in the page
        cache; what a map is asked for again it finds there. A map of 64 MiB takes about 1 ms, in a thread.
        """
        told, self._mapped_read_bytes_told = self._mapped_read_bytes_told, self.mapped_read_bytes
        if self.mapped_read_bytes - told > _CALM_BYTES_MAX or not hasattr(mmap, "MADV_DONTNEED"):
            return False
        alive = list(self._alive)

        def work() -> None:
            for one in alive:
                one.madvise(mmap.MADV_DONTNEED)
            alive.clear()

        self.run(work, lambda _: None, urgent=False)
        return True

    def unmapped(self, file: RealFile, start: int) -> None:
        """A window was let go."""
        del self._mapped[file, start]

    def closed(self, file: RealFile) -> None:
        """A file is done with."""
        self._open.pop(file, None)

    def fetch(self, file: RealFile, position: int, length: int, count: int) -> ColdRead:
        """Have a thread read `count` bytes; the token is found again under (file, position, length)."""
        token = ColdRead(file)
        self.cold_reads[(id(file), position, length)] = token
        fd = os.dup(file.handle())

        def work() -> None:
            try:
                token.data = read_whole(fd, count, position)
            except OSError as error:
                raise named(error, file.path, position) from error
            finally:
                os.close(fd)

        self.run(work, token.open)
        return token

    def sync_names(self, directory: str) -> None:
        """Make the names in a directory durable, and its own where some were made or changed (a start, or a thread)."""
        with contextlib.suppress(FileNotFoundError):  # renamed away meanwhile: its new name is its owner's care
            self.root.sync_directory(directory)
        self._sync_root(directory)

    def _sync_root(self, directory: str) -> None:
        """Make the name of a directory durable, and others of the root, where some were made or changed."""
        made = self._made
        if self._made_synced < made and directory:
            self.root.sync_directory("")
            self._made_synced = made

    @property
    def under_way(self) -> int:
        """Completions that have not come back yet."""
        return sum(lane.under_way for lane in (self._syncs, self._small, self._removals, self._codec))

    def run(self, work: Callable[[], None], done: Done, *, urgent: bool = True) -> None:
        """Do `work` in a thread and call `done` on the loop's thread; what is not urgent has its own few threads."""
        self._run_in(self._syncs if urgent else self._small, work, done)

    def aside(self, work: Callable[[], None], done: Done) -> None:
        """Do `work`, which is no call of the system, in a thread of its own."""
        self._run_in(self._codec, work, done)

    def _run_in(self, lane: Lane, work: Callable[[], None], done: Done) -> None:
        def step() -> None:
            failure: OSError | None = None
            try:
                work()
            except OSError as error:
                failure = error
            except Exception as defect:  # out of memory, at worst: the thread lives on, and who waits hears of it
                logger.exception("work of the disk's threads failed")
                failure = OSError(errno.EIO, repr(defect))
            self._post(lambda: finish(failure))

        def finish(failure: OSError | None) -> None:
            lane.ended()
            done(failure)

        lane.submit(step)

    def close(self) -> None:
        """Wait for what the threads have begun and release every handle; what waits for a thread is not begun any more.

        Completions still to come are posted before it returns.
        """
        self._small.close()
        self._removals.close()
        self._syncs.close()
        self._codec.close()
        for file in list(self._open):
            file.release()
        self._open.clear()
        for file, start in self._mapped:
            file.forget_window(start)
        self._mapped.clear()
        self.root.close()

    # ports.Disk

    def open(self, path: str, *, create: bool = False) -> RealFile:
        """Open a file.

        Raises:
            OSError: it does not exist, or cannot be made.
        """
        if create:
            fd = self.root.open(path, READ_WRITE | os.O_CREAT | os.O_TRUNC)
            file = RealFile(self, self._place(path), 0, fd)
            self.opened(file)
        else:
            size = self.root.size(path)
            file = RealFile(self, self._place(path), size)
        self._follow(file)
        return file

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name is there."""
        return self.root.exists(path)

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty when it does not exist."""
        return sorted(self.names(path))

    def names(self, path: str) -> Iterator[str]:
        """The same one by one, in no order."""
        try:
            yield from self.root.names(path)
        except FileNotFoundError:
            return

    def make_dir(self, path: str) -> None:
        """Make a directory and those above it."""
        self.root.make_dir(path)
        self._made += 1

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory; open files follow.

        Raises:
            OSError: there is no `old`.
        """
        self.root.rename(old, new)
        self._made += 1
        if self._atomic_running:
            self._moved[old] = self._moved.get(old, 0) + 1
        folder = self._folders.pop(old, None)
        if folder is not None:
            folder.path = new
            self._folders[new] = folder
            return
        for one in self._unfollow(old):
            file = one()
            if file is not None:
                file.place = self._place(new)
                self._follow(file)

    def _place(self, path: str) -> tuple[Folder, str]:
        directory, _, name = path.rpartition("/")
        folder = self._folders.get(directory)
        if folder is None:
            folder = self._folders[directory] = Folder(directory)
        return folder, name

    def _follow(self, file: RealFile) -> None:
        """From now on it has its name, beside those that have it already."""
        folder, name = file.place
        others = folder.files.get(name, ())
        folder.files[name] = (*(one for one in others if one() is not None), weakref.ref(file))

    def _unfollow(self, path: str) -> tuple[weakref.ref[RealFile], ...]:
        directory, _, name = path.rpartition("/")
        folder = self._folders.get(directory)
        return () if folder is None else folder.files.pop(name, ())

    def remove(self, path: str) -> None:
        """Remove a file or a directory tree; nothing happens when it is absent."""
        self._forget(path)
        self.root.remove(path)

    def _forget(self, path: str) -> None:
        self._folders.pop(path, None)
        self._unfollow(path)

    def remove_later(self, path: str, done: Done) -> None:
        """As `remove`, in a thread: the system takes 80 ms to let go of a GiB."""
        self._forget(path)
        self._run_in(self._removals, lambda: self.root.remove(path), done)

    def load(self, path: str) -> bytes:
        """The whole of a small file.

        Raises:
            FileNotFoundError: there is none.
        """
        return self.root.load(path)

    def write_atomic(self, path: str, data: bytes, done: Done | None = None, *, durable: bool = True) -> None:
        """Replace a small file: temporary file, fsync, rename, fsync of the directory (and of what names that).

        Calls with `done` for one path run one after the other, and one that waits is overtaken by a later one (both
        are told when the later is through). One whose directory is renamed away has nothing to write to any more, or
        goes with it: another directory of that name is none of its business.
        """
        if done is None:
            self.root.replace((path, data), durable=durable)
            if durable:
                self._sync_root(os.path.dirname(path))
            return
        _, waiting, _, _ = self._atomic.get(path, (b"", [], False, 0))
        self._atomic[path] = (data, [*waiting, done], durable, self._moved.get(os.path.dirname(path), 0))
        if path not in self._atomic_running:
            self._write_next(path)

    def volume(self) -> Volume:
        """Where the directory is, and how much room there is (one call of the system, which waits for no file)."""
        return Volume(self.root.path, *self.root.room())

    def write_files(self, files: Sequence[tuple[str, bytes]], done: Done) -> None:
        """Replace small files of one directory, each as a whole, with one sync of the directory (a stop waits)."""
        if not self._atomic_running.isdisjoint(path for path, _ in files):
            one = countdown(len(files), done)
            for path, data in files:
                self.write_atomic(path, data, one)
            return
        self._replace(files, done, self._moved.get(os.path.dirname(files[0][0]), 0), urgent=True)

    def _write_next(self, path: str) -> None:
        data, waiting, durable, moved = self._atomic.pop(path)

        def done(error: OSError | None) -> None:
            for waiter in waiting:
                waiter(error)

        self._replace([(path, data)], done, moved, urgent=False, durable=durable)

    def _replace(
        self, files: Sequence[tuple[str, bytes]], done: Done, moved: int, *, urgent: bool, durable: bool = True
    ) -> None:
        directory = os.path.dirname(files[0][0])
        self._atomic_running.update(path for path, _ in files)

        def finished(error: OSError | None) -> None:
            if isinstance(error, FileNotFoundError) and self._moved.get(directory, 0) != moved:
                error = None
            for path, _ in files:
                self._atomic_running.discard(path)
                if path in self._atomic:
                    self._write_next(path)
            if not self._atomic_running:
                self._moved.clear()
            done(error)

        def write() -> None:
            held = self.root.within(directory)
            try:
                if self._moved.get(directory, 0) == moved:  # asked last: from here on another is of another name
                    held.replace(*((os.path.basename(path), data) for path, data in files), durable=durable)
                    if durable:
                        self._sync_root(directory)
            except OSError as error:
                name = os.path.basename(error.filename or files[0][0])
                raise named(error, f"{directory}/{name}" if directory else name) from error
            finally:
                held.close()

        self.run(write, finished, urgent=urgent)
