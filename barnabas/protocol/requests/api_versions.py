"""ApiVersions, API key 18. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

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
