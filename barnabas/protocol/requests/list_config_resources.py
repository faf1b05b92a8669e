"""ListConfigResources, API key 74. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.requests import message


@message
class ListConfigResourcesRequest:
    resource_types: list[int] = field(default_factory=list)


@message
class ConfigResource:
    resource_name: str = ""
    resource_type: int = 16


@message
class ListConfigResourcesResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: list[ConfigResource] = field(default_factory=list)
