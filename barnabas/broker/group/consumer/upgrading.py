"""A member of the consumer protocol comes to a group that is none yet: a new one, or a classic one to be converted.

The members of a classic group stay in it, with what their leader has assigned, in an epoch that is the generation; the
new member's subscription raises that by one. Those who wait in JoinGroup or SyncGroup are told REBALANCE_IN_PROGRESS.
Source: `getOrMaybeCreateConsumerGroup`, `validateOnlineUpgrade`, `ConsumerGroup.fromClassicGroup`.
"""

from __future__ import annotations

import logging
import struct
from typing import Final, NamedTuple

from barnabas.broker.group.consumer.advancing import NAMES_MAX, check_place
from barnabas.broker.group.consumer.embedded import assigned_of, wants_of
from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.consumer.hashing import group_hash
from barnabas.broker.group.consumer.members import keep_alive
from barnabas.broker.group.consumer.replaying import claim_member
from barnabas.broker.group.consumer.values import (
    Classic,
    ConsumerRecord,
    Current,
    CurrentRecord,
    EpochRecord,
    MemberRecord,
    MemberState,
    Subscription,
    TargetEpochRecord,
    TargetRecord,
)
from barnabas.broker.group.group import CONSUMER, Group, Member
from barnabas.broker.group.rebalance import close
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.subscriptions import NAMES_MAX as SAID_MAX
from barnabas.broker.group.subscriptions import names_in
from barnabas.broker.group.values import CoordinatorRecord, GroupRecord
from barnabas.protocol.errors import ErrorCode, KafkaError

_ALLOWING: Final = frozenset({"bidirectional", "upgrade"})

logger = logging.getLogger(__name__)


class Converted(NamedTuple):
    """A classic group whose place another takes."""

    before: Group

    def finish(self, shard: Shard, group: ConsumerGroup, now_ms: int) -> None:
        """It is written: whoever waits in the classic group is told, and its members' sessions go on in the other."""
        addresses = {member_id: member.address for member_id, member in self.before.members.items()}
        close(shard, self.before, ErrorCode.REBALANCE_IN_PROGRESS)
        for member_id, address in addresses.items():
            member = group.members.get(member_id)
            if member is not None:
                claim_member(shard, member, address)
                keep_alive(shard, group, member, now_ms)
        if addresses:
            logger.info("group %s is of the consumer protocol now, with %d classic", group.group_id, len(addresses))


def group_for(
    shard: Shard, group_id: str, member_id: str, joins: bool, records: list[CoordinatorRecord]
) -> tuple[ConsumerGroup, Converted | None]:
    """The group that a member names; one that is not there yet is made by the records.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND: there is none and the member does not join, or it stays a classic one;
            GROUP_MAX_SIZE_REACHED: it has no place, which is said before anything is converted for it.
    """
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group, None
    if group is None:
        if not joins:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        return ConsumerGroup(group_id), None
    if not joins:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    made = ConsumerGroup(group_id)
    if not group.is_empty:
        _check_upgrade(shard, group)
        check_place(shard, group, member_id)
    records.append(GroupRecord(group_id, None))
    if not group.is_empty:
        for record in _records_of(shard, group):
            records.append(record)
            made.adopt(record)
    return made, Converted(group)


def _check_upgrade(shard: Shard, group: Group) -> None:
    """Refuse a classic group that is not to be converted.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND.
    """
    config = shard.shared.config
    because = None
    if config.group_consumer_migration_policy.lower() not in _ALLOWING:
        because = "online upgrade is disabled"
    elif group.protocol_type != CONSUMER:
        because = "the group does not use the consumer embedded protocol"
    elif len(group.members) > config.group_consumer_max_size:
        because = "the group size exceeds the consumer group maximum size"
    if because is None:
        because = _asks_too_much(group, shard.journal.batch_bytes_max)
    if because is not None:
        raise _refusal(group, because)


def _asks_too_much(group: Group, bytes_max: int) -> str | None:
    """Why a group is not even looked through: all of it is read, and written as one batch, in one step."""
    members = group.members.values()
    size = sum(len(member.assignment) + sum(len(one) for _, one in member.protocols) for member in members)
    if size > bytes_max:
        return f"its members take {size} bytes, and a batch {bytes_max}"
    try:
        count = names_in({_metadata(group, member) for member in members})
    except struct.error:
        return None  # it is read, and refused, member by member
    return f"its members name {count} topics, {SAID_MAX} are looked at" if count > SAID_MAX else None


def _metadata(group: Group, member: Member) -> bytes:
    return member.metadata(group.protocol) if group.protocol is not None else member.protocols[0][1]


def _refusal(group: Group, because: str) -> KafkaError:
    detail = f"Cannot upgrade classic group {group.group_id} to consumer group because {because}."
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, detail)


def _records_of(shard: Shard, group: Group) -> list[ConsumerRecord]:
    """A classic group with its members as one of the consumer protocol."""
    group_id, epoch, topics = group.group_id, group.generation, shard.shared.topics
    said: list[ConsumerRecord] = []
    targets: list[ConsumerRecord] = []
    currents: list[ConsumerRecord] = []
    names: set[str] = set()
    lists: set[tuple[str, ...]] = set()
    taken: set[tuple[bytes, int]] = set()
    for member in group.members.values():
        subscription, assigned = _as_consumer(shard, group, member)
        names.update(subscription.topics)
        lists.add(subscription.topics)
        own: dict[bytes, dict[int, int]] = {}
        for topic_id, numbers in assigned.items():
            kept = {number: epoch for number in numbers if (topic_id, number) not in taken}
            taken.update((topic_id, number) for number in kept)
            if kept:
                own[topic_id] = kept
        said.append(MemberRecord(group_id, member.member_id, subscription))
        target = {topic_id: frozenset(kept) for topic_id, kept in own.items()}
        targets.append(TargetRecord(group_id, member.member_id, target))
        current = Current(epoch, epoch, MemberState.STABLE, own)
        currents.append(CurrentRecord(group_id, member.member_id, current))
    count = sum(map(len, lists))
    if count > NAMES_MAX:
        raise _refusal(group, f"its members name {count} topics, {NAMES_MAX} is the most")
    said.append(EpochRecord(group_id, epoch, group_hash(topics, names)))
    targets.append(TargetEpochRecord(group_id, epoch))
    return said + targets + currents


def _as_consumer(shard: Shard, group: Group, member: Member) -> tuple[Subscription, dict[bytes, set[int]]]:
    topics = shard.shared.topics
    try:
        wants = wants_of(_metadata(group, member), topics)
        assigned = assigned_of(member.assignment, topics)
    except KafkaError as fault:
        logger.warning("group %s is not upgraded: member %s: %s", group.group_id, member.member_id, fault.detail)
        raise _refusal(group, "the embedded consumer protocol is malformed") from None
    except ValueError:
        because = (
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade"
        )
        raise _refusal(group, because) from None
    subscription = Subscription(
        member.instance_id,
        wants.rack_id,
        member.client_id,
        member.client_host,
        wants.topics,
        "",
        member.rebalance_timeout_ms,
        None,
        Classic(member.session_timeout_ms, member.protocols),
    )
    return subscription, assigned
