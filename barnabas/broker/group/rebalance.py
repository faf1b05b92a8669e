"""A rebalance of a classic group from its beginning to the generation it ends in. Source: `GroupMetadataManager`.

    a member comes, goes or changes     prepare: everybody is to join again, and is waited for
    all have joined, or time is over    complete_join: a generation begins, the leader is told who is in it
    the leader has assigned             `syncing`: written, then told to everybody
    one never asked for its own         it is out, and everybody joins again

The first member of an empty group is held back for `group.initial.rebalance.delay.ms`, so that those who start with it
are in the same generation; each who comes meanwhile adds as much again, up to the largest rebalance timeout. Where the
delay is 0 it is one millisecond: Apache Kafka's is then over behind whatever its coordinator's queue holds, so that
there, too, those who come at once share a generation, and are not each of them waited for again in one more. Whoever
was given an id is about to come, and is waited for, too, in the first `PENDING_MS_MAX`; Apache Kafka does so in every
other rebalance. The last of them ends that wait, behind what has been received by then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from barnabas.broker.group.alarms import Alarm
from barnabas.broker.group.answering import answer_all
from barnabas.broker.group.group import Group, Member, Pending
from barnabas.broker.group.membership import remove_member, take_pending
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.state import CAN_REBALANCE, GroupState
from barnabas.broker.group.subscriptions import note_topics
from barnabas.broker.group.values import GroupRecord
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.join_group import JoinGroupResponse, JoinGroupResponseMember
from barnabas.protocol.requests.sync_group import SyncGroupResponse

NEW_MEMBER_JOIN_MS: Final = 300_000
"""So long a new member waits in a rebalance at most: whoever asked may have come again under another id."""
DELAY_MS_MIN: Final = 1
"""The initial delay where none is asked for."""
PENDING_MS_MAX: Final = 500
"""So long the first generation waits for ids that were given out: a thousand members take 100 ms, or more."""

_EMPTY, _PREPARING = GroupState.EMPTY, GroupState.PREPARING
_COMPLETING, _STABLE = GroupState.COMPLETING, GroupState.STABLE

logger = logging.getLogger(__name__)


# Sessions


def keep_alive(shard: Shard, group: Group, member: Member, now_ms: int) -> None:
    """A member was heard of: its session lasts its timeout from now on. The alarm is put off when it rings."""
    member.session_until_ms = until_ms = now_ms + member.session_timeout_ms
    alarm = member.session
    if alarm is None:
        alarm = member.session = Alarm(partial(_session_over, shard, group, member))
    if until_ms < alarm.deadline_ms:
        shard.shared.alarms.set(alarm, until_ms)


def begin_session(shard: Shard, group: Group, member: Member, now_ms: int) -> None:
    """A new member waits for its first generation, `NEW_MEMBER_JOIN_MS` at most.

    That is looked at when its session would be over, for most are in a generation by then. An alarm that it has is that
    of the id it was given, and rings about then.
    """
    member.new_until_ms = now_ms + NEW_MEMBER_JOIN_MS
    over = partial(_session_over, shard, group, member)
    alarm = member.session
    if alarm is None:
        alarm = member.session = Alarm(over)
    else:
        alarm.call(over)
    until_ms = min(now_ms + member.session_timeout_ms, member.new_until_ms)
    if until_ms < alarm.deadline_ms:
        shard.shared.alarms.set(alarm, until_ms)


def _session_over(shard: Shard, group: Group, member: Member, now_ms: int) -> None:
    if shard.is_left:
        return
    until_ms = member.new_until_ms if member.is_new else member.session_until_ms
    if now_ms < until_ms and member.session is not None:
        shard.shared.alarms.set(member.session, until_ms)
        return
    if not member.is_new and (member.joining is not None or member.syncing is not None):
        return  # it waits for us, not we for it; the session goes on with the answer
    logger.info("group %s: the session of member %s is over", group.group_id, member.member_id)
    remove_member(shard, group, member, now_ms)
    member_gone(shard, group, now_ms)


def member_gone(shard: Shard, group: Group, now_ms: int) -> None:
    """A member has left, or was put out: the others share what it had."""
    if group.state in (_STABLE, _COMPLETING):
        prepare(shard, group, now_ms)
    elif group.state is _PREPARING and group.all_joined:
        complete_join(shard, group, now_ms)


def give_out(shard: Shard, group: Group, member_id: str, address: str, size: int, timeout_ms: int, now_ms: int) -> None:
    """A member id of so many bytes was given out (KIP-394): a rebalance waits until it is used, at most a session."""
    alarm = Alarm(partial(_never_used, shard, group, member_id))
    group.pending[member_id] = Pending(alarm, address, size)
    shard.shared.holdings.take(address, size)
    shard.shared.alarms.set(alarm, now_ms + timeout_ms)


def _never_used(shard: Shard, group: Group, member_id: str, now_ms: int) -> None:
    if shard.is_left:
        return
    take_pending(shard, group, member_id)
    if group.state is _PREPARING and group.all_joined:
        complete_join(shard, group, now_ms)


# The join phase


def prepare(shard: Shard, group: Group, now_ms: int) -> None:
    """Begin a rebalance; whoever waits for an assignment is told that there is none."""
    if group.state is _COMPLETING:
        refuse_syncs(shard, group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
    group.unsynced.clear()
    _stop(shard, group.sync_alarm)
    initial = group.state is _EMPTY
    group.move(_PREPARING, shard.shared.wall_clock.now_ms())
    if initial:
        group.new_member_added = False
        until_ms = now_ms + group.rebalance_timeout_ms
        _wait_for_more(shard, group, now_ms + _delay_ms(shard), until_ms, now_ms + PENDING_MS_MAX)
    elif group.all_joined:
        complete_join(shard, group, now_ms)
    else:
        _wait_for_all(shard, group, now_ms)


def prepare_or_complete(shard: Shard, group: Group, now_ms: int) -> None:
    """A member has come: begin a rebalance, or end the one under way if nobody else is waited for."""
    if group.state in CAN_REBALANCE:
        prepare(shard, group, now_ms)
    else:
        maybe_complete(shard, group, now_ms)


def maybe_complete(shard: Shard, group: Group, now_ms: int) -> None:
    """End the join phase if all are there; that of a group which was empty ends when its delay does."""
    if group.state is _PREPARING and group.previous_state is not _EMPTY and group.all_joined:
        complete_join(shard, group, now_ms)
    elif group.waits_for_ids:
        maybe_hurry(shard, group, now_ms)


def maybe_hurry(shard: Shard, group: Group, now_ms: int) -> None:
    """Where nothing but ids that were given out was waited for, and none is left, another delay is enough.

    Where there is none, what has been received by now is: Apache Kafka's is over behind that, too.
    """
    if not group.waits_for_ids or group.pending:
        return
    assert group.join_alarm is not None, "it waits"
    group.waits_for_ids = group.new_member_added = False
    if shard.shared.config.group_initial_rebalance_delay_ms:
        shard.shared.alarms.set(group.join_alarm, min(now_ms + _delay_ms(shard), group.join_alarm.deadline_ms))
    else:
        shard.shared.run(_begin_behind(shard, group, group.join_alarm, now_ms), _begun)


def _begin_behind(shard: Shard, group: Group, alarm: Alarm, now_ms: int) -> Job[None]:
    """Begin the generation that is waited for, unless somebody was given an id before this job's turn."""
    if group.join_alarm is alarm and group.state is _PREPARING:
        if group.pending:
            group.waits_for_ids = True
        else:
            complete_join(shard, group, now_ms)
    yield from ()


