"""Members come, are heard of, and go: what each of these means for their sessions and for the memory they take."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.broker.group.group import Group, Member, Protocols
from barnabas.broker.group.holdings import MEMBER_BYTES, PENDING_BYTES, size_of_text
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.shard import Shard
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.join_group import JoinGroupResponse
from barnabas.protocol.requests.sync_group import SyncGroupResponse

NULL_PROTOCOL_FROM = 7
"""From this version on JoinGroup's answer can say that there is no protocol."""


def size_of_member(member: Member) -> int:
    """Bytes that a member takes."""
    texts = f"{member.member_id}{member.instance_id or ''}{member.client_id}{member.client_host}"
    return MEMBER_BYTES + size_of_text(texts) + size_of_protocols(member.protocols) + len(member.assignment)


def size_of_protocols(protocols: Protocols) -> int:
    """Bytes that a member's protocols take."""
    size = 0
    for name, metadata in protocols:
        size += 120 + size_of_text(name) + len(metadata)
    return size


def size_of_pending(member_id: str) -> int:
    """Bytes that an id takes which was given out."""
    return PENDING_BYTES + size_of_text(member_id)


def weigh(shard: Shard, group: Group, member: Member) -> None:
    """Count what a member takes now."""
    member.said_size = -1
    weigh_assignment(shard, group, member)


def weigh_assignment(shard: Shard, group: Group, member: Member) -> None:
    """The same, of one that says what it said when it was weighed last; its assignment may be another."""
    weigh_assignments(shard, group, (member,))


def weigh_assignments(shard: Shard, group: Group, members: Iterable[Member]) -> None:
    """The same of several."""
    grown: dict[str, int] = {}
    for member in members:
        if member.said_size < 0:
            member.said_size = size_of_member(member) - len(member.assignment)
        size = member.said_size + len(member.assignment)
        if size != member.size:
            grown[member.address] = grown.get(member.address, 0) + size - member.size
            member.size = size
    for address, size in grown.items():
        shard.shared.holdings.take(address, size)
        group.held += size


def take_pending(shard: Shard, group: Group, member_id: str) -> None:
    """An id that was given out is used, or will not be."""
    alarm, address, size = group.pending.pop(member_id)
    shard.shared.holdings.take(address, -size)
    shard.shared.alarms.stop(alarm)


def add_member(shard: Shard, group: Group, member: Member) -> None:
    """A new member, weighed as it comes; the alarm of the id that it was given is its session's from now on."""
    growth = member.size = member.said_size
    pending = group.pending.pop(member.member_id, None)
    if pending is not None:
        member.session = pending.alarm
        if pending.address == member.address:
            growth -= pending.size
        else:
            shard.shared.holdings.take(pending.address, -pending.size)
    group.add(member)
    group.held += member.size
    shard.shared.holdings.take(member.address, growth)


def remove_member(shard: Shard, group: Group, member: Member, now_ms: int) -> None:
    """A member less; what it waits for is answered UNKNOWN_MEMBER_ID (Kafka forgets a SyncGroup here)."""
    code = ErrorCode.UNKNOWN_MEMBER_ID
    answer_join(shard, group, member, JoinGroupResponse(error_code=code), now_ms)
    answer_sync(shard, member, SyncGroupResponse(error_code=code), now_ms)
    group.remove(member.member_id)
    if member.session is not None:
        shard.shared.alarms.stop(member.session)
    shard.shared.holdings.take(member.address, -member.size)
    group.held -= member.size
    member.size = 0


def answer_join(shard: Shard, group: Group, member: Member, response: JoinGroupResponse, now_ms: int) -> None:
    """Answer the JoinGroup of a member, if one waits."""
    reply = group.unpark_join(member)
    if reply is not None:
        say_joined(shard, reply, response, now_ms)


def say_joined(shard: Shard, reply: Reply, response: JoinGroupResponse, now_ms: int) -> None:
    """Answer a JoinGroup, as its version can be told."""
    shard.answer(reply, as_told(reply, response), now_ms)


def as_told(reply: Reply, response: JoinGroupResponse) -> JoinGroupResponse:
    """The answer as the version of the request can be told."""
    if response.protocol_name is None and reply.context.api_version < NULL_PROTOCOL_FROM:
        response.protocol_name = ""
    return response


def answer_sync(shard: Shard, member: Member, response: SyncGroupResponse, now_ms: int) -> bool:
    """Answer the SyncGroup of a member, if one waits; True if so."""
    reply, member.syncing = member.syncing, None
    if reply is None:
        return False
    shard.answer(reply, response, now_ms)
    return True
