"""Long work in bounded steps: what a job is, and what it can wait for. Who runs jobs is `node/jobs.py`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

from barnabas.broker.ports import Disk, Token

T = TypeVar("T")
Job: TypeAlias = Generator[Token | None, None, T]
"""Long work in bounded steps (a few ms): yields None to go on later, or a `Token` to wait for. `return` gives T."""


def at_once(job: Job[T]) -> T:
    """All steps of a job that waits for nothing, one after the other."""
    while True:
        try:
            token = next(job)
        except StopIteration as end:
            result: T = end.value
            return result
        assert token is None, "it waits, and nobody is there to go on with it"


class Gate:
    """A `Token` that a completion opens: turns `sync(done)` into something a job can wait for."""

    __slots__ = ("_waiters", "error", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self.error: OSError | None = None
        self._waiters: list[Callable[[], None]] = []

    def open(self, error: OSError | None = None) -> None:
        """The completion to hand out. Opening twice is a defect."""
        assert not self.is_open
        self.is_open = True
        self.error = error
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter()

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Call back when open. A gate that is already open is not to be waited for."""
        assert not self.is_open
        self._waiters.append(callback)


def wait(gate: Gate) -> Job[None]:
    """Wait inside a job until the gate is open.

    Raises:
        OSError: what the completion was given.
    """
    if not gate.is_open:
        yield gate
    assert gate.is_open, "a job was resumed before its token fired"
    if gate.error is not None:
        raise gate.error


def write_all(disk: Disk, files: list[tuple[str, bytes]]) -> Job[None]:
    """Write control files of one directory off the loop's thread, and wait for all of them.

    Raises:
        OSError: the first failure.
    """
    if files:
        gate = Gate()
        disk.write_files(files, gate.open)
        yield from wait(gate)


def remove(disk: Disk, path: str) -> Job[None]:
    """Remove a file or a directory tree off the loop's thread, and wait for it.

    Raises:
        OSError: the disk failed.
    """
    gate = Gate()
    disk.remove_later(path, gate.open)
    yield from wait(gate)
