"""What says in the log that a group, or a member of the consumer protocol, is gone.

The order is Apache Kafka's, whose replay counts on it: a group goes after its members, and its epoch last.
"""

from __future__ import annotations

from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.consumer.values import (
    CurrentRecord,
    EpochRecord,
    MemberRecord,
    PatternRecord,
    TargetEpochRecord,
    TargetRecord,
)
from barnabas.broker.group.kinds import AnyGroup
from barnabas.broker.group.values import CoordinatorRecord, GroupRecord


def of_group(group: AnyGroup) -> list[CoordinatorRecord]:
    """A group without members, or whose members are gone by records before."""
    group_id = group.group_id
    if not isinstance(group, ConsumerGroup):
        return [GroupRecord(group_id, None)]
    patterns = [PatternRecord(group_id, text, None) for text in group.resolved]
    return [TargetEpochRecord(group_id, None), *patterns, EpochRecord(group_id, None)]


def of_member(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """A member of the consumer protocol."""
    return [
        CurrentRecord(group_id, member_id, None),
        TargetRecord(group_id, member_id, None),
        MemberRecord(group_id, member_id, None),
    ]
