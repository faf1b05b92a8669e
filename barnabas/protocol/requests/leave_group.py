"""LeaveGroup, API key 13. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.requests import message


@message
class MemberIdentity:
    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None


@message
class LeaveGroupRequest:
    group_id: str = ""
    member_id: str = ""
    members: list[MemberIdentity] = field(default_factory=list)


@message
class MemberResponse:
    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: int = 0


@message
class LeaveGroupResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    members: list[MemberResponse] = field(default_factory=list)
