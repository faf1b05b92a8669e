"""What a fetch brought beyond a task's end, kept for the next task: a limited batch ends in the midst of a fetch.

A stream with `maxOffsetsPerTrigger` would otherwise fetch and decode up to 8 MB for each of its small batches. A worker
keeps the rest of its last fetches, by topic id: a topic that was made anew is another one. Partitions hop between
workers, so the next task may run where nothing is kept, and a rest may never be asked for: the oldest goes first.

What was kept may be gone from the log since: an election or a power failure cuts a log, and other records take its
offsets. Either raises the leader's epoch, and no leader cuts its log: what it gave is there as long as its epoch lasts.
So a rest knows the epoch it was fetched in, and serves tasks that were planned in the same. An older rest that is still
there is fetched again.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from barnabas.client.consume.columnar import Columns
from barnabas.spark_bridge.offsets import Span

BYTES_MAX: Final = 64 * 1024 * 1024
"""All that one worker keeps."""


@dataclass(slots=True)
class Rest:
    """The records from offset `start` to `end`, in order; there may be none, where a log has a gap."""

    start: int
    end: int
    columns: list[Columns]
    leader_epoch: int

    def cut(self, offset: int) -> tuple[Rest, Rest]:
        """What lies before an offset, and what lies behind it."""
        before, behind = [], []
        for columns in self.columns:
            count = count_below(columns, offset)
            if count:
                before.append(columns if count == len(columns) else columns.slice(0, count))
            if count < len(columns):
                behind.append(columns.slice(count, len(columns) - count) if count else columns)
        middle = min(max(offset, self.start), self.end)
        return replace(self, end=middle, columns=before), replace(self, start=middle, columns=behind)

    @property
    def bytes(self) -> int:
        """The memory it holds on to: a slice keeps the whole it was cut from."""
        return sum(bytes_of(each, whole=True) for each in self.columns)


def bytes_of(columns: Columns, *, whole: bool = False) -> int:
    """The memory of records in all their columns; of a slice its own part, or the `whole` that it was cut from."""
    arrays = [columns.key, columns.value, columns.offset, columns.timestamp, columns.timestamp_type]
    if columns.headers is not None:
        arrays.append(columns.headers)
    return sum(array.get_total_buffer_size() if whole else array.nbytes for array in arrays)


def count_below(columns: Columns, end: int) -> int:
    """How many of the records lie before an offset."""
    if columns.offset[-1].as_py() < end:
        return len(columns)
    import numpy as np

    return int(np.searchsorted(columns.offset.to_numpy(), end))


def below(columns: Columns, end: int) -> Columns | None:
    """The records before an offset, None where there are none."""
    count = count_below(columns, end)
    return (columns if count == len(columns) else columns.slice(0, count)) if count else None


class Kept:
    """The rests of one process."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._rests: dict[Hashable, Rest] = {}

    def take(self, key: Hashable, start: int, leader_epoch: int) -> Rest | None:
        """What is kept from an offset on and is there in this epoch; whoever takes it gives back what is left."""
        rest = self._rests.pop(key, None)
        if rest is None or rest.leader_epoch != leader_epoch or not rest.start <= start < rest.end:
            return None
        return rest.cut(start)[1]

    def serve(self, key: Hashable, span: Span, leader_epoch: int) -> tuple[list[Columns], Span]:
        """What is kept of a span that was planned in an epoch, and what is left of it to read."""
        rest = self.take(key, span.start, leader_epoch)
        if rest is None:
            return [], span
        here, beyond = rest.cut(span.end)
        self.put(key, beyond)
        return here.columns, Span(span.where, here.end, span.end)

    def put(self, key: Hashable, rest: Rest) -> None:
        """Keeps it, if there is anything and room; the oldest give way."""
        self._rests.pop(key, None)
        if rest.start >= rest.end or rest.leader_epoch < 0 or rest.bytes > self._bytes_max:
            return
        self._rests[key] = rest
        while sum(each.bytes for each in self._rests.values()) > self._bytes_max:
            del self._rests[next(iter(self._rests))]


def rest_of(found: Sequence[Columns], end: int, position: int) -> Rest:
    """What a fetch of one partition brought from `end` on, when it came up to `position`."""
    leader_epoch = found[0].leader_epoch if found else -1
    return Rest(0, position, list(found), leader_epoch).cut(end)[1]
