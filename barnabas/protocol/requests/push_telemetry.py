"""PushTelemetry, API key 72. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from barnabas.protocol.ids import ZERO_UUID, Bytes
from barnabas.protocol.requests import message


@message
class PushTelemetryRequest:
    client_instance_id: bytes = ZERO_UUID
    subscription_id: int = 0
    terminating: bool = False
    compression_type: int = 0
    metrics: Bytes = b""


@message
class PushTelemetryResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
