"""A file of the real disk: appended to on the loop, read through maps or by a thread (see `disk`)."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from barnabas.broker.host.disk_calls import (
    NO_LINK,
    NOWAIT,
    TEMPORARY,
    copy,
    named,
    read_now,
    sync_handle,
    write_many,
)
from barnabas.broker.jobs import Gate
from barnabas.broker.ports import Done, NotYet
from barnabas.protocol.ids import Buffer

if TYPE_CHECKING:
    from barnabas.broker.host.disk import RealDisk

_COPY_MAX: Final = 128 * 1024
"""Reads of up to this many bytes that no map covers are copied."""
_SMALL_MAX: Final = 16 * 1024
"""And those of so few bytes always: one system call reads them, a map takes two to probe."""
_WINDOW: Final = 64 * 1024 * 1024
"""Maps of a file begin at multiples of so many bytes. They are kept, so that readers of several places do not renew
each other's, and who reads what another has read finds its pages there."""
_OVERLAP: Final = 4 * 1024 * 1024
"""Bytes a map reaches into the next: a read across the border needs no map of its own."""
READ_WRITE: Final = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | NO_LINK
_PROBE_STEP: Final = 256 * 1024


class ColdRead(Gate):
    """The token of a read that a thread has in hand. It keeps the bytes, or the error, for whoever holds it.

    It keeps the file, too: it is found by the file's identity, which another file would be given.
    """

    __slots__ = ("__weakref__", "data", "file")

    def __init__(self, file: RealFile) -> None:
        super().__init__()
        self.data = b""
        self.file = file


class Folder:
    """A directory and those of its files that are followed, by name: all are renamed with it at once.

    Of one name there is mostly one.
    """

    __slots__ = ("files", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.files: dict[str, tuple[weakref.ref[RealFile], ...]] = {}


class RealFile:
    """An append-only file (see `ports.File`). Its handle is opened when it is needed.

    Attributes:
        place: its directory, and its name there.
    """

    __slots__ = (
        "__weakref__",
        "_disk",
        "_fd",
        "_maps",
        "_named",
        "_probe",
        "_swaps",
        "_windows",
        "place",
        "size",
    )

    def __init__(self, disk: RealDisk, place: tuple[Folder, str], size: int, fd: int = -1) -> None:
        self._disk = disk
        self._fd = fd
        self._named = False  # whether this process has synced its name; who made the file may not have come to it
        self._swaps = 0  # how often another file took this one's name here
        self._windows: dict[int, memoryview] = {}
        self._maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()  # those of old windows, too, while views live
        self._probe = [bytearray(1)]
        self.place = place
        self.size = size

    @property
    def path(self) -> str:
        """Its name on the disk; it follows a rename."""
        folder, name = self.place
        inside = folder.path
        return f"{inside}/{name}" if inside else name

    def handle(self) -> int:
        """The file descriptor.

        Raises:
            OSError: the file cannot be opened.
        """
        if self._fd < 0:
            self._fd = self._disk.root.open(self.path, READ_WRITE)
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
        try:
            if len(buffers) == 1:
                length = len(buffers[0])
                written = os.pwrite(fd, buffers[0], start)
            else:
                length = sum(map(len, buffers))
                written = write_many(fd, buffers, start)
        except OSError as error:
            raise named(error, self.path, start) from error
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
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                written += count
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, start)  # beyond every map: they end at `size`
            raise named(error, self.path, start + written) from error

    def expect(self, size: int) -> None:
        """Nothing is set aside."""

    def read(self, position: int, length: int, *, once: bool = False, some: bool = False) -> memoryview:
        """A leased view of up to `length` bytes; of what is read `once` a copy, for a map would keep its pages.

        Raises:
            NotYet: a thread has to fetch the bytes.
            OSError: the device failed.
        """
        end = min(position + length, self.size)
        if position >= end:
            return memoryview(b"")
        held = self._disk.cold_reads.get((id(self), position, length)) if self._disk.cold_reads else None
        if held is not None:
            return _answer_of(held, end - position)
        count = end - position
        start = position - position % _WINDOW
        window = self._windows.get(start)
        if window is not None and end - start > len(window):
            window = None
        try:
            fd = self._fd if self._fd >= 0 else self.handle()
            if once or count <= (_COPY_MAX if window is None else _SMALL_MAX):
                data = read_now(fd, count, position)
                if data is not None:
                    return memoryview(data)
            elif self._is_warm(fd, position, end) and (window is not None or self._disk.may_map()):
                if window is None:
                    window = self._map(fd, start, end)
                self._disk.mapped_read_bytes += count
                return window[position - start : end - start]
            token = self._disk.fetch(self, position, length, count)
        except OSError as error:
            raise (error if error.filename else named(error, self.path, position)) from error
        raise NotYet(token, count)

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
        self._disk.mapped(self, start, fresh)
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
        """Make durable what was appended so far; the first time its name, too.

        Where no handle is open, the thread opens one for itself: a stop syncs more files than may be open at a time.
        """
        fd = os.dup(self._fd) if self._fd >= 0 else -1
        directory = None if self._named else os.path.dirname(self.path)
        self._named = True
        swaps = self._swaps
        self._disk.run(lambda: self._sync(fd, directory, swaps), done)

    def _sync(self, fd: int, directory: str | None, swaps: int) -> None:
        """In a thread. What stands under no name any more is lost with its handle: its sync is no success.

        Unless `truncate` has swapped in another file since, which was synced before it had the name.
        """
        if fd < 0:
            fd = self._open_now()
        try:
            sync_handle(fd)
            if not os.fstat(fd).st_nlink and self._swaps == swaps:
                raise FileNotFoundError(errno.ENOENT, "the file was removed under the broker")
        except OSError as error:
            raise named(error, self.path) from error
        finally:
            os.close(fd)
        if directory is not None:
            self._disk.sync_names(directory)

    def _open_now(self) -> int:
        """In a thread: a handle of its own. The file may be renamed between two looks at its name, and once at that."""
        try:
            return self._disk.root.open(self.path, READ_WRITE)
        except FileNotFoundError:
            return self._disk.root.open(self.path, READ_WRITE)

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
        root, temporary = self._disk.root, self.path + TEMPORARY
        source = self.handle()
        target = root.open(temporary, READ_WRITE | os.O_CREAT | os.O_TRUNC)
        try:
            copy(source, target, size)
            sync_handle(target)  # what was durable stays so: the name may reach the device before the copy
            self._swaps += 1  # before the old file loses its name, at which a thread may look just now
            root.rename(temporary, self.path)
        except OSError as error:
            os.close(target)
            with contextlib.suppress(OSError):
                root.unlink(temporary)
            raise named(error, self.path) from error
        os.close(source)
        self._fd = target
        self._maps = weakref.WeakSet()
        self._named = False
        self.size = size

    def close(self) -> None:
        """Release the handle; leased views stay readable."""
        self._disk.closed(self)
        self.forget_windows()
        self.release()


def _answer_of(token: ColdRead, size: int) -> memoryview:
    if not token.is_open:
        raise NotYet(token, size)
    if token.error is not None:
        raise token.error
    return memoryview(token.data)
