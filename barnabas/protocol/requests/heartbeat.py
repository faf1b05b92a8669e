"""Heartbeat, API key 12. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from barnabas.protocol.requests import message


@message
class HeartbeatRequest:
    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None


@message
class HeartbeatResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
