"""The disk of one machine: the honest disk in memory, whose answers take their time.

What is asked of it in threads (syncs, control files, late reads) is done when it is answered, not before: whatever the
power failure finds under way was done, done in part, or not begun (`memory_disk.Faults`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from barnabas.broker.memory_disk import Faults, MemoryDisk, Names
from barnabas.broker.memory_disk.content import Content
from barnabas.broker.memory_disk.names import files_in
from barnabas.broker.ports import Done, NotYet
from barnabas.protocol.batch import CRC_AT, batches
from barnabas.simulator.world import MS, SECOND, World

_LONGEST_NS: Final = 4 * SECOND
"""However slow it is."""
_LAST_BATCHES: Final = 5
"""A flipped bit is in one of so many."""


class Device(MemoryDisk):
    """A disk whose answers are `delivered` some time after they were asked for."""

    def __init__(self, world: World, name: str) -> None:
        chance = world.chance(f"device of {name}")
        names = chance.choice((Names.ORDERED, Names.LOOSE))
        super().__init__(
            late=chance.randrange(4) == 0,
            faults=Faults(chance.randrange, names=names, blocks=True, cuts=True, unfinished=True),
        )
        self._world = world
        self._chance = chance
        self._longest_ns = chance.choice((MS, 10 * MS, 50 * MS))
        self._due = False
        self.slow = 1
        """Answers take so many times as long."""
        self.post: Callable[[Callable[[], None]], None] | None = None
        """Has the answers told on the loop of the process that asked."""

    def complete(self, work: Callable[[], None], done: Done) -> None:
        """Do `work` when it is answered."""
        super().complete(work, done)
        self._deliver_later()

    def await_read(self, content: Content, position: int, length: int) -> None:
        """Pass if the same read was answered.

        Raises:
            NotYet: with the token to wait for.
        """
        try:
            super().await_read(content, position, length)
        except NotYet:
            self._deliver_later()
            raise

    def _deliver_later(self) -> None:
        if not self._due:
            self._due = True
            longest_ns = min(self._longest_ns * self.slow, _LONGEST_NS) if self._chance.randrange(200) else SECOND
            self._world.after(self._chance.randrange(longest_ns // 20, longest_ns), self._deliver)

    def _deliver(self) -> None:
        self._due = False
        if self.post is not None and self._pending:  # else what was asked for died with its process
            self.post(self._answer)

    def _answer(self) -> None:
        self.deliver()

    def lose_power(self) -> None:
        """What no sync has covered is lost, or torn, or there."""
        used, names = self.used, self._names()
        self.crash()
        self._world.count("power losses")
        self._world.count("unsynced bytes lost", max(used - self.used, 0))
        self._world.count("names lost", len(names - self._names()))

    def _names(self) -> set[str]:
        return {path for path, _ in files_in(self._root)}

    def bytes_of(self, path: str) -> memoryview:
        """What a file holds, without a read that takes its time."""
        content = self._file(path)
        return content.view(0, content.size)

    def synced_bytes_of(self, path: str) -> int:
        """How many of them no power failure takes; -1 where there is no such file."""
        found = self._find(path)
        return found.synced if isinstance(found, Content) else -1

    def flip_in_the_last(self, chance: Random, topic: str) -> str:
        """Turn a bit of one of the last batches of a partition of a topic; of which file, or "" for none.

        A bit that the batch's sum covers: nobody sees it in an epoch, which stands outside of it, as in Apache Kafka.
        """
        newest: dict[str, str] = {}
        for path, _ in files_in(self._root):
            directory, _, name = path.rpartition("/")
            if directory.rpartition("-")[0] == topic and name.endswith(".log"):
                newest[directory] = path  # names rise with their offsets
        paths = [path for path in newest.values() if self._file(path).size]
        if not paths:
            return ""
        path = chance.choice(paths)
        whole = list(batches(self.bytes_of(path)))[-_LAST_BATCHES:]
        if not whole:
            return ""
        position, size = chance.choice(whole)
        self.flip(path, position + chance.randrange(CRC_AT, size), chance.randrange(8))
        return path

    def take(self, length: int, content: Content) -> None:
        """Account for more bytes.

        Raises:
            OSError: they do not fit.
        """
        try:
            super().take(length, content)
        except OSError:
            self._world.count("writes that found a full disk", self.capacity is not None)
            raise

    def fill(self, *, full: bool) -> None:
        """Leave room for some hundred bytes, or for all there will be."""
        self.capacity = self.used + 700 if full else None
