"""The disk in memory: keeps the contract of `ports.Disk`, and fails as it is told.

The same suite runs on it and on the real one. What it may be told: `capacity` fills it up, `crash` loses what was not
synced (and may keep a torn part of it), `kill` ends the process alone, `flip` turns one bit, `fail_syncs` fails the
next syncs, with `late=True` every read and every completion waits for `deliver`; all else is in `Faults`.

It syncs what the real disk syncs, no more: a file, the name of a file that this process has not synced yet, and the
root where directories were made or names changed; a small file with its directory.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from barnabas.broker.memory_disk.content import Content
from barnabas.broker.memory_disk.faults import Faults, Names
from barnabas.broker.memory_disk.file import LateRead, MemoryFile
from barnabas.broker.memory_disk.names import Directory, Journal, Node, files_in, find_places
from barnabas.broker.ports import Done, NotYet, Volume, countdown

Work: TypeAlias = "Callable[[], None]"
_TEMPORARY: Final = ".tmp"


class _PowerLost(Exception):
    """The power failed in the middle of what a thread had in hand."""


class MemoryDisk:
    """A tree of files in memory (see `ports.Disk`).

    `post` runs a completion later on the core's thread; without it completions wait for `deliver`. `late` makes reads
    wait for `deliver` too. `capacity` bounds the bytes of all files (None: no bound). `threads` does in a
    thread what is asked for aside (None: it is done as any completion).
    """

    def __init__(
        self,
        post: Callable[[Callable[[], None]], None] | None = None,
        *,
        late: bool = False,
        capacity: int | None = None,
        faults: Faults | None = None,
        threads: Callable[[Work], None] | None = None,
    ) -> None:
        self.life = 0
        self.late = late
        self.capacity = capacity
        self.faults = faults or Faults()
        self.fail_syncs = 0
        self.used = 0
        self._post = post if not late else None
        self._threads = threads
        self._root = Directory()
        self._journal = Journal()
        self._pending: list[tuple[Work, Done]] = []
        self._reads: WeakValueDictionary[tuple[int, int, int], LateRead] = WeakValueDictionary()
        self._atomic: dict[str, Work] = {}  # of the small files that are to be written, who is to write each
        self._made = 0  # directories made and names changed so far, and how many of them the root holds durably
        self._made_synced = -1
        self._dying = False

    # What the tests steer

    def deliver(self) -> int:
        """Answer every read and completion that waits now; what these start waits for the next call."""
        pending, self._pending = self._pending, []
        for work, done in pending:
            _do(work, done)
        return len(pending)

    def crash(self, keep: Callable[[str, int, int], int] | None = None) -> None:
        """Lose power: every handle dies, completions under way never come, unsynced bytes (and names) are lost.

        `keep(path, synced, size)` may say how many bytes of a file survive (clamped to [synced, size]): a torn write.
        """
        faults = self.faults
        if faults.unfinished:
            self._dying = True
            for work, _ in self._pending:
                with contextlib.suppress(OSError, _PowerLost):
                    self._go_on()
                    work()
            self._dying = False
        self.kill()
        self._journal.crash(self._root, faults.tossed, ordered=faults.names is Names.ORDERED)
        self.used = 0
        find_places(self._root)
        for path, content in files_in(self._root):
            size = content.synced
            if keep is not None:
                size = min(max(keep(path, content.synced, content.size), content.synced), content.size)
            elif faults.blocks:
                size += faults.below(content.size - size + 1)
            content.survive(size, faults.cuts and faults.tossed(), lambda: faults.blocks and faults.tossed())
            self.used += content.size

    def kill(self) -> None:
        """End the process alone: every handle dies and completions never come, but what the system was handed stays."""
        self.life += 1
        self._pending.clear()
        self._atomic.clear()
        self._reads.clear()
        self._made_synced = -1

    def attach(self, post: Callable[[Work], None], threads: Callable[[Work], None]) -> None:
        """Serve another broker from now on, which finds what the last one left."""
        self.kill()
        self._post, self._threads = post, threads

    def _go_on(self) -> None:
        """Between two steps of a thread's work: while the power fails, chance says whether there is a next one."""
        if self._dying and self.faults.tossed():
            raise _PowerLost

    def flip(self, path: str, position: int, bit: int = 0) -> None:
        """Turn one bit of a stored file."""
        self._file(path).flip(position, bit)

    # What the files ask of their disk

    def take(self, length: int, content: Content) -> None:
        """Account for `length` more bytes.

        Raises:
            OSError: ENOSPC when they do not fit.
        """
        self.faults.ask(content)
        if self.capacity is not None and length > 0 and self.used + length > self.capacity:
            raise OSError(errno.ENOSPC, "no space left on device", content.path)
        self.used += length

    def sync_names(self, path: str) -> None:
        """Make the names in a directory durable, and the root's where some were changed."""
        self._go_on()
        found = self._find(path)
        if isinstance(found, Directory):
            self._journal.sync(found)
        self._go_on()
        if self._made_synced < self._made and path:
            self._journal.sync(self._root)
            self._made_synced = self._made

    def complete(self, work: Work, done: Done) -> None:
        """Do `work` later and tell `done` how it went."""
        if self._post is None:
            self._pending.append((work, done))
            return
        life = self.life
        self._post(lambda: _do(work, done) if life == self.life else None)

    def await_read(self, content: Content, position: int, length: int) -> None:
        """Pass if the same read was delivered and its token is still held.

        Raises:
            NotYet: with the token to wait for.
        """
        key = (id(content), position, length)
        token = self._reads.get(key)
        if token is None:
            token = self._reads[key] = LateRead()
            self._pending.append((_nothing, token.open))
        if not token.is_open:
            raise NotYet(token, length)

    # Names

    def _find(self, path: str) -> Node | None:
        found: Node | None = self._root
        if path not in ("", "."):
            for name in path.split("/"):
                if not isinstance(found, Directory):
                    return None
                found = found.entries.get(name)
        return found

    def _file(self, path: str) -> Content:
        found = self._find(path)
        if not isinstance(found, Content):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return found

    def _directory_of(self, path: str) -> tuple[Directory, str]:
        parent, _, name = path.rpartition("/")
        found = self._find(parent)
        if not isinstance(found, Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", parent)
        return found, name

    def _put(self, directory: Directory, name: str, node: Node | None, *gone: tuple[Directory, str, None]) -> None:
        """Let a name stand for `node` from now on (None: for nothing), and other names for nothing, in one change."""
        old = directory.entries.get(name)
        if isinstance(old, Content):
            self.used -= old.size
        elif old is not None:
            for inside in list(old.entries):
                self._put(old, inside, None)
        self._journal.change(*gone, (directory, name, node), durably=self.faults.names is Names.KEPT)

    # ports.Disk

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        """Open a file.

        Raises:
            FileNotFoundError: it does not exist, or with `create` its directory does not.
            OSError: the disk refuses.
        """
        if not create:
            return MemoryFile(self, self._file(path))
        directory, name = self._directory_of(path)
        self.faults.ask(path)
        content = Content(above=directory, name=name)
        self._put(directory, name, content)
        return MemoryFile(self, content)

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name is there."""
        return self._find(path) is not None

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        return sorted(self.names(path))

    def names(self, path: str) -> Iterator[str]:
        """The same one by one."""
        found = self._find(path)
        return iter(list(found.entries) if isinstance(found, Directory) else ())

    def make_dir(self, path: str) -> None:
        """Make a directory and those above it.

        Raises:
            OSError: a file has that name, or the disk refuses.
        """
        directory = self._root
        for name in path.split("/"):
            found = directory.entries.get(name)
            if found is None:
                self.faults.ask(path)
                found = Directory(directory, name)
                self._put(directory, name, found)
            elif not isinstance(found, Directory):
                raise FileExistsError(errno.EEXIST, "a file has that name", path)
            directory = found
        self._made += 1

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a directory.

        Raises:
            FileNotFoundError: there is no `old`.
            OSError: the disk refuses.
        """
        directory, name = self._directory_of(old)
        if name not in directory.entries:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", old)
        target, new_name = self._directory_of(new)
        self.faults.ask(old)
        moved = directory.entries[name]
        if moved is target.entries.get(new_name):
            return
        self._put(target, new_name, moved, (directory, name, None))
        moved.above, moved.name = target, new_name
        self._made += 1

    def remove(self, path: str) -> None:
        """Remove a file or a directory tree."""
        if self._find(path) is not None:
            self._put(*self._directory_of(path), None)

    def remove_later(self, path: str, done: Done) -> None:
        """Remove a file or a directory tree, in `deliver` or through `post`."""
        self.complete(lambda: self.remove(path), done)

    def load(self, path: str) -> bytes:
        """The whole of a file.

        Raises:
            FileNotFoundError: there is none.
            OSError: the file is a bad one.
        """
        content = self._file(path)
        self.faults.read(path)
        return bytes(content.view(0, content.size))

    def write_atomic(self, path: str, data: bytes, done: Done | None = None, *, durable: bool = True) -> None:
        """Replace a file: at once without `done`, else later, unless a later call for the path comes before.

        Nor is anything written once the file's directory was renamed away.

        Raises:
            OSError: without `done`: the disk is full or failed; the file is as it was.
        """
        if done is None:
            self._atomic.pop(path, None)
            self._replace(path, data, durable)
            return
        directory = path.rpartition("/")[0]
        held = self._find(directory)

        def work() -> None:
            if self._atomic.get(path) is not work:
                return
            del self._atomic[path]
            if held is None or held.path == directory:
                self._replace(path, data, durable)

        self._atomic[path] = work
        self.complete(work, done)

    def aside(self, work: Work, done: Done) -> None:
        """Do `work` in a thread, where there is one for it, else later."""
        post, threads = self._post, self._threads
        if post is None or threads is None:
            self.complete(work, done)
            return

        def run() -> None:
            work()
            post(lambda: done(None))

        threads(run)

    def volume(self) -> Volume:
        """Memory has no directory and no bound of its own."""
        return Volume("memory", -1, -1)

    def write_files(self, files: Sequence[tuple[str, bytes]], done: Done) -> None:
        """Replace files, each as `write_atomic` does."""
        one = countdown(len(files), done)
        for path, data in files:
            self.write_atomic(path, data, one)

    def _replace(self, path: str, data: bytes, durable: bool) -> None:
        """Temporary file, sync, rename, sync of the directory, and of what names that."""
        directory, name = self._directory_of(path)
        content = Content(above=directory, name=name)
        self.take(len(data), content)
        content.append([data])
        temporary = name + _TEMPORARY
        self._put(directory, temporary, content)
        self._go_on()
        try:
            if durable:
                self.faults.sync(path)
                content.sync(content.size)
        except OSError:
            self._put(directory, temporary, None)
            raise
        self._go_on()
        self._put(directory, name, content, (directory, temporary, None))
        if durable:
            self.sync_names(path.rpartition("/")[0])


def _nothing() -> None:
    """The work of a read: the bytes are there."""


def _do(work: Work, done: Done) -> None:
    failure: OSError | None = None
    try:
        work()
    except OSError as error:
        failure = error
    done(failure)
