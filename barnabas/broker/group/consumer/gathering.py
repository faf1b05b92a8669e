"""Members that come to a group without members at the same time begin it together.

Apache Kafka gives all partitions to the first, computes the next target a second later
(`group.consumer.assignment.interval.ms`), and then waits for the first to give nearly all of them up again. Here the
first is answered `barnabas.group.gather.ms` later, and so is whoever comes meanwhile; each of these adds as much again,
and once more for every `AT_ONCE` who are there (a large group takes longer to come), `GATHERED_MAX` members and
`WAITS_MAX` times at most. All are written as one batch, with the target, and have in
their first answer what they are to have. The epochs are those that they would have come to one by one.

More than `AT_ONCE` make the group in steps, as a job (`beginning`), and who comes meanwhile is served after that.

Who says other things than most (an instance id, a regular expression, no topics), or comes when the others have begun,
goes the common way (`heartbeats`); so does who is alone, and so do all where something is in the way of that batch.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

from barnabas.broker.group.alarms import Alarm
from barnabas.broker.group.consumer.assigning import assign_if_due
from barnabas.broker.group.consumer.beginning import Begun, Newcomer, begin
from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.consumer.members import keep_alive
from barnabas.broker.group.consumer.settings import assignment_interval_ms
from barnabas.broker.group.consumer.targets import may_compute
from barnabas.broker.group.consumer.values import Current
from barnabas.broker.group.holdings import GROUP_BYTES, size_of_text
from barnabas.broker.group.kinds import AnyGroup
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.state import Status
from barnabas.broker.jobs import Job, at_once
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

GATHERED_MAX: Final = 2000
"""Members that begin a group together: a batch of 1 MB holds as many, if they say little."""
AT_ONCE: Final = 200
"""So many do it in one step: 8 ms."""
WAITS_MAX: Final = 50
SERVED_PER_STEP: Final = 50
"""Newcomers that are answered in one step: 2 ms, where they go the common way, and say little."""
_NAMES: Final = 25
"""So many names of topics that one wants take as long as another newcomer: each is written, and looked at."""

logger = logging.getLogger(__name__)


class Gathering:
    """Those who wait for the beginning of one group, by member id; `late` are those who came when it was being made."""

    __slots__ = ("alarm", "begins", "late", "seen", "waiting", "waits")

    def __init__(self, alarm: Alarm) -> None:
        self.alarm = alarm
        self.waiting: dict[str, Newcomer] = {}
        self.late: list[Newcomer] = []
        self.begins = False
        self.seen = 1
        self.waits = 1

    def take_replies(self) -> list[Reply]:
        """Those of all that are left, who wait no more."""
        left = [one.reply for one in (*self.waiting.values(), *self.late)]
        self.waiting.clear()
        self.late.clear()
        return left


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
    if gathering is not None and not gathering.begins and member_id in gathering.waiting:
        _begin(shard, group_id, now_ms)  # it asks again over another connection
        if group_id not in shard.gatherings:
            newcomer.go_on(now_ms)
            return
    if gathering is None:
        alarm = Alarm(partial(_look, shard, group_id))
        gathering = shard.gatherings[group_id] = Gathering(alarm)
        shard.shared.alarms.set(alarm, now_ms + shard.shared.config.barnabas_group_gather_ms)
    if gathering.begins:
        gathering.late.append(newcomer)
        return
    gathering.waiting[member_id] = newcomer
    if len(gathering.waiting) >= GATHERED_MAX:
        _begin(shard, group_id, now_ms)


def _look(shard: Shard, group_id: str, now_ms: int) -> None:
    """Some time has passed: if others came in it, there may be more."""
    gathering = shard.gatherings[group_id]
    if len(gathering.waiting) > gathering.seen and gathering.waits < WAITS_MAX:
        gathering.seen = len(gathering.waiting)
        gathering.waits += 1
        times = 1 + gathering.seen // AT_ONCE
        shard.shared.alarms.set(gathering.alarm, now_ms + times * shard.shared.config.barnabas_group_gather_ms)
    else:
        _begin(shard, group_id, now_ms)


def _begin(shard: Shard, group_id: str, now_ms: int) -> None:
    """Let them in, at once or as a job."""
    gathering = shard.gatherings[group_id]
    shard.shared.alarms.stop(gathering.alarm)
    gathering.begins = True
    if len(gathering.waiting) <= AT_ONCE:
        shard.shared.alarms.spent += len(gathering.waiting)
        at_once(_let_in(shard, group_id, gathering, now_ms))
    else:
        shard.shared.run(_let_in(shard, group_id, gathering, now_ms), partial(_ended, shard, group_id, gathering))


def _ended(shard: Shard, group_id: str, gathering: Gathering, fault: Exception | None) -> None:
    if fault is None:
        return
    logger.error("group %s: not all of its members were let in", group_id, exc_info=fault)
    if shard.gatherings.get(group_id) is gathering:
        del shard.gatherings[group_id]
    for reply in gathering.take_replies():
        reply.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)


def _let_in(shard: Shard, group_id: str, gathering: Gathering, now_ms: int) -> Job[None]:
    """Let them in, together or one by one. Where groups are led here no longer, `unloading` tells all."""
    newcomers = list(gathering.waiting.values())
    begun: Begun | None = None
    if len(newcomers) > 1 and _begins(shard, group_id):
        as_it_is = _place_of(shard, group_id)
        try:
            begun = yield from begin(shard, group_id, newcomers, len(newcomers) > AT_ONCE)
            if shard.gatherings.get(group_id) is gathering:
                if _place_of(shard, group_id) != as_it_is or not _begins(shard, group_id):
                    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "another has begun it")
                _write(shard, group_id, newcomers[0].address, begun, now_ms)
        except KafkaError as fault:
            begun = None
            logger.info("group %s: its members do not begin it together: %s", group_id, fault)
        except Exception:
            begun = None
            logger.exception("group %s: its members cannot begin it together", group_id)
    if shard.gatherings.get(group_id) is not gathering:
        return
    del shard.gatherings[group_id]
    work = 0
    for count, newcomer in enumerate(newcomers, 1):
        if shard.status is Status.FAILED:  # led here no longer
            newcomer.reply.refuse(ErrorCode.NOT_COORDINATOR)
        elif begun is None:
            newcomer.go_on(now_ms)
        else:
            _welcome(shard, newcomer, begun.given[count - 1], now_ms)
        del gathering.waiting[newcomer.request.member_id]
        work += _work_of(newcomer)
        if work >= SERVED_PER_STEP:
            work = 0
            yield None
    yield from _serve_late(shard, gathering, now_ms)
    group = shard.groups.get(group_id)
    if begun is not None and isinstance(group, ConsumerGroup) and shard.status is not Status.FAILED:
        assign_if_due(shard, group, now_ms)


def _serve_late(shard: Shard, gathering: Gathering, now_ms: int) -> Job[None]:
    late = gathering.late
    work = 0
    for _ in range(len(late)):
        newcomer = late.pop(0)
        if shard.status is Status.FAILED:
            newcomer.reply.refuse(ErrorCode.NOT_COORDINATOR)
        else:
            newcomer.go_on(now_ms)
        work += _work_of(newcomer)
        if work >= SERVED_PER_STEP:
            work = 0
            yield None


def _work_of(newcomer: Newcomer) -> int:
    return 1 + len(newcomer.said.topics) // _NAMES


def _place_of(shard: Shard, group_id: str) -> tuple[AnyGroup | None, int]:
    """What is there, and how far it has come."""
    group = shard.groups.get(group_id)
    return group, group.epoch if isinstance(group, ConsumerGroup) else 0


def _write(shard: Shard, group_id: str, address: str, begun: Begun, now_ms: int) -> None:
    """Write the group that they make.

    Raises:
        KafkaError: nothing has changed.
    """
    is_new = group_id not in shard.groups
    growth = GROUP_BYTES + size_of_text(group_id) if is_new else 0
    for by, size in begun.record.held.items():
        if not shard.shared.holdings.room_for(by, size + (growth if by == address else 0)):
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"no memory is left for {size} bytes more from {by}")
    shard.write([begun.record], now_ms)
    if is_new:
        shard.claim(shard.consumer_group(group_id), address)
    shard.shared.counts.consumer_rebalances += 1


def _welcome(shard: Shard, newcomer: Newcomer, current: Current, now_ms: int) -> None:
    """Tell a member what it has. It may be gone again, if others were told first."""
    group = shard.groups.get(newcomer.request.group_id)
    member = group.members.get(newcomer.request.member_id) if isinstance(group, ConsumerGroup) else None
    if member is not None and isinstance(group, ConsumerGroup):
        keep_alive(shard, group, member, now_ms)
    newcomer.let_in(current, now_ms)
