"""JoinGroup (11). A real broker asks the group's coordinator; none is here yet (see `not_coordinator`).

The name of the protocol may be null from v7 on, and is where there is none.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupResponse

_NULL_NAME_FROM = 7


def handle(services: Services, request: JoinGroupRequest, context: RequestContext, now_ms: int) -> None:
    """Refuse: the group is another broker's."""
    name = None if context.api_version >= _NULL_NAME_FROM else ""
    context.respond(JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR, protocol_name=name))
