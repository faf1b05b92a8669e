"""Settings of the clients, for editors and type checkers. Written by `./dev pages` from the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict


class ClientSettings(TypedDict, total=False):
    """What every client takes; all that `Admin` takes."""

    bootstrap_servers: str | Sequence[str] | None
    security_protocol: str | None
    client_id: str | None
    client_rack: str | None
    dialect: str | None
    client_dns_lookup: str | None
    request_timeout_ms: int | None
    default_api_timeout_ms: int | None
    retry_backoff_ms: int | None
    retry_backoff_max_ms: int | None
    reconnect_backoff_ms: int | None
    reconnect_backoff_max_ms: int | None
    socket_connection_setup_timeout_ms: int | None
    socket_connection_setup_timeout_max_ms: int | None
    connections_max_idle_ms: int | None
    max_in_flight_requests_per_connection: int | None
    metadata_max_age_ms: int | None
    metadata_recovery_strategy: str | None
    metadata_recovery_rebootstrap_trigger_ms: int | None
    send_buffer_bytes: int | None
    receive_buffer_bytes: int | None
    statistics_interval_ms: int | None
    stats_cb: Any
    error_cb: Any


class ProducerSettings(ClientSettings, total=False):
    """What `Producer` takes."""

    acks: int | str | None
    enable_idempotence: bool | None
    batch_size: int | None
    linger_ms: int | None
    buffer_memory: int | None
    max_block_ms: int | None
    close_timeout_ms: int | None
    max_request_size: int | None
    retries: int | None
    delivery_timeout_ms: int | None
    compression_type: str | None
    compression_gzip_level: int | None
    compression_lz4_level: int | None
    compression_zstd_level: int | None
    metadata_max_idle_ms: int | None
    transaction_timeout_ms: int | None
    partitioner_class: Any
    partitioner_adaptive_partitioning_enable: bool | None
    partitioner_availability_timeout_ms: int | None
    partitioner_ignore_keys: bool | None
    key_serializer: Any
    value_serializer: Any
    interceptor_classes: Any


class ConsumerSettings(ClientSettings, total=False):
    """What `Consumer` takes."""

    fetch_min_bytes: int | None
    fetch_max_wait_ms: int | None
    fetch_max_bytes: int | None
    max_partition_fetch_bytes: int | None
    max_poll_records: int | None
    auto_offset_reset: str | None
    isolation_level: str | None
    check_crcs: bool | None
    allow_auto_create_topics: bool | None
    group_id: str | None
    enable_auto_commit: bool | None
    key_deserializer: Any
    value_deserializer: Any
