"""A classic group with its members as records of the consumer protocol, and as the group that these make.

Each record is encoded and adopted when it is made, a few members at a time: a thousand take 60 ms. Source:
`ConsumerGroup.fromClassicGroup`, `createConsumerGroupRecords`.
"""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.group.consumer.advancing import NAMES_MAX
from barnabas.broker.group.consumer.embedded import assigned_of, wants_of
from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.consumer.hashing import group_hash, hash_topics
from barnabas.broker.group.consumer.replaying import size_of_member
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
from barnabas.broker.group.group import Group, Member
from barnabas.broker.group.records import encode
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.values import GroupRecord, Prepared
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError

WORK_PER_STEP: Final = 10_000
"""2 to 3 ms, where one member does not say more."""

logger = logging.getLogger(__name__)


class _Batch:
    """The records of a group, written down and adopted one by one."""

    def __init__(self, shard: Shard, group: Group) -> None:
        self._wall_ms = shard.shared.wall_clock.now_ms()
        self._before = group
        self.group = ConsumerGroup(group.group_id)
        self.builder = shard.new_batch()
        self.builder.try_append(self._wall_ms, *encode(GroupRecord(group.group_id, None)))

    def add(self, record: ConsumerRecord) -> None:
        """One more.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND: it has no room.
        """
        if not self.builder.try_append(self._wall_ms, *encode(record)):
            raise refusal(self._before, "its members do not fit into a batch")
        self.group.adopt(record)


def prepare(shard: Shard, group: Group) -> Job[Prepared]:
    """A classic group with its members as one of the consumer protocol, in bounded steps.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND: it stays a classic one.
    """
    group_id, epoch, topics = group.group_id, group.generation, shard.shared.topics
    batch = _Batch(shard, group)
    owned: list[tuple[Member, dict[bytes, dict[int, int]]]] = []
    taken: set[tuple[bytes, int]] = set()
    work = 0
    for member in list(group.members.values()):
        subscription, assigned = _as_consumer(shard, group, member)
        own: dict[bytes, dict[int, int]] = {}
        for topic_id, numbers in assigned.items():
            kept = {number: epoch for number in numbers if (topic_id, number) not in taken}
            taken.update((topic_id, number) for number in kept)
            if kept:
                own[topic_id] = kept
        owned.append((member, own))
        batch.add(MemberRecord(group_id, member.member_id, subscription))
        work += _work_of(member)
        if work >= WORK_PER_STEP:
            work = 0
            yield None
    made = batch.group
    count = sum(map(len, made.lists))
    if count > NAMES_MAX:
        raise refusal(group, f"its members name {count} topics, {NAMES_MAX} is the most")
    yield from hash_topics(topics, list(made.names))
    batch.add(EpochRecord(group_id, epoch, group_hash(topics, made.names)))
    made.checked = topics.version
    for member, own in owned:
        wanted = {topic_id: frozenset(kept) for topic_id, kept in own.items()}
        batch.add(TargetRecord(group_id, member.member_id, wanted))
        work += _work_of(member)
        if work >= 2 * WORK_PER_STEP:
            work = 0
            yield None
    batch.add(TargetEpochRecord(group_id, epoch))
    held: dict[str, int] = {}
    for member, own in owned:
        batch.add(CurrentRecord(group_id, member.member_id, Current(epoch, epoch, MemberState.STABLE, own)))
        one = made.members[member.member_id]
        one.address = member.address
        one.size = size_of_member(one.member_id, one.subscription, one.current, made.targets[one.member_id])
        held[one.address] = held.get(one.address, 0) + one.size
        work += _work_of(member)
        if work >= WORK_PER_STEP:
            work = 0
            yield None
    return Prepared(batch.builder, made, held)


def _work_of(member: Member) -> int:
    """What a member costs to be looked at: 30 µs, and what it says and has."""
    return 100 + len(member.assignment) + sum(len(metadata) for _, metadata in member.protocols)


def _as_consumer(shard: Shard, group: Group, member: Member) -> tuple[Subscription, dict[bytes, set[int]]]:
    topics = shard.shared.topics
    try:
        wants = wants_of(metadata_of(group, member), topics)
        assigned = assigned_of(member.assignment, topics)
    except KafkaError as fault:
        logger.warning("group %s is not upgraded: member %s: %s", group.group_id, member.member_id, fault.detail)
        raise refusal(group, "the embedded consumer protocol is malformed") from None
    except ValueError:
        because = (
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade"
        )
        raise refusal(group, because) from None
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


def metadata_of(group: Group, member: Member) -> bytes:
    """What a member says beside the protocol that its group has, or will have."""
    return member.metadata(group.protocol) if group.protocol is not None else member.protocols[0][1]


def refusal(group: Group, because: str) -> KafkaError:
    """Why a group stays a classic one, in Apache Kafka's words."""
    detail = f"Cannot upgrade classic group {group.group_id} to consumer group because {because}."
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, detail)
