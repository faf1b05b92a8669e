"""SyncGroup (14). A real broker tells a member its assignment, once the leader of its generation has sent all of them.

v3: static members. v5: type and name of the protocol are sent, and must be the group's: INCONSISTENT_GROUP_PROTOCOL.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.syncing import sync
from barnabas.broker.handlers.coordinators import serve
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.sync_group import SyncGroupRequest, SyncGroupResponse

_PROTOCOL_FROM: Final = 5


def handle(services: Services, request: SyncGroupRequest, context: RequestContext, now_ms: int) -> bool:
    """Tell the member its assignment, now or later."""
    reply = Reply(context, _failure)
    if context.api_version >= _PROTOCOL_FROM and (request.protocol_type is None or request.protocol_name is None):
        reply.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return True
    return serve(services, request, reply, sync, now_ms)


def _failure(code: int) -> SyncGroupResponse:
    """Without the request: what waits for long must not hold it."""
    return SyncGroupResponse(error_code=code)
