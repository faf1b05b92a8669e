"""A disk that can be looked at between any two of its calls: what a kill, or a power failure, would leave there.

`Watched` is the disk in memory, which calls `looked` before each step that changes a file, a name or what the device
holds. `images` has what the next start may find at such a moment, each on a disk of its own:

    killed              all that the system was handed
    torn at N           the same, and of the last write as many bytes as a multiple of 512 leaves
    nothing             what was synced, and no more
    names, no bytes     changed names are there, and of the files what was synced
    bytes, no names     the reverse
    zeros               names and sizes are there, and zeros in the place of what was not synced
    uncut               as `names, no bytes`, and what was cut without a sync is back
    chance N            each name, each block and each cut by chance
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Final, NamedTuple

from barnabas.broker.memory_disk import Faults, MemoryDisk, Names
from barnabas.broker.memory_disk.content import Content, Named
from barnabas.broker.memory_disk.names import Directory, Node, files_in, find_places

SECTOR: Final = 512


class Image(NamedTuple):
    """What is left, and how it came to that."""

    how: str
    disk: MemoryDisk
    files: dict[str, bytes]


class _Watching(Faults):
    """Tells its disk of every step."""

    def __init__(self) -> None:
        super().__init__(names=Names.LOOSE, cuts=True)
        self.step: Callable[[], None] = lambda: None

    def ask(self, of: str | Named) -> None:
        self.step()
        super().ask(of)

    def sync(self, path: str) -> None:
        self.step()
        super().sync(path)


class Watched(MemoryDisk):
    """`looked` is called before each step, and once more at `settled`."""

    def __init__(self) -> None:
        self.watching = _Watching()
        super().__init__(faults=self.watching)
        self.watching.step = self._step
        self.looked: Callable[[], None] = lambda: None
        self._last: tuple[Content, int] | None = None
        """Where the last step was a write: the file that it went to, and the size that it had before."""

    def _step(self) -> None:
        self.looked()
        self._last = None

    def _go_on(self) -> None:
        self._step()
        super()._go_on()

    def take(self, length: int, content: Content) -> None:
        super().take(length, content)
        self._last = content, content.size

    def remove(self, path: str) -> None:
        self._step()
        super().remove(path)

    def images(self, seeds: range = range(2)) -> Iterator[Image]:
        """What the next start may find."""
        yield _image("killed", self._copy())
        if self._last is not None and self._find(self._last[0].path) is self._last[0]:
            written, before = self._last
            for left in range(before + SECTOR - before % SECTOR, written.size, SECTOR):
                torn = self._copy()
                torn._file(written.path).cut(left, durably=True)
                yield _image(f"torn at {left}", torn)
        for how, faults, keep in (
            ("nothing", Faults(names=Names.LOOSE), _nothing),
            ("names, no bytes", Faults(lambda below: below - 1), _nothing),
            ("bytes, no names", Faults(names=Names.LOOSE), _all),
            ("zeros", Faults(lambda below: below - 1, blocks=True), None),
            ("uncut", Faults(lambda below: below - 1, cuts=True), _nothing),
        ):
            yield self._crashed(how, faults, keep)
        for seed in seeds:
            chance = Faults(Random(seed).randrange, names=Names.LOOSE, blocks=True, cuts=True)
            yield self._crashed(f"chance {seed}", chance, None)

    def _crashed(self, how: str, faults: Faults, keep: Callable[[str, int, int], int] | None) -> Image:
        disk = self._copy()
        disk.faults = faults
        disk.crash(keep)
        return _image(how, disk)

    def _copy(self) -> MemoryDisk:
        """A disk of its own with the same files and names, and the same of it on the device."""
        made: dict[int, Node] = {}

        def copied(node: Node) -> Node:
            if id(node) not in made:
                if isinstance(node, Content):
                    twin = Content(bytes(node.view(0, node.size)), node.synced)
                    made[id(node)] = twin
                    if node.before is not None:
                        twin.before = Content(bytes(node.before.view(0, node.before.size)), node.before.synced)
                else:
                    made[id(node)] = both = Directory()
                    both.entries = {name: copied(one) for name, one in node.entries.items()}
                    both.durable = {name: copied(one) for name, one in node.durable.items()}
            return made[id(node)]

        disk = MemoryDisk()
        root = copied(self._root)
        assert isinstance(root, Directory)
        disk._root = root
        find_places(root)
        for change in self._journal._changes:
            twins = [(copied(where), name, None if node is None else copied(node)) for where, name, node in change]
            disk._journal._changes.append(tuple(twins))  # type: ignore[arg-type]
        disk.used = self.used
        return disk


def _image(how: str, disk: MemoryDisk) -> Image:
    disk.faults = Faults()
    disk._journal._changes.clear()
    return Image(how, disk, {path: bytes(each.view(0, each.size)) for path, each in files_in(disk._root)})


def _nothing(path: str, synced: int, size: int) -> int:
    return synced


def _all(path: str, synced: int, size: int) -> int:
    return size
