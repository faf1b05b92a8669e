"""A member of the consumer protocol comes to a group that is none yet: a new one, or a classic one to be converted.

Source: `getOrMaybeCreateConsumerGroup`, `convertToConsumerGroup`.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.group import Group
from barnabas.broker.group.rebalance import close
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.values import CoordinatorRecord, GroupRecord
from barnabas.protocol.errors import ErrorCode, KafkaError


class Converted(NamedTuple):
    """A classic group whose place another takes."""

    before: Group

    def finish(self, shard: Shard, group: ConsumerGroup, now_ms: int) -> None:
        """It is written: nothing is left of the classic one."""
        close(shard, self.before, ErrorCode.REBALANCE_IN_PROGRESS)


def group_for(
    shard: Shard, group_id: str, joins: bool, records: list[CoordinatorRecord]
) -> tuple[ConsumerGroup, Converted | None]:
    """The group that a member names; one that is not there yet is made by the records.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND: there is none and the member does not join, or it stays a classic one.
    """
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group, None
    if group is None:
        if not joins:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        return ConsumerGroup(group_id), None
    if joins and group.is_empty:
        records.append(GroupRecord(group_id, None))
        return ConsumerGroup(group_id), Converted(group)
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
