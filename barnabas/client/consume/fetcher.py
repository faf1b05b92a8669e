"""Fetching without a network: what to ask which broker next, and what its answers mean (Kafka's `Fetcher`).

One fetch at a time is under way per node. A partition is asked for when it is not paused, its position is known, and
nothing of it is buffered; what arrives waits in its `Position` until `take_records` or `take_parts` hands it out, and
only then the position moves. An answer to a position that has moved since (a seek) is dropped.

What this holds at most: one answer per node under way (`fetch.max.bytes`, or one batch if that is larger), and one
buffer per partition (`max.partition.fetch.bytes`, or one batch), which keeps the frame it came in. What `take_parts`
handed out is the taker's: while that is decoded, the next answer is on its way, and no further one is asked for.

Long because asking, what answers do, and handing out are the three sides of one state, that of each `Position`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from barnabas.client.consume.batches import Walk, last_batch, one_buffer
from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.fetch_session import FetchSession, Wanted
from barnabas.client.consume.lookups import ISOLATION, Lookups
from barnabas.client.consume.positions import Fetched, Phase, Position, no_whole_batch
from barnabas.client.consume.record import ConsumerRecord, RecordDecoder, RecordReader
from barnabas.client.consume.taken import Taken
from barnabas.net.errors import ConfigError, MalformedAnswer
from barnabas.net.metadata import NEVER
from barnabas.net.network import NetworkClient
from barnabas.protocol.errors import STALE_METADATA, BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, ZERO_UUID, TopicPartition
from barnabas.protocol.requests.fetch import FetchRequest, FetchResponse, PartitionData

log = logging.getLogger(__name__)

RESET_TO: Final = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP, "none": None}

_RETRY: Final = STALE_METADATA | {
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}
_SESSION_GONE: Final = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


class Fetcher:
    """The fetch state of one consumer. `drive` is a driver of the network's pump; `on_change` wakes who waits."""

    def __init__(self, config: ConsumerConfig, network: NetworkClient, on_change: Callable[[], None]) -> None:
        self.config = config
        self.network = network
        self.metadata = network.metadata
        self.positions: dict[TopicPartition, Position] = {}
        self._first = Phase.COMMITTED if config.group_id else Phase.RESET
        self._on_change = on_change
        self._sessions: dict[int, FetchSession] = {}
        self._in_flight: set[int] = set()
        self.fetches = self.bytes_fetched = self.records_taken = 0
        self._isolation = ISOLATION[config.isolation_level]
        self._decoder = RecordDecoder(config.key_deserializer, config.value_deserializer)
        self._lookups = Lookups(config, network, RESET_TO[config.auto_offset_reset], on_change)

    # ---- what is consumed -------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment; partitions that stay keep position and buffer."""
        wanted = dict.fromkeys(partitions)
        kept = {where: position for where, position in self.positions.items() if where in wanted}
        for where in self.positions.keys() - wanted.keys():
            self.metadata.troubles.clear(where)
        self.positions = kept
        for where in wanted:
            if where not in kept:
                kept[where] = Position(where, self._first)

    def position_of(self, where: TopicPartition) -> Position:
        """The state of an assigned partition.

        Raises:
            ConfigError: it is not assigned.
        """
        found = self.positions.get(where)
        if found is None:
            raise ConfigError(f"{where} is not assigned to this consumer: call assign() first")
        return found

    # ---- the step ---------------------------------------------------------------------------------------------------

    def drive(self, now_ms: int) -> int:
        """Send what may be sent now. Returns when to call again at the latest (absolute ms)."""
        due = self._lookups.drive(self.positions.values(), now_ms)
        wanted, later = self._wanted(now_ms)
        for node_id, partitions in wanted.items():
            if self.network.ready(node_id, now_ms):
                self._fetch(node_id, partitions, now_ms)
            elif self.network.has_failed(node_id) and self._leave_near(node_id, partitions, now_ms):
                due = now_ms
            else:
                due = min(due, now_ms + max(self.network.poll_delay_ms(node_id, now_ms), 1))
        return min(due, later)

    def _leave_near(self, node_id: int, partitions: Iterable[TopicPartition], now_ms: int) -> bool:
        """Those that read from a replica near here go on at their leader, for it cannot be reached; whether any do."""
        left = [position for where in partitions if (position := self.positions[where]).near == node_id]
        for position in left:
            position.leave_near(now_ms)
        return bool(left)

    def _wanted(self, now_ms: int) -> tuple[dict[int, dict[TopicPartition, Wanted]], int]:
        cluster = self.metadata.cluster
        by_node: dict[int, dict[TopicPartition, Wanted]] = {}
        due = NEVER
        if cluster.nodes and self._in_flight.issuperset(cluster.nodes):
            return by_node, due  # nobody can be asked before an answer comes, and that is a step of its own
        for where, position in self.positions.items():
            if position.phase is not Phase.FETCHING or position.buffered or position.error:
                continue
            if position.paused or position.held:
                continue
            if position.retry_at_ms > now_ms:
                due = min(due, position.retry_at_ms)
                continue
            info = cluster.partition(*where)
            if info is None or info.leader not in cluster.nodes:
                self.metadata.note_missing(where, now_ms)
                if not self.metadata.update_requested:
                    self.metadata.request_update()
                continue
            source = position.source(info.leader, cluster.nodes, now_ms)
            if source in self._in_flight:
                continue
            by_node.setdefault(source, {})[where] = Wanted(
                cluster.topic_id(where.topic),
                position.offset,
                info.leader_epoch,
                self.config.max_partition_fetch_bytes,
            )
        return by_node, due

    def _fetch(self, node_id: int, wanted: dict[TopicPartition, Wanted], now_ms: int) -> None:
        config = self.config
        request = FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=self._isolation,
            rack_id=config.client_rack and self._rack(wanted, now_ms),
        )
        max_version = self._sessions.setdefault(node_id, FetchSession()).fill(request, wanted)
        self._in_flight.add(node_id)
        self.fetches += 1
        done = partial(self._on_fetched, node_id, wanted, now_ms)
        # The broker may hold the answer for max_wait_ms: that is no part of its answering time.
        timeout_ms = config.request_timeout_ms + config.fetch_max_wait_ms
        self.network.send(node_id, request, now_ms, done, timeout_ms=timeout_ms, max_version=max_version)

    def _rack(self, wanted: Iterable[TopicPartition], now_ms: int) -> str:
        """The rack to be told, which makes a leader send whoever is near one of its replicas there."""
        return self.config.client_rack if all(self.positions[one].seeks_near(now_ms) for one in wanted) else ""

    # ---- answers ----------------------------------------------------------------------------------------------------

    def _on_fetched(
        self,
        node_id: int,
        wanted: dict[TopicPartition, Wanted],
        asked_ms: int,
        response: FetchResponse | None,
        error: BarnabasError | None,
        now_ms: int,
    ) -> None:
        self._in_flight.discard(node_id)
        session = self._sessions[node_id]
        if response is None:
            session.lost()
            self._delay(wanted, now_ms)
            if isinstance(error, MalformedAnswer):
                self._refuse(wanted, error)
            elif error is not None and not isinstance(error, KafkaError):
                self._fail(wanted, error)
            return
        incremental = session.epoch > 0
        if not session.answered(response.error_code, response.session_id):
            self._on_refused(wanted, response.error_code, incremental, now_ms)
            return
        if not response.responses:
            self._rest(wanted, asked_ms)
        names = {want.topic_id: where.topic for where, want in wanted.items() if want.topic_id != ZERO_UUID}
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id) or self.metadata.cluster.topic_names.get(topic.topic_id, "")
            for data in topic.partitions:
                where = TopicPartition(name, data.partition_index)
                want, position = wanted.get(where), self.positions.get(where)
                if want is not None and position is not None:
                    self._on_partition(position, want, data, now_ms)
        self._on_change()

    def _on_refused(self, wanted: Iterable[TopicPartition], code: int, incremental: bool, now_ms: int) -> None:
        """The whole answer is an error: at once again in full if only the session was wrong, else after the back-off.

        Source: Kafka's FetchSessionHandler. It has no back-off, but a broker that refuses full fetches would be asked
        without end.
        """
        if code in _SESSION_GONE and incremental:
            return
        self._delay(wanted, now_ms)
        if (code in STALE_METADATA or code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR) and (
            not self.metadata.update_requested
        ):
            self.metadata.request_update()

    def _rest(self, wanted: Iterable[TopicPartition], asked_ms: int) -> None:
        """An answer has nothing, and may have come before its time: nobody is asked again at once for that.

        A new leader may not know yet that what was read is committed. It holds no request for what is behind that, as
        Apache Kafka's does not, and would be asked without a pause for as long.
        """
        until_ms = asked_ms + min(self.config.retry_backoff_ms, self.config.fetch_max_wait_ms)
        for where in wanted:
            position = self.positions.get(where)
            if position is not None:
                position.retry_at_ms = max(position.retry_at_ms, until_ms)

    def _on_partition(self, position: Position, want: Wanted, data: PartitionData, now_ms: int) -> None:
        stale = position.phase is not Phase.FETCHING or position.offset != want.offset or position.buffered
        if stale:
            return
        if data.error_code:
            self._on_error(position, want, data, now_ms)
            return
        if self.metadata.troubles:
            self.metadata.troubles.clear(position.where)
        position.high_watermark = data.high_watermark
        position.last_stable_offset = data.last_stable_offset
        position.log_start_offset = data.log_start_offset
        position.topic_id = want.topic_id
        if data.records is not None and len(data.records):
            self.bytes_fetched += len(data.records)
            aborted = data.aborted_transactions if self._isolation else None
            position.fetched = Fetched(one_buffer(data.records), aborted, want.leader_epoch)
        elif data.preferred_read_replica >= 0:
            position.near, position.near_until_ms = (
                data.preferred_read_replica,
                now_ms + self.config.metadata_max_age_ms,
            )

    def _on_error(self, position: Position, want: Wanted, data: PartitionData, now_ms: int) -> None:
        code = data.error_code
        was_near, position.near = position.near >= 0, -1
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and was_near:
            return  # a follower may begin later, or end earlier: the leader knows
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if RESET_TO[self.config.auto_offset_reset] is not None:
                told = "%s: offset %d is not in the log (any more, or yet): auto.offset.reset goes to the %s"
                log.warning(told, position.where, want.offset, self.config.auto_offset_reset)
                position.await_reset(None)
            else:
                position.error = KafkaError(
                    code, f"{position.where}: offset {want.offset} is not in the log and auto.offset.reset is none"
                )
            return
        if code not in _RETRY:
            position.error = KafkaError(code, str(position.where))
            return
        position.retry_at_ms = now_ms + self.config.retry_backoff_ms
        self.metadata.troubles.note(position.where, KafkaError(code, str(position.where)), now_ms)
        hint = data.current_leader
        same_topic = want.topic_id == self.metadata.cluster.topic_id(position.where.topic)
        if hint is not None and hint.leader_id >= 0 and same_topic:
            news = self.metadata.update_leader(position.where, hint.leader_id, hint.leader_epoch)
            if news:
                position.retry_at_ms = 0
        if code in STALE_METADATA and not self.metadata.update_requested:
            self.metadata.request_update()

    def _delay(self, wanted: Iterable[TopicPartition], now_ms: int) -> None:
        for where in wanted:
            position = self.positions.get(where)
            if position is not None:
                position.retry_at_ms = now_ms + self.config.retry_backoff_ms
                position.leave_near(now_ms)

    def _refuse(self, wanted: Mapping[TopicPartition, Wanted], error: BarnabasError) -> None:
        """The answer cannot be read: each partition it was to tell of says so, until a seek. Others go on."""
        for where, want in wanted.items():
            position = self.positions.get(where)
            if position is not None and position.offset == want.offset and not position.buffered:
                detail = f"{where}, offset {want.offset}: {error}"
                position.error = KafkaError(ErrorCode.CORRUPT_MESSAGE, detail)
        self._on_change()

    def _fail(self, wanted: Iterable[TopicPartition], error: BarnabasError) -> None:
        for where in wanted:
            position = self.positions.get(where)
            if position is not None:
                position.error = error
        self._on_change()

    # ---- handing out ------------------------------------------------------------------------------------------------

    @property
    def has_something(self) -> bool:
        """Whether taking would bring records or raise an error."""
        return any(position.servable for position in self.positions.values())

    def take_records(self, count_max: int) -> list[ConsumerRecord]:
        """At most `count_max` buffered records, partition by partition; positions move behind them.

        Raises:
            KafkaError: a partition's fetch failed for good; it stays so until a seek.
        """
        taken: list[ConsumerRecord] = []
        for position in self._servable():
            try:
                self._take_from(position, taken, count_max)
            except BarnabasError as error:
                position.error = error
            if position.error is not None and not position.returned:
                if taken:
                    break
                raise position.error
            if len(taken) >= count_max:
                break
        self.records_taken += len(taken)
        return taken

    def _servable(self) -> list[Position]:
        return [position for position in self.positions.values() if position.servable]

    def _take_from(self, position: Position, taken: list[ConsumerRecord], count_max: int) -> None:
        while position.returned and len(taken) < count_max:
            taken.append(position.returned.popleft())
        if position.error is not None or position.fetched is None or len(taken) == count_max:
            return
        reader = self._reader(position)
        while len(taken) < count_max and (share := reader.read(count_max - len(taken))):
            taken += share
            position.offset, position.offset_epoch = reader.next_offset, reader.leader_epoch
        if reader.at_end():
            if reader.end <= reader.start:
                raise no_whole_batch(position)
            position.drop_buffer()
            self._drained(position, reader.end)

    def _reader(self, position: Position) -> RecordReader:
        """What reads a partition's buffer record by record. One partition's batch is unpacked at a time."""
        if position.reader is None:
            assert position.fetched is not None
            for other in self.positions.values():
                other.reader = None
            where, start = position.where, position.offset
            data, aborted = position.fetched.data, position.fetched.aborted
            walk = Walk(where, data, start, check_crcs=self.config.check_crcs, aborted=aborted)
            position.reader = RecordReader(self._decoder, where, walk, start, position.offset_epoch)
        return position.reader

    def take_parts(self) -> list[Taken]:
        """Everything buffered, as it came; positions move behind it, so that the next fetch may go while it is decoded.

        Raises:
            KafkaError: a partition's fetch failed for good; it stays so until a seek.
        """
        taken: list[Taken] = []
        for position in self._servable():
            if position.returned:
                position.seek(position.returned[0].offset)  # fetched again, for the bytes are gone
                continue
            if position.error is None:
                try:
                    taken.append(self._take_whole(position))
                except BarnabasError as error:
                    position.error = error
                else:
                    position.drop_buffer()
                    self._drained(position, taken[-1].next_position)
            if position.error is not None:
                if taken:
                    break
                raise position.error
        return taken

    def _take_whole(self, position: Position) -> Taken:
        assert position.fetched is not None
        check_crcs, fetched = self.config.check_crcs, position.fetched
        last = last_batch(position.where, fetched.data, position.offset, check_crcs=check_crcs)
        if last is None or last.next_offset <= position.offset:
            raise no_whole_batch(position)
        position.offset_epoch = last.leader_epoch
        return Taken(
            position.where,
            position.offset,
            last.next_offset,
            fetched.data,
            fetched.aborted,
            check_crcs,
            fetched.leader_epoch,
        )

    def give_back(self, parts: Iterable[Taken], error: BarnabasError | None) -> None:
        """Parts that were taken and not handed out are handed out again; the first is the one the error is about.

        A partition that was moved since, or given up, keeps its place; one whose leader changed goes back all the same.
        """
        for part in parts:
            position = self.positions.get(part.where)
            if position is not None and position.offset == part.next_position:
                position.seek(part.position)
                position.error = error
                if error is None:
                    position.fetched = Fetched(part.data, part.aborted, part.leader_epoch)
            error = None

    def give_records_back(self, records: Sequence[ConsumerRecord]) -> None:
        """Records that were taken and not handed out come again, before all others of their partitions."""
        for record in reversed(records):
            position = self.positions.get(TopicPartition(record.topic, record.partition))
            if position is not None and position.next_offset is not None and record.offset < position.offset:
                position.returned.appendleft(record)
                self.records_taken -= 1

    def _drained(self, position: Position, end: int) -> None:
        position.offset = end
        # The next to be asked for and served is another one: whoever was served goes to the end.
        del self.positions[position.where]
        self.positions[position.where] = position
