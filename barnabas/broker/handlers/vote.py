"""Vote (52): one voter asks another for its vote, or whether it would give it (KIP-996). Voters alone ask.

- INCONSISTENT_VOTER_SET of a node that has no vote: who asks has another `controller.quorum.voters`.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.vote import VoteRequest, VoteResponse


def handle(services: Services, request: VoteRequest, context: RequestContext, now_ms: int) -> None:
    """Refuse: one node is the quorum so far, and it votes for itself."""
    context.respond(VoteResponse(error_code=ErrorCode.INCONSISTENT_VOTER_SET))
