"""Vote (52): one voter asks another for its vote, or whether it would give it (KIP-996). Voters alone ask.

- INCONSISTENT_VOTER_SET of a node that has no vote: who asks has another `controller.quorum.voters`.
- A voter that names another's id: CLUSTER_AUTHORIZATION_FAILED. What else is refused stands in `raft/calls`.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.broker.raft.calls import speaker
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.vote import VoteRequest, VoteResponse


def handle(services: Services, request: VoteRequest, context: RequestContext, now_ms: int) -> None:
    """Have the quorum hear it."""
    if services.quorum is None:
        error = ErrorCode.INCONSISTENT_VOTER_SET
    elif context.connection.peer != speaker(request):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    else:
        services.quorum.vote(request, context.respond, now_ms)
        return
    context.respond(VoteResponse(error_code=error))
