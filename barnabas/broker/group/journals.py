"""What a shard writes to: the log of its partition, and nothing once it is left."""

from __future__ import annotations

from typing import Protocol

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import Buffer


class Journal(Protocol):
    """The partition's log, as its leader writes it."""

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch it takes."""

    @property
    def high_watermark(self) -> int:
        """What lies below is committed."""

    @property
    def commits_at_once(self) -> bool:
        """Whether what is appended is committed with that: nothing waits for replicas or a sync."""

    def write(self, batch: Buffer, wall_ms: int, now_ms: int) -> int:
        """Append a batch; returns the offset after it.

        Raises:
            KafkaError: nothing was appended.
        """

    def listen(self, listens: bool) -> None:
        """Have the shard told when the high watermark rises (`Shard.committed`), or no more."""

    def give_up(self, offset: int) -> bool:
        """What is at `offset` is damaged here, or cannot be read; whether a replica in sync is to lead in its stead."""


class Closed:
    """The journal of a shard that is left. Another one, here or elsewhere, writes that log, and reads it no more."""

    high_watermark = 0
    commits_at_once = False

    def __init__(self, batch_bytes_max: int) -> None:
        self.batch_bytes_max = batch_bytes_max

    def write(self, batch: Buffer, wall_ms: int, now_ms: int) -> int:
        """Refuse it.

        Raises:
            KafkaError: always.
        """
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "its groups are led here no longer")

    def listen(self, listens: bool) -> None:
        """There is nothing to be told of."""

    def give_up(self, offset: int) -> bool:
        """Others lead it already."""
        return False
