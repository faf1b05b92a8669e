"""ApiVersions, API key 18. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

from barnabas.protocol.requests import message


@message
class ApiVersionsRequest:
    client_software_name: str = ""
    client_software_version: str = ""


@message
class ApiVersion:
    api_key: int = 0
    min_version: int = 0
    max_version: int = 0


@message
class SupportedFeatureKey:
    name: str = ""
    min_version: int = 0
    max_version: int = 0


@message
class FinalizedFeatureKey:
    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0


@message
class ApiVersionsResponse:
    error_code: int = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: int = 0
    supported_features: list[SupportedFeatureKey] = field(default_factory=list)
    finalized_features_epoch: int = -1
    finalized_features: list[FinalizedFeatureKey] = field(default_factory=list)
    zk_migration_ready: bool = False


class SharedApiVersionsResponse(ApiVersionsResponse):
    """One that many are told and nobody changes: its bytes are kept with it, once they are made.

    `written` has what follows the correlation id, by version, and by `NATIVE` what the native dialect says.
    """

    __slots__ = ("written",)
    NATIVE: Final = -1

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.written: dict[int, bytes] = {}

    def __eq__(self, other: object) -> bool:
        names = ApiVersionsResponse.__match_args__
        return isinstance(other, ApiVersionsResponse) and all(getattr(self, n) == getattr(other, n) for n in names)

    __hash__ = None  # type: ignore[assignment]  # as its like
