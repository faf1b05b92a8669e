"""`uniform`, where members want different topics: as even as that allows, and who has something keeps it if it can.

Three steps: everyone keeps what it has and still wants; what nobody has goes to whoever has least, topics that few want
first; then, topic by topic, partitions go from who has two or more than another subscriber to that one, until no topic
has such a pair (at most `ROUNDS_MAX` times over all topics).
Source: `UniformHeterogeneousAssignmentBuilder` of Apache Kafka, which ends its rounds at the same number.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.broker.group.consumer.assignors.member import (
    WORK_PER_STEP,
    MemberSubscription,
    Sharing,
    subscribers_of,
)
from barnabas.broker.jobs import Job

ROUNDS_MAX: Final = 16


def share_unevenly(members: Mapping[str, MemberSubscription], partitions: Mapping[bytes, int]) -> Sharing:
    """Give each member its part."""
    order = sorted(members)
    wanted = yield from subscribers_of(members, order)
    topics = sorted(wanted.keys() & partitions.keys(), key=lambda topic: (len(wanted[topic]), topic))
    shares = _Shares(members, partitions, {topic: wanted[topic] for topic in topics})
    yield from shares.keep(order)
    yield from shares.give_rest()
    yield from shares.even_out()
    return {
        member_id: {topic: tuple(sorted(numbers)) for topic, numbers in share.items() if numbers}
        for member_id, share in shares.owned.items()
    }


class _Shares:
    """The shares while they are worked out. `wanted` has who may have partitions of a topic."""

    def __init__(
        self,
        members: Mapping[str, MemberSubscription],
        partitions: Mapping[bytes, int],
        wanted: Mapping[bytes, Sequence[str]],
    ) -> None:
        self._members = members
        self._partitions = partitions
        self._wanted = wanted
        self._free = {topic: set(range(partitions[topic])) for topic in wanted}
        self._load = dict.fromkeys(members, 0)
        self.owned: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in members}

    def keep(self, order: Sequence[str]) -> Job[None]:
        """Everyone keeps what it has, if it exists and is still wanted."""
        work = 0
        for member_id in order:
            member = self._members[member_id]
            for topic, numbers in member.owned.items():
                if topic not in self._free or topic not in member.topics:
                    continue
                mine = self._free[topic].intersection(numbers)
                self._free[topic] -= mine
                self.owned[member_id][topic] = mine
                self._load[member_id] += len(mine)
                work += len(mine) + 1
            if work >= WORK_PER_STEP:
                work = 0
                yield None

    def give_rest(self) -> Job[None]:
        """What nobody has goes to whoever has least."""
        work = 0
        for topic, numbers in self._free.items():
            if not numbers:
                continue
            takers = [(self._load[member_id], member_id) for member_id in self._wanted[topic]]
            heapq.heapify(takers)
            for number in sorted(numbers):
                load, member_id = takers[0]
                self._give(member_id, topic, number)
                heapq.heapreplace(takers, (load + 1, member_id))
            work += len(takers) + len(numbers)
            if work >= WORK_PER_STEP:
                work = 0
                yield None

    def even_out(self) -> Job[None]:
        """Move partitions from who has more to who has less."""
        work = 0
        for _ in range(ROUNDS_MAX):
            moved = False
            for topic in self._wanted:
                moved |= self._even_out(topic)
                work += len(self._wanted[topic])
                if work >= WORK_PER_STEP:
                    work = 0
                    yield None
            if not moved:
                return

    def _even_out(self, topic: bytes) -> bool:
        """The same within one topic; whether anything moved."""
        load = self._load
        wanted = self._wanted[topic]
        givers = [(-load[one], one) for one in wanted if self.owned[one].get(topic)]
        lowest = min(load[one] for one in wanted)
        if not givers or -min(givers)[0] - lowest < 2:
            return False
        takers = [(load[one], one) for one in wanted]
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
                self._move(topic, giver, taker)
                if not self.owned[giver][topic]:
                    heapq.heappop(givers)
        return True

    def _move(self, topic: bytes, giver: str, taker: str) -> None:
        number = max(self.owned[giver][topic])
        self.owned[giver][topic].discard(number)
        self._load[giver] -= 1
        self._give(taker, topic, number)

    def _give(self, member_id: str, topic: bytes, number: int) -> None:
        self.owned[member_id].setdefault(topic, set()).add(number)
        self._load[member_id] += 1
