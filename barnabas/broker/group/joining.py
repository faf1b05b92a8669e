"""JoinGroup: a member comes, for the first time or again. Source: `GroupMetadataManager.classicGroupJoin`.

First rule that fits:

    of the consumer protocol            `consumer/classic_members.py`, or a new one in its place if it is empty
    no such group                       with a member id UNKNOWN_MEMBER_ID, else it is made
    being converted (`upgrading`)       REBALANCE_IN_PROGRESS
    full (`group.max.size`, `holdings`) GROUP_MAX_SIZE_REACHED
    other protocol type, or no protocol that all know   INCONSISTENT_GROUP_PROTOCOL
    no member id, v4 on, dynamic        MEMBER_ID_REQUIRED and an id, with which it comes again (KIP-394)
    no member id, instance id known     takes the place of the member that had it (KIP-345)
    known, PreparingRebalance           waits for the others
    known, nothing changed              the generation that there is; a leader of a stable group has them all join again
    known, changed                      all join again
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.context import source_of
from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.group import Group, Member, Protocols
from barnabas.broker.group.holdings import GROUP_BYTES, MEMBERS_BYTES_MAX, size_of_text
from barnabas.broker.group.membership import (
    add_member,
    answer_join,
    answer_sync,
    remove_member,
    say_joined,
    size_of_member,
    size_of_pending,
    size_of_protocols,
    take_pending,
    weigh,
)
from barnabas.broker.group.rebalance import (
    begin_session,
    give_out,
    joined,
    keep_alive,
    maybe_complete,
    maybe_hurry,
    members_of,
    prepare,
    prepare_or_complete,
)
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.state import GroupState
from barnabas.broker.group.subscriptions import note_type
from barnabas.broker.group.tombstones import of_group
from barnabas.broker.group.values import GroupRecord, StoredGroup
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.requests.sync_group import SyncGroupResponse

ID_REQUIRED_FROM: Final = 4
SKIP_ASSIGNMENT_FROM: Final = 9

_ID_REQUIRED = ErrorCode.MEMBER_ID_REQUIRED
_EMPTY, _PREPARING = GroupState.EMPTY, GroupState.PREPARING
_COMPLETING, _STABLE = GroupState.COMPLETING, GroupState.STABLE


def join(shard: Shard, request: JoinGroupRequest, reply: Reply, now_ms: int) -> None:
    """Let a member in, now or when all others have joined.

    Raises:
        KafkaError: it is refused, and nothing has changed.
    """
    protocols = protocols_of(request)
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup) and not group.is_empty:
        if not protocols:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        from barnabas.broker.group.consumer import classic_members

        classic_members.join(shard, group, request, protocols, reply, now_ms)
        return
    if not isinstance(group, Group):
        if request.member_id:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not request.protocol_type or not protocols:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        group = _make_group(shard, request.group_id, group, reply, now_ms)
    if group.newcomers is not None:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    if not _has_place(shard, group, request.member_id):
        size_max = shard.shared.config.group_max_size
        shard.shared.full.refused(group.group_id, "group.max.size", size_max, reply.context)
        _forget(shard, group, request.member_id, now_ms)
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    if not group.supports(request.protocol_type, protocols):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.member_id:
        _join_new(shard, group, request, protocols, reply, now_ms)
    elif request.member_id in group.pending and request.group_instance_id is None:
        _add(shard, group, request, protocols, request.member_id, reply, now_ms)
    else:
        _join_again(shard, group, request, protocols, reply, now_ms)


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """What the member can, as bytes of its own; a name given twice counts once."""
    if len(request.protocols) == 1:  # as of most
        (one,) = request.protocols
        return ((one.name, bytes(one.metadata)),)
    return tuple({one.name: bytes(one.metadata) for one in reversed(request.protocols)}.items())[::-1]


def _make_group(shard: Shard, group_id: str, before: ConsumerGroup | None, reply: Reply, now_ms: int) -> Group:
    """A new group, or one in place of an empty one of the consumer protocol."""
    address = source_of(reply.context.connection.client_host)
    if before is None and not shard.shared.holdings.room_for(address, GROUP_BYTES + size_of_text(group_id)):
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    empty = StoredGroup(None, 0, None, None, shard.shared.wall_clock.now_ms())
    gone = [] if before is None else of_group(before)
    shard.write([*gone, GroupRecord(group_id, empty)], now_ms)
    group = shard.groups[group_id]
    assert isinstance(group, Group), "the record says so"
    if before is None:
        shard.claim(group, address)
    return group


def _has_place(shard: Shard, group: Group, member_id: str) -> bool:
    size_max = shard.shared.config.group_max_size
    if group.state is _PREPARING:
        member = group.members.get(member_id)
        return (member is not None and member.joining is not None) or group.joined < size_max
    if group.state in (_COMPLETING, _STABLE):
        return member_id in group.members or len(group.members) < size_max
    return True


def _has_room(shard: Shard, group: Group, address: str, growth: int) -> bool:
    return group.held + growth <= MEMBERS_BYTES_MAX and shard.shared.holdings.room_for(address, growth)


def _forget(shard: Shard, group: Group, member_id: str, now_ms: int) -> None:
    """Who finds no place leaves none behind."""
    if member_id in group.pending:
        take_pending(shard, group, member_id)
        maybe_hurry(shard, group, now_ms)
    elif member_id in group.members:
        remove_member(shard, group, group.members[member_id], now_ms)


def _join_new(
    shard: Shard, group: Group, request: JoinGroupRequest, protocols: Protocols, reply: Reply, now_ms: int
) -> None:
    context = reply.context
    instance_id = request.group_instance_id
    chance = shard.shared.entropy.uuid().hex()  # as a `uuid.UUID` is written, in a fifth of its time
    name = context.client_id or "" if instance_id is None else instance_id
    member_id = f"{name}-{chance[:8]}-{chance[8:12]}-{chance[12:16]}-{chance[16:20]}-{chance[20:]}"
    if instance_id is not None and instance_id in group.static:
        member = group.members[group.static[instance_id]]
        _take_place(shard, group, member, member_id, request, protocols, reply, now_ms)
    elif instance_id is None and context.api_version >= ID_REQUIRED_FROM:
        address = source_of(context.connection.client_host)
        size = size_of_pending(member_id)
        if not shard.shared.holdings.room_for(address, size):
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        give_out(shard, group, member_id, address, size, request.session_timeout_ms, now_ms)
        required = JoinGroupResponse(error_code=_ID_REQUIRED, member_id=member_id)
        say_joined(shard, reply, required, now_ms)
    else:
        _add(shard, group, request, protocols, member_id, reply, now_ms)


def _add(
    shard: Shard,
    group: Group,
    request: JoinGroupRequest,
    protocols: Protocols,
    member_id: str,
    reply: Reply,
    now_ms: int,
) -> None:
    context = reply.context
    address = source_of(context.connection.client_host)
    member = Member(
        member_id,
        request.group_instance_id,
        context.client_id or "",
        f"/{context.connection.client_host}",
        rebalance_timeout_of(request),
        request.session_timeout_ms,
        protocols,
    )
    first = not group.members
    size = member.said_size = size_of_member(member)
    if first:
        size += size_of_text(request.protocol_type)
    if not _has_room(shard, group, address, size):
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    member.address = address
    member.is_new = True
    if group.state is _PREPARING and group.previous_state is _EMPTY:
        group.new_member_added = True
    if first:
        note_type(group, request.protocol_type, shard.shared.holdings)
    add_member(shard, group, member)
    group.park_join(member, reply)
    begin_session(shard, group, member, now_ms)
    prepare_or_complete(shard, group, now_ms)


def rebalance_timeout_of(request: JoinGroupRequest) -> int:
    """How long the member may take to join again; v0 has no word for it, and means its session."""
    timeout_ms = request.rebalance_timeout_ms
    return request.session_timeout_ms if timeout_ms == -1 else timeout_ms


def _join_again(
    shard: Shard, group: Group, request: JoinGroupRequest, protocols: Protocols, reply: Reply, now_ms: int
) -> None:
    member = group.check_member(request.member_id, request.group_instance_id)
    if group.state is _EMPTY:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    same = member.protocols == protocols
    leads = group.leader == member.member_id
    if group.state is _PREPARING or not same or (group.state is _STABLE and leads):
        _update(shard, group, member, request, protocols, reply, now_ms)
        prepare_or_complete(shard, group, now_ms)
    else:
        say_joined(shard, reply, joined(group, member), now_ms)


def _update(
    shard: Shard,
    group: Group,
    member: Member,
    request: JoinGroupRequest,
    protocols: Protocols,
    reply: Reply,
    now_ms: int,
) -> None:
    same = member.protocols == protocols  # as of nearly all, who take then what they took
    growth = 0 if same else size_of_protocols(protocols) - size_of_protocols(member.protocols)
    if growth > 0 and not _has_room(shard, group, member.address, growth):
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    group.update(member, protocols, rebalance_timeout_of(request), request.session_timeout_ms)
    if not same:
        weigh(shard, group, member)
    before = group.park_join(member, reply)
    if before is not None:  # the client asked again over another connection; Kafka leaves the first unanswered
        say_joined(shard, before, JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), now_ms)


def _take_place(
    shard: Shard,
    group: Group,
    member: Member,
    member_id: str,
    request: JoinGroupRequest,
    protocols: Protocols,
    reply: Reply,
    now_ms: int,
) -> None:
    """A static member is back, under a new id: whoever still waits under the old one is fenced."""
    if group.state is _STABLE:
        _take_stable_place(shard, group, member, member_id, request, protocols, reply, now_ms)
        return
    fenced = ErrorCode.FENCED_INSTANCE_ID
    told = JoinGroupResponse(error_code=fenced, member_id=member.member_id, protocol_name=None)
    answer_join(shard, group, member, told, now_ms)
    answer_sync(shard, member, SyncGroupResponse(error_code=fenced), now_ms)
    group.rename(member, member_id)
    weigh(shard, group, member)
    keep_alive(shard, group, member, now_ms)
    _update(shard, group, member, request, protocols, reply, now_ms)
    if group.state is _COMPLETING:
        prepare(shard, group, now_ms)
    else:
        maybe_complete(shard, group, now_ms)


def _take_stable_place(
    shard: Shard,
    group: Group,
    member: Member,
    member_id: str,
    request: JoinGroupRequest,
    protocols: Protocols,
    reply: Reply,
    now_ms: int,
) -> None:
    """In a stable group it has its assignment back at once, unless what it can changes what all are assigned by."""
    before = member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms
    old_id, old_leader = member.member_id, group.leader
    group.update(member, protocols, rebalance_timeout_of(request), request.session_timeout_ms)
    if group.elect_protocol() != group.protocol:
        group.rename(member, member_id)
        keep_alive(shard, group, member, now_ms)
        weigh(shard, group, member)
        group.park_join(member, reply)
        prepare(shard, group, now_ms)
        return
    assignments = {one.member_id: one.assignment for one in group.members.values()}
    stored = group.stored(assignments, shard.shared.wall_clock.now_ms())
    renamed = tuple(one._replace(member_id=member_id) if one.member_id == old_id else one for one in stored.members)
    leader = member_id if old_leader == old_id else old_leader
    code = shard.append([GroupRecord(group.group_id, stored._replace(members=renamed, leader=leader))], now_ms)
    if code:
        group.update(member, *before)
        failed = JoinGroupResponse(
            error_code=code,
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=old_leader or "",
        )
        say_joined(shard, reply, failed, now_ms)
        return
    weigh(shard, group, member)
    keep_alive(shard, group, member, now_ms)
    leads = group.leader == member_id
    told = JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member_id,
    )
    if reply.context.api_version < SKIP_ASSIGNMENT_FROM:
        told.leader = old_leader or ""  # it is not to think that it has to assign
    elif leads:
        told.members = members_of(group)
        told.skip_assignment = True
    say_joined(shard, reply, told, now_ms)
