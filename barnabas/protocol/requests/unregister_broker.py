"""UnregisterBroker, API key 64. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from barnabas.protocol.requests import message


@message
class UnregisterBrokerRequest:
    broker_id: int = 0


@message
class UnregisterBrokerResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
