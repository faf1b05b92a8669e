"""The names of a disk in memory: as the running system sees them, and as the device holds them.

A name that was made, changed or removed reaches the device with a sync of its directory, or when the file system likes.
Until then it stands in a journal, and a power failure decides how much of that is left:

    ordered   the journal up to some point (ext4 and XFS commit names in the order they were changed)
    loose     each directory's own changes up to some point of its own (POSIX promises no more); a rename from one
              directory into another is in both or in neither
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from barnabas.broker.memory_disk.content import Content, Named


class Directory(Named):
    """A directory. `entries` are its names now, `durable` those that the device holds."""

    __slots__ = ("durable", "entries")

    def __init__(self, above: Named | None = None, name: str = "") -> None:
        super().__init__(above, name)
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node: TypeAlias = "Content | Directory"
Entry: TypeAlias = "tuple[Directory, str, Node | None]"
"""A name and what it stands for from now on; None: nothing."""


class Journal:
    """Changes of names that no sync has covered yet, oldest first. Each is made as a whole or not at all."""

    def __init__(self) -> None:
        self._changes: list[tuple[Entry, ...]] = []

    def change(self, *entries: Entry, durably: bool) -> None:
        """Change names at once; on the device too, if `durably`."""
        for directory, name, node in entries:
            _put(directory.entries, name, node)
        if durably:
            _commit(entries)
        else:
            self._changes.append(entries)

    def sync(self, directory: Directory) -> None:
        """Make the names of a directory durable, and what they depend on in others."""
        covered = {id(directory)}
        chosen, left = [], []
        for change in reversed(self._changes):
            for entry in change:
                if id(entry[0]) in covered:
                    covered.update(id(each[0]) for each in change)
                    chosen.append(change)
                    break
            else:
                left.append(change)
        for change in reversed(chosen):
            _commit(change)
        self._changes = left[::-1]

    def crash(self, root: Directory, survives: Callable[[], bool], *, ordered: bool) -> None:
        """Keep of the journal what `survives`, asked once for each change that could; names are as that leaves them."""
        ended: set[int] = set()
        for change in self._changes:
            touched = {id(entry[0]) for entry in change}
            if ended.isdisjoint(touched) and survives():
                _commit(change)
            elif ordered:
                break
            else:
                ended |= touched
        self._changes.clear()
        _see_durable(root)


def files_in(directory: Directory, inside: str = "") -> Iterator[tuple[str, Content]]:
    """Path and content of every file below a directory, by name."""
    for name, found in sorted(directory.entries.items()):
        if isinstance(found, Directory):
            yield from files_in(found, f"{inside}{name}/")
        else:
            yield inside + name, found


def find_places(directory: Directory) -> None:
    """Let all that is below a directory know where it stands now."""
    for name, found in directory.entries.items():
        found.above, found.name = directory, name
        if isinstance(found, Directory):
            find_places(found)


def _put(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _commit(entries: tuple[Entry, ...]) -> None:
    for directory, name, node in entries:
        _put(directory.durable, name, node)


def _see_durable(directory: Directory) -> None:
    directory.entries = dict(directory.durable)
    for node in directory.entries.values():
        if isinstance(node, Directory):
            _see_durable(node)
