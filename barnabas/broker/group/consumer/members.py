"""Members are heard of, are out of time, and go. Source: `GroupMetadataManager.consumerGroupFenceMembers`.

Whoever goes leaves its partitions free: they are the others' with the next target. A session, and the time that a
member has to give partitions up, end on the timing wheel; where the log takes nothing then, it is tried again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

from barnabas.broker.group.alarms import Alarm
from barnabas.broker.group.consumer.downgrading import (
    downgrade,
    downgrade_in_steps,
    is_large,
    may_downgrade,
    staying_of,
)
from barnabas.broker.group.consumer.group import ConsumerGroup, ConsumerMember
from barnabas.broker.group.consumer.hashing import hash_after
from barnabas.broker.group.consumer.settings import session_timeout_ms
from barnabas.broker.group.consumer.values import (
    LEFT_FOR_A_WHILE,
    EpochRecord,
    MemberState,
    PatternRecord,
)
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.tombstones import of_member
from barnabas.broker.group.values import CoordinatorRecord
from barnabas.protocol.errors import KafkaError

AGAIN_MS: Final = 500
"""So long after a record that the log did not take, it is tried again (`CoordinatorRuntime`)."""
NAMES_PER_ALARM: Final = 40
"""Topics of a group, all of which are gone through for each member that goes (0.1 µs each), that count as one alarm."""

_UNREVOKED: Final = MemberState.UNREVOKED_PARTITIONS

logger = logging.getLogger(__name__)


def keep_alive(shard: Shard, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
    """A member was heard of: its session lasts its timeout from now on. The alarm is put off when it rings."""
    alarm = member.session
    if alarm is None:
        alarm = member.session = Alarm(partial(_session_over, shard, group, member))
    classic = member.subscription.classic
    timeout_ms = session_timeout_ms(shard.shared, group.group_id) if classic is None else classic.session_timeout_ms
    member.session_until_ms = until_ms = now_ms + timeout_ms
    if until_ms < alarm.deadline_ms:
        shard.shared.alarms.set(alarm, until_ms)


def _session_over(shard: Shard, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
    if now_ms < member.session_until_ms and member.session is not None:
        shard.shared.alarms.set(member.session, member.session_until_ms)
    else:
        time_is_over(shard, group, member, "session", "the member session expired", now_ms)


def watch_revocation(shard: Shard, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
    """A member that is to give partitions up has its rebalance timeout for it; one that left for a while has none."""
    alarm = member.rebalance
    current = member.current
    if current.state is not _UNREVOKED or current.epoch == LEFT_FOR_A_WHILE or member.classic is not None:
        if alarm is not None:
            shard.shared.alarms.stop(alarm)
        return
    timeout_ms = member.subscription.rebalance_timeout_ms
    reason = f"it failed to transition from epoch {member.current.epoch} within {timeout_ms}ms"
    alarm = Alarm(partial(time_is_over, shard, group, member, "rebalance", reason))
    if member.rebalance is not None:
        shard.shared.alarms.stop(member.rebalance)
    member.rebalance = alarm
    shard.shared.alarms.set(alarm, now_ms + timeout_ms)


def time_is_over(
    shard: Shard, group: ConsumerGroup, member: ConsumerMember, alarm: str, reason: str, now_ms: int
) -> None:
    """An alarm of a member has rung, that of this name: the member is out, or the alarm rings again."""
    if shard.is_left:
        return
    shard.shared.alarms.spent += len(group.names) // NAMES_PER_ALARM
    logger.info("group %s: member %s is fenced because %s", group.group_id, member.member_id, reason)
    try:
        fence(shard, group, [member], now_ms)
    except KafkaError as fault:
        logger.warning("group %s: member %s cannot be fenced yet: %s", group.group_id, member.member_id, fault)
        ringing = getattr(member, alarm)
        if ringing is not None:
            shard.shared.alarms.set(ringing, now_ms + AGAIN_MS)


def fence(shard: Shard, group: ConsumerGroup, members: Sequence[ConsumerMember], now_ms: int) -> None:
    """Take members out of a group.

    Raises:
        KafkaError: the log takes nothing; they are still in.
    """
    if not members:
        return
    downgrades = may_downgrade(shard, group, members)
    if downgrades and not is_large(group):
        downgrade(shard, group, staying_of(group, members), True, now_ms)
        return
    epoch = group.epoch
    shard.write(records_of_fencing(shard, group, members), now_ms)
    group.checked = shard.shared.topics.version
    if downgrades:
        downgrade_in_steps(shard, group, epoch, True, now_ms)


def records_of_fencing(
    shard: Shard, group: ConsumerGroup, members: Sequence[ConsumerMember]
) -> list[CoordinatorRecord]:
    """What is to be written when these members go. The order is Kafka's, whose replay counts on it."""
    group_id, topics = group.group_id, shard.shared.topics
    records: list[CoordinatorRecord] = []
    patterns: dict[str, int] = {}
    for member in members:
        records += of_member(group_id, member.member_id)
        pattern = member.subscription.pattern
        if pattern:
            patterns[pattern] = patterns.get(pattern, 0) + 1
    records += [
        PatternRecord(group_id, pattern, None)
        for pattern, count in patterns.items()
        if group.patterns[pattern] == count
    ]
    names = group.topics_after([member.subscription for member in members], ())
    records.append(EpochRecord(group_id, group.epoch + 1, hash_after(group, topics, names)))
    return records
