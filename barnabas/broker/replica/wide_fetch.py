"""A fetch of many partitions that waits: an event on one of them looks at that one alone.

`DelayedFetch` looks at all its partitions whenever one of them has news, which is Kafka's way: a fetch of 10,000
partitions takes 5 ms of every append to any of them. Here what counts towards min_bytes is remembered by partition, and
the sum with it. The cases are the same, for nothing of a partition changes without an event of its own.

Once it is answered it leaves all its lists, and lets go of what it remembers, in slices. Kafka's stays in them until an
event on each or the purge, which waits for a thousand: two followers of 500 idle partitions left 1.6 MB a second so for
four minutes, and one step let go of all of it. So PurgatorySize counts no such fetch that is over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from barnabas.broker.jobs import Job, at_once
from barnabas.broker.log.types import OffsetMetadata
from barnabas.broker.ports import NotYet
from barnabas.broker.replica.delayed_fetch import DelayedFetch
from barnabas.broker.replica.hosted import HostedPartitions
from barnabas.broker.replica.types import FetchInfo, FetchParams
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import TopicPartition

LEFT_AT_ONCE_MAX: Final = 1000
"""Lists that one step leaves: about 0.5 µs each, with what is let go of."""

logger = logging.getLogger(__name__)


class WideFetch(DelayedFetch):
    """As `DelayedFetch`, for `MANY_KEYS` partitions and more.

    `_counted` has the partitions with bytes to read; None before all were looked at.
    """

    __slots__ = ("_asked", "_bytes", "_counted")

    def __init__(
        self,
        timeout_ms: int,
        params: FetchParams,
        starts: list[tuple[TopicPartition, FetchInfo, OffsetMetadata]],
        hosted: HostedPartitions,
        answer: Callable[[int], None],
    ) -> None:
        DelayedFetch.__init__(self, timeout_ms, params, [], hosted, answer)
        self._asked = {key: (info, start) for key, info, start in starts}
        self._counted: dict[TopicPartition, int] | None = None
        self._bytes = 0

    def begin(self) -> None:
        """Its partitions are looked at one by one, as they are watched (`try_keys`)."""
        self._counted = {}

    def on_complete(self, now_ms: int) -> None:
        """As `DelayedFetch`; then it is over, and nothing of it stays."""
        try:
            DelayedFetch.on_complete(self, now_ms)
        finally:
            if len(self.keys) > LEFT_AT_ONCE_MAX:
                self._hosted.shared.run(self._go(), _gone)
            else:
                at_once(self._go())

    def _go(self) -> Job[None]:
        if self.purgatory is None:
            return
        asked = self._asked
        for _ in self.purgatory.leave_in_steps(self, LEFT_AT_ONCE_MAX):
            for _ in range(min(LEFT_AT_ONCE_MAX, len(asked))):
                asked.popitem()
            yield None

    def try_keys(self, keys: Sequence[TopicPartition], now_ms: int) -> bool:
        """Look at some partitions; not while a read is waited for, after which all are looked at."""
        for key in keys:
            if self._counted is None:
                return False
            if self.try_key(key, now_ms):
                return True
        return False

    def try_complete(self, now_ms: int) -> bool:
        """Look at all partitions, once: from then on events tell of each (`try_key`)."""
        if self._counted is not None:
            return False
        if self._params.replica_id >= 0:
            self._params.held = self._hosted.shared.leader_throttle.exceeded(now_ms)
        self._bytes, counted = 0, {}
        for key in self._asked:
            try:
                available = self._look(key)
            except NotYet as pending:
                self._look_again(key, pending.token)
                return False
            if available is None:
                return self.force_complete(now_ms)
            if available:
                counted[key] = available
                self._bytes += available
        self._counted = counted
        return self._bytes >= self._params.min_bytes and self.force_complete(now_ms)

    def try_key(self, key: TopicPartition, now_ms: int) -> bool:
        """There is news of one partition."""
        counted = self._counted
        if counted is None:
            return self.try_complete(now_ms)
        try:
            available = self._look(key)
        except NotYet as pending:
            self._counted = None  # who waits for one read must not miss another: all are looked at again
            self._look_again(key, pending.token)
            return False
        if available is None:
            return self.force_complete(now_ms)
        self._bytes += available - counted.pop(key, 0)
        if available:
            counted[key] = available
        return self._bytes >= self._params.min_bytes and self.force_complete(now_ms)

    def _look(self, key: TopicPartition) -> int | None:
        try:
            return self._available(self._hosted.get(key), *self._asked[key])
        except KafkaError:  # cases A to E
            return None

    def _offsets(self) -> Iterable[tuple[TopicPartition, int]]:
        return ((key, start.offset) for key, (_, start) in self._asked.items())


def _gone(fault: Exception | None) -> None:
    if fault is not None:
        logger.error("a fetch that is over stays in its lists", exc_info=fault)
