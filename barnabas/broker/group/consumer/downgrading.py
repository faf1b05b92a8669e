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
from barnabas.broker.group.consumer.values import Assignment, Subscription
from barnabas.broker.group.group import CONSUMER, Group, Member
from barnabas.broker.group.membership import weigh
from barnabas.broker.group.rebalance import keep_alive, prepare
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.subscriptions import consumed_topics
from barnabas.broker.group.tombstones import of_group, of_member
from barnabas.broker.group.values import CoordinatorRecord, GroupRecord

_ALLOWING: Final = frozenset({"bidirectional", "downgrade"})

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
    return agree and staying + coming <= config.group_max_size


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
    made = Group(group_id)
    made.protocol_type, made.generation = CONSUMER, group.epoch
    for one in staying:
        made.add(_classic_member(one))
    made.protocol = made.elect_protocol()
    assignments = {}
    for one in staying:
        metadata = made.members[one.member_id].metadata(made.protocol)
        assignments[one.member_id] = assignment_for(metadata, one.target, shared.topics)
    records: list[CoordinatorRecord] = []
    for member_id in group.members:
        records += of_member(group_id, member_id)
    records += of_group(group)
    records.append(GroupRecord(group_id, made.stored(assignments, shared.wall_clock.now_ms())))
    shard.write(records, now_ms)
    written = shard.groups[group_id]
    assert isinstance(written, Group), "the record says so"
    if written.address != group.address:
        shard.claim(written, group.address)
    for one in staying:
        member = written.members[one.member_id]
        member.address = one.address
        known = made.members[one.member_id]
        written.update(member, known.protocols, known.rebalance_timeout_ms, known.session_timeout_ms)
        weigh(shard, written, member)
        keep_alive(shard, written, member, now_ms)
    written.topics = consumed_topics(written)
    logger.info("group %s is a classic group now, of %d members", group_id, len(staying))
    if rebalance:
        prepare(shard, written, now_ms)


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
