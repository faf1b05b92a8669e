"""ConsumerGroupHeartbeat: a member comes, says what it wants and has, is told what it is to have, and goes.

Source: `GroupMetadataManager.consumerGroupHeartbeat`. One heartbeat of a member does this:

    who it is        found, new, or in the place of a static member that left for a while (`identifying`)
    what it wants    written if it is new; the group epoch rises if that changes what the group is to be assigned
    the target       computed anew if it is older than the group epoch, and the last one is not too young
    what it has      a step nearer to its target, written if that is one (`reconciling`)

Member epochs in a request: 0 joins, -1 leaves, -2 leaves for a while (a static member), above 0 is where it stands.
"""

from __future__ import annotations

import base64
import logging

from barnabas.broker.context import source_of
from barnabas.broker.group.consumer.advancing import Step, advance, check_place, settle
from barnabas.broker.group.consumer.assigning import assign_if_due, is_due
from barnabas.broker.group.consumer.beginning import Newcomer
from barnabas.broker.group.consumer.gathering import gather, may_gather
from barnabas.broker.group.consumer.group import (
    NOTHING,
    SAID_NOTHING,
    ConsumerGroup,
    ConsumerMember,
    is_reconciled,
)
from barnabas.broker.group.consumer.identifying import holder_of, identify
from barnabas.broker.group.consumer.members import fence, keep_alive, watch_revocation
from barnabas.broker.group.consumer.reconciling import owned_of
from barnabas.broker.group.consumer.resolving import refresh_if_due
from barnabas.broker.group.consumer.rising import Rising, rise
from barnabas.broker.group.consumer.settings import heartbeat_interval_ms
from barnabas.broker.group.consumer.targets import Change
from barnabas.broker.group.consumer.upgrading import group_for, waits_for_conversion
from barnabas.broker.group.consumer.values import (
    LEFT_FOR_A_WHILE,
    Current,
    CurrentRecord,
    Given,
    MemberState,
    Subscription,
)
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.values import CoordinatorRecord, Prepared
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_STABLE = MemberState.STABLE

logger = logging.getLogger(__name__)


def heartbeat(shard: Shard, request: ConsumerGroupHeartbeatRequest, reply: Reply, now_ms: int) -> None:
    """Serve one heartbeat, whose fields the handler has looked at.

    Raises:
        KafkaError: it is refused, and nothing has changed.
    """
    group = _unchanged(shard, request, reply)
    if group is not None:
        member = group.members[request.member_id]
        if member.current.epoch != group.target_epoch:
            rise(shard, Rising(group, member, member.current, group.target_epoch, request, reply, now_ms), heartbeat)
            return
        keep_alive(shard, group, member, now_ms)
        interval_ms = heartbeat_interval_ms(shard.shared, request.group_id)
        shard.answer(reply, _alive(request.member_id, member.current.epoch, interval_ms), now_ms)
        return
    if request.member_epoch < 0:
        shard.answer(reply, _leave(shard, request, now_ms), now_ms)
    elif request.member_epoch > 0:
        shard.answer(reply, _beat(shard, request, reply, None, now_ms), now_ms)
    elif may_gather(shard, request):
        _gather(shard, request, reply, now_ms)
    else:
        _join(shard, request, reply, now_ms)


def _gather(shard: Shard, request: ConsumerGroupHeartbeatRequest, reply: Reply, now_ms: int) -> None:
    """Have a member begin its group with those who come at the same time."""

    def go_on(now_ms: int) -> None:
        try:
            _join(shard, request, reply, now_ms)
        except KafkaError as fault:
            reply.send(refused(fault))
        except Exception:  # others wait behind it
            logger.exception("member %r cannot join group %r", request.member_id, request.group_id)
            reply.send(refused(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)))

    def let_in(current: Current, now_ms: int) -> None:
        shard.answer(reply, _alive_with(shard, request, current), now_ms)

    context = reply.context
    said = _said(SAID_NOTHING, request, context.client_id or "", f"/{context.connection.client_host}")
    gather(shard, Newcomer(request, reply, said, go_on, let_in), now_ms)


def _join(shard: Shard, request: ConsumerGroupHeartbeatRequest, reply: Reply, now_ms: int) -> None:
    """Let a member in, now or when the group has been converted."""

    def go_on(found: Prepared | KafkaError | None) -> None:
        try:
            if isinstance(found, KafkaError):
                raise found
            if found is None:
                _join(shard, request, reply, now_ms)
            else:
                shard.answer(reply, _beat(shard, request, reply, found, now_ms), now_ms)
        except KafkaError as fault:
            reply.send(refused(fault))
        except Exception:  # others wait behind it
            logger.exception("member %r cannot join group %r", request.member_id, request.group_id)
            reply.send(refused(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)))

    if not waits_for_conversion(shard, request.group_id, request.member_id, reply.context, go_on):
        shard.answer(reply, _beat(shard, request, reply, None, now_ms), now_ms)


def refused(fault: KafkaError) -> ConsumerGroupHeartbeatResponse:
    """The answer to a heartbeat that is refused."""
    return ConsumerGroupHeartbeatResponse(error_code=fault.code, error_message=fault.detail or None)


