"""A group of the consumer protocol becomes a classic one, when the last member of the consumer protocol goes.

Those who stay have spoken the classic protocol all along. They have what they were to have, in a generation that is the
group's epoch, and all join again if somebody went. Source: `convertToClassicGroup`, `ClassicGroup.fromConsumerGroup`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from barnabas.broker.group.consumer.embedded import assignment_for
from barnabas.broker.group.consumer.group import NOTHING, ConsumerGroup, ConsumerMember
from barnabas.broker.group.consumer.records import keys_of_member
from barnabas.broker.group.consumer.values import Assignment, Subscription
from barnabas.broker.group.group import CONSUMER, Group, Member
from barnabas.broker.group.membership import size_of_member
from barnabas.broker.group.rebalance import keep_alive, prepare
from barnabas.broker.group.records import encode
from barnabas.broker.group.shard import Shard, size_of_text
from barnabas.broker.group.shared import told_for
from barnabas.broker.group.subscriptions import consumed_topics
from barnabas.broker.group.tombstones import of_group
from barnabas.broker.group.values import GroupRecord, Prepared, StoredGroup
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.records import BatchBuilder

_ALLOWING: Final = frozenset({"bidirectional", "downgrade"})
_MEMBER_BYTES: Final = 120
"""Lengths, and what else stands in three tombstones and a member."""
_TOPIC_BYTES: Final = 6
"""Its name's length, and how many partitions."""

logger = logging.getLogger(__name__)


class Staying(NamedTuple):
    """A member of the classic group to be, what it is to have there, and where it came from."""

    member_id: str
    said: Subscription
    target: Assignment
    address: str


def may_downgrade(shard: Shard, group: ConsumerGroup, leaving: Collection[ConsumerMember], coming: int = 0) -> bool:
    """Whether those who stay (and come) are of the classic protocol, some, no more than there may be, and are let.

    They know a protocol that all know, or they would not have come; but a log may be damaged.
    """
    staying = len(group.members) - len(leaving)
    if group.classics - sum(member.classic is not None for member in leaving) != staying or not staying + coming:
        return False
    config = shard.shared.config
    if config.group_consumer_migration_policy.lower() not in _ALLOWING:
        logger.info("group %s stays of the consumer protocol: group.consumer.migration.policy", group.group_id)
        return False
    agree = not group.classics or group.classics in group.classic_protocols.values()
    if not agree or staying + coming > config.group_max_size:
        return False
    size, bytes_max = _size(shard, group), shard.journal.batch_bytes_max
    if size > bytes_max:
        logger.info(
            "group %s stays of the consumer protocol: its members take %d bytes, and a batch %d",
            group.group_id,
            size,
            bytes_max,
        )
    return size <= bytes_max


def _size(shard: Shard, group: ConsumerGroup) -> int:
    """Bytes that a conversion writes, at most: of each member three tombstones, and its place in the group."""
    lengths: dict[bytes, int] = {}
    size = (_MEMBER_BYTES + 4 * size_of_text(group.group_id)) * len(group.members)
    for member_id, member in group.members.items():
        said, classic = member.subscription, member.classic
        size += 4 * size_of_text(member_id)
        size += size_of_text(f"{said.instance_id or ''}{said.client_id}{said.client_host}")
        size += max([len(one) for _, one in classic.protocols], default=0) if classic is not None else 0
        for topic_id, numbers in group.targets.get(member_id, NOTHING).items():
            if topic_id not in lengths:
                lengths[topic_id] = len(shard.shared.topics.name_of(topic_id) or "")
            size += _TOPIC_BYTES + lengths[topic_id] + 4 * len(numbers)
    return size


def staying_of(group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> list[Staying]:
    """Those who do not leave. A target may be written in part, or with part of that before: nothing is given twice."""
    gone = {member.member_id for member in leaving}
    taken: dict[bytes, set[int]] = {}
    staying = []
    for member_id, member in group.members.items():
        if member_id in gone:
            continue
        target = {}
        for topic_id, numbers in group.targets.get(member_id, NOTHING).items():
            others = taken.setdefault(topic_id, set())
            rest = numbers - others
            if rest:
                target[topic_id] = rest
                others |= rest
        staying.append(Staying(member_id, member.subscription, target, member.address))
    return staying


def downgrade(shard: Shard, group: ConsumerGroup, staying: Sequence[Staying], rebalance: bool, now_ms: int) -> None:
    """Convert a group, and have all join again if something has changed.

    Raises:
        KafkaError: the log takes nothing; all is as it was.
    """
    shared, group_id = shard.shared, group.group_id
    wall_ms = shared.wall_clock.now_ms()
    made = Group(group_id)
    made.protocol_type, made.generation = CONSUMER, group.epoch
    for one in staying:
        made.add(_classic_member(one))
    made.protocol = made.elect_protocol()
    assignments = {}
    for one in staying:
        metadata = made.members[one.member_id].metadata(made.protocol)
        assignments[one.member_id] = assignment_for(metadata, one.target, shared.topics)
    stored = made.stored(assignments, wall_ms)
    made.adopt(stored)
    made.topics = consumed_topics(made)
    held: dict[str, int] = {}
    for one in staying:
        member = made.members[one.member_id]
        member.address, member.size = one.address, size_of_member(member)
        made.held += member.size
        held[one.address] = held.get(one.address, 0) + member.size
    shard.write([Prepared(_batch(shard, group, stored, wall_ms), made, held)], now_ms)
    for member in made.members.values():
        keep_alive(shard, made, member, now_ms)
    logger.info("group %s is a classic group now, of %d members", group_id, len(staying))
    if rebalance:
        prepare(shard, made, now_ms)


def _batch(shard: Shard, group: ConsumerGroup, stored: StoredGroup, wall_ms: int) -> BatchBuilder:
    """All that is gone, and the classic group."""
    group_id = group.group_id
    batch = shard.new_batch()
    gone = (key for member_id in group.members for key in keys_of_member(group_id, member_id))
    fits = all(batch.try_append(wall_ms, key, None) for key in gone)
    rest = [*of_group(group), GroupRecord(group_id, stored)]
    if not fits or not all(batch.try_append(wall_ms, *encode(record)) for record in rest):
        detail = f"group {group_id} with {len(stored.members)} members does not fit into a batch"
        raise KafkaError(told_for(ErrorCode.RECORD_LIST_TOO_LARGE), detail)
    return batch


def _classic_member(one: Staying) -> Member:
    said = one.said
    assert said.classic is not None, "only these stay"
    return Member(
        one.member_id,
        said.instance_id,
        said.client_id,
        said.client_host,
        said.rebalance_timeout_ms,
        said.classic.session_timeout_ms,
        said.classic.protocols,
    )
