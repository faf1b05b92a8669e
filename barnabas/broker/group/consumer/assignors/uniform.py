"""`uniform`, where all want the same: each has as many partitions as the others, or one more, and keeps what it can.

Source: `UniformAssignor` and `UniformHomogeneousAssignmentBuilder` of Apache Kafka. There, who comes first in a map has
the one more; here it is who has it already, so that no partition moves for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from barnabas.broker.group.consumer.assignors.member import (
    WORK_PER_STEP,
    Assignments,
    MemberSubscription,
    Sharing,
    all_alike,
)
from barnabas.broker.group.consumer.assignors.uneven import share_unevenly


def share_uniformly(members: Mapping[str, MemberSubscription], partitions: Mapping[bytes, int]) -> Sharing:
    """Give each member its part."""
    if not members:
        return {}
    if not (yield from all_alike(members)):
        return (yield from share_unevenly(members, partitions))
    order = sorted(members)
    free = {topic: set(range(partitions[topic])) for topic in sorted(members[order[0]].topics & partitions.keys())}
    least, more = divmod(sum(map(len, free.values())), len(order))
    yield None
    shares: dict[str, dict[bytes, list[int]]] = {}
    lacking: dict[str, int] = {}
    work = 0
    for member_id in order:
        share = shares[member_id] = _kept(members[member_id], free)
        count = sum(map(len, share.values()))
        quota = least
        if count > least and more:
            quota += 1
            more -= 1
        if count > quota:
            _give_back(share, count - quota, free)
        lacking[member_id] = max(quota - count, 0)
        work += count + 1
        if work >= WORK_PER_STEP:
            work = 0
            yield None
    return (yield from _fill(shares, lacking, free, least, more))


def _kept(member: MemberSubscription, free: Mapping[bytes, set[int]]) -> dict[bytes, list[int]]:
    """What a member goes on with for now: free no longer."""
    kept = {}
    for topic, numbers in member.owned.items():
        mine = sorted(free[topic].intersection(numbers)) if topic in free else None
        if mine:
            free[topic].difference_update(mine)
            kept[topic] = mine
    return kept


def _give_back(share: dict[bytes, list[int]], count: int, free: Mapping[bytes, set[int]]) -> None:
    """Take so many away, what was kept last."""
    for topic in reversed(list(share)):
        going = share[topic][-count:]
        del share[topic][-count:]
        free[topic].update(going)
        count -= len(going)
        if not count:
            break


def _fill(
    shares: Mapping[str, dict[bytes, list[int]]],
    lacking: Mapping[str, int],
    free: Mapping[bytes, set[int]],
    least: int,
    more: int,
) -> Sharing:
    """Give what is free to those who lack something, and one more each to some who have `least` then."""
    rest = ((topic, number) for topic, numbers in free.items() for number in sorted(numbers))
    given: Assignments = {}
    work = 0
    for member_id, share in shares.items():
        wanted = lacking[member_id]
        if more and sum(map(len, share.values())) + wanted == least:
            wanted += 1
            more -= 1
        for topic, number in islice(rest, wanted):
            share.setdefault(topic, []).append(number)
        given[member_id] = {topic: tuple(sorted(numbers)) for topic, numbers in share.items() if numbers}
        work += wanted + least + 1
        if work >= WORK_PER_STEP:
            work = 0
            yield None
    return given
