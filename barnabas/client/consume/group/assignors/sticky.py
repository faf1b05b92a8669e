"""Shares that are as even as the subscriptions allow, and move as few partitions as that takes.

Three steps: everyone keeps what he has and still wants; what nobody has goes to whoever has least; and as long as
somebody has two or more than another he could give to, directly or through others, one partition moves along that way.
Where there is no such way, no share is more even (the cost-reducing paths of semi-matchings in bipartite graphs). Of
several who claim a partition the one of the latest generation has it, as in Kafka's AbstractStickyAssignor.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence

from barnabas.client.consume.group.assignors.member import Member, Shares, in_order, subscribers
from barnabas.protocol.ids import TopicPartition


def sticky_share(partitions: Mapping[str, int], members: Sequence[Member]) -> Shares:
    """Kafka's StickyAssignor: even, and sticky."""
    shares = _Shares(partitions, in_order(members))
    shares.keep()
    shares.give_rest()
    shares.even_out()
    return {name: sorted(owned) for name, owned in shares.owned.items()}


def cooperative_share(partitions: Mapping[str, int], members: Sequence[Member]) -> Shares:
    """Kafka's CooperativeStickyAssignor: the same, but for what another member still has.

    That one gives it back first, and rejoins; then it is given away.
    """
    owner = owners(members)
    return {
        name: [where for where in share if owner.get(where, name) == name]
        for name, share in sticky_share(partitions, members).items()
    }


def owners(members: Sequence[Member]) -> dict[TopicPartition, str]:
    """Who has which partition: of several who claim one, those of the latest generation; of several of these, none."""
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in in_order(members):
        for where in dict.fromkeys(member.owned):
            generation, _ = claims.get(where, (None, None))
            if generation is None or member.generation > generation:
                claims[where] = member.generation, member.id
            elif member.generation == generation:
                claims[where] = generation, None
    return {where: name for where, (_, name) in claims.items() if name is not None}


class _Shares:
    """The shares while they are worked out. Members are named by their id, and come in order."""

    def __init__(self, partitions: Mapping[str, int], members: Sequence[Member]) -> None:
        self.owned: dict[str, set[TopicPartition]] = {each.id: set() for each in members}
        self._members = members
        self._wanted = {
            topic: [each.id for each in wanted] for topic, wanted in subscribers(members, partitions).items()
        }
        self._partitions = partitions
        self._has: dict[str, dict[str, set[TopicPartition]]] = {each.id: {} for each in members}  # by topic

    def _give(self, name: str, where: TopicPartition) -> None:
        self.owned[name].add(where)
        self._has[name].setdefault(where.topic, set()).add(where)

    def _take(self, name: str, where: TopicPartition) -> None:
        self.owned[name].discard(where)
        self._has[name][where.topic].discard(where)

    def keep(self) -> None:
        """Everyone keeps what he has, if it exists and he still wants it."""
        topics = {each.id: each.topics for each in self._members}
        for where, name in owners(self._members).items():
            if where.topic in topics[name] and where.partition < self._partitions.get(where.topic, 0):
                self._give(name, where)

    def give_rest(self) -> None:
        """What nobody has goes to whoever has least; topics that few want come first."""
        taken = set().union(*self.owned.values()) if self.owned else set()
        heaps: dict[tuple[str, ...], list[tuple[int, int, str]]] = {}
        rank = {each.id: at for at, each in enumerate(self._members)}
        for topic, wanted in sorted(self._wanted.items(), key=lambda each: (len(each[1]), each[0])):
            heap = heaps.setdefault(tuple(wanted), [(len(self.owned[name]), rank[name], name) for name in wanted])
            heapq.heapify(heap)
            for number in range(self._partitions[topic]):
                where = TopicPartition(topic, number)
                if where in taken:
                    continue
                while heap[0][0] != len(self.owned[heap[0][2]]):  # another heap gave to him meanwhile
                    _, at, name = heap[0]
                    heapq.heapreplace(heap, (len(self.owned[name]), at, name))
                _, at, name = heap[0]
                self._give(name, where)
                heapq.heapreplace(heap, (len(self.owned[name]), at, name))

    def even_out(self) -> None:
        """Move partitions along ways from who has more to who has less, the longest shares first."""
        settled: set[str] = set()  # nobody can be reached from these who has two less
        while left := [each.id for each in self._members if each.id not in settled]:
            name = max(left, key=lambda each: len(self.owned[each]))
            way = self._way_down(name)
            if way is None:
                settled.add(name)
                continue
            for giver, where, taker in way:
                self._take(giver, where)
                self._give(taker, where)

    def _way_down(self, name: str) -> list[tuple[str, TopicPartition, str]] | None:
        """The shortest way to somebody with two or more less: who gives what to whom."""
        most = len(self.owned[name]) - 2
        came: dict[str, tuple[str, TopicPartition]] = {}
        queue = deque([name])
        while queue:
            giver = queue.popleft()
            found: str | None = None
            for topic, has in self._has[giver].items():
                if not has:
                    continue
                for taker in self._wanted[topic]:
                    if taker != name and taker not in came:
                        came[taker] = giver, max(has)
                        queue.append(taker)
                        if len(self.owned[taker]) <= most and (
                            found is None or len(self.owned[taker]) < len(self.owned[found])
                        ):
                            found = taker
            if found is not None:
                return self._steps(found, name, came)
        return None

    @staticmethod
    def _steps(
        last: str, first: str, came: Mapping[str, tuple[str, TopicPartition]]
    ) -> list[tuple[str, TopicPartition, str]]:
        steps = []
        while last != first:
            giver, where = came[last]
            steps.append((giver, where, last))
            last = giver
        return steps
