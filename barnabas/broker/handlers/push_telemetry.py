"""PushTelemetry (72, KIP-714). A real broker hands a client's metrics to its receivers; here nobody wants them.

An id of zero is INVALID_REQUEST, a subscription that was not told UNKNOWN_SUBSCRIPTION_ID, metrics above the bound
TELEMETRY_TOO_LARGE; what fits is dropped unread.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.get_telemetry_subscriptions import METRICS_BYTES_MAX, NOTHING_WANTED
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def handle(services: Services, request: PushTelemetryRequest, context: RequestContext, now_ms: int) -> None:
    """Drop what came, if it may come."""
    context.respond(PushTelemetryResponse(error_code=_refusal(request)))


def _refusal(request: PushTelemetryRequest) -> int:
    if request.client_instance_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST
    if request.subscription_id != NOTHING_WANTED:
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    return ErrorCode.TELEMETRY_TOO_LARGE if len(request.metrics) > METRICS_BYTES_MAX else ErrorCode.NONE
