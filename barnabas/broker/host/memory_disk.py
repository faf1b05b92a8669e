"""A disk in memory: the embedded broker's default, and the faulty disk of the tests.

It keeps the contract of `ports.Disk` (the same suite runs on it and on the real one) and can be told to misbehave:
`capacity` fills it up, `crash` loses what was not synced (and may keep a torn part of it), `flip` turns one bit,
`fail_syncs` fails the next syncs, and with `late=True` every read and every completion waits for `deliver`.

Fault model: what was appended and not synced may be lost from its end at any byte. Names (create, rename, remove) are
durable in the order they were made; `write_atomic` shows either the old content or the new.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final
from weakref import WeakValueDictionary

from barnabas.broker.ports import Done, NotYet
from barnabas.protocol.ids import Buffer

_FIRST_BLOCK: Final = 4096
_LARGEST_BLOCK: Final = 4 * 1024 * 1024


class LateRead:
    """The token of a read that `MemoryDisk.deliver` will answer."""

    __slots__ = ("__weakref__", "_waiters", "ready")

    def __init__(self) -> None:
        self.ready = False
        self._waiters: list[Callable[[], None]] = []

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Call back once, in `deliver`."""
        assert not self.ready, "a token that fired is not waited for again"
        self._waiters.append(callback)

    def fire(self) -> None:
        """Let the read answer from now on, and call back."""
        self.ready = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter()


class _Content:
    """A file's bytes in blocks that double in size and never move, so views of them stay good."""

    __slots__ = ("blocks", "size", "starts", "synced", "tail_used")

    def __init__(self) -> None:
        self.blocks: list[memoryview] = []
        self.starts: list[int] = []
        self.tail_used = 0  # bytes used in the last block
        self.size = 0
        self.synced = 0

    def append(self, buffers: Sequence[Buffer]) -> None:
        for buffer in buffers:
            length = len(buffer)
            if not self.blocks or len(self.blocks[-1]) - self.tail_used < length:
                self._grow(length)
            used = self.tail_used
            self.blocks[-1][used : used + length] = buffer
            self.tail_used = used + length
            self.size += length

    def _grow(self, length: int) -> None:
        """A batch stays in one block: what is left of the last one is given up."""
        if self.blocks:
            self.blocks[-1] = self.blocks[-1][: self.tail_used]
        block = max(min(max(_FIRST_BLOCK, self.size), _LARGEST_BLOCK), length)
        self.blocks.append(memoryview(bytearray(block)))
        self.starts.append(self.size)
        self.tail_used = 0

    def view(self, position: int, length: int) -> memoryview:
        end = min(position + length, self.size)
        if position >= end:
            return memoryview(b"")
        index = bisect_right(self.starts, position) - 1
        start = self.starts[index]
        if index == len(self.starts) - 1 or end <= self.starts[index + 1]:
            return self.blocks[index][position - start : end - start].toreadonly()
        parts = []
        while position < end:
            start = self.starts[index]
            stop = min(end, self.starts[index + 1] if index + 1 < len(self.starts) else self.size)
            parts.append(self.blocks[index][position - start : stop - start])
            position = stop
            index += 1
        return memoryview(b"".join(parts))

    def prefix(self, size: int) -> _Content:
        """A new content with the first `size` bytes; views of this one stay as they are."""
        kept = _Content()
        if size:
            kept.append([bytes(self.view(0, size))])
        kept.synced = min(self.synced, size)
        return kept


class MemoryFile:
    """An append-only file in memory (see `ports.File`)."""

    __slots__ = ("_content", "_disk", "_life", "path", "size")

    def __init__(self, disk: MemoryDisk, path: str, content: _Content) -> None:
        self._disk = disk
        self._life = disk.life
        self._content = content
        self.path = path
        self.size = content.size

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
        self._disk.take(length, self.path)
        self._content.append(buffers)
        self.size += length

    def read(self, position: int, length: int) -> memoryview:
        """A view of up to `length` bytes.

        Raises:
            NotYet: the disk is late and the read was not delivered yet.
        """
        self._check()
        if self._disk.late:
            self._disk.await_read(self._content, position, length)
        return self._content.view(position, length)

    def sync(self, done: Done) -> None:
        """Make durable what is there now; completes in `deliver` or through `post`."""
        self._check()
        content, size = self._content, self.size

        def finish() -> None:
            if self._life != self._disk.life:
                return  # the machine went down before it was done: nobody is told
            if self._disk.fail_syncs > 0:
                self._disk.fail_syncs -= 1
                done(OSError(errno.EIO, "sync failed", self.path))
                return
            content.synced = max(content.synced, min(size, content.size))
            done(None)

        self._disk.complete(finish)

    def truncate(self, size: int) -> None:
        """Keep the first `size` bytes; views of the old content stay readable."""
        self._check()
        if size >= self.size:
            return
        kept = self._content.prefix(size)
        self._disk.take(size - self.size, self.path)
        self._disk.replace(self._content, kept)
        self._content = kept
        self.size = size

    def close(self) -> None:
        """Nothing to release."""


