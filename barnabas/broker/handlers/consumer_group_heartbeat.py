"""ConsumerGroupHeartbeat (68). A real broker serves groups of the consumer protocol (KIP-848), which are still to come.

Where it coordinates the group, it answers as Apache Kafka does without `consumer` in
`group.coordinator.rebalance.protocols`: UNSUPPORTED_VERSION, at which a client says that it has to take the other one.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.coordinators import check_named
from barnabas.broker.handlers.services import Operation, Services
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

_NOT_YET: Final = "This release has no groups of the consumer protocol; set group.protocol=classic."


def handle(services: Services, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now_ms: int) -> None:
    """Refuse."""
    try:
        check_named(services, context, Operation.READ, request.group_id)
        services.groups.shard_of(request.group_id)
        _check(request)
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, _NOT_YET)
    except KafkaError as fault:
        context.respond(ConsumerGroupHeartbeatResponse(error_code=fault.code, error_message=fault.detail or None))


def _check(request: ConsumerGroupHeartbeatRequest) -> None:
    """Refuse what no release would take.

    Raises:
        KafkaError: UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION.
    """
    from barnabas.broker.group.consumer.assignors import ASSIGNORS
    from barnabas.broker.group.consumer.patterns import compile_pattern

    if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        detail = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {known}."
        raise KafkaError(ErrorCode.UNSUPPORTED_ASSIGNOR, detail)
    if request.subscribed_topic_regex:
        compile_pattern(request.subscribed_topic_regex)
