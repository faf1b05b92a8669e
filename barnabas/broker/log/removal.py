"""What is gone from the logs and still takes room: files that wait for their removal, segments that are still open.

Whoever set a log aside has given it another name, and goes on at once, whatever it held: 20,000 segments are closed in
steps, and their directory is listed and emptied in steps, so that syncs come in between.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import islice
from typing import Final

from barnabas.broker.jobs import Job, remove
from barnabas.broker.log.names import DELETE_SUFFIX
from barnabas.broker.log.segment import Segment, close_all
from barnabas.broker.ports import Disk

DOOMED_MAX: Final = 100_000
"""Paths that wait for their removal; above that those that are due next go at once. Whoever may alter a topic may set
`file.delete.delay.ms` to 2^63-1. A path is 0.2 to 0.6 KB, and 20,000 segments have four each at most."""
_NAMES_PER_LOOK: Final = 500
_CLOSED_AT_ONCE: Final = 50
_CLOSED_PER_STEP: Final = 500
"""Segments: each is its file's handle, two indexes, and the memory of all."""
_NEVER: Final = 2**63 - 1


class Removal:
    """The rest of what was in one data directory. Times are monotonic ms.

    Args:
        disk: the data directory.
        again_ms: how long to wait where something cannot be removed.
        on_change: is called when `deadline_ms` may be another.

    Attributes:
        now_ms: the time that delays are counted from.
    """

    def __init__(self, disk: Disk, again_ms: int, on_change: Callable[[], None]) -> None:
        self.now_ms = 0
        self._disk = disk
        self._again_ms = again_ms
        self._on_change = on_change
        self._doomed: list[tuple[int, int, list[str]]] = []
        self._paths = 0
        self._count = 0
        self._removing = False
        self._left: list[Segment] = []
        self._closing = False

    def discard(self, paths: list[str], delay_ms: int) -> None:
        """Remove files or directories after a delay."""
        if not paths:
            return
        self._count += 1
        self._paths += len(paths)
        heappush(self._doomed, (self.now_ms + delay_ms, self._count, paths))
        self._on_change()

    def close(self, segments: list[Segment]) -> None:
        """Close segments, and let go of them: some at once, of many the rest in steps."""
        close_all(segments[:_CLOSED_AT_ONCE])
        if len(segments) > _CLOSED_AT_ONCE:
            self._left += segments[_CLOSED_AT_ONCE:]
            self._on_change()

    @property
    def deadline_ms(self) -> int:
        """When there is something to do that is not under way."""
        if self._left and not self._closing:
            return self.now_ms
        return self._first_ms() if self._doomed and not self._removing else _NEVER

    def _first_ms(self) -> int:
        return self.now_ms if self._paths > DOOMED_MAX else self._doomed[0][0]

    def due_jobs(self, now_ms: int) -> list[Job[None]]:
        """The jobs whose turn has come."""
        self.now_ms = max(self.now_ms, now_ms)
        jobs = []
        if self._doomed and self._first_ms() <= now_ms and not self._removing:
            self._removing = True
            jobs.append(self._remove_due())
        if self._left and not self._closing:
            self._closing = True
            jobs.append(self._close_left())
        return jobs

    def _close_left(self) -> Job[None]:
        try:
            while self._left:
                close_all(self._left[-_CLOSED_PER_STEP:])
                del self._left[-_CLOSED_PER_STEP:]
                yield None
        finally:
            self._closing = False
            self._on_change()

    def _remove_due(self) -> Job[None]:
        """Remove what is due, and what falls due meanwhile."""
        try:
            while self._doomed and self._first_ms() <= self.now_ms:
                paths = heappop(self._doomed)[2]
                self._paths -= len(paths)
                yield from self._remove(paths)
        finally:
            self._removing = False
            self._on_change()

    def _remove(self, paths: list[str]) -> Job[None]:
        disk = self._disk
        for path in paths:
            try:
                if path.endswith(DELETE_SUFFIX):
                    while names := list(islice(disk.names(path), _NAMES_PER_LOOK)):
                        for name in names:
                            yield from remove(disk, f"{path}/{name}")
                yield from remove(disk, path)
            except OSError:
                if self._paths < DOOMED_MAX:  # else the next start finds it
                    self.discard([path], self._again_ms)
                yield None
