"""ListTransactions (66). A real broker lists the transactions it coordinates; there are none here yet.

A state that nobody knows is told in `unknown_state_filters`, once. A pattern (v2, KIP-1152) has nothing to match, and
is not looked at; Kafka refuses one that is no regular expression with INVALID_REGULAR_EXPRESSION.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.broker.handlers.steps import answer
from barnabas.broker.jobs import Job
from barnabas.protocol.requests.list_transactions import ListTransactionsRequest, ListTransactionsResponse

STATES: Final = frozenset(
    (
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    )
)
"""Of a transaction (`TransactionState`)."""


def handle(services: Services, request: ListTransactionsRequest, context: RequestContext, now_ms: int) -> None:
    """Answer with none, and with the filters that name no state."""
    services.work(_serve(request, context), request, context)


def _serve(request: ListTransactionsRequest, context: RequestContext) -> Job[None]:
    unknown = [state for state in dict.fromkeys(request.state_filters) if state not in STATES]
    yield from answer(context, ListTransactionsResponse(unknown_state_filters=unknown), len(unknown))
