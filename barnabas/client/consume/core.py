"""The consumer without I/O: what it consumes, where it stands, and what it can give now. Shells wait and call `pump`.

There is one position a partition, and one rule for records that were fetched and not handed out: they wait in their
partition's `Position`, before whatever was fetched later, until they are handed out, sought away or no longer assigned.
A shell that took records ahead (an iteration) gives them back before anything else is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import TypeVar

from barnabas.client.arguments import checked_partition, checked_partitions, checked_topics, shown
from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.fetcher import Fetcher
from barnabas.client.consume.positions import Phase, Position
from barnabas.client.consume.record import ConsumerRecord
from barnabas.client.consume.taken import Taken
from barnabas.client.libraries import require_libraries
from barnabas.net.errors import ClientClosed, ConfigError
from barnabas.net.network import NetworkClient
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import EARLIEST_TIMESTAMP, TopicPartition

T = TypeVar("T")


class ConsumerCore:
    """Assignment, positions and buffers of one consumer. `on_change` wakes whoever waits for a record or a position."""

    def __init__(self, config: ConsumerConfig, network: NetworkClient, on_change: Callable[[], None]) -> None:
        self.config = config
        self.fetcher = Fetcher(config, network, on_change)
        self.topics: tuple[str, ...] = ()
        self.closed: str | None = None  # why nothing more is given
        self._metadata = network.metadata
        self._on_change = on_change

    # ---- what is consumed -----------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]], now_ms: int) -> None:
        """Consume exactly these partitions; those that stay keep position and records."""
        wanted = checked_partitions(partitions, "assign")
        self.topics = ()
        self.fetcher.assign(wanted)
        self._metadata.add_topics({where.topic for where in self.fetcher.positions}, now_ms)

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Consume all partitions of these topics, once they are known.

        Raises:
            ConfigError: a topic that is no name.
        """
        self.topics = checked_topics(topics, "subscribe")

    def assign_topics(self) -> bool:
        """Assign all partitions that are known of the subscribed topics; whether that changed anything."""
        cluster, assigned = self._metadata.cluster, self.fetcher.positions
        known = [info for topic in self.topics for info in cluster.partitions_for(topic)]
        partitions = [TopicPartition(info.topic, info.partition) for info in known]
        # An answer may lack a topic for a moment (a broker that starts): its positions wait until it is told of again.
        partitions += [where for where in assigned if where.topic in self.topics and where.topic not in cluster.topics]
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

    # ---- where it stands ------------------------------------------------------------------------------------------

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
        if position.phase is not Phase.RESET:
            return position.returned[0].offset if position.returned else position.offset
        if position.error is not None:
            raise position.error
        return None

    def _position_of(self, where: TopicPartition, call: str) -> Position:
        return self.fetcher.position_of(checked_partition(where, call))

    # ---- records --------------------------------------------------------------------------------------------------

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

    def check_open(self) -> None:
        """Refuse to go on where nothing can come any more.

        Raises:
            ClientClosed: the consumer is closed.
            BarnabasError: metadata, or a topic, is refused for good.
        """
        self.check_not_closed()
        if self._metadata.fatal is not None:
            raise self._metadata.fatal
        for topic in self.topics:
            error = self._metadata.topic_errors.get(topic)
            if error is not None:
                raise error
