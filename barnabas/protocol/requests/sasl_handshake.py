"""SaslHandshake, API key 17. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from barnabas.protocol.requests import message


@message
class SaslHandshakeRequest:
    mechanism: str = ""


@message
class SaslHandshakeResponse:
    error_code: int = 0
    mechanisms: list[str] = field(default_factory=list)
    throttle_time_ms: ClassVar[int] = 0
    """Never throttled: it comes before anything else."""
