"""A Produce with acks=all that waits until all it wrote is committed. Source: `DelayedProduce` of Apache Kafka.

Cases, per pending partition:
    A  not hosted here any more, or its disk failed     resolved, with that error
    B  not led here any more, or cut off since          resolved, NOT_LEADER_OR_FOLLOWER
    C1 the high watermark has reached what was written  resolved, NONE
    C2 it has, but the ISR fell below the minimum       resolved, NOT_ENOUGH_REPLICAS_AFTER_APPEND
    D  it has not                                       pending
Kafka asks for B what is so when it looks. Here a request may have to wait for its other partitions before it is looked
at (`late`): by then another may have led, and what was written may have been cut, and others' records stand there.
A resolved partition is never opened again. The answer leaves when none is pending; what is still pending when the
time is up says REQUEST_TIMED_OUT, though its records stay in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.broker.delayed import DESCRIBED_MAX, DelayedOperation
from barnabas.broker.replica.hosted import HostedPartitions
from barnabas.broker.replica.parked import Parked
from barnabas.broker.replica.types import ProduceResult
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.replica.partition import Partition

_TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)


class Written(NamedTuple):
    """What was appended to a partition: it ends before offset `end`; the log had been cut `cuts` times."""

    partition: Partition
    cuts: int
    end: int

    def is_there(self, hosted: HostedPartitions) -> bool:
        """Whether the partition is the same still, and nothing was cut off it since."""
        partition = self.partition
        return hosted.online.get(partition.topic_partition) is partition and partition.log.cuts == self.cuts


class DelayedProduce(Parked):
    """`required` has what was written to each partition; those that failed keep their error in `results`."""

    __slots__ = ("_hosted", "_pending", "_respond", "_results")

    def __init__(
        self,
        timeout_ms: int,
        required: dict[TopicPartition, Written],
        results: dict[TopicPartition, ProduceResult],
        hosted: HostedPartitions,
        respond: Callable[[dict[TopicPartition, ProduceResult]], None],
    ) -> None:
        DelayedOperation.__init__(self, timeout_ms)
        self._pending = required
        self._results = results
        self._hosted = hosted
        self._respond = respond
        self.parked_partitions = 0
        self.connection_id = -1
        for key in required:
            results[key].error_code = _TIMED_OUT

    def try_complete(self, now_ms: int) -> bool:
        """Resolve what can be resolved; complete when nothing is pending."""
        for key in tuple(self._pending):
            self._resolve(key)
        return not self._pending and self.force_complete(now_ms)

    def try_key(self, key: TopicPartition, now_ms: int) -> bool:
        """As `try_complete` where only `key` has news: of hundreds each would else look at all that are left."""
        if key in self._pending:
            self._resolve(key)
        return not self._pending and self.force_complete(now_ms)

    def _resolve(self, key: TopicPartition) -> None:
        written, hosted = self._pending[key], self._hosted
        if key not in hosted.online:
            reached, error = False, int(hosted.error_of(key))  # case A
        elif not written.is_there(hosted):
            reached, error = False, int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            reached, error = written.partition.reached(written.end)
        if reached or error:  # cases B, C1, C2
            del self._pending[key]
            self._results[key].error_code = error

    def on_complete(self, now_ms: int) -> None:
        """Answer with what each partition came to."""
        if self.parked_partitions:
            self._hosted.shared.unparked(self)
        self._respond(self._results)

    def leave(self) -> None:
        """Nobody is told any more; what was appended stays, and replicas follow."""
        self._hosted.shared.produce.cancel(self)

    def on_expiration(self) -> None:
        """Count the partitions that are still pending."""
        for key in self._pending:
            self._hosted.shared.stats.produce_expired(key.topic, key.partition)

    def describe(self) -> dict[str, Any]:
        """Adds the offsets that are waited for."""
        waits = {str(key): written.end for key, written in islice(self._pending.items(), DESCRIBED_MAX)}
        return {**DelayedOperation.describe(self), "pending": waits}
