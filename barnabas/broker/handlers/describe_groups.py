"""DescribeGroups (15). A real broker tells of classic groups: state, protocol, members and what they are assigned.

One that nobody knows is Dead; from v6 on it says GROUP_ID_NOT_FOUND as well. An empty name is one like any other here:
a simple group may have it. v3: authorised operations. v4: static members. One named twice is told once (Kafka tells it
twice).
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.group.looking import describe
from barnabas.broker.handlers.coordinators import may
from barnabas.broker.handlers.services import Operation, Resource, Services, authorised_operations
from barnabas.broker.handlers.steps import Slice, answer, work_of
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_BYTES: Final = 2048
"""So many of what a member sent and was assigned are another thing to be told."""
_GROUP_BYTES: Final = 300
_MEMBER_BYTES: Final = 200
_WRITTEN: Final = 2
"""What each takes beside its bytes, which are written, and wait to be sent."""


def handle(services: Services, request: DescribeGroupsRequest, context: RequestContext, now_ms: int) -> None:
    """Tell of each group."""
    services.work_in_line(_serve(services, request, context), request, context)


def _serve(services: Services, request: DescribeGroupsRequest, context: RequestContext) -> Job[None]:
    told = []
    elements = 0
    current = Slice()
    with services.charging(context) as charge:
        for group_id in dict.fromkeys(request.groups):
            one = _one(services, context, group_id)
            if request.include_authorized_operations and not one.error_code:
                resource = Resource("group", group_id)
                one.authorized_operations = authorised_operations(services, context, resource)
            told.append(one)
            size = sum(map(_size, one.members))
            names = len(group_id) + len(one.error_message or "") + len(one.protocol_type) + len(one.protocol_data)
            charge(_GROUP_BYTES + _MEMBER_BYTES * len(one.members) + _WRITTEN * (names + size))
            work = work_of(group_id) + len(one.members) + size // _BYTES
            elements += work
            if current.is_over(work):
                yield None
        yield from answer(context, DescribeGroupsResponse(groups=told), elements)


def _size(member: DescribedGroupMember) -> int:
    names = len(member.member_id) + len(member.group_instance_id or "") + len(member.client_id)
    return names + len(member.member_metadata) + len(member.member_assignment)


def _one(services: Services, context: RequestContext, group_id: str) -> DescribedGroup:
    try:
        if not may(services, context, Operation.DESCRIBE, group_id):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return describe(services.groups.shard_of(group_id), group_id, context.api_version)
    except KafkaError as fault:
        return DescribedGroup(error_code=fault.code, group_id=group_id, error_message=fault.detail or None)
