"""`range`: of each topic a run of partitions to each member, the first members one more.

Topics with as many partitions and the same subscribers are shared alike, so that a member has the same numbers of each.
Source: `org.apache.kafka.coordinator.group.assignor.RangeAssignor`, which does not look at what members have, either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from barnabas.broker.group.consumer.assignors.member import (
    WORK_PER_STEP,
    Assignments,
    MemberSubscription,
    Sharing,
    all_alike,
    subscribers_of,
)


def share_by_ranges(members: Mapping[str, MemberSubscription], partitions: Mapping[bytes, int]) -> Sharing:
    """Give each member its runs."""
    order = sorted(members, key=lambda member_id: _place(member_id, members[member_id]))
    shares: Assignments = {member_id: {} for member_id in order}
    if (yield from all_alike(members)):
        wanted = dict.fromkeys(members[order[0]].topics, order) if order else {}
    else:
        wanted = yield from subscribers_of(members, order)
    work = 0
    for topic in sorted(wanted.keys() & partitions.keys()):
        _share(topic, partitions[topic], wanted[topic], shares)
        work += partitions[topic] + 1
        if work >= WORK_PER_STEP:
            work = 0
            yield None
    return shares


def _place(member_id: str, member: MemberSubscription) -> tuple[bool, str]:
    """Static members come first, by their instance id; then the others, by their member id."""
    return member.instance_id is None, member.instance_id or member_id


def _share(topic: bytes, count: int, wanted: Sequence[str], shares: Assignments) -> None:
    least, more = divmod(count, len(wanted))
    first = 0
    for index, member_id in enumerate(islice(wanted, min(count, len(wanted)))):
        end = first + least + (index < more)
        shares[member_id][topic] = tuple(range(first, end))
        first = end
