"""OffsetDelete (47). A real broker asks the group's coordinator; none is here yet (see `not_coordinator`)."""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.not_coordinator import refuse
from barnabas.broker.handlers.services import Services
from barnabas.protocol.requests.offset_delete import OffsetDeleteRequest


def handle(services: Services, request: OffsetDeleteRequest, context: RequestContext, now_ms: int) -> None:
    """Refuse: the group is another broker's."""
    refuse(services, request, context)
