"""The consumer's settings: Kafka's names and defaults (4.3.0), but for a larger `receive.buffer.bytes`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.net.config import MINUTE, SECOND, ClientConfig, at_least, dotted, one_of
from barnabas.net.errors import ConfigError

_OF_OTHER_PROTOCOL: Final = {
    "classic": ("group_remote_assignor",),
    "consumer": ("partition_assignment_strategy", "session_timeout_ms", "heartbeat_interval_ms"),
}
"""What each protocol leaves to the other; Kafka's consumer refuses it, too. The broker sets a group's times."""


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
    """The consumer group; without one, a consumer reads all partitions and commits nothing."""
    group_instance_id: str = ""
    """Makes it a static member: one that comes back within `session.timeout.ms` has its partitions still."""
    group_protocol: str = one_of(("classic", "consumer"), "classic")
    """`classic`, where a member shares out; or `consumer` (KIP-848), where the broker does, and says how often members
    let themselves be heard."""
    group_remote_assignor: str = ""
    """How the broker shares out, `uniform` or `range`; unset: its own choice. Only with `group.protocol=consumer`."""
    partition_assignment_strategy: tuple[Any, ...] = ("range", "cooperative-sticky")
    """How partitions are shared out, the wished-for way first: `range`, `roundrobin`, `sticky`, `cooperative-sticky`,
    or a `PartitionAssignor`; all members must know one in common. Rebalances are cooperative where all of these are."""
    session_timeout_ms: int = at_least(1, 45 * SECOND)
    """A member that was not heard for so long is taken for dead."""
    heartbeat_interval_ms: int = at_least(1, 3 * SECOND)
    """How often a member lets itself be heard, in the background."""
    max_poll_interval_ms: int = at_least(1, 5 * MINUTE)
    """A member that asked for nothing for so long leaves its group, and says so; a rebalance waits so long for it."""
    enable_auto_commit: bool = True
    """Whether what was handed out is committed in the background, and before partitions are given up; false without a
    group."""
    auto_commit_interval_ms: int = at_least(0, 5 * SECOND)
    """How often it is committed."""
    exclude_internal_topics: bool = True
    """Whether a pattern leaves out topics like `__consumer_offsets`."""
    key_deserializer: Any = field(default="bytes", metadata={"as_is": True})
    """`bytes`, `string`, `json`, `msgpack`, a function of bytes, or an object with `deserialize`."""
    value_deserializer: Any = field(default="bytes", metadata={"as_is": True})
    """As `key.deserializer`, for values."""

    def check(self, explicit: frozenset[str]) -> None:
        """Refuse what contradicts itself, and what needs a consumer group where there is none."""
        ClientConfig.check(self, explicit)
        for name in _OF_OTHER_PROTOCOL[self.group_protocol]:
            if name in explicit:
                raise ConfigError(
                    f"{dotted(name)} has no meaning with group.protocol={self.group_protocol}: leave it out"
                )
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            told = f"heartbeat.interval.ms: {self.heartbeat_interval_ms} must be below session.timeout.ms"
            raise ConfigError(f"{told} ({self.session_timeout_ms}); a third of it lets two be lost")
        if "partition_assignment_strategy" in explicit:
            from barnabas.client.consume.group.assignors import assignors_of  # not loaded for those that need none

            assignors_of(self.partition_assignment_strategy)
        if self.group_id:
            return
        for name in ("enable_auto_commit", "group_instance_id"):
            if name in explicit and getattr(self, name):
                raise ConfigError(f"{dotted(name)} needs a consumer group: set group.id, or leave it out")
        self.enable_auto_commit = False
