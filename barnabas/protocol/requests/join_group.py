"""JoinGroup, API key 11. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.ids import Bytes
from barnabas.protocol.requests import message


@message
class JoinGroupRequestProtocol:
    name: str = ""
    metadata: Bytes = b""


@message
class JoinGroupRequest:
    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)
    reason: str | None = None


@message
class JoinGroupResponseMember:
    member_id: str = ""
    group_instance_id: str | None = None
    metadata: Bytes = b""


@message
class JoinGroupResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: list[JoinGroupResponseMember] = field(default_factory=list)
