"""SyncGroup, API key 14. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.ids import Bytes
from barnabas.protocol.requests import message


@message
class SyncGroupRequestAssignment:
    member_id: str = ""
    assignment: Bytes = b""


@message
class SyncGroupRequest:
    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)


@message
class SyncGroupResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: Bytes = b""
