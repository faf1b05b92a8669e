"""Groups go: on demand, and with what they have committed. Source: `GroupCoordinatorShard.deleteGroups`."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Final

from barnabas.broker.group.group import Group
from barnabas.broker.group.rebalance import close
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.state import GroupState, Status
from barnabas.broker.group.values import CoordinatorRecord, GroupRecord, OffsetRecord
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
    if group.state is not GroupState.EMPTY:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    deleted = yield from remove_group(shard, group, now_ms)
    shard.shared.counts.deletions += deleted


def remove_group(shard: Shard, group: Group, now_ms: int) -> Job[int]:
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
        _write(shard, [OffsetRecord(group.group_id, key, None) for key in keys], now_ms)
        deleted += len(keys)
        if group.offsets:
            yield None
            _check_still_empty(shard, group)
    _write(shard, [GroupRecord(group.group_id, None)], now_ms)
    close(shard, group, ErrorCode.UNKNOWN_MEMBER_ID)
    return deleted


def _check_still_empty(shard: Shard, group: Group) -> None:
    """Others had their turn."""
    if shard.status is not Status.ACTIVE:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)
    if shard.groups.get(group.group_id) is not group:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    if group.state is not GroupState.EMPTY:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)


def _write(shard: Shard, records: list[CoordinatorRecord], now_ms: int) -> None:
    code = shard.append(records, now_ms)
    if code:
        raise KafkaError(code)


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
            if shard.status is not Status.ACTIVE:
                return
            part = keys[start : start + at_once]
            if shard.append([OffsetRecord(group.group_id, key, None) for key in part], now_ms):
                return  # said already; they expire
            yield None
        if number % _LOOKED_AT_PER_STEP == 0 or len(gone) > _LOOKED_AT_PER_STEP:
            yield None
