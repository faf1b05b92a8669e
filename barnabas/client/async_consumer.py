"""The consumer on asyncio: assigned partitions or a group's share, records one by one or as columns.

    async with AsyncConsumer("flights", bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            print(record.key, record.value)

Without a group, topics given by name mean all their partitions, those added later too, and nothing is committed. With
`group_id` the members of the group share them, and what was handed out is committed.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, Unpack

from barnabas.client.arguments import milliseconds
from barnabas.client.consume.columnar import Columns
from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.core import ConsumerCore
from barnabas.client.consume.figures import metrics, statistics
from barnabas.client.consume.group.subscription import Listener, OnPartitions, Subscription
from barnabas.client.consume.record import ConsumerRecord
from barnabas.client.consume.taken import Taken, decode_taken
from barnabas.client.group_calls import GroupCalls
from barnabas.client.loop_thread import Asked
from barnabas.net.errors import ClientClosed, ClientTimeout
from barnabas.net.host.connection import Client
from barnabas.net.host.forks import belongs_to_parent, tell_child
from barnabas.net.host.surroundings import REAL, Surroundings
from barnabas.net.metadata import Metadata
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

if TYPE_CHECKING:
    from barnabas.client.settings import ConsumerSettings

T = TypeVar("T")
GiveBack: TypeAlias = "Callable[[Sequence[Taken], BarnabasError | None], None]"


class AsyncConsumer(GroupCalls):
    """Consumes on the running loop. Settings carry Kafka's names: `config` or keywords, as with `Producer`.

    `start` connects, `close` ends; `async with` does both. Every `timeout` is in seconds.

    Raises:
        ConfigError: an unknown setting, a bad value, or one that needs a group and has none.
    """

    def __init__(
        self,
        *topics: str,
        config: Mapping[str, Any] | str | None = None,
        surroundings: Surroundings = REAL,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        self.config = ConsumerConfig.of(config, **settings)
        auto_create = self.config.allow_auto_create_topics
        metadata = Metadata(self.config, surroundings.uniform, allow_auto_create=auto_create)
        self._client = Client(self.config, metadata, surroundings=surroundings)
        self._core = ConsumerCore(self.config, self._client.network, surroundings.uniform, self._wake)
        self._client.drivers.append(self._core.fetcher.drive)
        self._client.figures = partial(metrics, self._core)
        self._client.statistics_of = partial(statistics, self._core)
        metadata.listeners.append(self._on_metadata)
        self._waiter: asyncio.Future[None] | None = None
        self._asked: list[Asked[Any]] = []
        self._ahead: deque[ConsumerRecord] = deque()  # taken for an iteration, not yet handed out
        self.ahead_elsewhere: deque[ConsumerRecord] | None = None  # the same of the blocking form, on another thread
        self._started = False
        self._serve_group()
        self._core.subscribe(Subscription.of(topics, None, Listener()))
        tell_child(self)

    def leave_with(self, leave: Callable[[BaseException], None]) -> None:
        """What becomes of a `sys.exit` in a callback, for who has this on a thread of its own."""
        self._client.leave = leave

    def forked(self) -> None:
        """In the child of a fork: assignment and position are the parent's."""
        self._core.closed = belongs_to_parent("consumer")

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(None, commit=error is None)

    async def start(self) -> Self:
        """Connects, and assigns the partitions of the topics given by name.

        Raises:
            ClientTimeout: no broker answered, or told of the topics, within `default.api.timeout.ms`.
            ClientClosed: it was closed: make a new one.
            KafkaError: a topic is refused for good (its name, authorisation).
        """
        if self._core.closed:
            raise ClientClosed("the consumer is closed; make a new one")
        if self._started:
            return self
        self._started = True
        deadline_ms = self._client.now_ms() + self.config.default_api_timeout_ms
        try:
            await self._client.start()
            if self._core.subscription:
                await self._learn(max(deadline_ms - self._client.now_ms(), 0))
            if self._core.group is not None:
                self._core.group.coordinator.wanted = True
        except BaseException:
            await self.end()
            raise
        return self

    async def close(self, timeout: float | None = None) -> None:
        """Commits what was handed out (with `enable.auto.commit`), leaves the group, and closes all connections.

        After `timeout` seconds (None: 30) it is closed, whatever is left to do. Who waits in `poll` gets ClientClosed.
        `async with` that an exception ends commits nothing: what was in hand comes again.
        """
        await self._close(timeout, commit=True)

    async def _close(self, timeout: float | None, *, commit: bool) -> None:
        wait_ms = milliseconds(timeout)
        try:
            if self._core.group is not None and self._core.closed is None and self._started:
                self._return_ahead()
                await self._depart("it was closed", wait_ms, commit=commit)
        finally:
            await self.end()

    async def end(self) -> None:
        """Closes all connections, whatever goes on; who is a member still, for a close was interrupted, leaves."""
        if self._core.group is not None:
            if self._core.group.subscription and self._core.closed is None:
                self.begin_to_depart("its close was interrupted", 0, commit=False)
                self.departed()
            self._core.group.close(self._client.now_ms())
        self._core.closed = self._core.closed or "the consumer is closed"
        await self._client.close()
        self._wake()

    # ---- what is consumed -----------------------------------------------------------------------------------------

    async def subscribe(
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

        Raises:
            ConfigError: what was given contradicts itself, or is surely a mistake.
        """
        listener = Listener(on_assigned, on_revoked, on_lost)
        by_broker = self._core.group is not None and self.config.group_protocol == "consumer"
        subscription = Subscription.of(topics, pattern, listener, broker_matches=by_broker)
        self._return_ahead()
        self._client.check_started()
        if self._core.group is not None and not subscription:
            await self.unsubscribe()
            return
        self._core.subscribe(subscription)
        await self._learn(self.config.default_api_timeout_ms)

    async def _learn(self, timeout_ms: int) -> None:
        await self._client.refresh_metadata(self._core.subscription.names, timeout_ms)
        self._core.assign_topics()
        self._client.pump()

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Consume exactly these partitions; those that stay keep their position."""
        self._return_ahead()
        self._core.assign(partitions, self._client.now_ms())
        self._client.pump()

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions."""
        return self._core.assignment()

    def _on_metadata(self, _: Metadata) -> None:
        if self._core.on_metadata():
            self._client.pump()
        self._wake()

    def pause(self, *partitions: TopicPartition) -> None:
        """Fetch and hand out nothing of these until `resume`; what is buffered is kept."""
        self._return_ahead()
        self._core.pause(partitions, True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with paused partitions."""
        self._core.check_not_closed()
        self._core.pause(partitions, False)
        self._client.pump()

    def paused(self) -> list[TopicPartition]:
        """The paused partitions."""
        return self._core.paused()

    # ---- where it stands ------------------------------------------------------------------------------------------

    def seek(self, where: TopicPartition, offset: int) -> None:
        """The next record read of a partition is the one at `offset`, or the first after it.

        Raises:
            ConfigError: it is not assigned, or the offset is negative.
        """
        self._return_ahead()
        self._core.seek(where, offset)  # the next step asks, for all seeks at once: each step looks at every partition

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first records of these partitions, of all without arguments."""
        self._seek_to(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the last records of these partitions, of all without arguments."""
        self._seek_to(partitions, LATEST_TIMESTAMP)

    def _seek_to(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        self._return_ahead()
        self._core.seek_to(partitions, timestamp)
        self._client.pump()

    async def position(self, where: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record that will be handed out.

        Raises:
            ClientTimeout: a reset is under way and was not answered within `timeout` seconds (None:
                `default.api.timeout.ms`).
        """
        self._return_ahead()
        wait_ms = milliseconds(timeout)
        deadline_ms = self._client.now_ms() + (self.config.default_api_timeout_ms if wait_ms is None else wait_ms)
        while (offset := self._core.position(where)) is None:
            if not await self._wait(deadline_ms):
                why = self._client.metadata.troubles.why(where)
                raise ClientTimeout(f"the position of {where} is unknown: no leader told an offset in time{why}")
        return offset

    # ---- records --------------------------------------------------------------------------------------------------

    async def poll(self, timeout: float | None = None, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """Buffered records, else the next to arrive; empty after `timeout` seconds (None: waits without end).

        At most `max.poll.records` come at once.

        Raises:
            ConfigError: nothing is subscribed or assigned.
            KafkaError: a partition cannot be read; seek, or assign without it, to go on.
        """
        return await self._next(partial(self.records_now, max_records), milliseconds(timeout))

    async def poll_columns(
        self, timeout: float | None = None, *, headers: bool = False, only: Collection[str] | None = None
    ) -> list[Columns]:
        """All that is buffered as columns, else the next to arrive; empty after `timeout` seconds.

        With `only`, of the columns `key`, `value` and `timestamp` none but those is decoded; the others are null.

        Raises:
            KafkaError: a partition cannot be read; seek, or assign without it, to go on.
            BarnabasError: numpy and pyarrow are not installed.
        """
        wait_ms = milliseconds(timeout)
        deadline_ms = None if wait_ms is None else self._client.now_ms() + wait_ms
        while True:
            left_ms = None if deadline_ms is None else max(deadline_ms - self._client.now_ms(), 0)
            parts = await self._next(self.parts_now, left_ms)
            columns = decode_or_give_back(parts, self.give_back, headers, only)
            self.count(columns)
            if columns or not parts:
                return columns

    def check_reads(self) -> None:
        """Refuse to wait for ever. May be called from any thread.

        Raises:
            ClientClosed: it was not started.
            ConfigError: nothing is subscribed or assigned.
        """
        self._client.check_started()
        self._core.check_reads()

    async def _next(self, take: Callable[[], list[T]], timeout_ms: int | None) -> list[T]:
        self._return_ahead()
        self.check_reads()
        deadline_ms = None if timeout_ms is None else self._client.now_ms() + timeout_ms
        while True:
            for call in self.calls_now():
                await self._tell(call)
            found = take()
            self._client.pump()  # the next fetch is under way while the application works
            if found or not await self._wait(deadline_ms):
                return found

    def records_now(self, max_records: int | None = None) -> list[ConsumerRecord]:
        """What `poll` can give without waiting. Who calls this lets the client pump afterwards."""
        return self._core.records_now(max_records)

    def parts_now(self) -> list[Taken]:
        """What `poll_columns` would decode, for who decodes it elsewhere. Who calls this lets the client pump then."""
        return self._core.parts_now()

    def count(self, columns: Iterable[Columns]) -> None:
        """These were handed out (the figures are told by who decoded them: only then their number is known)."""
        self._core.fetcher.records_taken += sum(map(len, columns))

    def ask(self, asked: Asked[Any], timeout_ms: int | None) -> None:
        """Answers a blocked thread as soon as there is something, with nothing after `timeout_ms`."""
        if not asked.step():
            # Those that expired meanwhile are let go here: with nothing to fetch, no event would come to them.
            self._asked = [*(each for each in self._asked if not each.answer.done), asked]
            if timeout_ms is not None:
                asked.timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, asked.expire)
        self._client.pump()

    def give_back(self, parts: Sequence[Taken], error: BarnabasError | None = None) -> None:
        """Parts of `parts_now` that were not handed out come again; the error, if any, is the first one's."""
        self._core.give_back(parts, error)
        self._client.pump()

    def give_records_back(self, records: Sequence[ConsumerRecord]) -> None:
        """Records of `poll` that were not handed out come again with the next one."""
        self._core.give_records_back(records)

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        while True:
            self._ahead.extend(await self.poll())
            while self._ahead:
                yield self._ahead.popleft()

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _return_ahead(self) -> None:
        """What an iteration took ahead goes back to its place before anything else is done.

        Raises:
            ClientClosed: nothing more can be done: the consumer is closed.
        """
        self._core.check_not_closed()
        if self._ahead:
            records = tuple(self._ahead)
            self._ahead.clear()
            self._core.give_records_back(records)

    async def _wait(self, deadline_ms: int | None, *, ending: bool = False) -> bool:
        """Waits for a change; False once the deadline passed. `ending`: whatever is wrong with topics or cluster."""
        left_ms = None if deadline_ms is None else deadline_ms - self._client.now_ms()
        if left_ms is not None and left_ms <= 0:
            return False
        self._client.check_started()
        if not ending:
            self._core.check_open()
        if self._waiter is None or self._waiter.done():
            self._waiter = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._waiter], timeout=None if left_ms is None else left_ms / 1000)
        return True

    def _wake(self) -> None:
        """Something changed: whoever waits may look again. The client pumps afterwards, whatever the event."""
        if self._asked:
            self._asked = [asked for asked in self._asked if not asked.step()]
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def decode_or_give_back(
    parts: Sequence[Taken], give_back: GiveBack, headers: bool, only: Collection[str] | None = None
) -> list[Columns]:
    """The columns of the parts. What is not handed out (too much for one call, corrupt, or an interrupt) goes back.

    Raises:
        KafkaError: CORRUPT_MESSAGE in the first of the parts.
    """
    try:
        columns, left, error = decode_taken(parts, headers=headers, only=only)
    except BaseException:
        give_back(parts, None)
        raise
    if left:
        give_back(left, error)
    if error is not None and not columns:
        raise error
    return columns
