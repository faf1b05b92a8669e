"""Members that speak the classic protocol in a group of the consumer protocol, while it changes from one to the other.

Source: `classicGroupJoinToConsumerGroup` and its like. JoinGroup and SyncGroup are answered at once: nobody leads, and
the coordinator assigns. The generation is the member's epoch. A heartbeat tells a member to join again
(REBALANCE_IN_PROGRESS) when there is a new target, when it has to give partitions up, or when what it lacks is free; a
JoinGroup says what it owns, and a SyncGroup is told what it has. Who does not join when told to, or does not sync after
that, within its rebalance timeout, is fenced, as is who is silent for its session timeout.
"""

from __future__ import annotations

import base64
from functools import partial

from barnabas.broker.context import source_of
from barnabas.broker.group.alarms import Alarm
from barnabas.broker.group.consumer.advancing import Step, advance, check_place, settle
from barnabas.broker.group.consumer.assigning import assign_if_due
from barnabas.broker.group.consumer.downgrading import (
    Staying,
    downgrade,
    downgrade_in_steps,
    is_large,
    may_downgrade,
    staying_of,
)
from barnabas.broker.group.consumer.embedded import assignment_for, wants_of
from barnabas.broker.group.consumer.group import NOTHING, ConsumerGroup, ConsumerMember
from barnabas.broker.group.consumer.identifying import Who, holder_of, replace
from barnabas.broker.group.consumer.members import fence, keep_alive, time_is_over
from barnabas.broker.group.consumer.targets import Change
from barnabas.broker.group.consumer.values import Classic, MemberState
from barnabas.broker.group.group import CONSUMER, Protocols
from barnabas.broker.group.membership import say_joined
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.values import CoordinatorRecord
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.requests.leave_group import MemberIdentity, MemberResponse
from barnabas.protocol.requests.sync_group import SyncGroupRequest, SyncGroupResponse

ID_REQUIRED_FROM = 4


def join(
    shard: Shard, group: ConsumerGroup, request: JoinGroupRequest, protocols: Protocols, reply: Reply, now_ms: int
) -> None:
    """Let a member in, or go a step towards its target with it.

    Raises:
        KafkaError: it is refused, and nothing has changed.
    """
    if group.downgrading:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    unknown, instance_id = not request.member_id, request.group_instance_id
    member_id = request.member_id or base64.urlsafe_b64encode(shard.shared.entropy.uuid()).rstrip(b"=").decode()
    check_place(shard, group, member_id, reply.context)
    _check_protocols(group, request.protocol_type, protocols)
    wants = wants_of(protocols[0][1], shard.shared.topics)
    if unknown and instance_id is None and reply.context.api_version >= ID_REQUIRED_FROM:
        required = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        say_joined(shard, reply, required, now_ms)
        return
    records: list[CoordinatorRecord] = []
    before, replaces = _who(group, member_id, instance_id, unknown, records)
    host = reply.context.connection.client_host
    timeout_ms = request.session_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
    said = before.subscription._replace(
        instance_id=before.subscription.instance_id if instance_id is None else instance_id,
        rack_id=wants.rack_id or before.subscription.rack_id,
        client_id=reply.context.client_id or "",
        client_host=f"/{host}",
        topics=wants.topics,
        pattern="",
        rebalance_timeout_ms=timeout_ms,
        classic=Classic(request.session_timeout_ms, protocols),
    )
    told = JoinGroupResponse(protocol_type=CONSUMER, protocol_name=protocols[0][0], member_id=member_id)
    holder = group.static_member(instance_id)
    last = (
        holder if holder is not None and holder.classic is None and may_downgrade(shard, group, [holder], 1) else None
    )
    others = last is not None and (said.topics != last.subscription.topics or last.subscription.pattern != "")
    if last is not None and not is_large(group):
        target = group.targets.get(last.member_id, NOTHING)
        staying = [*staying_of(group, [last]), Staying(member_id, said, target, source_of(host))]
        told.generation_id = group.epoch
        downgrade(shard, group, staying, others or group.target_epoch < group.epoch, now_ms)
    else:
        step = Step(before, Change(member_id, said, replaces), wants.owned)
        current = advance(shard, group, step, records)
        member = settle(shard, group, step, current, records, source_of(host), now_ms) if records else before
        told.generation_id = current.epoch
        _joined(shard, group, member, timeout_ms, now_ms)
        if last is None:
            assign_if_due(shard, group, now_ms)
        else:
            downgrade_in_steps(shard, group, group.epoch, others, now_ms)
    say_joined(shard, reply, told, now_ms)


