"""Which partition a record goes to: murmur2 of its key, or, without one, a partition to stay on for a while.

Keys: `(murmur2(key) & 0x7fffffff) % n` over all partitions, Kafka's published hash, so that any client puts a key where
ours does. No key: Kafka's built-in partitioner (KIP-480, KIP-794). It stays on one partition until `batch.size` bytes
were produced to it, so that batches fill; the next is drawn at random, a partition with a short queue being likelier.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

from barnabas.net.backoff import Random
from barnabas.net.topology import Cluster

Partitioner = Callable[[str, bytes | None, bytes | None, Cluster], int]
"""`partitioner.class`: a function of topic, serialised key and value, and cluster; returns the partition."""

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_CACHED_KEY_BYTES_MAX: Final = 64


def murmur2(data: bytes) -> int:
    """Kafka's murmur2 as a signed 32-bit number (`Utils.murmur2`)."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = (int.from_bytes(data[at : at + 4], "little") * _M) & _MASK
        h = ((h * _M) & _MASK) ^ (((k ^ (k >> 24)) * _M) & _MASK)
    if length > whole:
        h = ((h ^ int.from_bytes(data[whole:], "little")) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h & 0x80000000 else h


# Keys repeat, and hashing one costs a microsecond and more; long keys are not kept, so the cache stays below 2 MB.
_hash_of_short_key = lru_cache(maxsize=8192)(murmur2)


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a key among all `partition_count`, whether they have a leader or not."""
    hashed = _hash_of_short_key(key) if len(key) <= _CACHED_KEY_BYTES_MAX else murmur2(key)
    return (hashed & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """The partition a topic's keyless records stay on, and the odds of the next one."""

    __slots__ = ("_ids", "_odds", "_random", "_sticky_bytes", "partition", "produced_bytes")

    def __init__(self, sticky_bytes: int, random: Random) -> None:
        self.partition: int | None = None
        self._sticky_bytes = max(sticky_bytes, 1)
        self._random = random
        self.produced_bytes = 0
        self._ids: Sequence[int] = ()
        self._odds: list[int] | None = None

    def current(self, partition_count: int, available: Sequence[int]) -> int:
        """The partition to use now; drawn when there is none yet. `available` are those that have a leader."""
        if self.partition is None or self.partition >= partition_count:
            self.partition = self._draw(partition_count, available)
            self.produced_bytes = 0
        return self.partition

    def leave_if_gone(self, partition_count: int) -> None:
        """The topic has so many partitions now: one beyond them is left, and so is what was known of the load."""
        if self.partition is not None and self.partition >= partition_count:
            self.partition = None
        self._ids, self._odds = (), None

    def update_load(self, ids: Sequence[int], queue_lengths: Sequence[int]) -> None:
        """Learn how many batches wait per partition: weight = longest + 1 - queue. Equal queues mean equal odds."""
        if len(ids) < 2 or min(queue_lengths) == max(queue_lengths):
            self._ids, self._odds = ids, None
            return
        longest = max(queue_lengths) + 1
        self._ids = ids
        self._odds = list(accumulate(longest - length for length in queue_lengths))

    def produced(self, size: int, batch_complete: bool, partition_count: int, available: Sequence[int]) -> None:
        """Account for `size` bytes appended to the current partition, and switch when its time has come.

        After `batch.size` bytes the switch waits until the batch is complete, so that no half-filled batch is left
        behind, but not beyond twice that size.
        """
        self.produced_bytes += size
        if self.produced_bytes >= self._sticky_bytes and (
            batch_complete or self.produced_bytes >= 2 * self._sticky_bytes
        ):
            self.partition = self._draw(partition_count, available)
            self.produced_bytes = 0

    def _draw(self, partition_count: int, available: Sequence[int]) -> int:
        if self._odds:
            return self._ids[bisect_right(self._odds, int(self._random() * self._odds[-1]))]
        choices = self._ids or available
        if choices:
            return choices[int(self._random() * len(choices))]
        return int(self._random() * partition_count)


def partitioner(setting: Any) -> Partitioner | None:
    """The function behind `partitioner.class`: a class, an object with `partition`, or a function; None stays None."""
    if setting is None:
        return None
    made = setting() if isinstance(setting, type) else setting
    function: Partitioner = getattr(made, "partition", made)
    return function
