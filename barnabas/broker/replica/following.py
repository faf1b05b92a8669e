"""Every partition of this broker that follows another broker's, by leader. Source: `ReplicaFetcherManager`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from barnabas.broker.ports import Peers
from barnabas.broker.replica.fetcher import Fetcher
from barnabas.broker.replica.follower import Follower
from barnabas.broker.replica.partition import Partition
from barnabas.broker.replica.shared import Shared
from barnabas.protocol.ids import NO_LEADER, TopicPartition


class Following:
    """One fetcher for each leader that somebody follows."""

    __slots__ = ("_fetchers", "_peers", "_shared")

    def __init__(self, shared: Shared, peers: Peers) -> None:
        self._shared = shared
        self._peers = peers
        self._fetchers: dict[int, Fetcher] = {}

    def follow(self, partition: Partition, now_ms: int) -> None:
        """Follow the leader that the partition has now. One that follows him in this epoch already goes on."""
        key = partition.topic_partition
        fetcher = self._fetchers.get(partition.leader_id)
        old = None if fetcher is None else fetcher.followers.get(key)
        if old is not None and old.partition is partition and old.leader_epoch == partition.leader_epoch:
            return
        self.end(key)
        if partition.leader_id == NO_LEADER:
            return
        fetcher = self._fetchers.get(partition.leader_id)
        if fetcher is None:
            fetcher = self._fetchers[partition.leader_id] = Fetcher(partition.leader_id, self._shared, self._peers)
        follower = fetcher.followers[key] = Follower(partition, fetcher.wake)
        follower.begin(now_ms)
        fetcher.wake()

    def end(self, key: TopicPartition) -> None:
        """Follow nobody with this partition: it leads, has no leader, or is here no longer."""
        for leader_id, fetcher in self._fetchers.items():
            follower = fetcher.followers.pop(key, None)
            if follower is not None:
                follower.end()
                if not fetcher.followers:
                    del self._fetchers[leader_id]
                return

    def lags(self) -> Iterator[tuple[int, TopicPartition, int]]:
        """Whom each partition follows, and by how many committed records it is behind (-1: nobody has said yet)."""
        for leader_id, fetcher in self._fetchers.items():
            for key, follower in fetcher.followers.items():
                yield leader_id, key, follower.lag

    def fetch_rate_min(self, now_ms: int) -> float:
        """Requests per second, a minute's average, of the leader that is asked least often; 0 without any."""
        return min((one.requests.read(now_ms)["one_minute_rate"] for one in self._fetchers.values()), default=0.0)

    def snapshot(self, first: int = 0, end: int | None = None) -> list[dict[str, Any]]:
        """Where each is, as plain values: those from `first` to before `end`."""
        everyone = chain.from_iterable(fetcher.followers.values() for fetcher in self._fetchers.values())
        return [one.snapshot() for one in islice(everyone, first, end)]
