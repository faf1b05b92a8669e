"""What a group asks of the metadata: which topics there are, their ids, and how many partitions they have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Topics(Protocol):
    """The topics of the cluster as they are now."""

    @property
    def version(self) -> int:
        """Another number whenever a topic has come, gone or grown."""

    def changed(self) -> None:
        """Topics have come, gone or grown."""

    def get(self, name: str) -> tuple[bytes, int] | None:
        """A topic's id, and how many partitions it has; None if there is none."""

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of the topic with that id; None if there is none."""

    def names(self) -> Iterable[str]:
        """All of them."""

    def hash_of(self, name: str) -> int:
        """`hashing.topic_hash` of a topic that is there."""


def ids_of(topics: Topics, names: Iterable[str]) -> frozenset[bytes]:
    """The ids of those of the names that are there."""
    return frozenset([known[0] for name in names if (known := topics.get(name)) is not None])
