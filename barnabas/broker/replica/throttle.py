"""How much a replica that is out of sync may be sent, or may fetch, in a second (KIP-73).

So that a partition that moves leaves room for those that stay. Two rates of the broker, one for each side
(`leader.replication.throttled.rate`, `follower.replication.throttled.rate`, bytes a second), hold for the partitions
that a topic's `leader.replication.throttled.replicas` and `follower.replication.throttled.replicas` list for this
broker, as `partition:broker`, or `*` for all. Who is in sync is never held back: acks=all waits for him.

A bucket of one second's bytes: what is let through while there is any may owe, and the next waits until that is paid.
Apache Kafka goes by the mean of eleven windows of a second, which comes to the same but for the first seconds.

Source: `ReplicationQuotaManager`, `ReplicaManager.shouldLeaderThrottle`, `ReplicaFetcherThread` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from barnabas.broker.config.keys import LONG_MAX
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.replica.partition import Partition

LEADER: Final = "leader.replication.throttled.replicas"
FOLLOWER: Final = "follower.replication.throttled.replicas"


class Throttle:
    """One side's. Times are monotonic ms.

    Args:
        rate: bytes a second; `LONG_MAX` for no bound.
        listed: the setting of a topic that lists whom it holds for.
        broker_id: this broker.
        overrides: the settings given to a topic.
    """

    __slots__ = ("_at_ms", "_broker_id", "_left", "_listed", "_overrides", "_rate")

    def __init__(
        self,
        rate: Callable[[], int],
        listed: str,
        broker_id: int,
        overrides: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._rate = rate
        self._listed = listed
        self._broker_id = broker_id
        self._overrides = overrides
        self._left = 0.0
        self._at_ms: int | None = None

    @property
    def on(self) -> bool:
        """Whether there is a bound at all."""
        return self._rate() != LONG_MAX

    def holds_for(self, key: TopicPartition) -> bool:
        """Whether a partition is listed."""
        listed = "".join(self._overrides(key.topic).get(self._listed, "").split())
        return listed == "*" or f",{key.partition}:{self._broker_id}," in f",{listed},"

    def holds_back(self, led: Partition, broker_id: int) -> bool:
        """Whether it holds for a follower of a partition: he is out of sync, and it is listed."""
        return broker_id not in led.isr.committed and self.holds_for(led.topic_partition)

    def exceeded(self, now_ms: int) -> bool:
        """Whether no more may pass now."""
        return self.on and self._refilled(now_ms) <= 0

    def passed(self, size: int, now_ms: int) -> None:
        """So many bytes have passed."""
        if self.on:
            self._left = self._refilled(now_ms) - size

    def again_ms(self, now_ms: int) -> int:
        """When some may pass again; never less than a ms away, for whoever asks has been refused."""
        rate = self._rate()
        if not rate:
            return now_ms + 1000
        return now_ms + max(1, int(-self._left * 1000 / rate) + 1)

    def _refilled(self, now_ms: int) -> float:
        rate = float(self._rate())
        if self._at_ms is None:
            self._left = rate
        else:
            self._left = min(self._left + (now_ms - self._at_ms) * rate / 1000, rate)
        self._at_ms = now_ms
        return self._left