def _begun(fault: Exception | None) -> None:
    if fault is not None:
        logger.error("a generation could not begin", exc_info=fault)


def complete_join(shard: Shard, group: Group, now_ms: int) -> None:
    """End the join phase: a generation of those who are there. Who is not is out, unless it is static."""
    if shard.is_left:
        return
    _stop(shard, group.join_alarm)
    group.join_alarm = None
    group.waits_for_ids = False
    shard.shared.alarms.spent += len(group.members)
    missing = [one for one in group.members.values() if one.joining is None and one.instance_id is None]
    for member in missing:
        remove_member(shard, group, member, now_ms)
    if missing:
        logger.info("group %s: %d members did not join in time", group.group_id, len(missing))
    if not group.members:
        _become_empty(shard, group, now_ms)
    elif group.elect_leader():
        _begin_generation(shard, group, now_ms)
    else:
        _wait_for_all(shard, group, now_ms)  # static ones alone, and none of them has come


def _become_empty(shard: Shard, group: Group, now_ms: int) -> None:
    stored = group.emptied(shard.shared.wall_clock.now_ms())
    if shard.append([GroupRecord(group.group_id, stored)], now_ms):
        # The next leader finds members in the log who are gone, and puts them out when their sessions are over.
        group.adopt(stored)
        note_topics(group, shard.shared.holdings)
    logger.info("group %s is empty, generation %d", group.group_id, group.generation)


def _begin_generation(shard: Shard, group: Group, now_ms: int) -> None:
    group.generation += 1
    group.protocol = group.elect_protocol()
    note_topics(group, shard.shared.holdings)
    group.move(_COMPLETING, shard.shared.wall_clock.now_ms())
    group.unsynced.clear()
    logger.info("group %s: generation %d of %d members", group.group_id, group.generation, len(group.members))
    answers: list[tuple[Reply, JoinGroupResponse]] = []
    for member in group.members.values():
        reply = group.unpark_join(member)
        if reply is not None:
            answers.append((reply, joined(group, member)))  # which names a protocol, so any version can be told it
            if member.member_id == group.leader:  # all wait for it: the first to be told
                answers[0], answers[-1] = answers[-1], answers[0]
        member.is_new = False
        group.unsynced[member.member_id] = None
        keep_alive(shard, group, member, now_ms)
    answer_all(shard, answers, now_ms)
    alarm = group.sync_alarm = Alarm(partial(_sync_over, shard, group, group.generation))
    shard.shared.alarms.set(alarm, now_ms + group.rebalance_timeout_ms)


