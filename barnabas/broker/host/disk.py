"""The real disk: one data directory, and threads for what may take long (see `ports.Disk`).

Appends run on the loop (a write into the page cache costs a few µs, a hop to a thread 38); syncs, atomic writes and
reads of cold bytes run in a small pool, and `post` brings their completions back to the loop's thread.

Reads give slices of memory maps, which cost no copy. A map would block the loop on bytes that are not in the page
cache, so a range is probed first (`preadv` with RWF_NOWAIT, 1 µs) and a cold one is read by a thread. The end of a
growing file, where maps would be renewed all the time, is copied while reads are small. A mapped file is never cut
(touching the lost page kills the process): with views about, `truncate` copies the prefix and swaps it in.

Handles and maps are opened when needed and bounded in number: above the bound the oldest is closed.
Long because file and disk share one account of handles and maps.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import mmap
import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.broker.host.disk_calls import (
    DIRECTORY_MODE,
    FILE_MODE,
    NO_LINK,
    NOWAIT,
    TEMPORARY,
    copy,
    default_handles_max,
    read_now,
    read_whole,
    remove,
    replace,
    sync_directory,
    sync_handle,
    write_many,
)
from barnabas.broker.host.disk_threads import Lane
from barnabas.broker.ports import Done, NotYet, countdown
from barnabas.protocol.ids import Buffer

logger = logging.getLogger(__name__)

_COPY_MAX: Final = 128 * 1024
"""Reads of up to this many bytes that no map covers are copied."""
_SMALL_MAX: Final = 16 * 1024
"""And those of so few bytes always: one system call reads them, a map takes two to probe."""
_WINDOW: Final = 64 * 1024 * 1024
"""Maps of a file begin at multiples of so many bytes. They are kept, so that readers of several places do not renew
each other's, and who reads what another has read finds its pages there."""
_OVERLAP: Final = 4 * 1024 * 1024
"""Bytes a map reaches into the next: a read across the border needs no map of its own."""
_READ_WRITE: Final = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | NO_LINK
_PROBE_STEP: Final = 256 * 1024
_THREADS: Final = 16
"""For syncs and reads. They wait most of the time, and the system makes durable at once what several of them ask for:
1,000 syncs take 140 ms with four threads and 60 ms with sixteen."""
_FILE_THREADS: Final = 4
"""For small files and removals, which nobody waits for: each is many calls, more threads would only cost the loop."""


class ColdRead:
    """The token of a read that a thread has in hand. It keeps the bytes, or the error, for whoever holds it."""

    __slots__ = ("__weakref__", "_waiters", "data", "error", "ready")

    def __init__(self) -> None:
        self.ready = False
        self.data = b""
        self.error: OSError | None = None
        self._waiters: list[Callable[[], None]] = []

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Call back on the loop's thread when the bytes are there."""
        assert not self.ready, "a token that fired is not waited for again"
        self._waiters.append(callback)

    def fire(self) -> None:
        """On the loop's thread: answer from now on, and call back."""
        self.ready = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter()


