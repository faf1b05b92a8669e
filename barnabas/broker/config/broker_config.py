"""The broker's settings: names, types, defaults and update modes of Apache Kafka 4.3, and our own `barnabas.*`.

A setting that Kafka has and that is not listed here has no effect on this broker (`known.py` names them all).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from barnabas.broker.config.keys import (
    LONG_MAX,
    Kind,
    Update,
    all_of,
    any_case,
    any_of,
    at_least,
    between,
    boolean,
    double,
    identifier,
    integer,
    long,
    one_of,
    optional,
    setting,
    some_of,
    string,
    words,
)

_DYNAMIC = Update.CLUSTER_WIDE
_POLICIES = ("bidirectional", "disabled", "downgrade", "upgrade")
_PROTOCOLS = ("classic", "consumer", "share", "streams")
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_SELECTORS = one_of("org.apache.kafka.common.replica.LeaderSelector", RACK_AWARE)
_CODECS = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")


@dataclass(slots=True)
class BrokerConfig:
    """All settings of one broker. Dynamic ones (KIP-226) are changed in place by the core.

    Construction checks nothing (tests use small values at will); what comes from outside goes through
    `config.load`, which does. Times are ms and sizes bytes, unless the name says otherwise.
    """

    # Who and where.
    node_id: int = integer(1, at_least(0))
    process_roles: tuple[str, ...] = words((), any_of("broker", "controller"))
    broker_rack: str | None = optional(Kind.STRING)
    listeners: tuple[str, ...] = words(("PLAINTEXT://127.0.0.1:9092",))
    advertised_listeners: tuple[str, ...] = words(())
    controller_listener_names: tuple[str, ...] = words(())
    inter_broker_listener_name: str | None = optional(Kind.STRING)
    listener_security_protocol_map: tuple[str, ...] = words(
        ("SASL_SSL:SASL_SSL", "PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT")
    )
    log_dir: str = string("")
    log_dirs: tuple[str, ...] = words(())

    # Connections.
    connections_max_idle_ms: int = long(600_000)
    max_connection_creation_rate: int = integer(1000, at_least(1), _DYNAMIC)
    max_connections: int = integer(10_000, at_least(1), _DYNAMIC)
    max_connections_per_ip: int = integer(5000, at_least(1), _DYNAMIC)
    queued_max_request_bytes: int = long(167_772_160)
    queued_max_requests: int = integer(500, at_least(1))
    request_timeout_ms: int = integer(30_000)
    socket_listen_backlog_size: int = integer(1024, at_least(1))  # Kafka: 50, and a thread that does nothing but accept
    socket_receive_buffer_bytes: int = integer(102_400)
    socket_request_max_bytes: int = integer(104_857_600, at_least(1))
    socket_send_buffer_bytes: int = integer(102_400)

    # Topics.
    auto_create_topics_enable: bool = boolean(True)
    default_replication_factor: int = integer(1)
    delete_topic_enable: bool = boolean(True)
    num_partitions: int = integer(1, at_least(1))
    unclean_leader_election_enable: bool = boolean(False, _DYNAMIC)

    # Requests.
    fetch_max_bytes: int = integer(57_671_680, at_least(1024))
    max_incremental_fetch_session_cache_slots: int = integer(1000, at_least(0))
    delete_records_purgatory_purge_interval_requests: int = integer(1)
    fetch_purgatory_purge_interval_requests: int = integer(1000)
    producer_purgatory_purge_interval_requests: int = integer(1000)
    transaction_max_timeout_ms: int = integer(900_000, at_least(1))

    # Groups, and what they commit.
    group_consumer_assignment_interval_ms: int = integer(1000, at_least(0), _DYNAMIC)
    group_consumer_assignors: tuple[str, ...] = words(("uniform", "range"), some_of("uniform", "range"))
    group_consumer_heartbeat_interval_ms: int = integer(5000, at_least(1))
    group_consumer_max_assignment_interval_ms: int = integer(15_000, at_least(0))
    group_consumer_max_heartbeat_interval_ms: int = integer(15_000, at_least(1))
    group_consumer_max_session_timeout_ms: int = integer(60_000, at_least(1))
    group_consumer_max_size: int = integer(1000, at_least(1))
    group_consumer_migration_policy: str = string("bidirectional", any_case(*_POLICIES))
    group_consumer_min_assignment_interval_ms: int = integer(0, at_least(0))
    group_consumer_min_heartbeat_interval_ms: int = integer(5000, at_least(1))
    group_consumer_min_session_timeout_ms: int = integer(45_000, at_least(1))
    group_consumer_regex_refresh_interval_ms: int = integer(600_000, at_least(10_000))
    group_consumer_session_timeout_ms: int = integer(45_000, at_least(1))
    group_coordinator_rebalance_protocols: tuple[str, ...] = words(_PROTOCOLS[:2], some_of(*_PROTOCOLS))
    group_initial_rebalance_delay_ms: int = integer(3000)
    group_max_session_timeout_ms: int = integer(1_800_000)
    group_max_size: int = integer(1000, at_least(1))
    group_min_session_timeout_ms: int = integer(6000)
    offset_metadata_max_bytes: int = integer(4096)
    offsets_commit_timeout_ms: int = integer(5000, at_least(1))
    offsets_load_buffer_size: int = integer(5_242_880, at_least(1))
    offsets_retention_check_interval_ms: int = long(600_000, at_least(1))
    offsets_retention_minutes: int = integer(10_080, at_least(1))
    offsets_topic_compression_codec: int = integer(0, between(0, 4))
    offsets_topic_num_partitions: int = integer(50, at_least(1))
    offsets_topic_replication_factor: int = setting(Kind.SHORT, 3, check=at_least(1))
    offsets_topic_segment_bytes: int = integer(104_857_600, at_least(1))

    # Replication.
    auto_leader_rebalance_enable: bool = boolean(True)
    broker_heartbeat_interval_ms: int = integer(2000, at_least(1))
    broker_session_timeout_ms: int = integer(9000, at_least(1))
    controller_quorum_bootstrap_servers: tuple[str, ...] = words(())
    controller_quorum_election_backoff_max_ms: int = integer(1000, at_least(1))
    controller_quorum_election_timeout_ms: int = integer(1000, at_least(1))
    controller_quorum_fetch_timeout_ms: int = integer(2000, at_least(1))
    controller_quorum_request_timeout_ms: int = integer(2000, at_least(1))
    controller_quorum_voters: tuple[str, ...] = words(())
    follower_replication_throttled_rate: int = long(LONG_MAX, at_least(0), Update.PER_BROKER)
    leader_imbalance_check_interval_seconds: int = long(300, at_least(1))
    leader_replication_throttled_rate: int = long(LONG_MAX, at_least(0), Update.PER_BROKER)
    min_insync_replicas: int = integer(1, at_least(1), _DYNAMIC)
    replica_fetch_wait_max_ms: int = integer(500, at_least(1))
    replica_high_watermark_checkpoint_interval_ms: int = long(5000)
    replica_lag_time_max_ms: int = long(30_000)
    replica_selector_class: str | None = optional(
        Kind.STRING, lambda name: _SELECTORS(name)
    )  # too long a list for a type
    replica_socket_timeout_ms: int = integer(30_000, at_least(1))
    unclean_leader_election_interval_ms: int = long(300_000, at_least(1))

    # The log.
    compression_type: str = string("producer", one_of(*_CODECS), _DYNAMIC)
    compression_gzip_level: int = integer(
        -1, lambda level: None if level == -1 or 1 <= level <= 9 else "out of range; write 1 to 9, or -1", _DYNAMIC
    )
    compression_lz4_level: int = integer(9, between(1, 17), _DYNAMIC)
    compression_zstd_level: int = integer(3, between(-131_072, 22), _DYNAMIC)
    log_cleaner_backoff_ms: int = long(15_000, at_least(0), _DYNAMIC)
    log_cleaner_dedupe_buffer_size: int = long(134_217_728, None, _DYNAMIC)
    log_cleaner_delete_retention_ms: int = long(86_400_000, at_least(0), _DYNAMIC)
    log_cleaner_enable: bool = boolean(True)
    log_cleaner_io_buffer_load_factor: float = double(0.9, None, _DYNAMIC)
    log_cleaner_max_compaction_lag_ms: int = long(LONG_MAX, at_least(1), _DYNAMIC)
    log_cleaner_min_cleanable_ratio: float = double(0.5, between(0, 1), _DYNAMIC)
    log_cleaner_min_compaction_lag_ms: int = long(0, at_least(0), _DYNAMIC)
    log_cleanup_policy: tuple[str, ...] = words(("delete",), all_of("compact", "delete"), _DYNAMIC)
    log_flush_interval_messages: int = long(LONG_MAX, at_least(1), _DYNAMIC)
    log_flush_interval_ms: int | None = optional(Kind.LONG, None, _DYNAMIC)
    log_flush_offset_checkpoint_interval_ms: int = integer(60_000, at_least(0))
    log_flush_scheduler_interval_ms: int = long(LONG_MAX)
    log_flush_start_offset_checkpoint_interval_ms: int = integer(60_000, at_least(0))
    log_index_interval_bytes: int = integer(4096, at_least(0), _DYNAMIC)
    log_index_size_max_bytes: int = integer(10_485_760, at_least(4), _DYNAMIC)
    log_initial_task_delay_ms: int = long(30_000, at_least(0))
    log_message_timestamp_after_max_ms: int = long(3_600_000, at_least(0), _DYNAMIC)
    log_message_timestamp_before_max_ms: int = long(LONG_MAX, at_least(0), _DYNAMIC)
    log_message_timestamp_type: str = string("CreateTime", one_of("CreateTime", "LogAppendTime"), _DYNAMIC)
    log_preallocate: bool = boolean(False, _DYNAMIC)
    log_retention_bytes: int = long(-1, None, _DYNAMIC)
    log_retention_check_interval_ms: int = long(300_000, at_least(1))
    log_retention_hours: int = integer(168)
    log_retention_minutes: int | None = optional(Kind.INT)
    log_retention_ms: int | None = optional(Kind.LONG, None, _DYNAMIC)
    log_roll_hours: int = integer(168, at_least(1))
    log_roll_jitter_hours: int = integer(0, at_least(0))
    log_roll_jitter_ms: int | None = optional(Kind.LONG, None, _DYNAMIC)
    log_roll_ms: int | None = optional(Kind.LONG, None, _DYNAMIC)
    log_segment_bytes: int = integer(1_073_741_824, at_least(1_048_576), _DYNAMIC)
    log_segment_delete_delay_ms: int = long(60_000, at_least(0), _DYNAMIC)
    message_max_bytes: int = integer(1_048_588, at_least(0), _DYNAMIC)
    metadata_log_max_record_bytes_between_snapshots: int = long(20_971_520, at_least(1))
    producer_id_expiration_check_interval_ms: int = integer(600_000, at_least(1))
    producer_id_expiration_ms: int = integer(86_400_000, at_least(1), _DYNAMIC)

    # Our own.
    barnabas_batch_bytes_max: int = integer(134_217_728, at_least(1_048_576))
    barnabas_batch_records_max: int = integer(1_000_000, at_least(1))
    barnabas_busy_poll_us: int = integer(50, between(0, 1000))
    barnabas_cluster_id: str = string("", identifier(255))
    barnabas_cluster_secret_file: str = setting(Kind.STRING, "", sensitive=True)
    barnabas_connection_progress_bytes_per_second: int = integer(256, at_least(0))
    barnabas_connection_progress_ms: int = integer(30_000, at_least(1))
    barnabas_controller_mutation_burst: int = integer(20_000, at_least(1), _DYNAMIC)
    barnabas_controller_mutation_rate: int = integer(100, at_least(1), _DYNAMIC)
    barnabas_fetch_max_wait_ms: int = integer(300_000, at_least(0), _DYNAMIC)
    barnabas_group_gather_ms: int = integer(1, between(0, 1000))
    barnabas_http: str = string("shared")
    barnabas_http_hosts: tuple[str, ...] = words(())
    barnabas_topics: str = string("")
    barnabas_validate_records: str = string("header", one_of("header", "full"))

    @property
    def retention_ms(self) -> int:
        """What `retention.ms` defaults to: ms before minutes before hours; negative means for ever (-1)."""
        if self.log_retention_ms is not None:
            return max(self.log_retention_ms, -1)
        minutes = self.log_retention_hours * 60 if self.log_retention_minutes is None else self.log_retention_minutes
        return minutes * 60_000 if minutes >= 0 else -1

    @property
    def roll_ms(self) -> int:
        """What `segment.ms` defaults to."""
        return self.log_roll_hours * 3_600_000 if self.log_roll_ms is None else self.log_roll_ms

    @property
    def roll_jitter_ms(self) -> int:
        """What `segment.jitter.ms` defaults to."""
        return self.log_roll_jitter_hours * 3_600_000 if self.log_roll_jitter_ms is None else self.log_roll_jitter_ms

    @property
    def flush_ms(self) -> int:
        """What `flush.ms` defaults to."""
        return (
            self.log_flush_scheduler_interval_ms if self.log_flush_interval_ms is None else self.log_flush_interval_ms
        )

    @property
    def data_dirs(self) -> tuple[str, ...]:
        """The data directories: `log.dirs`, else `log.dir`; empty when nobody named one."""
        return self.log_dirs or ((self.log_dir,) if self.log_dir else ())
