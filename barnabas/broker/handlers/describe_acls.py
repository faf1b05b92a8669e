"""DescribeAcls (29). A real broker asks its authorizer; without one, as here, nothing can be told.

SECURITY_DISABLED, whatever is asked. Kafka closes the connection where a type, an operation or a pattern is the unknown
one (0) of its kind.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(services: Services, request: DescribeAclsRequest, context: RequestContext, now_ms: int) -> None:
    """Say that there is no access control."""
    detail = "No Authorizer is configured on the broker"
    context.respond(DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=detail))
