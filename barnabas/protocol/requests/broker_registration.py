"""BrokerRegistration, API key 62. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests import message


@message
class Listener:
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0


@message
class Feature:
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0


@message
class BrokerRegistrationRequest:
    broker_id: int = 0
    cluster_id: str = ""
    incarnation_id: bytes = ZERO_UUID
    listeners: list[Listener] = field(default_factory=list)
    features: list[Feature] = field(default_factory=list)
    rack: str | None = None
    is_migrating_zk_broker: bool = False
    log_dirs: list[bytes] = field(default_factory=list)
    previous_broker_epoch: int = -1


@message
class BrokerRegistrationResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    broker_epoch: int = -1
