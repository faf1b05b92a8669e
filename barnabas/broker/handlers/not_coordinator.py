"""What the group APIs answer as long as this broker coordinates no group: every group is another broker's.

NOT_COORDINATOR is what Apache Kafka says of a group whose partition of the offsets topic it does not lead. A client
asks FindCoordinator again, which says that there is none yet.
"""

from __future__ import annotations

from typing import Any

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.failures import error_response
from barnabas.broker.handlers.services import Services
from barnabas.broker.handlers.steps import answer
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode


def refuse(services: Services, request: Any, context: RequestContext, elements: int = 1) -> None:
    """Answer so for each of about so many `elements`."""
    response = error_response(context.api_key, request, ErrorCode.NOT_COORDINATOR)
    services.work(_told(context, response, elements), request, context)


def _told(context: RequestContext, response: Any, elements: int) -> Job[None]:
    yield from answer(context, response, elements)
