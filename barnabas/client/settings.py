"""Settings of the clients, for editors and type checkers. Written by `./dev pages` from the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

from barnabas.protocol.errors import BarnabasError


class Serializes(Protocol):
    """An object that makes bytes of values."""

    def serialize(self, value: Any, /) -> bytes | None:
        """The bytes."""


class Deserializes(Protocol):
    """An object that makes values of bytes."""

    def deserialize(self, data: Any, /) -> Any:
        """The value."""


class Assigns(Protocol):
    """A way to share of a program's own: `PartitionAssignor` says what it does."""

    name: str

    def share(self, partitions: Any, members: Any) -> Any:
        """Who gets what."""


Named: TypeAlias = Literal["bytes", "string", "json", "msgpack"]
SerializerSetting: TypeAlias = Named | Callable[[Any], bytes | None] | Serializes
DeserializerSetting: TypeAlias = Named | Callable[[Any], Any] | Deserializes


class ClientSettings(TypedDict, total=False):
    """What every client takes; all that `Admin` takes."""

    bootstrap_servers: str | Sequence[str] | None
    security_protocol: Literal["PLAINTEXT"] | None
    client_id: str | None
    client_rack: str | None
    dialect: Literal["kafka", "native"] | None
    client_dns_lookup: Literal["use_all_dns_ips"] | None
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
    metadata_recovery_strategy: Literal["rebootstrap", "none"] | None
    metadata_recovery_rebootstrap_trigger_ms: int | None
    send_buffer_bytes: int | None
    receive_buffer_bytes: int | None
    metrics_sample_window_ms: int | None
    metrics_num_samples: int | None
    statistics_interval_ms: int | None
    stats_cb: Callable[[dict[str, Any]], Any] | None
    error_cb: Callable[[BarnabasError], Any] | None


class ProducerSettings(ClientSettings, total=False):
    """What `Producer` takes."""

    acks: Literal["all", "-1", "0", "1", -1, 0, 1] | None
    enable_idempotence: bool | None
    batch_size: int | None
    linger_ms: int | None
    buffer_memory: int | None
    max_block_ms: int | None
    close_timeout_ms: int | None
    max_request_size: int | None
    retries: int | None
    delivery_timeout_ms: int | None
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None
    compression_gzip_level: int | None
    compression_lz4_level: int | None
    compression_zstd_level: int | None
    metadata_max_idle_ms: int | None
    transaction_timeout_ms: int | None
    partitioner_class: Any
    partitioner_adaptive_partitioning_enable: bool | None
    partitioner_availability_timeout_ms: int | None
    partitioner_ignore_keys: bool | None
    key_serializer: SerializerSetting | None
    value_serializer: SerializerSetting | None
    interceptor_classes: Any


class ConsumerSettings(ClientSettings, total=False):
    """What `Consumer` takes."""

    fetch_min_bytes: int | None
    fetch_max_wait_ms: int | None
    fetch_max_bytes: int | None
    max_partition_fetch_bytes: int | None
    max_poll_records: int | None
    auto_offset_reset: Literal["latest", "earliest", "none"] | None
    isolation_level: Literal["read_uncommitted", "read_committed"] | None
    check_crcs: bool | None
    allow_auto_create_topics: bool | None
    group_id: str | None
    group_instance_id: str | None
    group_protocol: Literal["classic", "consumer"] | None
    group_remote_assignor: str | None
    partition_assignment_strategy: str | Assigns | Sequence[str | Assigns] | None
    session_timeout_ms: int | None
    heartbeat_interval_ms: int | None
    max_poll_interval_ms: int | None
    enable_auto_commit: bool | None
    auto_commit_interval_ms: int | None
    exclude_internal_topics: bool | None
    key_deserializer: DeserializerSetting | None
    value_deserializer: DeserializerSetting | None
