"""ListGroups, API key 16. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.requests import message


@message
class ListGroupsRequest:
    states_filter: list[str] = field(default_factory=list)
    types_filter: list[str] = field(default_factory=list)


@message
class ListedGroup:
    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""
    group_type: str = ""


@message
class ListGroupsResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    groups: list[ListedGroup] = field(default_factory=list)
