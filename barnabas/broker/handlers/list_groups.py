"""ListGroups (16). A real broker lists the groups that it coordinates; this one coordinates none yet."""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.protocol.requests.list_groups import ListGroupsRequest, ListGroupsResponse


def handle(services: Services, request: ListGroupsRequest, context: RequestContext, now_ms: int) -> None:
    """Answer with no group."""
    context.respond(ListGroupsResponse())
