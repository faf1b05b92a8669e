"""The blocking consumer: `AsyncConsumer` on a thread of its own, for scripts, notebooks and Spark's workers.

with Consumer("flights", bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
    for record in consumer:
        print(record.key, record.value)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from barnabas.client.arguments import checked_partitions, milliseconds
from barnabas.client.async_consumer import AsyncConsumer, decode_or_give_back
from barnabas.client.consume.columnar import Columns
from barnabas.client.consume.record import ConsumerRecord
from barnabas.client.handle import Handle
from barnabas.client.loop_thread import Asked, LoopThread
from barnabas.client.offsets import OffsetAndTimestamp
from barnabas.net.counts import Metrics
from barnabas.net.errors import ClientClosed
from barnabas.net.host.surroundings import REAL, Surroundings
from barnabas.protocol.ids import TopicPartition

__all__ = ["AsyncConsumer", "Consumer"]

if TYPE_CHECKING:
    from barnabas.client.settings import ConsumerSettings

T = TypeVar("T")


class Consumer(Handle):
    """What `AsyncConsumer` does, blocking; it is connected once this returns. Fetching goes on while you work.

    Settings carry Kafka's names: `config` or keywords, as with `Producer`. Every `timeout` is in seconds.

    Raises:
        ConfigError: an unknown setting, a bad value, or one that needs consumer groups.
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
        self.close()

    def close(self) -> None:
        """Closes all connections and ends the thread; a second call does nothing."""
        try:
            self._thread.call(self._inner.close())
        except ClientClosed:
            return
        self._thread.stop()

    def subscribe(self, *topics: str) -> None:
        """Consume all partitions of these topics, from now on instead of what was assigned before."""
        self._return_ahead()
        self._thread.call(self._inner.subscribe(*topics))

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
        return self._ask(partial(inner.records_now, max_records), inner.give_records_back, wait_ms)

    def poll_columns(self, timeout: float | None = None, *, headers: bool = False) -> list[Columns]:
        """All that is buffered as columns, else the next to arrive; empty after `timeout` seconds."""
        wait_ms = milliseconds(timeout)
        self._return_ahead()
        deadline_ms = None if wait_ms is None else self._now_ms() + wait_ms
        while True:
            left_ms = None if deadline_ms is None else max(deadline_ms - self._now_ms(), 0)
            parts = self._ask(self._inner.parts_now, self._inner.give_back, left_ms)
            # Decoded on this thread: the loop's receives the next answer meanwhile.
            columns = decode_or_give_back(parts, partial(self._on_loop, self._inner.give_back), headers)
            self._inner.count(columns)
            if columns or not parts:
                return columns

    def wait_for_data(self, offsets: Mapping[TopicPartition, int], timeout: float) -> bool:
        """Whether one of the partitions has a record at its offset or beyond; waits up to `timeout` seconds."""
        return self._thread.call(self._inner.wait_for_data(offsets, timeout))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            self._ahead.extend(self.poll())
            while self._ahead:
                yield self._ahead.popleft()

    def _return_ahead(self) -> None:
        """What an iteration took ahead goes back to its place before anything else is done."""
        if self._ahead:
            records = tuple(self._ahead)
            self._ahead.clear()
            self._on_loop(self._inner.give_records_back, records)

    def _ask(
        self, take: Callable[[], list[T]], give_back: Callable[[list[T]], None], timeout_ms: int | None
    ) -> list[T]:
        asked = Asked(take, give_back)
        return self._thread.ask(asked, partial(self._inner.ask, asked, timeout_ms))

    def _on_loop(self, function: Callable[..., T], *arguments: Any) -> T:
        async def call() -> T:
            return function(*arguments)

        return self._thread.call(call())
