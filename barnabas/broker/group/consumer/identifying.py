"""Who a heartbeat is from: a member that is there, a new one, or one in the place of a static member that left.

First rule that fits (`getOrMaybeSubscribe...Member`, `throwIfConsumerGroupMemberEpochIsInvalid`):

    dynamic, unknown                joins with epoch 0, else UNKNOWN_MEMBER_ID
    static, joins, unknown          a new member
    static, joins, known            takes the place of the one that left for a while (epoch -2) or speaks the classic
                                    protocol; else UNRELEASED_INSTANCE_ID
    static, is there                UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID: another has come under that instance id
    epoch above that of the member  FENCED_MEMBER_EPOCH
    epoch below                     FENCED_MEMBER_EPOCH, but for the last one with nothing that is not its own: the
                                    answer with the new one was lost
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.broker.group.consumer.group import NOTHING, ConsumerGroup, ConsumerMember
from barnabas.broker.group.consumer.reconciling import Owned
from barnabas.broker.group.consumer.values import (
    LEFT_FOR_A_WHILE,
    CurrentRecord,
    Given,
    MemberRecord,
    TargetRecord,
)
from barnabas.broker.group.tombstones import of_member
from barnabas.broker.group.values import CoordinatorRecord
from barnabas.protocol.errors import ErrorCode, KafkaError


class Who(NamedTuple):
    """A member as it was; one that is not in its group yet is new. `replaces` is the static member it stands for."""

    member: ConsumerMember
    replaces: str = ""


def identify(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    instance_id: str | None,
    owned: Owned | None,
    records: list[CoordinatorRecord],
) -> Who:
    """The member that a heartbeat is from; records are added that put it in another's place.

    Raises:
        KafkaError: it may not come, or is fenced.
    """
    joins = epoch == 0
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            return Who(ConsumerMember(member_id) if joins else group.member(member_id))
        check_epoch(member, epoch, owned)
        return Who(member)
    holder = group.static_member(instance_id)
    if not joins:
        holder = holder_of(group, instance_id, member_id)
        check_epoch(holder, epoch, owned)
        return Who(holder)
    if holder is None:
        return Who(group.members.get(member_id) or ConsumerMember(member_id))
    if holder.classic is None and holder.current.epoch != LEFT_FOR_A_WHILE:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {holder.member_id} member.",
        )
    return replace(group, holder, member_id, records)


def replace(group: ConsumerGroup, holder: ConsumerMember, member_id: str, records: list[CoordinatorRecord]) -> Who:
    """Let a static member be back under another id, with all that it had, in epoch 0."""
    group_id = group.group_id
    current = holder.current._replace(epoch=0, previous_epoch=0)
    records += of_member(group_id, holder.member_id)
    records.append(MemberRecord(group_id, member_id, holder.subscription))
    records.append(TargetRecord(group_id, member_id, group.targets.get(holder.member_id, NOTHING)))
    records.append(CurrentRecord(group_id, member_id, current))
    return Who(ConsumerMember(member_id, holder.subscription, current), holder.member_id)


def holder_of(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    """The member that has an instance id, which must be this one.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    holder = group.static_member(instance_id)
    if holder is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}.",
        )
    return holder


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Refuse a heartbeat from another epoch than the member's.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH.
    """
    current = member.current
    if epoch in (0, current.epoch):
        return
    if epoch < current.epoch and epoch == current.previous_epoch and _has_no_more(owned, current.assigned):
        return
    than = "greater" if epoch > current.epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {than} member epoch ({epoch}) than the one known by the group coordinator "
        f"({current.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _has_no_more(owned: Owned | None, assigned: Given) -> bool:
    """Whether a member says what it has, and that is all its own."""
    if owned is None:
        return False
    return all(
        topic_id in assigned and all(number in assigned[topic_id] for number in numbers)
        for topic_id, numbers in owned.items()
    )
