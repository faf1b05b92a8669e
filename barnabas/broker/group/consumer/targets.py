"""Who is to have what: the target of a group for a new epoch. Source: `TargetAssignmentBuilder` of Apache Kafka.

Only what differs from the target before is written. A new target is computed at most once in
`group.consumer.assignment.interval.ms` (KIP-1263), when a member is heard of: those who come meanwhile share it. That
of a small group is part of the answer; that of a large one is a job (`assigning`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.broker.group.consumer.assignors import MemberSubscription, assigning
from barnabas.broker.group.consumer.assignors.member import WORK_PER_STEP
from barnabas.broker.group.consumer.group import NOTHING, ConsumerGroup
from barnabas.broker.group.consumer.topics import Topics
from barnabas.broker.group.consumer.values import Assignment, Subscription, TargetEpochRecord, TargetRecord
from barnabas.broker.group.values import CoordinatorRecord
from barnabas.broker.jobs import Job, at_once


class Change(NamedTuple):
    """One member as it will be, and whose place it takes ("" for nobody's)."""

    member_id: str
    subscription: Subscription
    replaces: str = ""


class Target(NamedTuple):
    """For which epoch, and what the one member is to have."""

    epoch: int
    partitions: Assignment


def may_compute(group: ConsumerGroup, interval_ms: int, wall_ms: int) -> bool:
    """Whether it is time for a new target. One that could not be written counts, for it may be too large for ever.

    A time that is yet to come says that the clock was set back: nobody waits until it is there again (Kafka does).
    """
    last_ms = max(group.target_at_ms, group.tried_at_ms)
    return not last_ms or not interval_ms or not last_ms <= wall_ms < last_ms + interval_ms


def last_target(group: ConsumerGroup, change: Change) -> Target:
    """What there is."""
    return Target(group.target_epoch, group.targets.get(change.replaces or change.member_id, NOTHING))


def new_target(
    group: ConsumerGroup,
    epoch: int,
    change: Change,
    assignor: str,
    topics: Topics,
    wall_ms: int,
    records: list[CoordinatorRecord],
) -> Target:
    """Compute a target at once, and add what is to be written of it to the records."""
    said = {member_id: (member.subscription, member_id) for member_id, member in group.members.items()}
    said.pop(change.replaces, None)
    said[change.member_id] = change.subscription, change.replaces or change.member_id
    own = NOTHING
    for member_id, target in at_once(share_out(group, assignor, said, topics)).items():
        if group.targets.get(member_id) != target:
            records.append(TargetRecord(group.group_id, member_id, target))
        if member_id == change.member_id:
            own = target
    records.append(TargetEpochRecord(group.group_id, epoch, wall_ms))
    return Target(epoch, own)


def share_out(
    group: ConsumerGroup, assignor: str, said: Mapping[str, tuple[Subscription, str]], topics: Topics
) -> Job[dict[str, Assignment]]:
    """What each member is to have; the group and the topics may change meanwhile.

    Args:
        group: whose patterns and targets count.
        assignor: its name.
        said: by member what it wants, and whose target it has had.
        topics: those of the cluster.
    """
    partitions: dict[bytes, int] = {}
    wanted_by: dict[tuple[str, tuple[str, ...]], frozenset[bytes]] = {}
    members: dict[str, MemberSubscription] = {}
    targets = group.targets
    work = 0
    for member_id, (one, had) in said.items():
        wanted = wanted_by.get((one.pattern, one.topics))
        if wanted is None:
            names = group.wanted(one)
            found = [known for name in names if (known := topics.get(name)) is not None]
            partitions.update(found)
            wanted = wanted_by[one.pattern, one.topics] = frozenset(topic_id for topic_id, _ in found)
            work += len(names)
        members[member_id] = MemberSubscription(wanted, targets.get(had, NOTHING), one.instance_id, one.rack_id)
        work += 1
        if work >= WORK_PER_STEP:
            work = 0
            yield None
    shares = yield from assigning(assignor, members, partitions)
    return {
        member_id: {topic_id: frozenset(numbers) for topic_id, numbers in share.items()}
        for member_id, share in shares.items()
    }
