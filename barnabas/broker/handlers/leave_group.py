"""LeaveGroup (13). A real broker takes members out of a group, and has the others share what they had.

Up to v2 one member leaves, by its id, and the answer has one error. v3 on there may be many, static ones by their
instance id alone (an administrator's way), each with an error of its own. v5: a reason.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.syncing import leave
from barnabas.broker.handlers.coordinators import reply_to, serve
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.requests.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

_MANY_FROM: Final = 3


def handle(services: Services, request: LeaveGroupRequest, context: RequestContext, now_ms: int) -> None:
    """Take the members out."""
    serve(services, request, reply_to(request, context), _take_out, now_ms)


def _take_out(shard: Shard, request: LeaveGroupRequest, reply: Reply, now_ms: int) -> None:
    many = reply.context.api_version >= _MANY_FROM
    leaving = request.members if many else [MemberIdentity(request.member_id)]
    try:
        told = leave(shard, request.group_id, leaving, now_ms)
    except KafkaError as fault:
        told = [MemberResponse(one.member_id, one.group_instance_id, fault.code) for one in leaving]
    response = LeaveGroupResponse(members=told) if many else LeaveGroupResponse(error_code=told[0].error_code)
    shard.answer(reply, response, now_ms)