class RealFile:
    """An append-only file (see `ports.File`). Its handle is opened when it is needed."""

    __slots__ = (
        "__weakref__",
        "_created",
        "_disk",
        "_fd",
        "_maps",
        "_probe",
        "_windows",
        "path",
        "size",
    )

    def __init__(self, disk: RealDisk, path: str, size: int, created: bool) -> None:
        self._disk = disk
        self._fd = -1
        self._created = created
        self._windows: dict[int, memoryview] = {}
        self._maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()  # those of old windows, too, while views live
        self._probe = [bytearray(1)]
        self.path = path
        self.size = size

    def handle(self) -> int:
        """The file descriptor.

        Raises:
            OSError: the file cannot be opened.
        """
        if self._fd < 0:
            self._fd = os.open(self._disk.full(self.path), _READ_WRITE)
            self._disk.opened(self)
        return self._fd

    def release(self) -> None:
        """Close the handle; the next use opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Append all or nothing.

        Raises:
            OSError: the disk is full or failed; what was written of it is cut off again.
        """
        fd = self._fd if self._fd >= 0 else self.handle()
        start = self.size
        if len(buffers) == 1:
            length = len(buffers[0])
            written = os.pwrite(fd, buffers[0], start)
        else:
            length = sum(map(len, buffers))
            written = write_many(fd, buffers, start)
        if written != length:
            self._finish(fd, buffers, start, written, length)
        self.size = start + length

    def _finish(self, fd: int, buffers: Sequence[Buffer], start: int, written: int, length: int) -> None:
        """Write what a short write left, or take it all back."""
        rest = memoryview(b"".join(buffers))
        try:
            while written < length:
                count = os.pwrite(fd, rest[written:], start + written)
                if not count:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
                written += count
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, start)  # beyond every map: they end at `size`
            raise

    def read(self, position: int, length: int) -> memoryview:
        """A leased view of up to `length` bytes.

        Raises:
            NotYet: a thread has to fetch the bytes.
            OSError: the device failed.
        """
        end = min(position + length, self.size)
        if position >= end:
            return memoryview(b"")
        held = self._disk.cold_reads.get((id(self), position, length)) if self._disk.cold_reads else None
        if held is not None:
            return _answer_of(held)
        fd = self._fd if self._fd >= 0 else self.handle()
        count = end - position
        start = position - position % _WINDOW
        window = self._windows.get(start)
        if window is not None and end - start > len(window):
            window = None
        if count <= (_COPY_MAX if window is None else _SMALL_MAX):
            data = read_now(fd, count, position)
            if data is not None:
                return memoryview(data)
            raise NotYet(self._disk.fetch(self, position, length, count))
        if not self._is_warm(fd, position, end):
            raise NotYet(self._disk.fetch(self, position, length, count))
        if window is None:
            window = self._map(fd, start, end)
        return window[position - start : end - start]

    def _is_warm(self, fd: int, position: int, end: int) -> bool:
        """Whether the range lies in the page cache, by samples."""
        if NOWAIT is None:
            return True
        probe = self._probe
        try:
            while position < end:
                os.preadv(fd, probe, position, NOWAIT)
                position += _PROBE_STEP
            os.preadv(fd, probe, end - 1, NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            return error.errno in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
        return True

    def _map(self, fd: int, start: int, end: int) -> memoryview:
        """Map the window that begins at `start`, up to `end` at least, as far as the file goes now."""
        stop = max(min(start + _WINDOW + _OVERLAP, self.size), end)
        fresh = mmap.mmap(fd, stop - start, access=mmap.ACCESS_READ, offset=start)
        self._maps.add(fresh)
        window = self._windows[start] = memoryview(fresh)
        self._disk.mapped(self, start)
        return window

    def forget_window(self, start: int) -> None:
        """Let go of a map; views cut from it keep it alive."""
        del self._windows[start]

    def forget_windows(self) -> None:
        """Let go of all maps."""
        for start in self._windows:
            self._disk.unmapped(self, start)
        self._windows.clear()

    def sync(self, done: Done) -> None:
        """Make durable what was appended so far; a new file's name too.

        Where no handle is open, the thread opens one for itself: a stop syncs more files than may be open at a time.
        """
        fd = os.dup(self._fd) if self._fd >= 0 else -1
        directory = os.path.dirname(self._disk.full(self.path)) if self._created else None
        self._created = False
        self._disk.run(lambda: self._disk.sync_file(fd if fd >= 0 else self._open_now(), directory), done)

    def _open_now(self) -> int:
        """In a thread: a handle of its own. The file may be renamed between two looks at its name, and once at that."""
        try:
            return os.open(self._disk.full(self.path), _READ_WRITE)
        except FileNotFoundError:
            return os.open(self._disk.full(self.path), _READ_WRITE)

    def truncate(self, size: int) -> None:
        """Keep the first `size` bytes.

        Raises:
            OSError: the disk failed; the file is as it was.
        """
        if size >= self.size:
            return
        self.forget_windows()
        if not len(self._maps):
            os.ftruncate(self.handle(), size)
            self.size = size
            return
        full = self._disk.full(self.path)
        source = self.handle()
        target = os.open(full + TEMPORARY, os.O_RDWR | os.O_CREAT | os.O_TRUNC | NO_LINK, FILE_MODE)
        try:
            copy(source, target, size)
            os.replace(full + TEMPORARY, full)
        except OSError:
            os.close(target)
            with contextlib.suppress(OSError):
                os.unlink(full + TEMPORARY)
            raise
        os.close(source)
        self._fd = target
        self._maps = weakref.WeakSet()
        self._created = True
        self.size = size

    def close(self) -> None:
        """Release the handle; leased views stay readable."""
        self._disk.closed(self)
        self.forget_windows()
        self.release()


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
        self.root = os.path.abspath(data_dir)
        self.cold_reads: weakref.WeakValueDictionary[tuple[int, int, int], ColdRead] = weakref.WeakValueDictionary()
        self._post = post
        self._syncs = Lane("sync", _THREADS)
        self._small = Lane("files", _FILE_THREADS)
        self._handles_max = handles_max or default_handles_max()
        self._open: OrderedDict[RealFile, None] = OrderedDict()
        self._mapped: OrderedDict[tuple[RealFile, int], None] = OrderedDict()
        self._files: dict[str, weakref.WeakSet[RealFile]] = {}
        self._atomic: dict[str, tuple[bytes, list[Done], bool, int]] = {}
        self._atomic_running: set[str] = set()
        self._moved: dict[str, int] = {}  # how often a directory was renamed away while small files were under way
        self._made = 0  # directories made and names changed so far, and how many of them the root holds durably
        self._made_synced = -1

    def full(self, path: str) -> str:
        """The path the operating system knows."""
        return f"{self.root}/{path}" if path else self.root

    # What files ask of their disk

    def opened(self, file: RealFile) -> None:
        """A handle was opened: close the oldest above the bound."""
        self._open[file] = None
        while len(self._open) > self._handles_max:
            self._open.popitem(last=False)[0].release()

    def mapped(self, file: RealFile, start: int) -> None:
        """A window was mapped: let go of the oldest above the bound."""
        self._mapped[file, start] = None
        self._mapped.move_to_end((file, start))
        while len(self._mapped) > self._handles_max:
            oldest, at = self._mapped.popitem(last=False)[0]
            oldest.forget_window(at)

    def unmapped(self, file: RealFile, start: int) -> None:
        """A window was let go."""
        del self._mapped[file, start]

    def closed(self, file: RealFile) -> None:
        """A file is done with."""
        self._open.pop(file, None)

    def fetch(self, file: RealFile, position: int, length: int, count: int) -> ColdRead:
        """Have a thread read `count` bytes; the token is found again under (file, position, length)."""
        token = ColdRead()
        self.cold_reads[(id(file), position, length)] = token
        fd = os.dup(file.handle())

        def work() -> None:
            try:
                token.data = read_whole(fd, count, position)
            finally:
                os.close(fd)

        def done(error: OSError | None) -> None:
            token.error = error
            token.fire()

        self.run(work, done)
        return token

    def sync_file(self, fd: int, directory: str | None) -> None:
        """In a thread: sync a file and close the handle; for a new one sync the directories that name it, too."""
        try:
            sync_handle(fd)
        finally:
            os.close(fd)
        if directory is None:
            return
        with contextlib.suppress(FileNotFoundError):  # renamed away meanwhile: its new name is its owner's care
            sync_directory(directory)
        made = self._made
        if self._made_synced < made and directory != self.root:
            sync_directory(self.root)
            self._made_synced = made

    @property
    def under_way(self) -> int:
        """Completions that have not come back yet."""
        return self._syncs.under_way + self._small.under_way

    def run(self, work: Callable[[], None], done: Done, *, urgent: bool = True) -> None:
        """Do `work` in a thread and call `done` on the loop's thread; what is not urgent has its own few threads."""
        lane = self._syncs if urgent else self._small

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
        self._syncs.close()
        for file in list(self._open):
            file.release()
        self._open.clear()
        for file, start in self._mapped:
            file.forget_window(start)
        self._mapped.clear()

    # ports.Disk

    def open(self, path: str, *, create: bool = False) -> RealFile:
        """Open a file.

        Raises:
            OSError: it does not exist, or cannot be made.
        """
        full = self.full(path)
        if create:
            fd = os.open(full, _READ_WRITE | os.O_CREAT | os.O_TRUNC, FILE_MODE)
            file = RealFile(self, path, 0, created=True)
            file._fd = fd
            self.opened(file)
        else:
            file = RealFile(self, path, os.stat(full).st_size, created=False)
        self._files.setdefault(os.path.dirname(path), weakref.WeakSet()).add(file)
        return file

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name is there."""
        return os.path.exists(self.full(path))

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty when it does not exist."""
        try:
            return sorted(os.listdir(self.full(path)))
        except FileNotFoundError:
            return []

    def make_dir(self, path: str) -> None:
        """Make a directory and those above it."""
        os.makedirs(self.full(path), DIRECTORY_MODE, exist_ok=True)
        self._made += 1

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory; open files follow.

        Raises:
            OSError: there is no `old`.
        """
        os.replace(self.full(old), self.full(new))
        self._made += 1
        if self._atomic_running:
            self._moved[old] = self._moved.get(old, 0) + 1
        inside = self._files.pop(old, None)
        if inside is not None:
            for file in inside:
                file.path = f"{new}/{os.path.basename(file.path)}"
            self._files[new] = inside
            return
        for file in list(self._files.get(os.path.dirname(old), ())):
            if file.path == old:
                file.path = new

    def remove(self, path: str) -> None:
        """Remove a file or a directory tree; nothing happens when it is absent."""
        self._files.pop(path, None)
        remove(self.full(path))

    def remove_later(self, path: str, done: Done) -> None:
        """As `remove`, in a thread: the system takes 80 ms to let go of a GiB."""
        self._files.pop(path, None)
        full = self.full(path)
        self.run(lambda: remove(full), done, urgent=False)

    def load(self, path: str) -> bytes:
        """The whole of a small file.

        Raises:
            FileNotFoundError: there is none.
        """
        with open(self.full(path), "rb", opener=lambda name, flags: os.open(name, flags | NO_LINK)) as file:
            return file.read()

    def write_atomic(self, path: str, data: bytes, done: Done | None = None, *, durable: bool = True) -> None:
        """Replace a small file: temporary file, fsync, rename, fsync of the directory.

        Calls with `done` for one path run one after the other, and one that waits is overtaken by a later one (both
        are told when the later is through). One whose directory is renamed away before its turn has nothing to write
        to any more: another directory of that name is none of its business.
        """
        if done is None:
            replace((self.full(path), data), durable=durable)
            return
        _, waiting, _, _ = self._atomic.get(path, (b"", [], False, 0))
        self._atomic[path] = (data, [*waiting, done], durable, self._moved.get(os.path.dirname(path), 0))
        if path not in self._atomic_running:
            self._write_next(path)

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
            for path, _ in files:
                self._atomic_running.discard(path)
                if path in self._atomic:
                    self._write_next(path)
            if not self._atomic_running:
                self._moved.clear()
            done(error)

        full = [(self.full(path), data) for path, data in files]

        def write() -> None:
            if self._moved.get(directory, 0) == moved:
                replace(*full, durable=durable)

        self.run(write, finished, urgent=urgent)


def _answer_of(token: ColdRead) -> memoryview:
    if not token.ready:
        raise NotYet(token)
    if token.error is not None:
        raise token.error
    return memoryview(token.data)
