"""BeginQuorumEpoch (53): a new leader makes itself known to a voter. Voters alone ask.

- INCONSISTENT_VOTER_SET of a node that has no vote: who asks has another `controller.quorum.voters`.
- A voter that names another's id: CLUSTER_AUTHORIZATION_FAILED. What else is refused stands in `raft/calls`.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.broker.raft.calls import speaker
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse


def handle(services: Services, request: BeginQuorumEpochRequest, context: RequestContext, now_ms: int) -> None:
    """Have the quorum hear it."""
    if services.quorum is None:
        error = ErrorCode.INCONSISTENT_VOTER_SET
    elif context.connection.peer != speaker(request):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    else:
        services.quorum.begin(request, context.respond, now_ms)
        return
    context.respond(BeginQuorumEpochResponse(error_code=error))