def joined(group: Group, member: Member) -> JoinGroupResponse:
    """What a member is told of its generation: the leader alone, who is in it."""
    members = []
    if group.leader == member.member_id:
        members = members_of(group)
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member.member_id,
        members=members,
    )


def members_of(group: Group) -> list[JoinGroupResponseMember]:
    """Who is in a generation, as its leader is told."""
    return [
        JoinGroupResponseMember(one.member_id, one.instance_id, one.metadata(group.protocol))
        for one in group.members.values()
    ]


def _wait_for_all(shard: Shard, group: Group, now_ms: int) -> None:
    assert group.join_alarm is None, "a join phase ends before the next begins"
    alarm = group.join_alarm = Alarm(partial(complete_join, shard, group))
    shard.shared.alarms.set(alarm, now_ms + group.rebalance_timeout_ms)


def _wait_for_more(shard: Shard, group: Group, wake_ms: int, until_ms: int, pending_until_ms: int) -> None:
    alarm = group.join_alarm = Alarm(partial(_delay_over, shard, group, until_ms, pending_until_ms))
    shard.shared.alarms.set(alarm, wake_ms)


def _delay_ms(shard: Shard) -> int:
    return max(shard.shared.config.group_initial_rebalance_delay_ms, DELAY_MS_MIN)


def _delay_over(shard: Shard, group: Group, until_ms: int, pending_until_ms: int, now_ms: int) -> None:
    """Begin the generation, unless somebody has come meanwhile or is about to: the last of these rings early."""
    wake_ms = now_ms
    for_ids = bool(group.pending)
    if group.new_member_added and (not for_ids or shard.shared.config.group_initial_rebalance_delay_ms):
        wake_ms, for_ids = min(now_ms + _delay_ms(shard), until_ms), False
    elif for_ids:
        wake_ms = min(pending_until_ms, until_ms)
    if wake_ms > now_ms:
        group.waits_for_ids = for_ids
        group.new_member_added = False
        _wait_for_more(shard, group, wake_ms, until_ms, pending_until_ms)
    else:
        complete_join(shard, group, now_ms)


# The sync phase


def refuse_syncs(shard: Shard, group: Group, code: int, now_ms: int) -> None:
    """Whoever waits for its assignment is told that there is none."""
    tell_synced(shard, group, lambda _: SyncGroupResponse(error_code=code), now_ms)


def tell_synced(shard: Shard, group: Group, told: Callable[[Member], SyncGroupResponse], now_ms: int) -> None:
    """Answer all who wait in SyncGroup; their sessions last a timeout from now on."""
    answers: list[tuple[Reply, SyncGroupResponse]] = []
    for member in group.members.values():
        reply, member.syncing = member.syncing, None
        if reply is not None:
            answers.append((reply, told(member)))
            keep_alive(shard, group, member, now_ms)
    answer_all(shard, answers, now_ms)


def _sync_over(shard: Shard, group: Group, generation: int, now_ms: int) -> None:
    if shard.is_left or generation != group.generation or not group.unsynced:
        return
    logger.info("group %s: %d members never fetched their assignment", group.group_id, len(group.unsynced))
    shard.shared.alarms.spent += len(group.members)
    for member_id in list(group.unsynced):
        remove_member(shard, group, group.members[member_id], now_ms)
    prepare(shard, group, now_ms)


# The end


def close(shard: Shard, group: Group, code: int) -> None:
    """A group ends here: whoever waits is told why, and nothing rings any more."""
    for _ in closing(shard, group, code):
        pass


def closing(shard: Shard, group: Group, code: int) -> Iterator[None]:
    """As `close`, an id or a member at a time."""
    for member_id in list(group.pending):
        take_pending(shard, group, member_id)
        yield
    for member in list(group.members.values()):
        if (joining := group.unpark_join(member)) is not None:
            joining.refuse(code)
        syncing, member.syncing = member.syncing, None
        if syncing is not None:
            syncing.refuse(code)
        _stop(shard, member.session)
        shard.shared.holdings.take(member.address, -member.size)
        group.held -= member.size
        member.size = 0
        yield
    _stop(shard, group.join_alarm)
    _stop(shard, group.sync_alarm)
    group.state = GroupState.DEAD


def _stop(shard: Shard, alarm: Alarm | None) -> None:
    if alarm is not None:
        shard.shared.alarms.stop(alarm)