def _unchanged(shard: Shard, request: ConsumerGroupHeartbeatRequest, reply: Reply) -> ConsumerGroup | None:
    """The group, where a member says no more than that it is there, and has all that it is to have, and no more.

    Nearly all heartbeats are such, and of these no rule has anything to say: the rest is for those that do. What it
    owns is asked only of who has something to give up. While a group waits for the time of its next target, all that
    a member is to have is what the last one says. Of a new target most members see that its epoch is theirs, too.
    """
    group = shard.groups.get(request.group_id)
    if (
        not isinstance(group, ConsumerGroup)
        or request.subscribed_topic_names is not None
        or request.instance_id is not None
        or request.rack_id is not None
        or request.subscribed_topic_regex is not None
        or request.server_assignor is not None
        or request.rebalance_timeout_ms != -1
        or group.checked != shard.shared.topics.version
        or group.patterns
    ):
        return None
    member, epoch = group.members.get(request.member_id), request.member_epoch
    if (
        member is None
        or member.current.epoch != epoch
        or epoch <= 0
        or not (is_reconciled(member.current, group.target_epoch) or _has_its_share(group, member))
        or (group.epoch != group.target_epoch and is_due(shard, group))
    ):
        return None
    said, context = member.subscription, reply.context
    same = said.client_id == (context.client_id or "") and said.client_host == f"/{context.connection.client_host}"
    return group if same and said.classic is None else None


def _has_its_share(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether what a member has is all that the target of the group's epoch gives it: only its epoch is another."""
    current, target = member.current, group.targets.get(member.member_id, NOTHING)
    if (
        current.state is not _STABLE
        or group.target_epoch != group.epoch
        or len(current.assigned) != len(target)
        or current.epoch > group.target_epoch
    ):
        return False
    for topic_id, numbers in target.items():
        has = current.assigned.get(topic_id)
        if has is None or has.keys() != numbers:
            return False
    return True


def _alive(member_id: str, epoch: int, interval_ms: int) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=interval_ms)


def _alive_with(
    shard: Shard, request: ConsumerGroupHeartbeatRequest, current: Current
) -> ConsumerGroupHeartbeatResponse:
    response = _alive(request.member_id, current.epoch, heartbeat_interval_ms(shard.shared, request.group_id))
    response.assignment = _told(current.assigned)
    return response


def _leave(shard: Shard, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> ConsumerGroupHeartbeatResponse:
    group = shard.consumer_group(request.group_id)
    member_id, epoch = request.member_id, request.member_epoch
    if request.instance_id is None:
        member = group.member(member_id)
    else:
        member = holder_of(group, request.instance_id, member_id)
    logger.info("group %s: member %s leaves, epoch %d", group.group_id, member_id, epoch)
    if request.instance_id is not None and epoch == LEFT_FOR_A_WHILE:
        away = member.current._replace(epoch=LEFT_FOR_A_WHILE, revoking={})
        shard.write([CurrentRecord(group.group_id, member_id, away)], now_ms)
        watch_revocation(shard, group, group.members[member_id], now_ms)
    else:
        fence(shard, group, [member], now_ms)
    return ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch)


def _beat(
    shard: Shard, request: ConsumerGroupHeartbeatRequest, reply: Reply, prepared: Prepared | None, now_ms: int
) -> ConsumerGroupHeartbeatResponse:
    context, group_id, epoch = reply.context, request.group_id, request.member_epoch
    records: list[CoordinatorRecord] = []
    group, converted = group_for(shard, group_id, request.member_id, context, epoch == 0, prepared, records)
    check_place(shard, group, request.member_id, context)
    member_id = request.member_id or base64.urlsafe_b64encode(shard.shared.entropy.uuid()).rstrip(b"=").decode()
    owned = owned_of(request.topic_partitions)
    before, replaces = identify(group, member_id, epoch, request.instance_id, owned, records)
    host = context.connection.client_host
    said = _said(before.subscription, request, context.client_id or "", f"/{host}")
    step = Step(before, Change(member_id, said, replaces), owned)
    had = before.current
    current = advance(shard, group, step, records)
    member = before
    if records:
        member = settle(shard, group, step, current, records, source_of(host), now_ms)
        group = shard.consumer_group(group_id)
        if converted is not None:
            converted.finish(shard, group, now_ms)
    keep_alive(shard, group, member, now_ms)
    assign_if_due(shard, group, now_ms)
    if group.patterns:
        refresh_if_due(shard, group, now_ms)
    response = _alive(member_id, current.epoch, heartbeat_interval_ms(shard.shared, group_id))
    if epoch == 0 or _says_all(request) or current.assigned != had.assigned:
        response.assignment = _told(current.assigned)
    return response


def _said(before: Subscription, request: ConsumerGroupHeartbeatRequest, client_id: str, host: str) -> Subscription:
    """What a member wants: what the request leaves out is as before."""
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    if (
        names is None
        and timeout_ms == -1
        and request.subscribed_topic_regex is None
        and request.instance_id is None
        and request.rack_id is None
        and request.server_assignor is None
        and client_id == before.client_id
        and host == before.client_host
        and before.classic is None
    ):
        return before  # as of nearly all who are there
    return Subscription(
        before.instance_id if request.instance_id is None else request.instance_id,
        before.rack_id if request.rack_id is None else request.rack_id,
        client_id,
        host,
        before.topics if names is None else tuple(sorted(set(names))),
        before.pattern if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
        before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        before.assignor if request.server_assignor is None else request.server_assignor,
    )


def _says_all(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a member that is there says everything again, as it does after an error: so it is told everything."""
    wants = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return wants and request.rebalance_timeout_ms != -1 and request.topic_partitions is not None


def _told(assigned: Given) -> Assignment:
    return Assignment([TopicPartitions(topic_id, sorted(numbers)) for topic_id, numbers in sorted(assigned.items())])
