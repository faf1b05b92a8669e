"""The consumer without I/O: what it consumes, where it stands, and what it can give now. Shells wait and call `pump`.

There is one position a partition, and one rule for records that were fetched and not handed out: they wait in their
partition's `Position`, before whatever was fetched later, until they are handed out, sought away or no longer assigned.
A shell that took records ahead (an iteration) gives them back before anything else is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import TYPE_CHECKING, TypeVar

from barnabas.client.arguments import checked_partition, checked_partitions, shown
from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.fetcher import Fetcher
from barnabas.client.consume.group.subscription import Subscription
from barnabas.client.consume.positions import Position
from barnabas.client.consume.record import ConsumerRecord
from barnabas.client.consume.taken import Taken
from barnabas.client.libraries import require_libraries
from barnabas.net.backoff import Random
from barnabas.net.errors import ClientClosed, ConfigError
from barnabas.net.network import NetworkClient
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import EARLIEST_TIMESTAMP, TopicPartition

if TYPE_CHECKING:
    from barnabas.client.consume.group.group import Group

T = TypeVar("T")


class ConsumerCore:
    """Assignment, positions and buffers of one consumer. `on_change` wakes whoever waits for a record or a position."""

    def __init__(
        self, config: ConsumerConfig, network: NetworkClient, random: Random, on_change: Callable[[], None]
    ) -> None:
        self.config = config
        self.fetcher = Fetcher(config, network, on_change)
        self.group = _group(config, self.fetcher, random, on_change) if config.group_id else None
        self.subscription = Subscription()
        self.closed: str | None = None  # why nothing more is given
        self._metadata = network.metadata
        self._on_change = on_change

    # ---- what is consumed -------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]], now_ms: int) -> None:
        """Consume exactly these partitions; those that stay keep position and records.

        Raises:
            ConfigError: something in it is no partition, or a group says what this consumer reads.
        """
        wanted = checked_partitions(partitions, "assign")
        if self.group is not None and self.group.subscription:
            raise ConfigError(f"assign: group {self.config.group_id} says what is read here; unsubscribe() first")
        self.subscription = Subscription()
        self.fetcher.assign(wanted)
        self._metadata.add_topics({where.topic for where in self.fetcher.positions}, now_ms)

    def subscribe(self, subscription: Subscription) -> None:
        """Consume all partitions of these topics, once a shell has learnt of them; or the share that the group gives.

        Raises:
            ConfigError: a listener where there is no group.
        """
        if self.group is None and any(subscription.listener):
            raise ConfigError("subscribe: who is told of a share is of no use without one: set group.id")
        self.subscription = subscription
        self._metadata.all_topics = subscription.by_pattern
        if self.group is not None:
            self.group.subscribe(subscription)

    def unsubscribe(self) -> None:
        """Consume nothing."""
        self.subscription = Subscription()
        self._metadata.all_topics = False
        self.fetcher.assign(())

    def on_metadata(self) -> bool:
        """Topics or partitions may have come or gone; whether that changed the assignment."""
        if self.group is not None:
            self.group.on_metadata()
            return False
        return bool(self.subscription) and self.assign_topics()

    def assign_topics(self) -> bool:
        """Without a group: assign all known partitions of what is subscribed; whether that changed anything."""
        if self.group is not None:
            return False
        cluster, assigned = self._metadata.cluster, self.fetcher.positions
        topics = self.subscription.topics(cluster, internal=not self.config.exclude_internal_topics)
        known = [info for topic in topics for info in cluster.partitions_for(topic)]
        partitions = [TopicPartition(info.topic, info.partition) for info in known]
        # An answer may lack a topic for a moment (a broker that starts): its positions wait until it is told of again.
        partitions += [where for where in assigned if where.topic in topics and where.topic not in cluster.topics]
        if len(partitions) == len(assigned) and set(partitions) == set(assigned):
            return False
        self.fetcher.assign(partitions)
        return True

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions."""
        return sorted(self.fetcher.positions)

    def pause(self, partitions: Iterable[TopicPartition], paused: bool) -> None:
        """Stop fetching and handing out, or go on."""
        for where in partitions:
            self._position_of(where, "resume" if not paused else "pause").paused = paused
        if not paused:
            self._on_change()

    def paused(self) -> list[TopicPartition]:
        """The paused partitions."""
        return sorted(where for where, position in self.fetcher.positions.items() if position.paused)

    # ---- where it stands --------------------------------------------------------------------------------------------

    def seek(self, where: TopicPartition, offset: int) -> None:
        """The next record read of a partition is the one at `offset`, or the first after it.

        Raises:
            ConfigError: it is not assigned, or the offset is no number, or negative.
        """
        try:
            offset = index(offset)  # numpy's, too
        except TypeError:
            raise ConfigError(f"seek to {shown(offset)}: an offset is a whole number") from None
        if offset < 0:
            raise ConfigError(f"seek to {offset}: an offset is not negative; seek_to_beginning and seek_to_end exist")
        self._position_of(where, "seek").seek(offset)

    def seek_to(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        """Go where a timestamp leads (earliest, latest), with all partitions if none is named."""
        call = "seek_to_beginning" if timestamp == EARLIEST_TIMESTAMP else "seek_to_end"
        for where in tuple(partitions) or tuple(self.fetcher.positions):
            self._position_of(where, call).await_reset(timestamp)

    def position(self, where: TopicPartition) -> int | None:
        """The offset of the next record that will be handed out; None while a reset is under way.

        Raises:
            BarnabasError: the reset failed.
        """
        position = self._position_of(where, "position")
        offset = position.next_offset
        if offset is None and position.error is not None:
            raise position.error
        return offset

    def _position_of(self, where: TopicPartition, call: str) -> Position:
        return self.fetcher.position_of(checked_partition(where, call))

    # ---- records ----------------------------------------------------------------------------------------------------

    def records_now(self, max_records: int | None = None) -> list[ConsumerRecord]:
        """What can be given without waiting."""
        count_max = self.config.max_poll_records if max_records is None else max_records
        if count_max < 1:
            raise ConfigError(f"max_records: {count_max} is below its minimum 1; leave it out for max.poll.records")
        return self._now(lambda: self.fetcher.take_records(count_max))

    def parts_now(self) -> list[Taken]:
        """What can be given undecoded, for columns, without waiting."""
        require_libraries()
        return self._now(self.fetcher.take_parts)

    def _now(self, take: Callable[[], list[T]]) -> list[T]:
        self.check_open()
        found: list[T] = []
        while not found and self.fetcher.has_something:
            found = take()
        return found

    def give_back(self, parts: Sequence[Taken], error: BarnabasError | None = None) -> None:
        """Parts that were not handed out come again; the error, if any, is the first one's."""
        self.fetcher.give_back(parts, error)
        self._on_change()

    def give_records_back(self, records: Sequence[ConsumerRecord]) -> None:
        """Records that were not handed out come again, before all others of their partitions."""
        self.fetcher.give_records_back(records)
        self._on_change()

    def check_not_closed(self) -> None:
        """Refuse a call that comes too late.

        Raises:
            ClientClosed: the consumer is closed, or belongs to the parent process of a fork.
        """
        if self.closed is not None:
            raise ClientClosed(self.closed)

    def check_reads(self) -> None:
        """Refuse to wait where nobody said for what, as Kafka's consumer does.

        Raises:
            ConfigError: nothing is subscribed or assigned.
        """
        if self.closed is None and not self.subscription and not self.fetcher.positions:
            raise ConfigError("nothing to read: no topic or partition was named; subscribe() or assign() first")

    def check_open(self) -> None:
        """Refuse to go on where nothing can come any more.

        Raises:
            ClientClosed: the consumer is closed.
            BarnabasError: metadata, or a topic, is refused for good.
        """
        self.check_not_closed()
        if self._metadata.fatal is not None:
            raise self._metadata.fatal
        for topic in self.subscription.names:
            error = self._metadata.topic_errors.get(topic)
            if error is not None:
                raise error


def _group(config: ConsumerConfig, fetcher: Fetcher, random: Random, on_change: Callable[[], None]) -> Group:
    """Loaded for who has one: a consumer without a group starts some milliseconds sooner."""
    from barnabas.client.consume.group.group import Group

    return Group(config, fetcher, random, on_change)
