"""What an assignor knows of a member, and what it gives."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from barnabas.broker.jobs import Job

Assignment: TypeAlias = dict[bytes, tuple[int, ...]]
"""Partitions by topic id, in order; no topic without any."""
Assignments: TypeAlias = dict[str, Assignment]
"""By member id; every member is in it."""
Sharing: TypeAlias = Job[Assignments]
"""Sharing out, in steps."""

WORK_PER_STEP: Final = 10_000
"""Subscriptions to one topic, or partitions, that one step looks at: up to 5 ms."""


class MemberSubscription(NamedTuple):
    """One member: the topics it wants, by id, and what it has been assigned so far."""

    topics: frozenset[bytes]
    owned: Mapping[bytes, Collection[int]] = {}
    instance_id: str | None = None
    rack: str | None = None


def all_alike(members: Mapping[str, MemberSubscription]) -> Job[bool]:
    """Whether all want the same topics."""
    first = next(iter(members.values())).topics if members else frozenset()
    work = 0
    for member in members.values():
        if member.topics is first:
            continue
        if member.topics != first:
            return False
        work += len(first)
        if work >= WORK_PER_STEP:
            work = 0
            yield None
    return True


def subscribers_of(members: Mapping[str, MemberSubscription], order: Iterable[str]) -> Job[dict[bytes, list[str]]]:
    """Who wants each topic, in this order of members."""
    wanted: dict[bytes, list[str]] = {}
    work = 0
    for member_id in order:
        topics = members[member_id].topics
        for topic in topics:
            wanted.setdefault(topic, []).append(member_id)
        work += len(topics)
        if work >= WORK_PER_STEP:
            work = 0
            yield None
    return wanted
