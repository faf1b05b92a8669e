"""DescribeUserScramCredentials, API key 50. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.requests import message


@message
class UserName:
    name: str = ""


@message
class DescribeUserScramCredentialsRequest:
    users: list[UserName] | None = field(default_factory=list)


@message
class CredentialInfo:
    mechanism: int = 0
    iterations: int = 0


@message
class DescribeUserScramCredentialsResult:
    user: str = ""
    error_code: int = 0
    error_message: str | None = ""
    credential_infos: list[CredentialInfo] = field(default_factory=list)


@message
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)
