"""DescribeClientQuotas (48). A real broker answers from its image; there are no quotas by user, client or address here.

A filter that Kafka refuses is refused: a type twice, an empty one, `ip` beside others, a match that is unknown or does
not go with its name (INVALID_REQUEST); a type that nobody knows (UNSUPPORTED_VERSION). Entries are null with an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

_USER, _CLIENT_ID, _IP = "user", "client-id", "ip"
_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


def handle(services: Services, request: DescribeClientQuotasRequest, context: RequestContext, now_ms: int) -> None:
    """Answer with none."""
    response = DescribeClientQuotasResponse()
    try:
        _check(request.components)
    except KafkaError as fault:
        response = DescribeClientQuotasResponse(0, fault.code, fault.detail, None)
    context.respond(response)


def _check(components: Sequence[ComponentData]) -> None:
    """Refuse what names no set of quotas.

    Raises:
        KafkaError: why it does not.
    """
    seen: set[str] = set()
    for one in components:
        if not one.entity_type:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if one.entity_type in seen:
            detail = f"Entity type {one.entity_type} cannot appear more than once in the filter."
            raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
        seen.add(one.entity_type)
        _check_match(one)
        if one.entity_type not in (_USER, _CLIENT_ID, _IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {one.entity_type}")
    if _IP in seen and len(seen) > 1:
        detail = (
            "Invalid entity filter component combination. "
            "IP filter component should not be used with user or clientId filter component."
        )
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)


def _check_match(one: ComponentData) -> None:
    if one.match_type not in (_EXACT, _DEFAULT, _ANY):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {one.match_type}")
    if one.match_type == _EXACT and one.match is None:
        detail = "Request specified MATCH_TYPE_EXACT, but set match string to null."
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
    if one.match_type != _EXACT and one.match is not None:
        kind = "DEFAULT" if one.match_type == _DEFAULT else "SPECIFIED"
        detail = f"Request specified MATCH_TYPE_{kind}, but also specified a match string."
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
