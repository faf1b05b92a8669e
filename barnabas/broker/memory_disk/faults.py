"""What a disk in memory does wrong when it is told to; nothing by itself.

    names       names that no sync of their directory covered are lost at a power failure, in order or loosely
    blocks      unsynced bytes come back in part: cut at any byte, and blocks of zeros in what is left
    cuts        a truncation that no sync covered may be undone
    unfinished  what was handed to a thread is done at a power failure, done in part or not begun, and nobody is told
    refuse      a call for room is refused: ENOSPC, or what else is asked for
    bad_reads, bad_syncs   files whose reads or syncs fail (EIO)
    broken      everything fails (EIO)

Chance is the test's own: with the same `below` a run is the same.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from enum import Enum

from barnabas.broker.memory_disk.content import Named


class Names(Enum):
    """What a power failure leaves of names that were not synced: all, the first of them, or the first by directory."""

    KEPT = "kept"
    ORDERED = "ordered"
    LOOSE = "loose"


class Faults:
    """The faults of one disk; every attribute may be changed at any time.

    Attributes:
        calls: calls that asked the disk for room so far (append, create, make_dir, rename, truncate, small files).
        bad_reads: paths whose reads fail.
        bad_syncs: paths whose syncs fail (of small files: whose replacement fails).
        broken: whether every call for room, every read and every sync fails.
    """

    def __init__(
        self,
        below: Callable[[int], int] = lambda _: 0,
        *,
        names: Names = Names.KEPT,
        blocks: bool = False,
        cuts: bool = False,
        unfinished: bool = False,
    ) -> None:
        self.below = below
        self.names = names
        self.blocks = blocks
        self.cuts = cuts
        self.unfinished = unfinished
        self.calls = 0
        self.bad_reads: set[str] = set()
        self.bad_syncs: set[str] = set()
        self.broken = False
        self._refused = range(0)
        self._code = errno.ENOSPC

    def refuse(self, nth: int, count: int = 1, code: int = errno.ENOSPC) -> None:
        """Refuse the `nth` call for room from now on (the next is 1), and those after it up to `count` in all."""
        self._refused = range(self.calls + nth, self.calls + nth + count)
        self._code = code

    def ask(self, of: str | Named) -> None:
        """A call that needs room, of a path, or of what has one: every append asks, and a path has to be put together.

        Raises:
            OSError: it is one of those to be refused.
        """
        self.calls += 1
        if self.broken or self.calls in self._refused:
            code = errno.EIO if self.broken else self._code
            raise OSError(code, os.strerror(code), of if isinstance(of, str) else of.path)

    def read(self, path: str) -> None:
        """A read of a file.

        Raises:
            OSError: EIO, the file is a bad one.
        """
        if self.broken or path in self.bad_reads:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def sync(self, path: str) -> None:
        """A sync of a file.

        Raises:
            OSError: EIO, the file is a bad one.
        """
        if self.broken or path in self.bad_syncs:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def tossed(self) -> bool:
        """Yes or no, by chance."""
        return self.below(2) == 1
