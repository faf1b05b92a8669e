"""The blocking consumer: `AsyncConsumer` on a thread of its own, for scripts, notebooks and Spark's workers.

with Consumer("flights", bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
    for record in consumer:
        print(record.key, record.value)
"""

from __future__ import annotations

import inspect
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from barnabas.client.arguments import checked_partitions, milliseconds
from barnabas.client.async_consumer import AsyncConsumer, decode_or_give_back
from barnabas.client.consume.columnar import Columns
from barnabas.client.consume.group.health import Health
from barnabas.client.consume.group.subscription import Call, OnPartitions
from barnabas.client.consume.group.values import OffsetAndMetadata
from barnabas.client.consume.record import ConsumerRecord
from barnabas.client.group_calls import GivenOffsets, OnCommit
from barnabas.client.handle import Handle
from barnabas.client.loop_thread import Asked, LoopThread
from barnabas.client.offsets import OffsetAndTimestamp
from barnabas.client.sizes import BatchSize
from barnabas.net.counts import Metrics
from barnabas.net.errors import ClientClosed, ConfigError
from barnabas.net.host.surroundings import REAL, Surroundings
from barnabas.net.topology import Cluster
from barnabas.protocol.ids import TopicPartition

__all__ = ["AsyncConsumer", "Consumer"]

if TYPE_CHECKING:
    from barnabas.client.settings import ConsumerSettings

T = TypeVar("T")


