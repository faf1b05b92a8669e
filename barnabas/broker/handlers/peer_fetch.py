"""Fetch (1) on the listener of brokers: of records, as any replica.

- A replica id that is not the broker's own: CLUSTER_AUTHORIZATION_FAILED for the whole answer.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers import fetch
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.fetch import FetchRequest, FetchResponse


def handle(services: Services, request: FetchRequest, context: RequestContext, now_ms: int) -> None:
    """Read, and answer now or when enough has come."""
    replica = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    if replica != context.connection.peer:
        context.respond(FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    fetch.handle(services, request, context, now_ms)
