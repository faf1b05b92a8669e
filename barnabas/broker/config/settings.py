"""Settings of the broker, for editors and type checkers. Written by `./dev pages` from the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict


class BrokerSettings(TypedDict, total=False):
    """What `Broker` takes besides its own arguments."""

    node_id: int | None
    process_roles: str | Sequence[str] | None
    broker_rack: str | None
    listeners: str | Sequence[str] | None
    advertised_listeners: str | Sequence[str] | None
    controller_listener_names: str | Sequence[str] | None
    inter_broker_listener_name: str | None
    listener_security_protocol_map: str | Sequence[str] | None
    log_dir: str | None
    log_dirs: str | Sequence[str] | None
    connections_max_idle_ms: int | None
    max_connection_creation_rate: int | None
    max_connections: int | None
    max_connections_per_ip: int | None
    queued_max_request_bytes: int | None
    queued_max_requests: int | None
    request_timeout_ms: int | None
    socket_listen_backlog_size: int | None
    socket_receive_buffer_bytes: int | None
    socket_request_max_bytes: int | None
    socket_send_buffer_bytes: int | None
    auto_create_topics_enable: bool | None
    default_replication_factor: int | None
    delete_topic_enable: bool | None
    num_partitions: int | None
    unclean_leader_election_enable: bool | None
    fetch_max_bytes: int | None
    max_incremental_fetch_session_cache_slots: int | None
    delete_records_purgatory_purge_interval_requests: int | None
    fetch_purgatory_purge_interval_requests: int | None
    producer_purgatory_purge_interval_requests: int | None
    transaction_max_timeout_ms: int | None
    group_consumer_assignment_interval_ms: int | None
    group_consumer_assignors: str | Sequence[str] | None
    group_consumer_heartbeat_interval_ms: int | None
    group_consumer_max_assignment_interval_ms: int | None
    group_consumer_max_heartbeat_interval_ms: int | None
    group_consumer_max_session_timeout_ms: int | None
    group_consumer_max_size: int | None
    group_consumer_migration_policy: str | None
    group_consumer_min_assignment_interval_ms: int | None
    group_consumer_min_heartbeat_interval_ms: int | None
    group_consumer_min_session_timeout_ms: int | None
    group_consumer_regex_refresh_interval_ms: int | None
    group_consumer_session_timeout_ms: int | None
    group_coordinator_rebalance_protocols: str | Sequence[str] | None
    group_initial_rebalance_delay_ms: int | None
    group_max_session_timeout_ms: int | None
    group_max_size: int | None
    group_min_session_timeout_ms: int | None
    offset_metadata_max_bytes: int | None
    offsets_commit_timeout_ms: int | None
    offsets_load_buffer_size: int | None
    offsets_retention_check_interval_ms: int | None
    offsets_retention_minutes: int | None
    offsets_topic_compression_codec: int | None
    offsets_topic_num_partitions: int | None
    offsets_topic_replication_factor: int | None
    offsets_topic_segment_bytes: int | None
    auto_leader_rebalance_enable: bool | None
    broker_heartbeat_interval_ms: int | None
    broker_session_timeout_ms: int | None
    controller_quorum_bootstrap_servers: str | Sequence[str] | None
    controller_quorum_election_backoff_max_ms: int | None
    controller_quorum_election_timeout_ms: int | None
    controller_quorum_fetch_timeout_ms: int | None
    controller_quorum_request_timeout_ms: int | None
    controller_quorum_voters: str | Sequence[str] | None
    follower_replication_throttled_rate: int | None
    leader_imbalance_check_interval_seconds: int | None
    leader_replication_throttled_rate: int | None
    min_insync_replicas: int | None
    replica_fetch_wait_max_ms: int | None
    replica_high_watermark_checkpoint_interval_ms: int | None
    replica_lag_time_max_ms: int | None
    replica_selector_class: str | None
    replica_socket_timeout_ms: int | None
    unclean_leader_election_interval_ms: int | None
    compression_type: Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"] | None
    compression_gzip_level: int | None
    compression_lz4_level: int | None
    compression_zstd_level: int | None
    log_cleaner_backoff_ms: int | None
    log_cleaner_dedupe_buffer_size: int | None
    log_cleaner_delete_retention_ms: int | None
    log_cleaner_enable: bool | None
    log_cleaner_io_buffer_load_factor: float | None
    log_cleaner_max_compaction_lag_ms: int | None
    log_cleaner_min_cleanable_ratio: float | None
    log_cleaner_min_compaction_lag_ms: int | None
    log_cleanup_policy: str | Sequence[str] | None
    log_flush_interval_messages: int | None
    log_flush_interval_ms: int | None
    log_flush_offset_checkpoint_interval_ms: int | None
    log_flush_scheduler_interval_ms: int | None
    log_flush_start_offset_checkpoint_interval_ms: int | None
    log_index_interval_bytes: int | None
    log_index_size_max_bytes: int | None
    log_initial_task_delay_ms: int | None
    log_message_timestamp_after_max_ms: int | None
    log_message_timestamp_before_max_ms: int | None
    log_message_timestamp_type: Literal["CreateTime", "LogAppendTime"] | None
    log_preallocate: bool | None
    log_retention_bytes: int | None
    log_retention_check_interval_ms: int | None
    log_retention_hours: int | None
    log_retention_minutes: int | None
    log_retention_ms: int | None
    log_roll_hours: int | None
    log_roll_jitter_hours: int | None
    log_roll_jitter_ms: int | None
    log_roll_ms: int | None
    log_segment_bytes: int | None
    log_segment_delete_delay_ms: int | None
    message_max_bytes: int | None
    metadata_log_max_record_bytes_between_snapshots: int | None
    producer_id_expiration_check_interval_ms: int | None
    producer_id_expiration_ms: int | None
    barnabas_batch_bytes_max: int | None
    barnabas_batch_records_max: int | None
    barnabas_busy_poll_us: int | None
    barnabas_cluster_id: str | None
    barnabas_cluster_secret_file: str | None
    barnabas_connection_progress_bytes_per_second: int | None
    barnabas_connection_progress_ms: int | None
    barnabas_controller_mutation_burst: int | None
    barnabas_controller_mutation_rate: int | None
    barnabas_fetch_max_wait_ms: int | None
    barnabas_group_gather_ms: int | None
    barnabas_http: str | None
    barnabas_http_hosts: str | Sequence[str] | None
    barnabas_topics: str | None
    barnabas_validate_records: Literal["header", "full"] | None
