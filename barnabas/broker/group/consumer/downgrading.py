"""A group of the consumer protocol becomes a classic one, when the last member of the consumer protocol goes.

Those who stay have spoken the classic protocol all along. They have what they were to have, in a generation that is the
group's epoch, and all join again if somebody went. Source: `convertToClassicGroup`, `ClassicGroup.fromConsumerGroup`.

Of a large group the last member goes first, as from any group. Its records are then made as a job; until they are
written JoinGroup and SyncGroup are told REBALANCE_IN_PROGRESS, and a member of the consumer protocol that comes has it
stay what it is. Should the broker end in between, whoever loads the group goes on. Apache Kafka 4.3 converts every
group within the request.
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
from barnabas.broker.group.holdings import size_of_text
from barnabas.broker.group.membership import size_of_member
from barnabas.broker.group.rebalance import keep_alive, prepare
from barnabas.broker.group.records import encode
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.shared import told_for
from barnabas.broker.group.state import Status
from barnabas.broker.group.subscriptions import topics_with_size
from barnabas.broker.group.tombstones import of_group
from barnabas.broker.group.values import GroupRecord, Prepared, StoredGroup
from barnabas.broker.jobs import Job, at_once
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.records import BatchBuilder

_ALLOWING: Final = frozenset({"bidirectional", "downgrade"})
_MEMBER_BYTES: Final = 120
"""Lengths, and what else stands in three tombstones and a member."""
_TOPIC_BYTES: Final = 6
"""Its name's length, and how many partitions."""
MEMBERS_AT_ONCE: Final = 100
"""A group of more, or that has more than `PARTITIONS_AT_ONCE`, is converted as a job: 4 ms."""
PARTITIONS_AT_ONCE: Final = 5_000
MEMBERS_PER_STEP: Final = 200
"""Members whose tombstones are made in one step: 2 ms."""
WORK_PER_STEP: Final = 20_000
"""Bytes of what members say and have, and 100 for each: 2 ms."""
ROUNDS_MAX: Final = 3

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


def is_large(group: ConsumerGroup) -> bool:
    """Whether its conversion is a job."""
    return len(group.members) > MEMBERS_AT_ONCE or sum(map(len, group.owners.values())) > PARTITIONS_AT_ONCE


def downgrade(shard: Shard, group: ConsumerGroup, staying: Sequence[Staying], rebalance: bool, now_ms: int) -> None:
    """Convert a group, and have all join again if something has changed.

    Raises:
        KafkaError: the log takes nothing; all is as it was.
    """
    at_once(_write(shard, at_once(_prepare(shard, group, staying, group.epoch)), rebalance, now_ms))


def downgrade_in_steps(shard: Shard, group: ConsumerGroup, generation: int, rebalance: bool, now_ms: int) -> None:
    """Convert a large group of whose members none is left of the consumer protocol.

    The generation is one that none of its members is beyond: who is in it has no need to begin anew.
    """
    if group.downgrading:
        return
    group.downgrading = True

    def ended(fault: Exception | None) -> None:
        group.downgrading = False
        if isinstance(fault, KafkaError):
            logger.warning("group %s stays of the consumer protocol: %s", group.group_id, fault)
        elif fault is not None:
            logger.error("group %s cannot be converted", group.group_id, exc_info=fault)

    shard.shared.run(_convert(shard, group, generation, rebalance, now_ms), ended)


def _convert(shard: Shard, group: ConsumerGroup, generation: int, rebalance: bool, now_ms: int) -> Job[None]:
    """Prepare it until its members have not changed meanwhile; the last time at once."""
    for rounds_left in reversed(range(ROUNDS_MAX)):
        if shard.status is not Status.ACTIVE or shard.groups.get(group.group_id) is not group:
            return
        if not may_downgrade(shard, group, ()):
            return
        as_it_is = group.changes
        preparing = _prepare(shard, group, staying_of(group, ()), generation)
        made = (yield from preparing) if rounds_left else at_once(preparing)
        is_there = shard.status is Status.ACTIVE and shard.groups.get(group.group_id) is group
        if is_there and group.changes == as_it_is:
            yield from _write(shard, made, rebalance or group.target_epoch < group.epoch, now_ms)
            return


def _prepare(shard: Shard, group: ConsumerGroup, staying: Sequence[Staying], generation: int) -> Job[Prepared]:
    """The classic group that they make, and its records, in bounded steps.

    Raises:
        KafkaError: they do not fit into a batch.
    """
    shared, group_id = shard.shared, group.group_id
    wall_ms = shared.wall_clock.now_ms()
    made = Group(group_id)
    made.protocol_type, made.generation = CONSUMER, generation
    for count, one in enumerate(staying, 1):
        made.add(_classic_member(one))
        if not count % MEMBERS_PER_STEP:
            yield None
    made.protocol = made.elect_protocol()
    assignments = {}
    work = 0
    for one in staying:
        metadata = made.members[one.member_id].metadata(made.protocol)
        assignment = assignments[one.member_id] = assignment_for(metadata, one.target, shared.topics)
        work += 100 + len(metadata) + len(assignment)
        if work >= WORK_PER_STEP:
            work = 0
            yield None
    stored = made.stored(assignments, wall_ms)
    made.adopt(stored)
    made.address = group.address
    made.topics, made.said_bytes = topics_with_size(made, shared.holdings)
    held: dict[str, int] = {}
    for one in staying:
        member = made.members[one.member_id]
        member.address, member.size = one.address, size_of_member(member)
        made.held += member.size
        held[one.address] = held.get(one.address, 0) + member.size
    yield None
    builder = yield from _batch(shard, group, stored, wall_ms)
    return Prepared(builder, made, held)


def _write(shard: Shard, record: Prepared, rebalance: bool, now_ms: int) -> Job[None]:
    """Write it; the members' sessions go on after that. Who has gone by then, or was heard of, has seen to his own."""
    made = record.group
    assert isinstance(made, Group), "`_prepare` makes such"
    shard.write([record], now_ms)
    logger.info("group %s is a classic group now, of %d members", made.group_id, len(made.members))
    members = list(made.members.values())
    if rebalance:
        prepare(shard, made, now_ms)
    for count, member in enumerate(members, 1):
        if member.session is None and made.members.get(member.member_id) is member:
            keep_alive(shard, made, member, now_ms)
        if not count % MEMBERS_PER_STEP:
            yield None
            if shard.status is not Status.ACTIVE or shard.groups.get(made.group_id) is not made:
                return


def _batch(shard: Shard, group: ConsumerGroup, stored: StoredGroup, wall_ms: int) -> Job[BatchBuilder]:
    """All that is gone, and the classic group."""
    group_id = group.group_id
    batch = shard.new_batch()
    fits = True
    for count, member_id in enumerate(list(group.members), 1):
        fits &= all(batch.try_append(wall_ms, key, None) for key in keys_of_member(group_id, member_id))
        if not count % MEMBERS_PER_STEP:
            yield None
    rest = [*of_group(group), GroupRecord(group_id, stored)]
    yield None
    if not fits or not all(batch.try_append(wall_ms, *encode(record)) for record in rest):
        detail = f"group {group_id} with {len(stored.members)} members does not fit into a batch"
        raise KafkaError(told_for(ErrorCode.RECORD_LIST_TOO_LARGE), detail)
    yield None
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
