"""What a data directory has lost: said once, counted, and kept to be looked at. No loss is silent.

One warning each: partition, offsets, bytes, file, and why. The last hundred stand in `/state`, all are counted.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

logger = logging.getLogger(__name__)

_REMEMBERED: Final = 100
_TOLD_MAX: Final = 1000


class Loss(NamedTuple):
    """What is gone, or may be.

    `first_offset` to `end_offset` (exclusive) are the offsets concerned, -1 where they are not known; `size` the bytes;
    `file` where they stood; `kept` where the bytes are now, empty if they are not there any more.
    """

    partition: str
    first_offset: int
    end_offset: int
    size: int
    file: str
    reason: str
    kept: str = ""

    def __str__(self) -> str:
        offsets = f"offsets {_known(self.first_offset)} to {_known(self.end_offset)} (exclusive)"
        kept = f"; the bytes are kept in {self.kept}" if self.kept else ""
        return f"{self.partition}: {self.reason}: {offsets}, {self.size} bytes, {self.file}{kept}"


Report = Callable[[Loss], None]


class Losses:
    """The record of one data directory.

    `count` and `size` (bytes) are of all losses, `last` holds the newest hundred; `failed_reads` counts reads that the
    device refused, or that found something else than records, `failed_writes` small files that could not be written
    and are tried again: each file and cause is told once. `first` is called, once, when the next is reported: whatever
    is to be cut is still there then. `on_refused` hears of whatever could not be written.
    """

    def __init__(self) -> None:
        self.on_refused: Callable[[Exception], None] = lambda error: None
        self.failed_reads = 0
        self.failed_writes = 0
        self._told: set[tuple[str, str]] = set()
        self.count = 0
        self.size = 0
        self.last: deque[Loss] = deque(maxlen=_REMEMBERED)
        self.first: Callable[[], None] | None = None

    def report(self, loss: Loss) -> None:
        """Say it and count it."""
        if self.first is not None:
            first, self.first = self.first, None
            first()
        self.count += 1
        self.size += loss.size
        self.last.append(loss)
        logger.warning("loss: %s", loss)

    def unreadable(self, partition: str, file: str, error: Exception) -> None:
        """A read failed: count it, and say it if it was not said yet."""
        self.failed_reads += 1
        if self._is_new(file, error):
            logger.warning("%s: %s cannot be read: %s (said once; reads that fail are counted)", partition, file, error)

    def unwritten(self, file: str, error: Exception) -> None:
        """A small file could not be written, which costs no record: count it, and say it if it was not said yet."""
        self.failed_writes += 1
        self.on_refused(error)
        if self._is_new(file, error):
            logger.warning(
                "%s cannot be written: %s (said once; it is tried again, and writes that fail are counted)", file, error
            )

    def _is_new(self, file: str, error: Exception) -> bool:
        told = (file, str(error))
        if told in self._told:
            return False
        if len(self._told) >= _TOLD_MAX:
            self._told.clear()
        self._told.add(told)
        return True

    def snapshot(self) -> dict[str, Any]:
        """As plain values that JSON can hold."""
        return {
            "count": self.count,
            "bytes": self.size,
            "failed_reads": self.failed_reads,
            "failed_writes": self.failed_writes,
            "last": [loss._asdict() for loss in self.last],
        }


def _known(offset: int) -> str:
    return str(offset) if offset >= 0 else "unknown"
