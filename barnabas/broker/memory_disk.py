"""A disk in memory: the embedded broker's default, and the faulty disk of the tests.

It keeps the contract of `ports.Disk` (the same suite runs on it and on the real one) and can be told to misbehave:
`capacity` fills it up, `crash` loses what was not synced (and may keep a torn part of it), `flip` turns one bit,
`fail_syncs` fails the next syncs, and with `late=True` every read and every completion waits for `deliver`.

Fault model: what was appended and not synced may be lost from its end at any byte. Names (create, rename, remove) are
durable in the order they were made; `write_atomic` shows either the old content or the new.
Long because files, names and faults share one account of what is durable.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from barnabas.broker.ports import Done, NotYet, countdown
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

    def take(self, other: _Content) -> None:
        """Hold from now on what `other` holds; views stay as they are, for blocks are never changed below their end."""
        self.blocks, self.starts, self.tail_used = other.blocks, other.starts, other.tail_used
        self.size, self.synced = other.size, other.synced

    def prefix(self, size: int) -> _Content:
        """A new content with the first `size` bytes; views of this one stay as they are."""
        kept = _Content()
        if size:
            kept.append([bytes(self.view(0, size))])
        kept.synced = min(self.synced, size)
        return kept


_Tree: TypeAlias = "dict[str, _Content | _Tree]"


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
        self._content.take(self._content.prefix(size))
        self._disk.take(size - self.size, self.path)
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
        self._root: _Tree = {}
        self._pending: list[Callable[[], None]] = []
        self._reads: WeakValueDictionary[tuple[int, int, int], LateRead] = WeakValueDictionary()
        self._atomic: dict[str, int] = {}
        self._moved: dict[str, int] = {}  # how often a name was renamed away

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
        self.used = 0
        for path, content in _files_in(self._root, ""):
            size = content.synced
            if keep is not None:
                size = min(max(keep(path, content.synced, content.size), content.synced), content.size)
            content.take(content.prefix(size))
            content.synced = size
            self.used += size

    def flip(self, path: str, position: int, bit: int = 0) -> None:
        """Turn one bit of a stored file."""
        content = self._file(path)
        data = bytearray(content.view(0, content.size))
        data[position] ^= 1 << bit
        changed = _Content()
        changed.append([bytes(data)])
        changed.synced = content.synced
        content.take(changed)

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

    # Names

    def _find(self, path: str) -> _Content | _Tree | None:
        found: _Content | _Tree | None = self._root
        if path not in ("", "."):
            for name in path.split("/"):
                if not isinstance(found, dict):
                    return None
                found = found.get(name)
        return found

    def _file(self, path: str) -> _Content:
        found = self._find(path)
        if not isinstance(found, _Content):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return found

    def _directory_of(self, path: str) -> tuple[_Tree, str]:
        parent, _, name = path.rpartition("/")
        found = self._find(parent)
        if not isinstance(found, dict):
            raise FileNotFoundError(errno.ENOENT, "no such directory", parent)
        return found, name

    def _forget(self, directory: _Tree, name: str) -> None:
        gone = directory.pop(name, None)
        if isinstance(gone, _Content):
            self.used -= gone.size
        elif gone is not None:
            self.used -= sum(content.size for _, content in _files_in(gone, ""))

    # ports.Disk

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        """Open a file.

        Raises:
            FileNotFoundError: it does not exist, or with `create` its directory does not.
        """
        if not create:
            return MemoryFile(self, path, self._file(path))
        directory, name = self._directory_of(path)
        self._forget(directory, name)
        content = directory[name] = _Content()
        return MemoryFile(self, path, content)

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name is there."""
        return self._find(path) is not None

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        found = self._find(path)
        return sorted(found) if isinstance(found, dict) else []

    def make_dir(self, path: str) -> None:
        """Make a directory and those above it."""
        directory = self._root
        for name in path.split("/"):
            found = directory.setdefault(name, {})
            if not isinstance(found, dict):
                raise FileExistsError(errno.EEXIST, "a file has that name", path)
            directory = found

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a directory.

        Raises:
            FileNotFoundError: there is no `old`.
        """
        directory, name = self._directory_of(old)
        if name not in directory:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", old)
        target, new_name = self._directory_of(new)
        moved = directory.pop(name)
        self._forget(target, new_name)
        target[new_name] = moved
        self._moved[old] = self._moved.get(old, 0) + 1

    def remove(self, path: str) -> None:
        """Remove a file or a directory tree."""
        if self._find(path) is not None:
            self._forget(*self._directory_of(path))

    def remove_later(self, path: str, done: Done) -> None:
        """Remove a file or a directory tree, in `deliver` or through `post`."""
        life = self.life

        def finish() -> None:
            if life == self.life:
                self.remove(path)
                done(None)

        self.complete(finish)

    def load(self, path: str) -> bytes:
        """The whole of a file.

        Raises:
            FileNotFoundError: there is none.
        """
        content = self._file(path)
        return bytes(content.view(0, content.size))

    def write_atomic(self, path: str, data: bytes, done: Done | None = None, *, durable: bool = True) -> None:
        """Replace a file: at once without `done`, else later, unless a later call for the path comes before.

        Nor is anything written once the file's directory was renamed away.
        """
        if done is None:
            self._atomic[path] = self._atomic.get(path, 0) + 1
            self._put(path, data, durable)
            return
        finished = done
        turn = self._atomic[path] = self._atomic.get(path, 0) + 1
        life = self.life
        directory = path.rpartition("/")[0]
        moved = self._moved.get(directory, 0)

        def finish() -> None:
            if life != self.life:
                return
            error = None
            if self._atomic.get(path) == turn and self._moved.get(directory, 0) == moved:
                try:
                    self._put(path, data, durable)
                except OSError as failure:
                    error = failure
            finished(error)

        self.complete(finish)

    def write_files(self, files: Sequence[tuple[str, bytes]], done: Done) -> None:
        """Replace files, each as `write_atomic` does."""
        one = countdown(len(files), done)
        for path, data in files:
            self.write_atomic(path, data, one)

    def _put(self, path: str, data: bytes, durable: bool) -> None:
        directory, name = self._directory_of(path)
        self.take(len(data), path)
        self._forget(directory, name)
        content = _Content()
        content.append([data])
        content.synced = content.size if durable else 0
        directory[name] = content


def _files_in(tree: _Tree, inside: str) -> Iterator[tuple[str, _Content]]:
    """Path and content of every file below a directory, by name."""
    for name in sorted(tree):
        found = tree[name]
        if isinstance(found, dict):
            yield from _files_in(found, f"{inside}{name}/")
        else:
            yield inside + name, found
