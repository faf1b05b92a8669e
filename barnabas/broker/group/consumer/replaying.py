"""A record of the consumer protocol is replayed: the group is as it says, and what hangs on that is seen to.

A group begins with the first record that has something to say of it, whichever that is (compaction may have taken those
before), in place of a classic one without members; and ends with the tombstone of its epoch. Source: `replay` in
`GroupMetadataManager`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.group.consumer.group import NOTHING, ConsumerGroup, ConsumerMember, partitions_of
from barnabas.broker.group.consumer.values import (
    Assignment,
    ConsumerRecord,
    Current,
    CurrentRecord,
    EpochRecord,
    MemberRecord,
    PatternRecord,
    Resolved,
    Subscription,
    TargetEpochRecord,
    TargetRecord,
)
from barnabas.broker.group.holdings import MEMBER_BYTES
from barnabas.protocol.errors import ProtocolError

if TYPE_CHECKING:
    from barnabas.broker.group.shard import Shard

_NAME_BYTES: Final = 70
"""A topic's name in a list, and the text itself without its letters (measured)."""
_GIVEN_BYTES: Final = 190
"""A partition that a member has, and that it owns it (measured 150)."""
_TARGET_BYTES: Final = 70
"""A partition in a target (measured 50)."""
_PATTERN_BYTES: Final = 600
_MATCH_BYTES: Final = 130
"""A topic that a pattern matches, whose name the metadata has, and its count (measured 110)."""

_VALUE: Final = {
    EpochRecord: 1,
    TargetEpochRecord: 1,
    MemberRecord: 2,
    TargetRecord: 2,
    CurrentRecord: 2,
    PatternRecord: 2,
}
"""Where a record has its value."""
_OF_GROUPS: Final = (EpochRecord, TargetEpochRecord)  # a union is made anew wherever it is asked for


def replay_consumer(shard: Shard, record: ConsumerRecord) -> None:
    """Be as a record says, which is in the log.

    Raises:
        ProtocolError: it fits to nothing; only of a log that is damaged.
    """
    group = shard.groups.get(record.group_id)
    if type(record) is CurrentRecord and isinstance(group, ConsumerGroup) and _keeps_its_share(group, record):
        group.adopt(record)  # it takes what it took
        return
    deletes = record[_VALUE[type(record)]] is None
    if not isinstance(group, ConsumerGroup):
        if deletes:
            return
        if group is not None and not group.is_empty:
            raise ProtocolError(f"group {record.group_id} is a classic group with members")
        group = ConsumerGroup(record.group_id)
        shard.put(group)
    if type(record) is EpochRecord and deletes:
        _end(shard, group)
    elif isinstance(record, PatternRecord):
        group.adopt(record)
        _weigh_patterns(shard, group)
    elif isinstance(record, _OF_GROUPS):
        group.adopt(record)
    else:
        before = group.members.get(record.member_id)
        group.adopt(record)
        after = group.members.get(record.member_id)
        if after is not None:
            if not deletes:  # else it goes with the next record, and weighing takes as long as it has names
                _weigh(shard, group, after)
        elif before is not None:
            release(shard, before)


def _keeps_its_share(group: ConsumerGroup, record: CurrentRecord) -> bool:
    """Whether a record gives a member that is there just what it has, in whichever epoch, and takes nothing."""
    member, now = group.members.get(record.member_id), record.current
    if member is None or now is None:
        return False
    has = member.current
    return now.assigned is has.assigned and not now.revoking and not has.revoking


def _end(shard: Shard, group: ConsumerGroup) -> None:
    if group.members:
        raise ProtocolError(f"group {group.group_id} is to go, and has {len(group.members)} members")
    shard.drop(group)


def release(shard: Shard, member: ConsumerMember) -> None:
    """A member is no more: nothing rings for it, and it takes nothing."""
    for alarm in (member.session, member.rebalance, member.join, member.sync):
        if alarm is not None:
            shard.shared.alarms.stop(alarm)
    shard.shared.holdings.take(member.address, -member.size)
    member.size = 0


def release_all(shard: Shard, group: ConsumerGroup) -> None:
    """Another group takes its place, or none."""
    for member in group.members.values():
        release(shard, member)


def claim_member(shard: Shard, member: ConsumerMember, address: str) -> None:
    """A member came from this address: what it takes is of its share."""
    if member.address != address:
        shard.shared.holdings.take(member.address, -member.size)
        member.address = address
        shard.shared.holdings.take(address, member.size)


def size_of_member(member_id: str, said: Subscription, current: Current, target: Assignment) -> int:
    """Bytes that a member takes."""
    return size_of_said(member_id, said) + size_of_given(current, target)


def size_of_said(member_id: str, said: Subscription) -> int:
    """Bytes that a member takes which has nothing."""
    texts = (member_id, said.instance_id, said.rack_id, said.client_id, said.client_host, said.pattern, said.assignor)
    size = MEMBER_BYTES + 4 * sum(map(len, filter(None, texts)))
    size += _NAME_BYTES * len(said.topics) + 4 * sum(map(len, said.topics))
    if said.classic is not None:
        size += sum(120 + 4 * len(name) + len(metadata) for name, metadata in said.classic.protocols)
    return size


def size_of_given(current: Current, target: Assignment) -> int:
    """Bytes that a member's partitions take, those that it has and those that it is to have."""
    given = partitions_of(current.assigned) + partitions_of(current.revoking)
    return _GIVEN_BYTES * given + _TARGET_BYTES * partitions_of(target)


def size_of_patterns(resolved: dict[str, Resolved]) -> int:
    """Bytes that patterns and what they match take."""
    return sum(_PATTERN_BYTES + 4 * len(text) + _MATCH_BYTES * len(one.topics) for text, one in resolved.items())


def _weigh(shard: Shard, group: ConsumerGroup, member: ConsumerMember) -> None:
    if member.said_size < 0:
        member.said_size = size_of_said(member.member_id, member.subscription)
    size = member.said_size + size_of_given(member.current, group.targets.get(member.member_id, NOTHING))
    if size != member.size:
        shard.shared.holdings.take(member.address, size - member.size)
        member.size = size


def _weigh_patterns(shard: Shard, group: ConsumerGroup) -> None:
    size = size_of_patterns(group.resolved)
    shard.shared.holdings.take(group.address, size - group.pattern_bytes)
    group.pattern_bytes = size
