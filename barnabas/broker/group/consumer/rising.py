"""Members whom a new target gives what they have already come to its epoch together.

After one of a hundred members has left, most of the others have their share and lack its epoch alone, and their
heartbeats come at once. What each of them writes is small, and to write it takes the larger part of its time. So those
that come between two looks at the sockets wait for the end of that round, a job's turn, and are one batch:

    heartbeat, heartbeat, ... heartbeat | one batch of their records | the answers

Each was looked at when it came. Where something has happened to its member or group since (another connection brought
it in the same round), it is served as if it came now; where the log does not take the batch, each is written alone.
Apache Kafka gathers the records of all requests for a while (`group.coordinator.append.linger.ms`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from barnabas.broker.context import source_of
from barnabas.broker.group.consumer.group import ConsumerGroup, ConsumerMember
from barnabas.broker.group.consumer.members import keep_alive, watch_revocation
from barnabas.broker.group.consumer.replaying import claim_member
from barnabas.broker.group.consumer.settings import heartbeat_interval_ms
from barnabas.broker.group.consumer.values import Current, CurrentRecord, MemberState
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.state import Status
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

TOGETHER_MAX: Final = 50
"""So many are written and answered in one step: 2 ms."""

_FAILED: Final = Status.FAILED
_STABLE: Final = MemberState.STABLE

logger = logging.getLogger(__name__)

Serve = Callable[[Shard, ConsumerGroupHeartbeatRequest, Reply, int], None]
"""Serves a heartbeat that waits here no longer, and may refuse it with a `KafkaError`."""


class Rising(NamedTuple):
    """A heartbeat that waits: its member, what that has, the epoch it is to have that in, and when it came."""

    group: ConsumerGroup
    member: ConsumerMember
    current: Current
    epoch: int
    request: ConsumerGroupHeartbeatRequest
    reply: Reply
    now_ms: int


def rise(shard: Shard, one: Rising, serve: Serve) -> None:
    """Write, with others that come now, that a member which has its share is in the epoch of the target."""
    shard.rising.append(one)
    if len(shard.rising) == 1:
        shard.shared.run(_rise_all(shard, serve), _ended)


def _rise_all(shard: Shard, serve: Serve) -> Job[None]:
    waiting, shard.rising = shard.rising, []
    for start in range(0, len(waiting), TOGETHER_MAX):
        _rise_together(shard, waiting[start : start + TOGETHER_MAX], serve)
        yield None


def _rise_together(shard: Shard, some: Sequence[Rising], serve: Serve) -> None:
    now_ms = some[-1].now_ms
    rising: dict[int, Rising] = {}
    for one in some:
        if _is_as_it_was(shard, one):
            rising.setdefault(id(one.member), one)
    codes = _write(shard, list(rising.values()), now_ms)
    for one in some:
        try:
            if shard.status is _FAILED:  # led here no longer
                one.reply.refuse(ErrorCode.NOT_COORDINATOR)
            elif rising.get(id(one.member)) is not one:
                serve(shard, one.request, one.reply, now_ms)
            elif code := codes[one.member.member_id, one.group.group_id]:
                one.reply.refuse(code)
            else:
                _risen(shard, one)
        except KafkaError as fault:
            response = ConsumerGroupHeartbeatResponse(error_code=fault.code, error_message=fault.detail or None)
            one.reply.send(response)
        except Exception:  # others wait behind it
            logger.exception("a heartbeat of group %r cannot be served", one.request.group_id)
            one.reply.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)


def _is_as_it_was(shard: Shard, one: Rising) -> bool:
    group, member = one.group, one.member
    return (
        member.current is one.current
        and group.target_epoch == one.epoch
        and shard.groups.get(group.group_id) is group
        and group.members.get(member.member_id) is member
    )


def _write(shard: Shard, some: Sequence[Rising], now_ms: int) -> dict[tuple[str, str], int]:
    """Write their records; by member and group what it is to be told, 0 where that is in the log."""
    records = []
    for one in some:
        risen = Current(one.epoch, one.current.epoch, _STABLE, one.current.assigned)
        records.append(CurrentRecord(one.group.group_id, one.member.member_id, risen))
    codes = [0] * len(records)
    try:
        if records and shard.append(records, now_ms):
            codes = [shard.append((record,), now_ms) for record in records]
    except Exception:
        logger.exception("members of %s cannot come to the epoch of their target", shard.key)
        codes = [ErrorCode.UNKNOWN_SERVER_ERROR] * len(records)
    return {(one.member_id, one.group_id): code for one, code in zip(records, codes, strict=True)}


def _risen(shard: Shard, one: Rising) -> None:
    group, member, now_ms = one.group, one.member, one.now_ms
    claim_member(shard, member, source_of(one.reply.context.connection.client_host))
    watch_revocation(shard, group, member, now_ms)
    keep_alive(shard, group, member, now_ms)
    interval_ms = heartbeat_interval_ms(shard.shared, group.group_id)
    response = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id, member_epoch=one.epoch, heartbeat_interval_ms=interval_ms
    )
    shard.answer(one.reply, response, now_ms)


def _ended(fault: Exception | None) -> None:
    if fault is not None:
        logger.error("heartbeats that came together were not all answered", exc_info=fault)
