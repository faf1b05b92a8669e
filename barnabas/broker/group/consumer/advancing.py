"""One member's step: what it wants is written, the group is assigned anew if need be, the member comes nearer to that.

`advance` only looks and collects records; `settle` writes them, and then sees to what hangs on the member. Both
protocols of members take this way, ConsumerGroupHeartbeat and JoinGroup.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from barnabas.broker.context import RequestContext
from barnabas.broker.group.consumer.assigning import is_large
from barnabas.broker.group.consumer.group import NOTHING, ConsumerGroup, ConsumerMember, is_reconciled
from barnabas.broker.group.consumer.hashing import hash_after
from barnabas.broker.group.consumer.members import watch_revocation
from barnabas.broker.group.consumer.reconciling import Aim, Owned, reconcile
from barnabas.broker.group.consumer.replaying import claim_member, size_of_given, size_of_said
from barnabas.broker.group.consumer.settings import assignment_interval_ms
from barnabas.broker.group.consumer.targets import Change, Target, last_target, may_compute, new_target
from barnabas.broker.group.consumer.topics import ids_of
from barnabas.broker.group.consumer.values import (
    Current,
    CurrentRecord,
    EpochRecord,
    MemberRecord,
    PatternRecord,
)
from barnabas.broker.group.holdings import GROUP_BYTES, size_of_text
from barnabas.broker.group.kinds import AnyGroup
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.values import CoordinatorRecord, Prepared
from barnabas.protocol.errors import ErrorCode, KafkaError

NAMES_MAX: Final = 10_000
"""Topics in all lists that the members of a group name, a list that several name once: all of them are gone through
when one more comes, and when the group is assigned anew. Apache Kafka has no such bound."""
PATTERNS_MAX: Final = 100
"""Regular expressions in a group, different ones: each is held against all topics. Apache Kafka has no such bound."""

_MEAN_TOPICS: Final = frozenset((EpochRecord, Prepared))
"""Records with which a group's hash is that of its topics as they are."""


class Step(NamedTuple):
    """A member as it was (`before`, which the group may not have yet), what it says now, and what it says it has."""

    before: ConsumerMember
    change: Change
    owned: Owned | None


def check_place(shard: Shard, group: AnyGroup, member_id: str, context: RequestContext) -> None:
    """Refuse one more member than a group may have; the context says who asks.

    Raises:
        KafkaError: GROUP_MAX_SIZE_REACHED.
    """
    size_max = shard.shared.config.group_consumer_max_size
    if len(group.members) >= size_max and member_id not in group.members:
        shard.shared.full.refused(group.group_id, "group.consumer.max.size", size_max, context)
        detail = f"The consumer group has reached its maximum capacity of {size_max} members."
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, detail)


def advance(shard: Shard, group: ConsumerGroup, step: Step, records: list[CoordinatorRecord]) -> Current:
    """What the member has from now on; what is to be written for it is added to the records.

    Raises:
        KafkaError: INVALID_REQUEST: more topics than a group may want; INVALID_REGULAR_EXPRESSION, FENCED_MEMBER_EPOCH.
    """
    before, said = step.before.subscription, step.change.subscription
    group_id, member_id = group.group_id, step.change.member_id
    if said != before:
        records.append(MemberRecord(group_id, member_id, said))
    renamed = said.topics != before.topics
    if renamed:
        check_names(group, before.topics, said.topics)
    repatterned = said.pattern != before.pattern
    others = repatterned and _means_others(group, before.pattern, said.pattern, records)
    bump = renamed or others
    target = _target(shard, group, step, _epoch(shard, group, step, bump, records), records)
    current = step.before.current
    resubscribed = renamed or repatterned
    if not resubscribed and is_reconciled(current, target.epoch):
        return current
    aim = Aim(
        target.epoch,
        target.partitions,
        ids_of(shard.shared.topics, group.wanted(said)),
        resubscribed,
        group.owners,
        (member_id, step.change.replaces),
        step.owned,
    )
    after = reconcile(current, aim)
    if after != current:
        records.append(CurrentRecord(group_id, member_id, after))
    return after


