"""A Fetch that waits for enough bytes. Source: `DelayedFetch` of Apache Kafka.

S is where the first read began, E how far this reader sees now (log end, high watermark or last stable offset).
Cases, per partition, in order:
    A  no log here, or not the leader where one is needed    complete
    B  as A, found by the leadership check                   complete
    C  the partition is not known any more                   complete
    D  its log directory is offline                          complete
    E  the request's leader epoch is older than ours now     complete
    F1 S > E: the log was cut, or the reader asks beyond what it may see     complete
    F2 S < E on an older segment: a segment was rolled, or the reader is behind     complete, whatever min_bytes says
    G  S < E on the same segment: min(bytes between, the partition's max_bytes) counts towards min_bytes
    H  the log no longer has the reader's last epoch up to S     complete: the answer carries the diverging epoch
    -  S = E adds nothing (offsets are compared, not segments: after a roll E may still lie in the old one)
After the loop the sum decides. The answer is always a fresh read, at completion and at expiry alike; it does not
touch what the leader knows of the follower, and applies max_bytes anew. In cases A to E it carries the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

from barnabas.broker.delayed import DESCRIBED_MAX, DelayedOperation
from barnabas.broker.log.types import Isolation, OffsetMetadata
from barnabas.broker.ports import NotYet, Token
from barnabas.broker.replica.hosted import HostedPartitions
from barnabas.broker.replica.parked import Parked
from barnabas.broker.replica.partition import Partition
from barnabas.broker.replica.types import FetchInfo, FetchParams
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import TopicPartition

# An enum's member is looked up in its class at every use.
_LOG_END: Final = Isolation.LOG_END
_HIGH_WATERMARK: Final = Isolation.HIGH_WATERMARK


class DelayedFetch(Parked):
    """`starts` holds (partition, what was asked, where its first read began); `answer` reads afresh and responds."""

    __slots__ = ("_answer", "_hosted", "_params", "_starts", "_token")

    def __init__(
        self,
        timeout_ms: int,
        params: FetchParams,
        starts: list[tuple[TopicPartition, FetchInfo, OffsetMetadata]],
        hosted: HostedPartitions,
        answer: Callable[[int], None],
    ) -> None:
        DelayedOperation.__init__(self, timeout_ms)
        self._params = params
        self._starts = starts
        self._hosted = hosted
        self._answer = answer
        self._token: Token | None = None
        self.parked_partitions = 0
        self.connection_id = -1

    def try_complete(self, now_ms: int) -> bool:
        """Complete when a case says so, or when enough bytes can be read; what is held back counts for nothing."""
        if self._params.replica_id >= 0:
            self._params.held = self._hosted.shared.leader_throttle.exceeded(now_ms)
        bytes_count = 0
        for key, info, start in self._starts:
            try:
                available = self._available(self._hosted.get(key), info, start)
            except KafkaError:  # cases A to E
                available = None
            except NotYet as pending:
                self._look_again(key, pending.token)
                return False
            if available is None:
                return self.force_complete(now_ms)
            bytes_count += available
        return bytes_count >= self._params.min_bytes and self.force_complete(now_ms)

    def on_complete(self, now_ms: int) -> None:
        """Read all partitions afresh and answer."""
        if self.parked_partitions:
            self._hosted.shared.unparked(self)
        self._answer(now_ms)

    def leave(self) -> None:
        """Nobody reads the answer."""
        self._hosted.shared.fetch.cancel(self)

    def on_expiration(self) -> None:
        """Count it, by who asked."""
        stats = self._hosted.shared.stats
        meter = stats.fetch_expires_follower if self._params.from_follower else stats.fetch_expires_consumer
        meter.count += 1

    def describe(self) -> dict[str, Any]:
        """Adds who waits, from where, and for how many bytes."""
        return {
            **DelayedOperation.describe(self),
            "replica_id": self._params.replica_id,
            "min_bytes": self._params.min_bytes,
            "offsets": {str(key): offset for key, offset in islice(self._offsets(), DESCRIBED_MAX)},
        }

    def _offsets(self) -> Iterable[tuple[TopicPartition, int]]:
        return ((key, start.offset) for key, _, start in self._starts)

    def _available(self, partition: Partition, info: FetchInfo, start: OffsetMetadata) -> int | None:
        """Bytes that count towards min_bytes; None when the fetch is to be answered now.

        Raises:
            KafkaError: cases A to E.
            NotYet: the high watermark's place must be looked up on disk first.
        """
        partition.check_access(info.current_leader_epoch, leader_only=self._params.leader_only)
        if self._params.held and partition.shared.leader_throttle.holds_back(partition, self._params.replica_id):
            return 0
        end = _end_for(self._params.isolation, partition)
        available = 0
        if start.offset > end.offset:
            return None  # case F1
        if start.offset < end.offset:
            if start.on_older_segment(end):
                return None  # case F2
            if start.on_same_segment(end):
                available = min(end.bytes_since(start), info.max_bytes)  # case G
        if info.last_fetched_epoch >= 0:
            there = partition.log.end_offset_for_epoch(info.last_fetched_epoch)
            undefined = there.leader_epoch < 0 or there.end_offset < 0
            if undefined or there.leader_epoch < info.last_fetched_epoch or there.end_offset < info.fetch_offset:
                return None  # case H
        return available

    def _look_again(self, key: TopicPartition, token: Token) -> None:
        """The check needs bytes from the disk: hold the token, and check the key when they are there.

        That check may find the next place that must be looked up first; the one before is known by then.
        """
        if self._token is not None:
            return
        self._token = token
        shared = self._hosted.shared

        def check(now_ms: int) -> None:
            if self._token is token:
                self._token = None
            shared.fetch.check_and_complete(key, now_ms)

        token.on_ready(lambda: shared.actions.add(check))


def _end_for(isolation: Isolation, partition: Partition) -> OffsetMetadata:
    log = partition.log
    if isolation is _LOG_END:
        return log.log_end_metadata
    return log.placed_high_watermark() if isolation is _HIGH_WATERMARK else log.placed_last_stable()
