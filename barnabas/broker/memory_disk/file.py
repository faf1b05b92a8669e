"""A file of the disk in memory, and the token of a read that is late."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.broker.jobs import Gate
from barnabas.broker.memory_disk.content import Content
from barnabas.broker.ports import Done
from barnabas.protocol.ids import Buffer

if TYPE_CHECKING:
    from barnabas.broker.memory_disk.disk import MemoryDisk


class LateRead(Gate):
    """The token of a read that `MemoryDisk.deliver` will answer."""

    __slots__ = ("__weakref__",)


class MemoryFile:
    """An append-only file in memory (see `ports.File`)."""

    __slots__ = ("_content", "_disk", "_life", "_named", "size")

    def __init__(self, disk: MemoryDisk, content: Content) -> None:
        self._disk = disk
        self._life = disk.life
        self._content = content
        self._named = False  # whether this process has synced its name
        self.size = content.size

    @property
    def path(self) -> str:
        """Its name on the disk; it follows a rename."""
        return self._content.path

    def _check(self) -> None:
        if self._life != self._disk.life:
            raise OSError(errno.EIO, "the disk crashed under this handle", self.path)

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Append all or nothing.

        Raises:
            OSError: ENOSPC when the disk is full.
        """
        self._check()
        length = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        self._disk.take(length, self._content)
        self._content.append(buffers)
        self.size += length

    def expect(self, size: int) -> None:
        """What is appended next lies together up to here."""
        self._content.reserve(size)

    def read(self, position: int, length: int, *, once: bool = False, some: bool = False) -> memoryview:
        """A view of up to `length` bytes; of `some` no more than 1 MiB is copied together.

        Raises:
            NotYet: the disk is late and the read was not delivered yet.
            OSError: the file is a bad one.
        """
        self._check()
        disk = self._disk
        if disk.late:
            disk.await_read(self._content, position, min(length, max(self.size - position, 0)))
        if disk.faults.broken or disk.faults.bad_reads:
            disk.faults.read(self.path)
        return self._content.some(position, length) if some else self._content.view(position, length)

    def sync(self, done: Done) -> None:
        """Make durable what is there now; completes in `deliver` or through `post`."""
        self._check()
        disk, content, size = self._disk, self._content, self.size
        unnamed = not self._named
        self._named = True

        def work() -> None:
            if disk.fail_syncs > 0:
                disk.fail_syncs -= 1
                raise OSError(errno.EIO, "sync failed", content.path)
            disk.faults.sync(content.path)
            content.sync(size)
            if unnamed:
                disk.sync_names(content.path.rpartition("/")[0])

        disk.complete(work, done)

    def truncate(self, size: int) -> None:
        """Keep the first `size` bytes; views of the old content stay readable.

        Raises:
            OSError: the disk refuses; the file is as it was.
        """
        self._check()
        if size >= self.size:
            return
        self._disk.faults.ask(self.path)
        self._content.cut(size, durably=not self._disk.faults.cuts)
        self._disk.used += size - self.size
        self.size = size

    def close(self) -> None:
        """Nothing to release."""
