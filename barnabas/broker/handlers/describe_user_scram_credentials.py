"""DescribeUserScramCredentials (50). A real broker answers from its image; nobody has credentials here yet.

All of them: none. A user that is named: RESOURCE_NOT_FOUND, named twice: DUPLICATE_RESOURCE, once for each.
"""

from __future__ import annotations

from collections import Counter

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.broker.handlers.steps import SLICE, answer, slices
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    services: Services, request: DescribeUserScramCredentialsRequest, context: RequestContext, now_ms: int
) -> None:
    """Say of each user that there is nothing to tell."""
    work = services.work_in_line if len(request.users or ()) > SLICE else services.work
    work(_serve(request, context), request, context)


def _serve(request: DescribeUserScramCredentialsRequest, context: RequestContext) -> Job[None]:
    named = Counter(user.name for user in request.users or ())
    results = []
    for some in slices(list(named.items()), SLICE):
        results += [_told(name, times > 1) for name, times in some]
        if len(results) < len(named):
            yield None
    yield from answer(context, DescribeUserScramCredentialsResponse(results=results), len(results))


def _told(name: str, twice: bool) -> DescribeUserScramCredentialsResult:
    if twice:
        detail = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return DescribeUserScramCredentialsResult(name, ErrorCode.DUPLICATE_RESOURCE, detail)
    detail = f"Attempt to describe a user credential that does not exist: {name}"
    return DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, detail)
