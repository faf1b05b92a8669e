"""LeaveGroup (13). A real broker asks the group's coordinator; none is here yet (see `not_coordinator`)."""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.not_coordinator import refuse
from barnabas.broker.handlers.services import Services
from barnabas.protocol.requests.leave_group import LeaveGroupRequest


def handle(services: Services, request: LeaveGroupRequest, context: RequestContext, now_ms: int) -> None:
    """Refuse: the group is another broker's."""
    refuse(services, request, context)
