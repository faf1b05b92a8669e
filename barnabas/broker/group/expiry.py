"""Offsets that nobody needs any more go, and with the last of them an empty group. Source: `cleanupGroupMetadata`.

    Empty, had members      `offsets.retention.minutes` after it became empty
    Stable, consumers       those of topics that nobody of it consumes, so long after they were committed
    consumer protocol       the same in every state
    never had members       so long after they were committed (a simple group)
    any other               never
    committed with a retention of its own (OffsetCommit v2 to v4)    when that is over

All groups of a shard are gone through every `offsets.retention.check.interval.ms`, in bounded steps. A clock that jumps
ahead is not believed at once (`log/steady.py`); Apache Kafka deletes at its next look what a wrong clock says is old.
"""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.group.deleting import remove_group
from barnabas.broker.group.group import CONSUMER, Group
from barnabas.broker.group.kinds import AnyGroup
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.state import GroupState, Status
from barnabas.broker.group.values import NO_EXPIRY, CommittedOffset, OffsetRecord
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import TopicPartition

GROUPS_PER_STEP: Final = 100
OFFSETS_PER_STEP: Final = 5000

logger = logging.getLogger(__name__)


def expire(shard: Shard, wall_ms: int, now_ms: int) -> Job[None]:
    """Go through the groups of a shard once, at this time of day."""
    for seen, group in enumerate(list(shard.groups.values()), 1):
        if shard.status is not Status.ACTIVE:
            return
        if shard.groups.get(group.group_id) is group:
            yield from _expire_group(shard, group, wall_ms, now_ms)
        if seen % GROUPS_PER_STEP == 0:
            yield None


def _expire_group(shard: Shard, group: AnyGroup, wall_ms: int, now_ms: int) -> Job[None]:
    """Others have their turn between the steps: what they commit meanwhile stays."""
    expired: dict[TopicPartition, CommittedOffset] = {}
    keys = list(group.offsets)
    for start in range(0, len(keys), OFFSETS_PER_STEP):
        for key in keys[start : start + OFFSETS_PER_STEP]:
            committed = group.offsets.get(key)
            if committed is not None and is_expired(shard, group, key, committed, wall_ms):
                expired[key] = committed
        if len(keys) > OFFSETS_PER_STEP:
            yield None
    at_once = shard.tombstones_at_once(group.group_id)
    found = list(expired)
    for start in range(0, len(found), at_once):
        if shard.status is not Status.ACTIVE or shard.groups.get(group.group_id) is not group:
            return
        part = [key for key in found[start : start + at_once] if group.offsets.get(key) is expired[key]]
        if part and shard.append([OffsetRecord(group.group_id, key, None) for key in part], now_ms):
            return  # said already; the next round tries again
        shard.shared.counts.expirations += len(part)
        if len(expired) > at_once:
            yield None
    if group.offsets or not group.is_empty or (isinstance(group, Group) and group.pending):
        return
    try:
        yield from remove_group(shard, group, now_ms)
    except KafkaError as fault:
        logger.warning("group %s cannot be deleted yet: %s", group.group_id, fault)
    else:
        logger.info("group %s was empty for long and is deleted", group.group_id)


def is_expired(shard: Shard, group: AnyGroup, key: TopicPartition, committed: CommittedOffset, wall_ms: int) -> bool:
    """Whether an offset's time is over at that time of day."""
    since_ms = committed.committed_ms
    if isinstance(group, Group) and group.protocol_type is not None:
        if group.state is GroupState.EMPTY:
            since_ms = group.state_since_ms if group.state_since_ms >= 0 else since_ms
        elif not (group.state is GroupState.STABLE and group.protocol_type == CONSUMER and group.topics is not None):
            return False
    if group.consumes(key.topic):
        return False
    if committed.expires_ms != NO_EXPIRY:
        return wall_ms >= committed.expires_ms
    return wall_ms - since_ms >= shard.shared.config.offsets_retention_minutes * 60_000
