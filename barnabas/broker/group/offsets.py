"""Committed offsets: taken, told, deleted. Source: `OffsetMetadataManager`.

Whose commit counts (`ClassicGroup.validateOffsetCommit`), first rule that fits:

    no such group        without generation it is made (a simple group, without members); else GROUP_ID_NOT_FOUND,
                         before v9 ILLEGAL_GENERATION
    no generation, Empty anybody's
    names a member       UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, or ILLEGAL_GENERATION
    names none           UNKNOWN_MEMBER_ID while there are members
    CompletingRebalance  REBALANCE_IN_PROGRESS

Groups of the consumer protocol have rules of their own (`consumer/committing.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from barnabas.broker.context import RequestContext
from barnabas.broker.group.consumer.committing import check_commit
from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.group import CONSUMER, Group
from barnabas.broker.group.holdings import GROUP_BYTES, size_of_text
from barnabas.broker.group.kinds import AnyGroup
from barnabas.broker.group.rebalance import keep_alive
from barnabas.broker.group.shard import Shard, growth_of
from barnabas.broker.group.state import GroupState
from barnabas.broker.group.values import (
    NO_EXPIRY,
    Commit,
    CommittedOffset,
    Committer,
    CoordinatorRecord,
    OffsetRecord,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.offset_commit import OneCommitResponse

NOT_FOUND_FROM: Final = 9

Asked: TypeAlias = tuple[RequestContext, OneCommitResponse]
"""Of a request that may be answered ahead: its way back, and its answer."""

_EMPTY, _PREPARING = GroupState.EMPTY, GroupState.PREPARING
_COMPLETING, _STABLE = GroupState.COMPLETING, GroupState.STABLE


def commit(
    shard: Shard, by: Committer, commits: Iterable[Commit], retention_ms: int, now_ms: int
) -> dict[TopicPartition, int]:
    """Write offsets, all of them in one batch.

    Args:
        shard: the group's.
        by: who commits.
        commits: each partition once.
        retention_ms: how long they are to be kept; -1: as the broker says.
        now_ms: monotonic.

    Returns:
        An error code for each partition.

    Raises:
        KafkaError: none was taken.
    """
    shared = shard.shared
    group = _committing(shard, by, now_ms)
    if isinstance(group, ConsumerGroup):
        commits = list(commits)
        check_commit(group, by, commits, shared.topics)
    wall_ms = shared.wall_clock.now_ms()
    expires_ms = NO_EXPIRY if retention_ms == -1 else wall_ms + retention_ms
    codes: dict[TopicPartition, int] = {}
    records: list[CoordinatorRecord] = []
    address, growth = (by.address, GROUP_BYTES + size_of_text(by.group_id)) if group is None else (group.address, 0)
    for key, offset, leader_epoch, metadata, topic_id in commits:
        committed = CommittedOffset(offset, leader_epoch, metadata, wall_ms, expires_ms, topic_id)
        more = growth_of(key, None if group is None else group.offsets.get(key), committed)
        if len(metadata) > shared.config.offset_metadata_max_bytes:
            codes[key] = ErrorCode.OFFSET_METADATA_TOO_LARGE
        elif more > 0 and not shared.holdings.room_for(address, growth + more):
            codes[key] = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        else:
            growth += more
            codes[key] = ErrorCode.NONE
            records.append(OffsetRecord(by.group_id, key, committed))
    if records:
        code = shard.append(records, now_ms)
        if code:
            raise KafkaError(code)
        if group is None:
            shard.claim(shard.groups[by.group_id], by.address)
        shared.counts.commits += len(records)
    return codes


def commit_again(shard: Shard, by: Committer, one: Commit, now_ms: int, asked: Asked | None = None) -> bool:
    """As `commit`, of a partition that the group has an offset of, both without metadata: no rule of size has a say.

    Args:
        shard: the group's.
        by: who commits.
        one: what.
        now_ms: monotonic.
        asked: the request, if it is to be answered ahead.

    Returns:
        Whether it was written. If not, nothing was done: `commit` knows.

    Raises:
        KafkaError: it was not taken.
    """
    group_id, key = by.group_id, one.key
    group = shard.groups.get(group_id)
    before = None if group is None else group.offsets.get(key)
    if group is None or before is None or before.metadata or one.metadata:
        return False
    _committing(shard, by, now_ms)
    shared = shard.shared
    if isinstance(group, ConsumerGroup):
        check_commit(group, by, (one,), shared.topics)
    wall_ms = shared.wall_clock.now_ms()
    committed = CommittedOffset(one.offset, one.leader_epoch, "", wall_ms, NO_EXPIRY, one.topic_id)
    record = OffsetRecord(group_id, key, committed)
    if asked is not None:
        shared.ahead.take(shard, record, before, *asked)
        return True
    code = shard.append_in_place(record, now_ms)
    if code:
        raise KafkaError(code)
    shared.counts.commits += 1
    return True


def _committing(shard: Shard, by: Committer, now_ms: int) -> AnyGroup | None:
    """The group that commits; None for one that this commit makes.

    Raises:
        KafkaError: it may not.
    """
    group = shard.groups.get(by.group_id)
    if group is None:
        if by.generation < 0:
            return None
        known = by.version >= NOT_FOUND_FROM
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION)
    if isinstance(group, ConsumerGroup) or (by.generation < 0 and group.state is _EMPTY):
        return group
    if by.generation < 0 and not by.member_id and by.instance_id is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.check_member(by.member_id, by.instance_id)
    if by.generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    if group.state is _COMPLETING:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    keep_alive(shard, group, member, now_ms)
    return group


def delete(shard: Shard, group_id: str, keys: Iterable[TopicPartition], now_ms: int) -> dict[TopicPartition, int]:
    """Forget offsets, but not those of topics that the group consumes.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP: nobody knows what its members consume.
    """
    group = shard.groups.get(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    if isinstance(group, Group) and not group.is_empty and group.protocol_type != CONSUMER:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    codes: dict[TopicPartition, int] = {}
    records: list[CoordinatorRecord] = []
    for key in keys:
        if group.consumes(key.topic):
            codes[key] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            continue
        codes[key] = ErrorCode.NONE
        if key in group.offsets:
            records.append(OffsetRecord(group_id, key, None))
    if records:
        code = shard.append(records, now_ms)
        if code:
            raise KafkaError(code)
        shard.shared.counts.deletions += len(records)
    return codes
