"""Groups go: on demand, and with what they have committed. Source: `GroupCoordinatorShard.deleteGroups`."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Final

from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.consumer.replaying import release_all
from barnabas.broker.group.kinds import AnyGroup
from barnabas.broker.group.rebalance import close
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.state import Status
from barnabas.broker.group.tombstones import of_group
from barnabas.broker.group.values import OffsetRecord
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition

_LOOKED_AT_PER_STEP: Final = 100


def delete_group(shard: Shard, group_id: str, now_ms: int) -> Job[None]:
    """Delete an empty group, in bounded steps.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, or it could not be written; perhaps with fewer offsets than
            before, it is still there then.
    """
    group = shard.groups.get(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    deleted = yield from remove_group(shard, group, now_ms)
    shard.shared.counts.deletions += deleted


def remove_group(shard: Shard, group: AnyGroup, now_ms: int) -> Job[int]:
    """Write that an empty group and its offsets are gone, so many at a time; the group goes last.

    Returns:
        How many offsets it had.

    Raises:
        KafkaError: it is still there, perhaps with fewer offsets.
    """
    at_once = shard.tombstones_at_once(group.group_id)
    deleted = 0
    while group.offsets:
        keys = list(islice(group.offsets, at_once))
        shard.write([OffsetRecord(group.group_id, key, None) for key in keys], now_ms)
        deleted += len(keys)
        if group.offsets:
            yield None
            _check_still_empty(shard, group)
    shard.write(of_group(group), now_ms)
    if isinstance(group, ConsumerGroup):
        release_all(shard, group)
    else:
        close(shard, group, ErrorCode.UNKNOWN_MEMBER_ID)
    return deleted


def _check_still_empty(shard: Shard, group: AnyGroup) -> None:
    """Others had their turn."""
    if shard.status is not Status.ACTIVE:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)
    if shard.groups.get(group.group_id) is not group:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)


def _is_stale(shard: Shard, group: AnyGroup, key: TopicPartition) -> bool:
    """Whether an offset is there, and not of a topic made anew meanwhile."""
    committed = group.offsets.get(key)
    topic = shard.shared.topics.get(key.topic)
    return committed is not None and (topic is None or committed.topic_id != topic[0])


def forget_topics(shard: Shard, gone: Collection[TopicPartition], now_ms: int) -> Job[None]:
    """Partitions are no more: what groups have committed for them goes, too (`onPartitionsDeleted`)."""
    for number, group in enumerate(list(shard.groups.values()), 1):
        keys = (
            [key for key in group.offsets if key in gone]
            if len(group.offsets) < len(gone)
            else [key for key in gone if key in group.offsets]
        )
        at_once = shard.tombstones_at_once(group.group_id)
        for start in range(0, len(keys), at_once):
            now = shard.groups.get(group.group_id)
            if shard.status is not Status.ACTIVE:
                return
            if now is None:
                break
            part = [key for key in keys[start : start + at_once] if _is_stale(shard, now, key)]
            if part and shard.append([OffsetRecord(group.group_id, key, None) for key in part], now_ms):
                return  # said already; they expire
            yield None
        if number % _LOOKED_AT_PER_STEP == 0 or len(gone) > _LOOKED_AT_PER_STEP:
            yield None