def check_names(group: ConsumerGroup, before: tuple[str, ...], after: tuple[str, ...]) -> None:
    """Refuse more names than a group may have.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    if after in group.lists:
        return
    count = sum(map(len, group.lists)) + len(after)
    if group.lists.get(before) == 1:
        count -= len(before)
    if count > NAMES_MAX and len(after) > len(before):
        detail = (
            f"the members of group {group.group_id} would name {count} topics in all their lists, {NAMES_MAX} is the "
            "most; write a pattern, or the same list in all"
        )
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)


def _means_others(group: ConsumerGroup, before: str, after: str, records: list[CoordinatorRecord]) -> bool:
    """Whether other topics are meant at once; those of a new pattern are found only later (`resolving`)."""
    if before and group.patterns.get(before) == 1:
        records.append(PatternRecord(group.group_id, before, None))
    if not after:
        return True
    if after not in group.patterns:
        if len(group.patterns) >= PATTERNS_MAX:
            detail = f"group {group.group_id} has {PATTERNS_MAX} regular expressions, which is the most; share one"
            raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, detail)
        from barnabas.broker.group.consumer.patterns import compile_pattern

        compile_pattern(after)
    return after in group.resolved


def _epoch(shard: Shard, group: ConsumerGroup, step: Step, bump: bool, records: list[CoordinatorRecord]) -> int:
    """The group's epoch: one more if other topics are wanted, or those that are wanted have changed."""
    topics = shard.shared.topics
    if not bump and group.checked == topics.version:
        return group.epoch
    names = group.topics_after([step.before.subscription], [step.change.subscription])
    metadata_hash = hash_after(group, topics, names)
    if not bump and metadata_hash == group.metadata_hash:
        group.checked = topics.version
        return group.epoch
    records.append(EpochRecord(group.group_id, group.epoch + 1, metadata_hash))
    return group.epoch + 1


def _target(shard: Shard, group: ConsumerGroup, step: Step, epoch: int, records: list[CoordinatorRecord]) -> Target:
    """What the member is to have: by a new target if it is time for one, and that is not a job of its own."""
    shared = shard.shared
    if group.target_epoch >= epoch or group.assigning:
        return last_target(group, step.change)
    wall_ms = shared.wall_clock.now_ms()
    if not may_compute(group, assignment_interval_ms(shared, group.group_id), wall_ms):
        return last_target(group, step.change)
    if is_large(shared.topics, group, group.wanted(step.change.subscription)):
        return last_target(group, step.change)
    group.tried_at_ms = wall_ms
    known = shared.config.group_consumer_assignors
    assignor = group.preferred_assignor(step.before.subscription, step.change.subscription, known)
    return new_target(group, epoch, step.change, assignor, shared.topics, wall_ms, records)


def settle(
    shard: Shard,
    group: ConsumerGroup,
    step: Step,
    current: Current,
    records: list[CoordinatorRecord],
    address: str,
    now_ms: int,
) -> ConsumerMember:
    """Write the records; returns the member as it is then.

    Args:
        shard: the group's.
        group: the one that was looked at; it may not be in the shard yet.
        step: what the member does.
        current: what it has with the records.
        records: at least one.
        address: whom it counts for.
        now_ms: monotonic.

    Raises:
        KafkaError: GROUP_MAX_SIZE_REACHED: no memory is left for it; or what the log says. Nothing has changed.
    """
    group_id, member_id = group.group_id, step.change.member_id
    there = shard.groups.get(group_id)
    before, said = step.before, step.change.subscription
    said_size = before.said_size
    if said_size < 0 or said is not before.subscription:
        said_size = size_of_said(member_id, said)
    size = said_size + size_of_given(current, NOTHING) - before.size
    if there is None:
        size += GROUP_BYTES + size_of_text(group_id)
    if size > 0 and not shard.shared.holdings.room_for(address, size):
        detail = f"no memory is left for member {member_id} of group {group_id}: {size} bytes more from {address}"
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, detail)
    moved = current != before.current
    shard.write(records, now_ms)
    written = shard.consumer_group(group_id)
    if there is not written:
        shard.claim(written, address if there is None else there.address)
    if not _MEAN_TOPICS.isdisjoint(map(type, records)):
        written.checked = shard.shared.topics.version
        shard.shared.counts.consumer_rebalances += 1
    member = written.members[member_id]
    claim_member(shard, member, address)
    if moved:
        watch_revocation(shard, written, member, now_ms)
    return member
