"""The two ways that look at nothing but the subscriptions: ranges of each topic, and all partitions in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.client.consume.group.assignors.member import Member, Shares, in_order, subscribers
from barnabas.protocol.ids import TopicPartition


def range_share(partitions: Mapping[str, int], members: Sequence[Member]) -> Shares:
    """Kafka's RangeAssignor (without racks): of each topic a run of partitions, the first members one more.

    Topics with as many partitions are shared alike, so that a member has the same numbers of each.
    """
    shares: Shares = {each.id: [] for each in members}
    for topic, wanted in subscribers(in_order(members), partitions).items():
        least, more = divmod(partitions[topic], len(wanted))
        first = 0
        for index, member in enumerate(wanted):
            end = first + least + (index < more)
            shares[member.id] += (TopicPartition(topic, number) for number in range(first, end))
            first = end
    return shares


def round_robin_share(partitions: Mapping[str, int], members: Sequence[Member]) -> Shares:
    """Kafka's RoundRobinAssignor: every partition, topic by topic, to the next member in turn who wants it."""
    shares: Shares = {each.id: [] for each in members}
    turn = in_order(members)
    at = 0
    for topic in subscribers(turn, partitions):
        for number in range(partitions[topic]):
            while topic not in turn[at % len(turn)].topics:
                at += 1
            shares[turn[at % len(turn)].id].append(TopicPartition(topic, number))
            at += 1
    return shares
