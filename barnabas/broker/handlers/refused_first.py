"""An answer of two: the handler's, for what is not there, and the coordinator's, for the rest.

OffsetCommit and OffsetDelete look up what a request names before the coordinator is asked. Kafka begins the answer with
what it refuses itself, each topic once, and lets the coordinator's join it, which has an entry for each of the request.
Where nothing was refused the coordinator's is sent as it is, so that a topic named twice is told twice. A topic without
partitions is told only where it is not there. Source: `OffsetCommitResponse.Builder.merge`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from typing import Any, Generic, TypeVar

from barnabas.broker.handlers.steps import Slice

T = TypeVar("T", bound=Any)


class RefusedFirst(Generic[T]):
    """The topics of such an answer while a request is gone through."""

    __slots__ = ("_refused", "_taken")

    def __init__(self) -> None:
        self._refused: dict[Hashable, T] = {}
        self._taken: list[tuple[Hashable, T]] = []

    def refused(self, key: Hashable, make: Callable[[], T]) -> T:
        """Where the partitions of a topic are told that are not there."""
        told = self._refused.get(key)
        if told is None:
            told = self._refused[key] = make()
        return told

    def take(self, key: Hashable, told: T) -> None:
        """Add an entry of the coordinator's, whose partitions it is still to answer for."""
        if told.partitions:
            self._taken.append((key, told))

    def merged(self) -> Generator[None, None, list[T]]:
        """The topics of the answer, put together in slices."""
        if not self._refused:
            return [told for _, told in self._taken]
        current = Slice()
        for key, told in self._taken:
            first = self._refused.setdefault(key, told)
            if first is not told:
                first.partitions += told.partitions
            if current.is_over():
                yield None
        return list(self._refused.values())
