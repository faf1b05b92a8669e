"""DeleteGroups (42). A real broker asks the group's coordinator; none is here yet (see `not_coordinator`)."""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.not_coordinator import refuse
from barnabas.broker.handlers.services import Services
from barnabas.protocol.requests.delete_groups import DeleteGroupsRequest


def handle(services: Services, request: DeleteGroupsRequest, context: RequestContext, now_ms: int) -> None:
    """Refuse: the group is another broker's."""
    refuse(services, request, context, len(request.groups_names))
