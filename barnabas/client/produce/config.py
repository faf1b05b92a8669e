"""The producer's settings: Kafka's names, defaults and conflicts (4.3.0)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from barnabas.net.config import AS_IS, INT_MAX, MINUTE, SECOND, ClientConfig, at_least, between, dotted, one_of
from barnabas.net.errors import ConfigError
from barnabas.protocol.compression import LZ4_FAST


@dataclass(slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Kafka's producer settings and their defaults (4.3.0).

    `close.timeout.ms` is our own: how long a producer that is left by an exception, or by a program that ends without
    `close`, goes on delivering.
    """

    acks: int = -1
    """Who must have a record before it counts as written: `all` replicas in sync, the leader alone (1), nobody
    (0)."""
    enable_idempotence: bool = True
    """No record twice and none out of order, however often it is sent; given up quietly where `acks`, `retries`
    or the requests in flight rule it out."""
    batch_size: int = at_least(0, 16384)
    """How many bytes a batch of one partition may hold."""
    linger_ms: int = at_least(0, 5)
    """How long a batch waits for more records."""
    buffer_memory: int = at_least(0, 32 * 1024 * 1024)
    """Bytes of records on their way; `send` waits where it is used up."""
    max_block_ms: int = at_least(0, MINUTE)
    """How long `send` waits for memory or for the topic."""
    close_timeout_ms: int = at_least(0, 30 * SECOND)
    """How long a producer goes on delivering that an exception leaves, or a program that ends without `close`.
    Our own."""
    max_request_size: int = at_least(0, 1024 * 1024)
    """The largest record, and the largest request."""
    retries: int = at_least(0, INT_MAX)
    """How often a batch is sent again; `delivery.timeout.ms` bounds it in time."""
    delivery_timeout_ms: int = at_least(0, 2 * MINUTE)
    """How long after `send` a record has its outcome at the latest."""
    compression_type: str = one_of(("none", "gzip", "snappy", "lz4", "zstd"), "none")
    """How batches are compressed."""
    compression_gzip_level: int = between(1, 9, -1, -1)
    """The level of gzip; -1 is its own."""
    compression_lz4_level: int = between(1, 17, LZ4_FAST)
    """The level of lz4."""
    compression_zstd_level: int = between(-131_072, 22, 3)
    """The level of zstd."""
    metadata_max_idle_ms: int = at_least(5000, 5 * MINUTE)
    """A topic nothing was sent to for so long is no longer asked for."""
    transaction_timeout_ms: int = at_least(1, MINUTE)
    """Told to the broker; without effect until there are transactions."""
    partitioner_class: Any = field(default=None, metadata=AS_IS)
    """A function of topic, key, value (bytes) and cluster that returns a partition; unset: Kafka's own choice."""
    partitioner_adaptive_partitioning_enable: bool = True
    """Records without a key go more often to brokers that answer faster."""
    partitioner_availability_timeout_ms: int = at_least(0, 0)
    """A broker that took nothing for so long gets no records without a key; 0: never."""
    partitioner_ignore_keys: bool = False
    """Records with a key go anywhere, too."""
    key_serializer: Any = field(default="bytes", metadata=AS_IS)
    """`bytes`, `string`, `json`, `msgpack`, a function to bytes, or an object with `serialize`."""
    value_serializer: Any = field(default="bytes", metadata=AS_IS)
    """As `key.serializer`, for values."""
    interceptor_classes: Any = field(default=(), metadata=AS_IS)
    """Objects (or classes) that see every record before it is serialised, and every outcome."""

    @property
    def compression_level(self) -> int | None:
        """The level for `compression.type`; None is the codec's own (KIP-390)."""
        level: int | None = getattr(self, f"compression_{self.compression_type}_level", None)
        return None if self.compression_type == "gzip" and level == -1 else level

    def check(self, explicit: frozenset[str]) -> None:
        """Kafka's rules between acks, retries, in-flight requests, idempotence and the delivery timeout."""
        # Not super(): slots dataclasses are rebuilt by the decorator, and the zero-argument form would miss.
        ClientConfig.check(self, explicit)
        self._check_idempotence(explicit)
        if self.buffer_memory < self.batch_size:  # Kafka's refuses every send then
            raise ConfigError(
                f"buffer.memory ({self.buffer_memory}) must hold a batch at least, batch.size is {self.batch_size}: "
                "raise it or lower that"
            )
        least = min(self.linger_ms + self.request_timeout_ms, INT_MAX)
        if self.delivery_timeout_ms < least:
            if "delivery_timeout_ms" in explicit:
                raise ConfigError(
                    f"delivery.timeout.ms ({self.delivery_timeout_ms}) must be at least linger.ms + request.timeout.ms "
                    f"({least}): raise it or lower those"
                )
            self.delivery_timeout_ms = least

    def _check_idempotence(self, explicit: frozenset[str]) -> None:
        conflicts = (
            ("acks", self.acks != -1, "acks=all"),
            ("retries", self.retries == 0, "retries > 0"),
            (
                "max_in_flight_requests_per_connection",
                self.max_in_flight_requests_per_connection > 5,
                "max.in.flight.requests.per.connection <= 5",
            ),
        )
        for name, conflict, need in conflicts:
            if not (conflict and self.enable_idempotence):
                continue
            if "enable_idempotence" in explicit:
                raise ConfigError(
                    f"enable.idempotence needs {need}, but {dotted(name)} says otherwise: drop one of them"
                )
            self.enable_idempotence = False
