"""What a leader knows of a follower: only what its fetches told. Source: `Replica`, `ReplicaState` of Apache Kafka."""

from __future__ import annotations

from typing import Final

from barnabas.broker.log.types import OffsetMetadata
from barnabas.protocol.errors import ErrorCode, KafkaError

UNKNOWN: Final = OffsetMetadata(-1)
NEVER_MS: Final = -(2**62)


class RemoteReplica:
    """A follower, seen from the leader. Offsets are -1 while unknown, times are monotonic ms.

    "Never" lies far before any time, for a monotonic clock may begin at 0.
    A follower has what lies below its fetch offset: its `end` moves with its *next* fetch.
    """

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "end",
        "given",
        "last_caught_up_ms",
        "last_fetch_leader_end",
        "last_fetch_ms",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.end = UNKNOWN
        self.given = -1
        """Where the records began that it was given last; -1 for none."""
        self.log_start_offset = -1
        self.last_fetch_ms = NEVER_MS
        self.last_fetch_leader_end = -1
        self.last_caught_up_ms = NEVER_MS
        self.broker_epoch = -1

    def reset(self, now_ms: int, leader_end: int, *, new_leader: bool, in_sync: bool) -> None:
        """A leader epoch begins. A new leader knows nothing yet; one that stays keeps what it learned."""
        self.given = -1
        if new_leader:
            self.end = UNKNOWN
            self.log_start_offset = -1
            self.last_fetch_ms = NEVER_MS
            self.last_fetch_leader_end = -1
            self.broker_epoch = -1
        else:
            self.last_fetch_ms = now_ms if in_sync else NEVER_MS
            self.last_fetch_leader_end = leader_end
        self.last_caught_up_ms = now_ms if in_sync else NEVER_MS

    def fetched(
        self,
        start: OffsetMetadata,
        log_start_offset: int,
        now_ms: int,
        leader_end: int,
        epoch: int,
        registered: int,
    ) -> None:
        """A fetch from `start` was read while the leader's end was `leader_end`.

        Caught up now, if it asks for the leader's end; caught up when it last fetched, if it asks for what was the
        end then (so a follower under steady load is in sync though it never reaches the moving end).

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, a fetch of an older incarnation of that broker than has fetched before,
                or is `registered`. What it has, the present one may lack.
        """
        known = max(self.broker_epoch, registered)
        if epoch != -1 and known > epoch:
            detail = f"broker {self.broker_id} fetched with epoch {epoch}, but {known} is known"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, detail)
        if start.offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif start.offset >= self.last_fetch_leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end = start
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end = max(leader_end, self.last_fetch_leader_end)
        self.last_fetch_ms = now_ms
        self.broker_epoch = epoch

    def caught_up(self, leader_end: int, now_ms: int, lag_ms_max: int) -> bool:
        """Whether it is at the leader's end, however long idle, or was so within `lag_ms_max`."""
        return self.end.offset == leader_end or now_ms - self.last_caught_up_ms <= lag_ms_max
