"""DescribeClientQuotas, API key 48. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.requests import message


@message
class ComponentData:
    entity_type: str = ""
    match_type: int = 0
    match: str | None = ""


@message
class DescribeClientQuotasRequest:
    components: list[ComponentData] = field(default_factory=list)
    strict: bool = False


@message
class EntityData:
    entity_type: str = ""
    entity_name: str | None = ""


@message
class ValueData:
    key: str = ""
    value: float = 0.0


@message
class EntryData:
    entity: list[EntityData] = field(default_factory=list)
    values: list[ValueData] = field(default_factory=list)


@message
class DescribeClientQuotasResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    entries: list[EntryData] | None = field(default_factory=list)
