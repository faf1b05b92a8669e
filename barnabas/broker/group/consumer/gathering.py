"""Members that come to a group without members at the same time begin it together.

Apache Kafka gives all partitions to the first, computes the next target a second later
(`group.consumer.assignment.interval.ms`), and then waits for the first to give nearly all of them up again. Here the
first is answered `barnabas.group.gather.ms` later, and so is whoever comes meanwhile; each of these adds as much again,
`GATHERED_MAX` members and `WAITS_MAX` times that at most. All are written as one batch, with the target, and have in
their first answer what they are to have. The epochs are those that they would have come to one by one.

Who says other things than most (an instance id, a regular expression, no topics), or comes when the others have begun,
goes the common way (`heartbeats`); so does who is alone, and so do all where something is in the way of that batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from barnabas.broker.context import source_of
from barnabas.broker.group.alarms import Alarm
from barnabas.broker.group.consumer.advancing import check_names, check_place
from barnabas.broker.group.consumer.assigning import assign_if_due, is_large
from barnabas.broker.group.consumer.group import NOTHING, SAID_NOTHING, ConsumerGroup
from barnabas.broker.group.consumer.hashing import group_hash
from barnabas.broker.group.consumer.members import keep_alive
from barnabas.broker.group.consumer.reconciling import Aim, reconcile
from barnabas.broker.group.consumer.replaying import size_of_member
from barnabas.broker.group.consumer.settings import assignment_interval_ms
from barnabas.broker.group.consumer.targets import may_compute, share_out
from barnabas.broker.group.consumer.topics import ids_of
from barnabas.broker.group.consumer.values import (
    ConsumerRecord,
    Current,
    CurrentRecord,
    EpochRecord,
    MemberRecord,
    Subscription,
    TargetEpochRecord,
    TargetRecord,
)
from barnabas.broker.group.holdings import GROUP_BYTES
from barnabas.broker.group.records import encode
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.shard import Shard, size_of_text
from barnabas.broker.group.values import Prepared
from barnabas.broker.jobs import at_once
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

GATHERED_MAX: Final = 200
"""Members that begin a group together: 8 ms."""
WAITS_MAX: Final = 50

logger = logging.getLogger(__name__)


class Newcomer(NamedTuple):
    """One that waits. `go_on` serves it by the common way, `let_in` answers what it has been given."""

    request: ConsumerGroupHeartbeatRequest
    reply: Reply
    said: Subscription
    go_on: Callable[[int], None]
    let_in: Callable[[Current, int], None]


class Gathering:
    """Those who wait for the beginning of one group, by member id."""

    __slots__ = ("alarm", "seen", "waiting", "waits")

    def __init__(self, alarm: Alarm) -> None:
        self.alarm = alarm
        self.waiting: dict[str, Newcomer] = {}
        self.seen = 1
        self.waits = 1


def may_gather(shard: Shard, request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a member that joins may begin a group with others."""
    return (
        shard.shared.config.barnabas_group_gather_ms > 0
        and bool(request.member_id)
        and request.instance_id is None
        and request.subscribed_topic_regex is None
        and bool(request.subscribed_topic_names)
        and _begins(shard, request.group_id)
    )


def _begins(shard: Shard, group_id: str) -> bool:
    """Whether there is no such group, or one that nobody is in and that may be assigned anew at once."""
    group = shard.groups.get(group_id)
    if group is None:
        return True
    if not isinstance(group, ConsumerGroup) or group.members:
        return False
    return may_compute(group, assignment_interval_ms(shard.shared, group_id), shard.shared.wall_clock.now_ms())


def gather(shard: Shard, newcomer: Newcomer, now_ms: int) -> None:
    """Have a member wait for those who come with it."""
    group_id, member_id = newcomer.request.group_id, newcomer.request.member_id
    gathering = shard.gatherings.get(group_id)
    if gathering is not None and member_id in gathering.waiting:  # it asks again over another connection
        _begin(shard, group_id, now_ms)
        newcomer.go_on(now_ms)
        return
    if gathering is None:
        alarm = Alarm(partial(_look, shard, group_id))
        gathering = shard.gatherings[group_id] = Gathering(alarm)
        shard.shared.alarms.set(alarm, now_ms + shard.shared.config.barnabas_group_gather_ms)
    gathering.waiting[member_id] = newcomer
    if len(gathering.waiting) >= GATHERED_MAX:
        _begin(shard, group_id, now_ms)


def _look(shard: Shard, group_id: str, now_ms: int) -> None:
    """Some time has passed: if others came in it, there may be more."""
    gathering = shard.gatherings[group_id]
    if len(gathering.waiting) > gathering.seen and gathering.waits < WAITS_MAX:
        gathering.seen = len(gathering.waiting)
        gathering.waits += 1
        shard.shared.alarms.set(gathering.alarm, now_ms + shard.shared.config.barnabas_group_gather_ms)
    else:
        _begin(shard, group_id, now_ms)


