"""GetTelemetrySubscriptions (71, KIP-714). A real broker says which of its metrics a client is to send, and how often.

Without a receiver for them, as here, a broker leaves this API and PushTelemetry out of ApiVersions, so that no client
asks. One that asks all the same is answered that nothing is wanted; a client without an id of its own is given one.
Nothing is remembered of clients: Kafka remembers them, and refuses one that asks again too soon.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

NOTHING_WANTED: Final = 714
"""The id of the subscription to no metric; Kafka makes one of what is subscribed to and the client's id."""
_COMPRESSIONS: Final = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy: in this order Kafka names them."""
_PUSH_INTERVAL_MS: Final = 300_000
METRICS_BYTES_MAX: Final = 1024 * 1024
"""Kafka's default of `telemetry.max.bytes`."""


def handle(services: Services, request: GetTelemetrySubscriptionsRequest, context: RequestContext, now_ms: int) -> None:
    """Answer that no metric is wanted."""
    known = request.client_instance_id != ZERO_UUID
    context.respond(
        GetTelemetrySubscriptionsResponse(
            client_instance_id=request.client_instance_id if known else services.entropy.uuid(),
            subscription_id=NOTHING_WANTED,
            accepted_compression_types=list(_COMPRESSIONS),
            push_interval_ms=_PUSH_INTERVAL_MS,
            telemetry_max_bytes=METRICS_BYTES_MAX,
            delta_temporality=True,
        )
    )
