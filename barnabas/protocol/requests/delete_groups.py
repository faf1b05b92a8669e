"""DeleteGroups, API key 42. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.requests import message


@message
class DeleteGroupsRequest:
    groups_names: list[str] = field(default_factory=list)


@message
class DeletableGroupResult:
    group_id: str = ""
    error_code: int = 0


@message
class DeleteGroupsResponse:
    throttle_time_ms: int = 0
    results: list[DeletableGroupResult] = field(default_factory=list)
