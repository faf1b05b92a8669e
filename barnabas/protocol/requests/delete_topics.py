"""DeleteTopics, API key 20. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests import message


@message
class DeleteTopicState:
    name: str | None = None
    topic_id: bytes = ZERO_UUID


@message
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = field(default_factory=list)
    topic_names: list[str] = field(default_factory=list)
    timeout_ms: int = 0


@message
class DeletableTopicResult:
    name: str | None = ""
    topic_id: bytes = ZERO_UUID
    error_code: int = 0
    error_message: str | None = None


@message
class DeleteTopicsResponse:
    throttle_time_ms: int = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)
