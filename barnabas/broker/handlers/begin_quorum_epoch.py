"""BeginQuorumEpoch (53): a new leader makes itself known to a voter. Voters alone ask.

- INCONSISTENT_VOTER_SET of a node that has no vote: who asks has another `controller.quorum.voters`.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse


def handle(services: Services, request: BeginQuorumEpochRequest, context: RequestContext, now_ms: int) -> None:
    """Refuse: one node is the quorum so far, and it votes for itself."""
    context.respond(BeginQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_VOTER_SET))
