"""What an assignor knows of a member, what it gives, and what one of a program's own is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from barnabas.protocol.ids import TopicPartition

Shares: TypeAlias = dict[str, list[TopicPartition]]
"""Partitions by member id; every member is in it."""


@dataclass(slots=True, frozen=True)
class Member:
    """One member as its subscription describes it.

    `owned` is what it says it had in `generation` (-1: it does not say), which sticky assignors let it keep;
    `user_data` is what its assignor says of it.
    """

    id: str
    topics: frozenset[str]
    instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    user_data: bytes = b""


class PartitionAssignor(Protocol):
    """A way to share of a program's own, for `partition.assignment.strategy`: an object, alone or in a list.

    All members of the group must have it, by its `name`; one of them, which the coordinator chose, calls `share`. An
    object needs no more than these two, whether it derives from this class or not. With `cooperative` members keep what
    they have while a new share is worked out, and what goes from one to another waits until it is given up; `share`
    need not see to that. All of it runs on the client's own thread: keep it short, and do not call the client.
    """

    name: str
    cooperative: bool = False

    def share(
        self, partitions: Mapping[str, int], members: Sequence[Member]
    ) -> Mapping[str, Iterable[tuple[str, int]]]:
        """Who gets what, by member id: each partition to one member, who wants its topic; or to nobody.

        `partitions`: how many partitions each topic has that anybody wants (those that exist).
        """
        ...

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        """What this member tells whoever shares out, of itself (its weight, its place)."""
        return None


def in_order(members: Iterable[Member]) -> list[Member]:
    """Kafka's order (`MemberInfo`): static members by their instance id, then the others by their id."""
    return sorted(members, key=lambda each: (each.instance_id is None, each.instance_id or each.id))


def subscribers(members: Sequence[Member], topics: Iterable[str]) -> dict[str, list[Member]]:
    """For each of the topics, in order, who wants it; topics that nobody wants are left out."""
    found = {topic: [each for each in members if topic in each.topics] for topic in sorted(topics)}
    return {topic: wanted for topic, wanted in found.items() if wanted}
