"""Heartbeat (12). A real broker notes that a member is there, and tells it when to join again (REBALANCE_IN_PROGRESS).

While the group is being loaded all is well: its members have a whole session once that is done. v3: static members.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.syncing import heartbeat
from barnabas.broker.handlers.coordinators import serve
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(services: Services, request: HeartbeatRequest, context: RequestContext, now_ms: int) -> bool:
    """Note that the member is there."""
    return serve(services, request, Reply(context, _failure), heartbeat, now_ms)


def _failure(code: int) -> HeartbeatResponse:
    loading = code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if loading else code)
