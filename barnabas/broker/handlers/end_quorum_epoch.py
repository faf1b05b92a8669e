"""EndQuorumEpoch (54): a leader that goes tells the voters who is to come next. Voters alone ask.

- INCONSISTENT_VOTER_SET of a node that has no vote: who asks has another `controller.quorum.voters`.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse


def handle(services: Services, request: EndQuorumEpochRequest, context: RequestContext, now_ms: int) -> None:
    """Refuse: one node is the quorum so far, and it votes for itself."""
    context.respond(EndQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_VOTER_SET))
