"""DescribeGroups, API key 15. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.ids import Bytes
from barnabas.protocol.requests import message


@message
class DescribeGroupsRequest:
    groups: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


@message
class DescribedGroupMember:
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


@message
class DescribedGroup:
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = field(default_factory=list)
    authorized_operations: int = -2147483648


@message
class DescribeGroupsResponse:
    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = field(default_factory=list)
