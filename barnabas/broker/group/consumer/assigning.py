"""The target of a large group is computed and written as a job, while its members go on by the last one.

Members may come and go meanwhile, and topics too: the target is that of the epoch in which it was begun, for those who
are still there, and the next one is begun when a member is heard of after that. It is written in as many batches as it
takes, its epoch with the last: until then nobody goes by it, and where that never comes (a crash, a full disk) another
is computed. Apache Kafka 4.3 computes it within the heartbeat, and writes it in one batch.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from barnabas.broker.group.consumer.group import SAID_NOTHING, ConsumerGroup, partitions_of
from barnabas.broker.group.consumer.settings import assignment_interval_ms
from barnabas.broker.group.consumer.targets import may_compute, share_out
from barnabas.broker.group.consumer.topics import Topics
from barnabas.broker.group.consumer.values import Assignment, TargetEpochRecord, TargetRecord
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.state import Status
from barnabas.broker.group.values import CoordinatorRecord
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import KafkaError

WORK_AT_ONCE: Final = 5_000
"""Partitions that a heartbeat shares out at once, members and topics counted as below: 5 ms."""
MEMBER_WORK: Final = 16
TOPIC_WORK: Final = 4
WORK_PER_BATCH: Final = 5_000
"""The same, written at once: 300 members, 4 ms."""

logger = logging.getLogger(__name__)


def is_large(topics: Topics, group: ConsumerGroup, more: Collection[str]) -> bool:
    """Whether a target of a group is a job of its own, once these topics are wanted too."""
    names = {*group.names, *more}
    work = MEMBER_WORK * len(group.members) + TOPIC_WORK * len(names)
    if work > WORK_AT_ONCE:
        return True
    for name in names:
        known = topics.get(name)
        work += 0 if known is None else known[1]
    return work > WORK_AT_ONCE


def is_due(shard: Shard, group: ConsumerGroup) -> bool:
    """Whether a new target is wanted, not under way, and the last one not too young."""
    if group.assigning or group.target_epoch >= group.epoch:
        return False
    shared = shard.shared
    return may_compute(group, assignment_interval_ms(shared, group.group_id), shared.wall_clock.now_ms())


def assign_if_due(shard: Shard, group: ConsumerGroup, now_ms: int) -> None:
    """Begin a target that a member's step left out, if it is time for that."""
    if is_due(shard, group):
        shared = shard.shared
        wall_ms = group.tried_at_ms = shared.wall_clock.now_ms()
        group.assigning = True
        shared.run(_assign(shard, group, wall_ms, now_ms), lambda fault: _ended(group, fault))


def _ended(group: ConsumerGroup, fault: Exception | None) -> None:
    group.assigning = False
    if fault is not None:
        logger.error("group %s: its target cannot be computed: %s", group.group_id, fault)


def _assign(shard: Shard, group: ConsumerGroup, wall_ms: int, now_ms: int) -> Job[None]:
    epoch = group.epoch
    assignor = group.preferred_assignor(SAID_NOTHING, SAID_NOTHING, shard.shared.config.group_consumer_assignors)
    said = {member_id: (member.subscription, member_id) for member_id, member in group.members.items()}
    targets = yield from share_out(group, assignor, said, shard.shared.topics)
    instances = {member_id: one.instance_id for member_id, (one, _) in said.items()}
    try:
        yield from _write(shard, group, targets, instances, TargetEpochRecord(group.group_id, epoch, wall_ms), now_ms)
    except KafkaError as fault:
        logger.warning("group %s: its target cannot be written yet: %s", group.group_id, fault)


def _write(
    shard: Shard,
    group: ConsumerGroup,
    targets: dict[str, Assignment],
    instances: dict[str, str | None],
    end: TargetEpochRecord,
    now_ms: int,
) -> Job[None]:
    """Write what differs from the target before, and then its epoch. A static member may have another id by now."""
    records: list[CoordinatorRecord] = []
    work = 0
    for was, target in targets.items():
        member_id = was
        if was not in group.members:
            member_id = group.static.get(instances[was] or "", "")
        if member_id in group.members and group.targets.get(member_id) != target:
            records.append(TargetRecord(group.group_id, member_id, target))
            work += MEMBER_WORK + partitions_of(target)
        work += 1
        if work >= WORK_PER_BATCH:
            if not _is_here(shard, group):
                return
            if records:
                shard.write(records, now_ms)
            records, work = [], 0
            yield None
    if _is_here(shard, group):
        shard.write([*records, end], now_ms)


def _is_here(shard: Shard, group: ConsumerGroup) -> bool:
    return shard.status is Status.ACTIVE and shard.groups.get(group.group_id) is group