def _check_protocols(group: ConsumerGroup, protocol_type: str, protocols: Protocols) -> None:
    """Refuse a member that knows no protocol which all others of its kind know.

    Raises:
        KafkaError: INCONSISTENT_GROUP_PROTOCOL.
    """
    known = any(group.classic_protocols.get(name, 0) == group.classics for name, _ in protocols)
    if protocol_type != CONSUMER or not known:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _who(
    group: ConsumerGroup, member_id: str, instance_id: str | None, unknown: bool, records: list[CoordinatorRecord]
) -> Who:
    if instance_id is None:
        return Who(group.members.get(member_id) or ConsumerMember(member_id))
    if not unknown:
        return Who(holder_of(group, instance_id, member_id))
    holder = group.static_member(instance_id)
    return Who(ConsumerMember(member_id)) if holder is None else replace(group, holder, member_id, records)


def _joined(shard: Shard, group: ConsumerGroup, member: ConsumerMember, timeout_ms: int, now_ms: int) -> None:
    """A member has joined: it is to sync now."""
    _stop(shard, member.join)
    member.join = None
    keep_alive(shard, group, member, now_ms)
    _stop(shard, member.sync)
    reason = "the member failed to sync within timeout"
    member.sync = Alarm(partial(time_is_over, shard, group, member, "sync", reason))
    shard.shared.alarms.set(member.sync, now_ms + timeout_ms)


def _is_to_join(shard: Shard, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
    """A member is told to join: it has its rebalance timeout for that, from the first time on."""
    if member.join is None:
        reason = "the classic member failed to join within the rebalance timeout"
        member.join = Alarm(partial(time_is_over, shard, group, member, "join", reason))
        shard.shared.alarms.set(member.join, now_ms + member.subscription.rebalance_timeout_ms)


def sync(shard: Shard, group: ConsumerGroup, request: SyncGroupRequest, reply: Reply, now_ms: int) -> None:
    """Tell a member what it has.

    Raises:
        KafkaError: it is refused.
    """
    member, classic = _classic_member(group, request.member_id, request.group_instance_id)
    if request.generation_id != member.current.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    name, metadata = classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.downgrading:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    current = member.current
    if group.target_epoch > current.epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
        _is_to_join(shard, group, member, now_ms)
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    _stop(shard, member.sync)
    keep_alive(shard, group, member, now_ms)
    assignment = assignment_for(metadata, current.assigned, shard.shared.topics)
    told = SyncGroupResponse(
        protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
    )
    shard.answer(reply, told, now_ms)


def heartbeat(shard: Shard, group: ConsumerGroup, request: HeartbeatRequest, reply: Reply, now_ms: int) -> None:
    """A member says that it is there, and is told whether to join again.

    Raises:
        KafkaError: it is no member, of another generation, or does not speak the classic protocol.
    """
    member, _ = _classic_member(group, request.member_id, request.group_instance_id)
    current = member.current
    if request.generation_id != current.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    keep_alive(shard, group, member, now_ms)
    released = current.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
    code = ErrorCode.NONE
    if current.epoch < group.target_epoch or current.state is MemberState.UNREVOKED_PARTITIONS or released:
        code = ErrorCode.REBALANCE_IN_PROGRESS
        _is_to_join(shard, group, member, now_ms)
    shard.answer(reply, HeartbeatResponse(error_code=code), now_ms)


def leave(shard: Shard, group: ConsumerGroup, leaving: list[MemberIdentity], now_ms: int) -> list[MemberResponse]:
    """Members leave, of either protocol; one answer for each.

    Raises:
        KafkaError: the log takes nothing; they are still in.
    """
    told = []
    gone: dict[str, ConsumerMember] = {}
    for one in leaving:
        code = ErrorCode.NONE
        try:
            member = _leaving(group, one)
            gone[member.member_id] = member
        except KafkaError as fault:
            code = fault.code
        told.append(MemberResponse(one.member_id, one.group_instance_id, code))
    fence(shard, group, list(gone.values()), now_ms)
    return told


def _leaving(group: ConsumerGroup, one: MemberIdentity) -> ConsumerMember:
    if one.group_instance_id is None:
        return group.member(one.member_id)
    member_id = one.member_id or group.static.get(
        one.group_instance_id, ""
    )  # an administrator knows the instance alone
    return holder_of(group, one.group_instance_id, member_id)


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> tuple[ConsumerMember, Classic]:
    member = group.member(member_id) if instance_id is None else holder_of(group, instance_id, member_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    return member, member.classic


def _stop(shard: Shard, alarm: Alarm | None) -> None:
    if alarm is not None:
        shard.shared.alarms.stop(alarm)
