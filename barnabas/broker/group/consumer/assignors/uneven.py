"""`uniform`, where members want different topics: as even as that allows, and who has something keeps it if it can.

Three steps: everyone keeps what it has and still wants; what nobody has goes to whoever has least, topics that few want
first; then partitions go from who has two or more than another subscriber of their topic to that one, until there is no
such pair (at most `ROUNDS_MAX` times over all topics). Topics that the same members want are shared out as one: a group
whose members are exchanged for those of a new release has three such kinds, however many topics there are.
Source: `UniformHeterogeneousAssignmentBuilder` of Apache Kafka, which ends its rounds at the same number.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from barnabas.broker.group.consumer.assignors.member import (
    WORK_PER_STEP,
    Assignment,
    MemberSubscription,
    Sharing,
)
from barnabas.broker.jobs import Job

ROUNDS_MAX: Final = 16

Place: TypeAlias = tuple[bytes, int]
"""A topic, and the number of one of its partitions."""


class _Kind(NamedTuple):
    """Topics that the same members want."""

    topics: list[bytes]
    wanted: list[str]


def share_unevenly(members: Mapping[str, MemberSubscription], partitions: Mapping[bytes, int]) -> Sharing:
    """Give each member its part."""
    kinds = yield from _kinds(members, partitions)
    shares = _Shares(members, partitions, kinds)
    yield from shares.keep()
    yield from shares.give_rest()
    yield from shares.even_out()
    return {member_id: _told(kept.values()) for member_id, kept in shares.owned.items()}


def _kinds(members: Mapping[str, MemberSubscription], partitions: Mapping[bytes, int]) -> Job[list[_Kind]]:
    """All kinds, those first that few want."""
    alike: dict[frozenset[bytes], list[str]] = {}
    for member_id in sorted(members):
        alike.setdefault(members[member_id].topics, []).append(member_id)
    classes = list(alike.values())
    wanting: dict[bytes, list[int]] = {}
    work = 0
    for index, topics in enumerate(alike):
        for topic in topics & partitions.keys():
            wanting.setdefault(topic, []).append(index)
        work += len(topics)
        if work >= WORK_PER_STEP:
            work = 0
            yield None
    kinds: dict[tuple[int, ...], list[bytes]] = {}
    for topic in sorted(wanting):
        kinds.setdefault(tuple(wanting[topic]), []).append(topic)
    found = []
    for indexes, same in kinds.items():
        found.append(_Kind(same, sorted(member_id for index in indexes for member_id in classes[index])))
        work += len(found[-1].wanted)
        if work >= WORK_PER_STEP:
            work = 0
            yield None
    return sorted(found, key=lambda kind: (len(kind.wanted), kind.topics))


def _told(kept: Iterable[list[Place]]) -> Assignment:
    numbers: dict[bytes, list[int]] = {}
    for places in kept:
        for topic, number in places:
            numbers.setdefault(topic, []).append(number)
    return {topic: tuple(sorted(some)) for topic, some in numbers.items()}


class _Shares:
    """The shares while they are worked out: what each member has of each kind, by its number, the newest last."""

    def __init__(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[bytes, int], kinds: list[_Kind]
    ) -> None:
        self._members = members
        self._kinds = kinds
        self._kind_of = {topic: number for number, kind in enumerate(kinds) for topic in kind.topics}
        self._free = {topic: set(range(partitions[topic])) for topic in self._kind_of}
        self._load = dict.fromkeys(members, 0)
        self.owned: dict[str, dict[int, list[Place]]] = {member_id: {} for member_id in sorted(members)}

    def keep(self) -> Job[None]:
        """Everyone keeps what it has, if it exists and is still wanted."""
        work = 0
        for member_id, kept in self.owned.items():
            member = self._members[member_id]
            for topic, numbers in member.owned.items():
                if topic not in self._free or topic not in member.topics:
                    continue
                mine = self._free[topic].intersection(numbers)
                self._free[topic] -= mine
                kept.setdefault(self._kind_of[topic], []).extend((topic, number) for number in sorted(mine))
                self._load[member_id] += len(mine)
                work += len(mine) + 1
            if work >= WORK_PER_STEP:
                work = 0
                yield None

    def give_rest(self) -> Job[None]:
        """What nobody has goes to whoever has least."""
        work = 0
        for kind_number, kind in enumerate(self._kinds):
            free = [(topic, number) for topic in kind.topics for number in sorted(self._free[topic])]
            if not free:
                continue
            takers = [(self._load[member_id], member_id) for member_id in kind.wanted]
            heapq.heapify(takers)
            for place in free:
                load, member_id = takers[0]
                self._give(member_id, kind_number, place)
                heapq.heapreplace(takers, (load + 1, member_id))
            work += len(takers) + len(free)
            if work >= WORK_PER_STEP:
                work = 0
                yield None

    def even_out(self) -> Job[None]:
        """Move partitions from who has more to who has less."""
        work = 0
        for _ in range(ROUNDS_MAX):
            moved = False
            for kind_number, kind in enumerate(self._kinds):
                moved |= self._even_out(kind_number, kind)
                work += len(kind.wanted)
                if work >= WORK_PER_STEP:
                    work = 0
                    yield None
            if not moved:
                return

    def _even_out(self, kind_number: int, kind: _Kind) -> bool:
        """The same within one kind; whether anything moved."""
        load, owned = self._load, self.owned
        givers = [(-load[one], one) for one in kind.wanted if owned[one].get(kind_number)]
        lowest = min(load[one] for one in kind.wanted)
        if not givers or -min(givers)[0] - lowest < 2:
            return False
        takers = [(load[one], one) for one in kind.wanted]
        heapq.heapify(givers)
        heapq.heapify(takers)
        while givers:
            had, giver = givers[0]
            has, taker = takers[0]
            if -had != load[giver]:
                heapq.heapreplace(givers, (-load[giver], giver))
            elif has != load[taker]:
                heapq.heapreplace(takers, (load[taker], taker))
            elif load[giver] - load[taker] < 2:
                break
            else:
                self._load[giver] -= 1
                self._give(taker, kind_number, owned[giver][kind_number].pop())
                if not owned[giver][kind_number]:
                    heapq.heappop(givers)
        return True

    def _give(self, member_id: str, kind_number: int, place: Place) -> None:
        self.owned[member_id].setdefault(kind_number, []).append(place)
        self._load[member_id] += 1