def _begin(shard: Shard, group_id: str, now_ms: int) -> None:
    """Let them in, together or one by one."""
    gathering = shard.gatherings.pop(group_id)
    shard.shared.alarms.stop(gathering.alarm)
    shard.shared.alarms.spent += len(gathering.waiting)
    newcomers = list(gathering.waiting.values())
    given: list[Current] = []
    if len(newcomers) > 1 and _begins(shard, group_id):
        try:
            given = _write(shard, group_id, newcomers, now_ms)
        except KafkaError as fault:
            logger.info("group %s: its members do not begin it together: %s", group_id, fault)
        except Exception:
            logger.exception("group %s: its members cannot begin it together", group_id)
    if not given:
        for one in newcomers:
            one.go_on(now_ms)
        return
    group = shard.consumer_group(group_id)
    for newcomer, current in zip(newcomers, given, strict=True):
        keep_alive(shard, group, group.members[newcomer.request.member_id], now_ms)
        newcomer.let_in(current, now_ms)
    assign_if_due(shard, group, now_ms)


def _write(shard: Shard, group_id: str, newcomers: list[Newcomer], now_ms: int) -> list[Current]:
    """Write the group that they make; returns what each has.

    Raises:
        KafkaError: nothing has changed.
    """
    before = shard.groups.get(group_id)
    made = _Making(shard, group_id)
    for one in newcomers:
        check_place(shard, made.group, one.request.member_id)
        check_names(made.group, (), one.said.topics)
        made.add(MemberRecord(group_id, one.request.member_id, one.said))
    made.share(made.group.epoch + len(newcomers))
    given = [made.give(one) for one in newcomers]
    address = _address_of(newcomers[0])
    growth = 0 if before is not None else GROUP_BYTES + size_of_text(group_id)
    for by, size in made.held.items():
        if not shard.shared.holdings.room_for(by, size + (growth if by == address else 0)):
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"no memory is left for {size} bytes more from {by}")
    shard.write([Prepared(made.builder, made.group, made.held)], now_ms)
    if before is None:
        shard.claim(made.group, address)
    shard.shared.counts.consumer_rebalances += 1
    return given


def _address_of(newcomer: Newcomer) -> str:
    return source_of(newcomer.reply.context.connection.client_host)


class _Making:
    """A group that is made aside: each record is written down and adopted."""

    def __init__(self, shard: Shard, group_id: str) -> None:
        self._shard = shard
        self._wall_ms = shard.shared.wall_clock.now_ms()
        self.builder = shard.new_batch()
        self.group = ConsumerGroup(group_id)
        self.held: dict[str, int] = {}
        before = shard.groups.get(group_id)
        if isinstance(before, ConsumerGroup):
            self.group.epoch, self.group.target_epoch = before.epoch, before.target_epoch
            self.group.target_at_ms, self.group.tried_at_ms = before.target_at_ms, before.tried_at_ms

    def add(self, record: ConsumerRecord) -> None:
        """One record more.

        Raises:
            KafkaError: RECORD_LIST_TOO_LARGE: it has no room.
        """
        if not self.builder.try_append(self._wall_ms, *encode(record)):
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, "its records do not fit into a batch")
        self.group.adopt(record)

    def share(self, epoch: int) -> None:
        """Raise the epoch, and share out what all want, unless that is a job of its own."""
        group, topics = self.group, self._shard.shared.topics
        group_id = group.group_id
        self.add(EpochRecord(group_id, epoch, group_hash(topics, group.names)))
        group.checked = topics.version
        if is_large(topics, group, ()):
            return
        group.tried_at_ms = self._wall_ms
        known = self._shard.shared.config.group_consumer_assignors
        assignor = group.preferred_assignor(SAID_NOTHING, SAID_NOTHING, known)
        said = {member_id: (member.subscription, member_id) for member_id, member in group.members.items()}
        for member_id, target in at_once(share_out(group, assignor, said, topics)).items():
            self.add(TargetRecord(group_id, member_id, target))
        self.add(TargetEpochRecord(group_id, epoch, self._wall_ms))

    def give(self, newcomer: Newcomer) -> Current:
        """What a member has from the beginning."""
        group, member_id = self.group, newcomer.request.member_id
        target = group.targets.get(member_id, NOTHING)
        wanted = ids_of(self._shard.shared.topics, newcomer.said.topics)
        aim = Aim(group.target_epoch, target, wanted, True, group.owners, (member_id,), {})
        current = reconcile(Current(), aim)
        self.add(CurrentRecord(group.group_id, member_id, current))
        member = group.members[member_id]
        member.address = _address_of(newcomer)
        member.size = size_of_member(member_id, newcomer.said, current, target)
        self.held[member.address] = self.held.get(member.address, 0) + member.size
        return current