class MemoryDisk:
    """A tree of files in memory (see `ports.Disk`).

    `post` runs a completion later on the core's thread; without it completions wait for `deliver`. `late` makes reads
    wait for `deliver` too. `capacity` bounds the bytes of all files (None: no bound).
    """

    def __init__(
        self,
        post: Callable[[Callable[[], None]], None] | None = None,
        *,
        late: bool = False,
        capacity: int | None = None,
    ) -> None:
        self.life = 0
        self.late = late
        self.capacity = capacity
        self.fail_syncs = 0
        self.used = 0
        self._post = post if not late else None
        self._files: dict[str, _Content] = {}
        self._dirs: set[str] = set()
        self._pending: list[Callable[[], None]] = []
        self._reads: WeakValueDictionary[tuple[int, int, int], LateRead] = WeakValueDictionary()
        self._atomic: dict[str, int] = {}

    # What the tests steer

    def deliver(self) -> int:
        """Answer every read and completion that waits now; what these start waits for the next call."""
        pending, self._pending = self._pending, []
        for step in pending:
            step()
        return len(pending)

    def crash(self, keep: Callable[[str, int, int], int] | None = None) -> None:
        """Lose power: every handle dies, completions under way never come, unsynced bytes are lost.

        `keep(path, synced, size)` may say how many bytes of a file survive (clamped to [synced, size]): a torn write.
        """
        self.life += 1
        self._pending.clear()
        for path in sorted(self._files):
            content = self._files[path]
            size = content.synced
            if keep is not None:
                size = min(max(keep(path, content.synced, content.size), content.synced), content.size)
            kept = content.prefix(size)
            kept.synced = size
            self._files[path] = kept
        self.used = sum(content.size for content in self._files.values())

    def flip(self, path: str, position: int, bit: int = 0) -> None:
        """Turn one bit of a stored file."""
        content = self._files[path]
        data = bytearray(content.view(0, content.size))
        data[position] ^= 1 << bit
        changed = _Content()
        changed.append([bytes(data)])
        changed.synced = content.synced
        self._files[path] = changed

    # What the files ask of their disk

    def take(self, length: int, path: str) -> None:
        """Account for `length` more bytes.

        Raises:
            OSError: ENOSPC when they do not fit.
        """
        if self.capacity is not None and length > 0 and self.used + length > self.capacity:
            raise OSError(errno.ENOSPC, "no space left on device", path)
        self.used += length

    def complete(self, step: Callable[[], None]) -> None:
        """Run a completion later."""
        if self._post is not None:
            self._post(step)
        else:
            self._pending.append(step)

    def await_read(self, content: _Content, position: int, length: int) -> None:
        """Pass if the same read was delivered and its token is still held.

        Raises:
            NotYet: with the token to wait for.
        """
        key = (id(content), position, length)
        token = self._reads.get(key)
        if token is None:
            token = self._reads[key] = LateRead()
            self._pending.append(token.fire)
        if not token.ready:
            raise NotYet(token)

    def replace(self, old: _Content, new: _Content) -> None:
        """Swap a file's content after a truncation."""
        for path, content in self._files.items():
            if content is old:
                self._files[path] = new
                return

    # ports.Disk

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        """Open a file.

        Raises:
            FileNotFoundError: it does not exist, or with `create` its directory does not.
        """
        if create:
            parent = path.rpartition("/")[0]
            if parent and parent not in self._dirs:
                raise FileNotFoundError(errno.ENOENT, "no such directory", parent)
            self._forget(path)
            self._files[path] = _Content()
        content = self._files.get(path)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return MemoryFile(self, path, content)

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name is there."""
        return path in self._files or path in self._dirs

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        prefix = path.rstrip("/") + "/" if path not in ("", ".") else ""
        names = {
            name[len(prefix) :].partition("/")[0] for name in (*self._files, *self._dirs) if name.startswith(prefix)
        }
        return sorted(names - {""})

    def make_dir(self, path: str) -> None:
        """Make a directory and those above it."""
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            self._dirs.add("/".join(parts[:depth]))

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a directory.

        Raises:
            FileNotFoundError: there is no `old`.
        """
        if old in self._files:
            content = self._files.pop(old)
            self._forget(new)
            self._files[new] = content
            return
        if old not in self._dirs:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", old)
        inside = old + "/"
        for name in [name for name in self._files if name.startswith(inside)]:
            self._files[new + name[len(old) :]] = self._files.pop(name)
        for name in [name for name in self._dirs if name == old or name.startswith(inside)]:
            self._dirs.remove(name)
            self._dirs.add(new + name[len(old) :])

    def remove(self, path: str) -> None:
        """Remove a file or a directory tree."""
        self._forget(path)
        if path in self._dirs:
            inside = path + "/"
            for name in [name for name in self._files if name.startswith(inside)]:
                self._forget(name)
            self._dirs -= {name for name in self._dirs if name == path or name.startswith(inside)}

    def load(self, path: str) -> bytes:
        """The whole of a file.

        Raises:
            FileNotFoundError: there is none.
        """
        content = self._files.get(path)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return bytes(content.view(0, content.size))

    def write_atomic(self, path: str, data: bytes, done: Done | None = None) -> None:
        """Replace a file: at once without `done`, else later and only if no later call for the path came."""
        if done is None:
            self._atomic[path] = self._atomic.get(path, 0) + 1
            self._put(path, data)
            return
        finished = done
        turn = self._atomic[path] = self._atomic.get(path, 0) + 1
        life = self.life

        def finish() -> None:
            if life != self.life:
                return
            error = None
            if self._atomic.get(path) == turn:
                try:
                    self._put(path, data)
                except OSError as failure:
                    error = failure
            finished(error)

        self.complete(finish)

    def _put(self, path: str, data: bytes) -> None:
        parent = path.rpartition("/")[0]
        if parent and parent not in self._dirs:
            raise FileNotFoundError(errno.ENOENT, "no such directory", parent)
        self.take(len(data), path)
        self._forget(path)
        content = _Content()
        content.append([data])
        content.synced = content.size
        self._files[path] = content

    def _forget(self, path: str) -> None:
        content = self._files.pop(path, None)
        if content is not None:
            self.used -= content.size
