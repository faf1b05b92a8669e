"""Groups as they are told: DescribeGroups, ListGroups. Source: `GroupMetadataManager.describeGroups`, `listGroups`."""

from __future__ import annotations

from typing import Any, Final

from barnabas.broker.group.consumer.describing import CONSUMER_TYPE, snapshot_consumer
from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.group import Group
from barnabas.broker.group.kinds import AnyGroup
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.state import GroupState
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.describe_groups import DescribedGroup, DescribedGroupMember
from barnabas.protocol.requests.list_groups import ListedGroup

NOT_FOUND_FROM: Final = 6
CLASSIC: Final = "classic"
_CONSUMER: Final = (CONSUMER_TYPE, CONSUMER_TYPE)


def describe(shard: Shard, group_id: str, version: int) -> DescribedGroup:
    """One classic group. What is none is Dead; from v6 on it is GROUP_ID_NOT_FOUND as well (KIP-1043)."""
    group = shard.groups.get(group_id)
    if group is None:
        told = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if version >= NOT_FOUND_FROM:
            told.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            told.error_message = f"Group {group_id} not found."
        return told
    if isinstance(group, ConsumerGroup):
        told = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if version >= NOT_FOUND_FROM:
            told.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            told.error_message = f"Group {group_id} is not a classic group."
        return told
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[
            DescribedGroupMember(
                one.member_id,
                one.instance_id,
                one.client_id,
                one.client_host,
                one.metadata(group.protocol) if stable else b"",
                one.assignment,
            )
            for one in group.members.values()
        ],
    )


def listed(group: AnyGroup, states: frozenset[str], types: frozenset[str]) -> ListedGroup | None:
    """One group in a list, unless a filter (in lower case; empty for none) keeps it out."""
    kind, protocol_type = (CLASSIC, group.protocol_type or "") if isinstance(group, Group) else _CONSUMER
    if types and kind not in types:
        return None
    state = group.state.value
    if states and state.lower() not in states:
        return None
    return ListedGroup(group.group_id, protocol_type, state, kind)


def snapshot(group: AnyGroup) -> dict[str, Any]:
    """One group as plain values, for `/state`."""
    if isinstance(group, ConsumerGroup):
        return snapshot_consumer(group)
    return {
        "group": group.group_id,
        "type": CLASSIC,
        "state": group.state.value,
        "protocol_type": group.protocol_type or "",
        "protocol": group.protocol or "",
        "generation": group.generation,
        "leader": group.leader or "",
        "members": len(group.members),
        "joining": group.joined,
        "pending": len(group.pending),
        "offsets": len(group.offsets),
    }
