"""What an assignor knows of a member, and what it gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from barnabas.protocol.ids import TopicPartition

Shares: TypeAlias = dict[str, list[TopicPartition]]
"""Partitions by member id; every member is in it."""


@dataclass(slots=True, frozen=True)
class Member:
    """One member as its subscription describes it.

    `owned` is what it says it had in `generation` (-1: it does not say), which sticky assignors let it keep.
    """

    id: str
    topics: frozenset[str]
    instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1


def in_order(members: Iterable[Member]) -> list[Member]:
    """Kafka's order (`MemberInfo`): static members by their instance id, then the others by their id."""
    return sorted(members, key=lambda each: (each.instance_id is None, each.instance_id or each.id))


def subscribers(members: Sequence[Member], topics: Iterable[str]) -> dict[str, list[Member]]:
    """For each of the topics, in order, who wants it; topics that nobody wants are left out."""
    found = {topic: [each for each in members if topic in each.topics] for topic in sorted(topics)}
    return {topic: wanted for topic, wanted in found.items() if wanted}