class Consumer(Handle):
    """What `AsyncConsumer` does, blocking; it is connected once this returns. Fetching goes on while you work.

    Settings carry Kafka's names: `config` or keywords, as with `Producer`. Every `timeout` is in seconds.

    Raises:
        ConfigError: an unknown setting, a bad value, or one that needs a group and has none.
        ClientTimeout: no broker answered within `default.api.timeout.ms`.
    """

    def __init__(
        self,
        *topics: str,
        config: Mapping[str, Any] | str | None = None,
        surroundings: Surroundings = REAL,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        self._inner = AsyncConsumer(*topics, config=config, surroundings=surroundings, **settings)
        self._now_ms = surroundings.now_ms
        self._thread = LoopThread("barnabas-consumer")
        self._inner.leave_with(self._thread.leave)
        self._ahead: deque[ConsumerRecord] = deque()  # taken for an iteration, not yet handed out
        self._inner.ahead_elsewhere = self._ahead
        self._thread.parting = self._inner.part
        try:
            self._thread.call(self._inner.start())
        except BaseException:
            self._thread.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(None, commit=error is None)

    def close(self, timeout: float | None = None) -> None:
        """Commits what was handed out (with `enable.auto.commit`), leaves the group, and closes all connections.

        After `timeout` seconds (None: 30) it is closed, whatever is left to do; a second call does nothing. `with` that
        an exception ends commits nothing: what was in hand comes again.
        """
        self._close(timeout, commit=True)

    def _close(self, timeout: float | None, *, commit: bool) -> None:
        wait_ms = milliseconds(timeout)
        self._thread.check_may_wait()
        try:
            try:
                self._depart("it was closed", wait_ms, commit=commit)
            finally:
                self._thread.call(self._inner.end())
        except ClientClosed:
            return
        finally:
            self._thread.stop()

    def _depart(self, why: str, wait_ms: int | None, *, commit: bool = True) -> None:
        inner = self._inner
        if not inner.in_group:
            return
        self._return_ahead()
        deadline_ms = self._on_loop(partial(inner.begin_to_depart, why, wait_ms, commit=commit))
        failures: list[Exception] = []
        try:
            self._ask(inner.departed_now, lambda _: None, max(deadline_ms - self._now_ms(), 0), failures)
        finally:
            self._on_loop(inner.departed)
        if failures:
            raise failures[0]

    def subscribe(
        self,
        *topics: str,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Consume these topics, or all whose whole name matches the pattern, from now on instead of what was before.

        Without a group these are all their partitions. A group's member gets its share with one of the next polls,
        and these call `on_assigned(partitions)` with what came, `on_revoked` before something goes to another member
        (commit there what is done), and `on_lost` when it went already (`on_revoked`, if that is not given).
        """
        self._return_ahead()
        if not topics and pattern is None and self._inner.in_group:
            self.unsubscribe()
            return
        self._thread.call(
            self._inner.subscribe(
                *topics, pattern=pattern, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost
            )
        )

    def unsubscribe(self, timeout: float | None = None) -> None:
        """Read nothing any more, and leave the group, which shares out anew; what was handed out is committed first."""
        wait_ms = milliseconds(timeout)
        self._return_ahead()
        if self._inner.in_group:
            self._depart("it unsubscribed", wait_ms)
        else:
            self._thread.call(self._inner.unsubscribe())

    def commit(self, offsets: GivenOffsets | None = None, timeout: float | None = None) -> None:
        """Commit these offsets, or what was handed out so far; tried again for `timeout` seconds at most.

        An offset is that of the next record to read. While records are iterated over, the one in hand counts as done.
        """
        self._return_ahead()
        self._thread.call(self._inner.commit(offsets, timeout))

    def commit_async(self, offsets: GivenOffsets | None = None, on_commit: OnCommit | None = None) -> None:
        """Commit without waiting, and without a second try: a later commit says more.

        `on_commit(offsets, error)` is called on the consumer's own thread, and must not wait there.
        """
        self._return_ahead()
        self._on_loop(self._inner.commit_async, offsets, on_commit)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed of each partition, None where it is nothing."""
        return self._thread.call(self._inner.committed(partitions, timeout))

    def health(self) -> Health:
        """How it is: its state, assignment and lag, its group's coordinator, when it was last asked, what is wrong."""
        return self._on_loop(self._inner.health)

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Consume exactly these partitions; those that stay keep their position."""
        self._return_ahead()
        self._on_loop(self._inner.assign, checked_partitions(partitions, "assign"))

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions."""
        return self._on_loop(self._inner.assignment)

    def pause(self, *partitions: TopicPartition) -> None:
        """Fetch and hand out nothing of these until `resume`; what is buffered is kept."""
        self._return_ahead()
        self._on_loop(self._inner.pause, *partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with paused partitions."""
        self._on_loop(self._inner.resume, *partitions)

    def paused(self) -> list[TopicPartition]:
        """The paused partitions."""
        return self._on_loop(self._inner.paused)

    def seek(self, where: TopicPartition, offset: int) -> None:
        """The next record read of a partition is the one at `offset`, or the first after it."""
        self._return_ahead()
        self._on_loop(self._inner.seek, where, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first records of these partitions, of all without arguments."""
        self._return_ahead()
        self._on_loop(self._inner.seek_to_beginning, *partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the last records of these partitions, of all without arguments."""
        self._return_ahead()
        self._on_loop(self._inner.seek_to_end, *partitions)

    def position(self, where: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record that will be handed out."""
        self._return_ahead()
        return self._thread.call(self._inner.position(where, timeout))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return self._thread.call(self._inner.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last readable record of each partition."""
        return self._thread.call(self._inner.end_offsets(partitions))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each timestamp (ms since the epoch), None where there is none so young."""
        return self._thread.call(self._inner.offsets_for_times(timestamps))

    def high_watermark(self, where: TopicPartition) -> int:
        """The high watermark the last answer told of an assigned partition, -1 before the first."""
        return self._on_loop(self._inner.high_watermark, where)

    def cluster(self) -> Cluster:
        """What is known of the cluster at present, a snapshot: brokers, and the topics in use with their ids."""
        return self._inner.cluster()  # one reference to what never changes: the loop need not be asked

    def metrics(self) -> Metrics:
        """Figures in groups, by Kafka's names: `metrics()["consumer-fetch-manager-metrics"]["records-lag-max"]`."""
        return self._on_loop(self._inner.metrics)

    def partitions_for(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions."""
        return self._thread.call(self._inner.partitions_for(topic))

    def poll(self, timeout: float | None = None, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """Buffered records, else the next to arrive; empty after `timeout` seconds (None: waits without end)."""
        wait_ms = milliseconds(timeout)
        self._return_ahead()
        inner = self._inner
        inner.check_reads()
        return self._ask(partial(inner.records_now, max_records), inner.give_records_back, wait_ms)

    def poll_columns(
        self, timeout: float | None = None, *, headers: bool = False, only: Collection[str] | None = None
    ) -> list[Columns]:
        """All that is buffered as columns, else the next to arrive; empty after `timeout` seconds.

        With `only`, of the columns `key`, `value` and `timestamp` none but those is decoded; the others are null.
        """
        wait_ms = milliseconds(timeout)
        self._return_ahead()
        self._inner.check_reads()
        deadline_ms = None if wait_ms is None else self._now_ms() + wait_ms
        while True:
            left_ms = None if deadline_ms is None else max(deadline_ms - self._now_ms(), 0)
            parts = self._ask(self._inner.parts_now, self._inner.give_back, left_ms)
            # Decoded on this thread: the loop's receives the next answer meanwhile.
            columns = decode_or_give_back(parts, partial(self._on_loop, self._inner.give_back), headers, only)
            self._inner.count(columns)
            if columns or not parts:
                return columns

    def wait_for_data(self, offsets: Mapping[TopicPartition, int], timeout: float) -> bool:
        """Whether one of the partitions has a record at its offset or beyond; waits up to `timeout` seconds."""
        return self._thread.call(self._inner.wait_for_data(offsets, timeout))

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offset behind the last record of a leader epoch or of those before it, of each partition that tells."""
        return self._thread.call(self._inner.epoch_ends(epochs))

    def batch_sizes(
        self, offsets: Mapping[TopicPartition, int], bytes_max: int
    ) -> dict[TopicPartition, list[BatchSize]]:
        """The next batches from an offset on, and how large they are: what `bytes_max` of each partition tell."""
        return self._thread.call(self._inner.batch_sizes(offsets, bytes_max))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            self._ahead.extend(self.poll())
            with suppress(IndexError):  # of a group, what is ahead may be recalled at any time
                while True:
                    yield self._ahead.popleft()

    def _return_ahead(self) -> None:
        """What an iteration took ahead goes back to its place before anything else is done.

        Raises:
            WaitRefused: a callback of this consumer asks; what is ahead stays where it is.
        """
        self._thread.check_may_wait()
        records = []
        with suppress(IndexError):
            while True:
                records.append(self._ahead.popleft())
        if records:
            self._on_loop(self._inner.give_records_back, records)

    def _ask(
        self,
        take: Callable[[], list[T]],
        give_back: Callable[[list[T]], None],
        timeout_ms: int | None,
        failures: list[Exception] | None = None,
    ) -> list[T]:
        """Asks for what `take` gives, and calls the application, here, whenever its group has to tell it something.

        What a listener raises ends that, unless there are `failures` to add it to.
        """
        inner = self._inner
        if not inner.in_group:
            asked = Asked(take, give_back)
            return self._thread.ask(asked, partial(inner.ask, asked, timeout_ms))
        deadline_ms = None if timeout_ms is None else self._now_ms() + timeout_ms
        while True:
            left_ms = None if deadline_ms is None else max(deadline_ms - self._now_ms(), 0)
            both: Asked[Any] = Asked(partial(inner.calls_or, take), partial(inner.take_back, give_back))
            found = self._thread.ask(both, partial(inner.ask, both, left_ms))
            if not found or not isinstance(found[0], Call):
                return found
            try:
                self._tell(found[0])
            except Exception as error:
                if failures is None:
                    raise
                failures.append(error)

    def _tell(self, call: Call) -> None:
        try:
            told = call.run()
            if inspect.iscoroutine(told):
                told.close()
                raise ConfigError(f"{call.turn.value}: a coroutine function needs barnabas.aio")
        finally:
            self._on_loop(self._inner.called)

    def _on_loop(self, function: Callable[..., T], *arguments: Any) -> T:
        async def call() -> T:
            return function(*arguments)

        return self._thread.call(call())
