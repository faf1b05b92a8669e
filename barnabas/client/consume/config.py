"""The consumer's settings: Kafka's names and defaults (4.3.0), but for a larger `receive.buffer.bytes`.

Groups are not served yet: `group.id` and `enable.auto.commit=true` are refused rather than silently ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from barnabas.net.config import ClientConfig, at_least, one_of
from barnabas.net.errors import ConfigError


@dataclass(slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """Kafka's consumer settings and their defaults. Times in ms, sizes in bytes."""

    fetch_min_bytes: int = at_least(0, 1)
    """A broker answers once it has so many bytes."""
    fetch_max_wait_ms: int = at_least(0, 500)
    """It answers after so long even with fewer."""
    fetch_max_bytes: int = at_least(0, 50 * 1024 * 1024)
    """How much one answer may hold."""
    max_partition_fetch_bytes: int = at_least(0, 1024 * 1024)
    """How much of one partition it may hold; one larger batch still comes."""
    max_poll_records: int = at_least(1, 500)
    """How many records `poll` gives at once."""
    auto_offset_reset: str = one_of(("latest", "earliest", "none"), "latest")
    """Where to begin without a position, and after one that is gone; `none` is an error."""
    isolation_level: str = one_of(("read_uncommitted", "read_committed"), "read_uncommitted")
    """`read_committed` leaves out the records of transactions that are open or were aborted."""
    check_crcs: bool = True
    """Whether the sum of every batch is checked."""
    allow_auto_create_topics: bool = True
    """Whether asking for a topic may make it, where the broker does so."""
    # Not Kafka's 64 KiB: an answer that the system can hold whole wakes the loop seldom while another thread decodes,
    # which is worth a tenth in time and CPU. Systems that allow less give less.
    receive_buffer_bytes: int = at_least(-1, 4 * 1024 * 1024)
    """The socket's receive buffer; -1: as the system has it."""
    group_id: str = ""
    """Refused until there are consumer groups."""
    enable_auto_commit: bool = False
    """Refused, if true, until there are consumer groups."""
    key_deserializer: Any = field(default="bytes", metadata={"as_is": True})
    """`bytes`, `string`, `json`, `msgpack`, a function of bytes, or an object with `deserialize`."""
    value_deserializer: Any = field(default="bytes", metadata={"as_is": True})
    """As `key.deserializer`, for values."""

    def check(self, explicit: frozenset[str]) -> None:
        """Refuse what needs a consumer group."""
        ClientConfig.check(self, explicit)
        if self.group_id:
            raise ConfigError(
                "group.id: consumer groups are not supported yet; leave it out and name topics, or use assign()"
            )
        if self.enable_auto_commit:
            raise ConfigError("enable.auto.commit needs a consumer group, which is not supported yet: leave it out")
