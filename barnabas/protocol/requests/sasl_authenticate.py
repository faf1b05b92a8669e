"""SaslAuthenticate, API key 36. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from typing import ClassVar

from barnabas.protocol.ids import Buffer
from barnabas.protocol.requests import message


@message
class SaslAuthenticateRequest:
    auth_bytes: Buffer = b""


@message
class SaslAuthenticateResponse:
    error_code: int = 0
    error_message: str | None = None
    auth_bytes: Buffer = b""
    session_lifetime_ms: int = 0
    throttle_time_ms: ClassVar[int] = 0
    """Never throttled: it comes before anything else."""
