"""SyncGroup, Heartbeat and LeaveGroup: what a member does once it has joined. Source: `GroupMetadataManager`.

The leader's SyncGroup brings what everybody is assigned. It is written, the group is stable with that, and all who wait
are told; whoever comes later, too. A member that the leader has left out has nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.group import Group, Member
from barnabas.broker.group.membership import answer_sync, remove_member, take_pending, weigh_assignments
from barnabas.broker.group.rebalance import (
    keep_alive,
    maybe_complete,
    prepare,
    prepare_or_complete,
    refuse_syncs,
    tell_synced,
)
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.shared import told_for
from barnabas.broker.group.state import GroupState
from barnabas.broker.group.values import GroupRecord
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.requests.leave_group import MemberIdentity, MemberResponse
from barnabas.protocol.requests.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

_NONE, _REBALANCE = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS
_EMPTY, _PREPARING = GroupState.EMPTY, GroupState.PREPARING
_COMPLETING, _STABLE = GroupState.COMPLETING, GroupState.STABLE

logger = logging.getLogger(__name__)


def sync(shard: Shard, request: SyncGroupRequest, reply: Reply, now_ms: int) -> None:
    """Tell a member its assignment, now or when its leader has assigned.

    Raises:
        KafkaError: it is refused.
    """
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup) and not group.is_empty:
        from barnabas.broker.group.consumer import classic_members

        classic_members.sync(shard, group, request, reply, now_ms)
        return
    if not isinstance(group, Group) or group.state is _EMPTY:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    told_type, told_name = request.protocol_type, request.protocol_name
    if (told_type is not None or told_name is not None) and (
        _differ(told_type, group.protocol_type) or _differ(told_name, group.protocol)
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is _PREPARING or group.newcomers is not None:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    group.unsynced.pop(member.member_id, None)
    if not group.unsynced and group.sync_alarm is not None:
        shard.shared.alarms.stop(group.sync_alarm)
    if group.state is _STABLE:
        shard.answer(reply, _assigned(group, member), now_ms)
        return
    if member.syncing is not None:  # over another connection, and is to ask no more; Kafka leaves it unanswered
        answer_sync(shard, member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), now_ms)
    member.syncing = reply
    if group.leader == member.member_id:
        _assign(shard, group, request.assignments, now_ms)


def _assign(shard: Shard, group: Group, assignments: Iterable[SyncGroupRequestAssignment], now_ms: int) -> None:
    """Write what the leader assigned, and tell everybody who waits for it."""
    shared = shard.shared
    given = {one.member_id: one.assignment for one in assignments if one.member_id in group.members}
    size = sum(map(len, given.values()))
    growth = size - sum(len(member.assignment) for member in group.members.values())
    if size > shard.journal.batch_bytes_max:  # nothing of it is copied then
        logger.warning("group %s: its leader assigns %d bytes, more than a batch takes", group.group_id, size)
        code = told_for(ErrorCode.RECORD_LIST_TOO_LARGE)
    elif growth > 0 and not shared.holdings.room_for(group.address, growth):
        code = int(ErrorCode.GROUP_MAX_SIZE_REACHED)
    else:
        assigned = {member_id: bytes(assignment) for member_id, assignment in given.items()}
        stored = group.stored(assigned, shared.wall_clock.now_ms())
        code = shard.append([GroupRecord(group.group_id, stored)], now_ms)
    if code:
        refuse_syncs(shard, group, code, now_ms)
        prepare_or_complete(shard, group, now_ms)
        return
    shared.counts.rebalances += 1
    weigh_assignments(shard, group, group.members.values())
    tell_synced(shard, group, partial(_assigned, group), now_ms)


def _assigned(group: Group, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


def _differ(told: str | None, known: str | None) -> bool:
    return told is not None and known is not None and told != known


def heartbeat(shard: Shard, request: HeartbeatRequest, reply: Reply, now_ms: int) -> None:
    """A member says that it is there, and is told whether to join again.

    Raises:
        KafkaError: it is no member, or of another generation.
    """
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        from barnabas.broker.group.consumer import classic_members

        classic_members.heartbeat(shard, group, request, reply, now_ms)
        return
    if not isinstance(group, Group):
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    keep_alive(shard, group, member, now_ms)
    code = _REBALANCE if group.state is _PREPARING else _NONE
    shard.answer(reply, HeartbeatResponse(error_code=code), now_ms)


def leave(shard: Shard, group_id: str, leaving: list[MemberIdentity], now_ms: int) -> list[MemberResponse]:
    """Members leave; one answer for each. The others share what they had.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, there is no such group.
    """
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        from barnabas.broker.group.consumer import classic_members

        return classic_members.leave(shard, group, leaving, now_ms)
    if not isinstance(group, Group):
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    told = []
    for one in leaving:
        code = _leave(shard, group, one, now_ms)
        told.append(MemberResponse(one.member_id, one.group_instance_id, code))
    if any(not one.error_code for one in told):
        if group.state in (_STABLE, _COMPLETING):
            prepare(shard, group, now_ms)
        else:
            maybe_complete(shard, group, now_ms)
    return told


def _leave(shard: Shard, group: Group, one: MemberIdentity, now_ms: int) -> int:
    if one.member_id in group.pending:
        take_pending(shard, group, one.member_id)
        return ErrorCode.NONE
    try:
        if one.member_id:
            member = group.check_member(one.member_id, one.group_instance_id)
        else:  # an administrator knows the instance alone
            member = group.check_member(group.static.get(one.group_instance_id or "", ""), one.group_instance_id)
    except KafkaError as fault:
        return fault.code
    remove_member(shard, group, member, now_ms)
    return ErrorCode.NONE
