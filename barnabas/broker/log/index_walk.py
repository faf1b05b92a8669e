"""The walk that counts what the indexes of all segments take in memory, and lets go of some (see `index_room`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from barnabas.broker.jobs import Job
from barnabas.broker.log.index_room import IndexRoom
from barnabas.broker.log.segment import Segment
from barnabas.broker.log.state import LogView

_SEGMENTS_PER_STEP: Final = 1000


def walk(room: IndexRoom, logs: Sequence[LogView]) -> Job[None]:
    """Count, and where that passes the limit, let go until half of it is left.

    What nobody has asked for since the last walk goes first. An index goes between two steps of others alone, and what
    is loaded in a step stays to its end: a cut reads all it needs before it changes anything.
    """
    room.walk_begins()
    held = 0
    for some in _in_steps(logs):
        held += sum(segment.index_bytes for _, segment in some)
        yield None
    if held > room.limit:
        half = room.limit // 2
        for also_used in (False, True):
            for some in _in_steps(logs if held > half else ()):
                for log, segment in some:
                    if held > half and (also_used or not segment.index_used):
                        held -= _let_go(log, segment)
                    segment.index_used = False
                yield None
    room.walk_ended(held)


def _in_steps(logs: Sequence[LogView]) -> Iterator[list[tuple[LogView, Segment]]]:
    """All segments, some at a time."""
    some: list[tuple[LogView, Segment]] = []
    for log in logs:
        for segment in list(log.segments):
            some.append((log, segment))
            if len(some) == _SEGMENTS_PER_STEP:
                yield some
                some = []
    yield some


def _let_go(log: LogView, segment: Segment) -> int:
    size = segment.index_bytes
    if not size or not segment.indexes_saved or log.closed or segment is log.active:
        return 0
    if segment.synced_size < segment.size:  # its sync writes them once more, and waits for no read
        return 0
    segment.let_indexes_go()
    return size
