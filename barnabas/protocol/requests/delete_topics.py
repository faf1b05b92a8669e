"""DeleteTopics, API key 20. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.protocol.ids import ZERO_UUID


@dataclass(slots=True)
class DeleteTopicState:
    name: str | None = None
    topic_id: bytes = ZERO_UUID


@dataclass(slots=True)
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = field(default_factory=list)
    topic_names: list[str] = field(default_factory=list)
    timeout_ms: int = 0


@dataclass(slots=True)
class DeletableTopicResult:
    name: str | None = ""
    topic_id: bytes = ZERO_UUID
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True)
class DeleteTopicsResponse:
    throttle_time_ms: int = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)
