"""A data directory without a broker: its disk, and something that runs jobs to their end."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from barnabas.broker.host.data_dir import DataDirLock
from barnabas.broker.host.disk import RealDisk
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import BarnabasError

T = TypeVar("T")


def place(path: str) -> tuple[str, str]:
    """The data directory, and what is named in it: nothing, a partition's directory, or a segment.

    Raises:
        BarnabasError: a file that ends in .log, and is no segment.
    """
    path = os.path.abspath(path)
    if path.endswith(".log"):
        directory, segment = os.path.split(path)
        if not (len(segment) == 24 and segment[:20].isdigit()):
            raise BarnabasError(f"{path} is no segment; one is called by 20 digits and .log")
        return os.path.dirname(directory), f"{os.path.basename(directory)}/{segment}"
    if any(name.endswith(".log") for name in (os.listdir(path) if os.path.isdir(path) else [])):
        return os.path.split(path)
    return path, ""


class Offline:
    """The disk of a data directory. `alone`: no broker may serve from it meanwhile.

    Raises:
        BarnabasError: there is no such directory, or a broker serves from it.
    """

    def __init__(self, path: str, *, alone: bool = False) -> None:
        if not os.path.isdir(path):
            raise BarnabasError(f"there is no data directory {path}")
        self._lock = DataDirLock(path) if alone else None
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.disk = RealDisk(path, self._posted.put)

    def __enter__(self) -> Offline:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.disk.close()
        if self._lock is not None:
            self._lock.release()

    def run(self, job: Job[T]) -> T:
        """Run a job to its end."""
        while True:
            try:
                token = next(job)
            except StopIteration as end:
                result: T = end.value
                return result
            if token is not None:
                fired: list[bool] = []
                token.on_ready(lambda fired=fired: fired.append(True))  # type: ignore[misc]
                while not fired:
                    self._posted.get()()
