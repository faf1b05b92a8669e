"""What a consumer must know before it can fetch: where to start, and whether the log still holds what was read.

- A partition without a position asks its leader (ListOffsets) for the earliest or latest offset, as its reset says.
- A partition whose leader changed asks (OffsetForLeaderEpoch) where the epoch of the last record read ends in the new
  leader's log: before the position means that records we have read are gone (KIP-320).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.positions import Phase, Position
from barnabas.client.errors import LogTruncated, NoPosition
from barnabas.net.metadata import NEVER
from barnabas.net.network import NetworkClient
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import RETRIABLE, STALE_METADATA, BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import CONSUMER_REPLICA_ID, ZERO_UUID, TopicPartition
from barnabas.protocol.requests.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.protocol.requests.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

ISOLATION: Final = {"read_uncommitted": 0, "read_committed": 1}


def list_offsets(partitions: Iterable[tuple[TopicPartition, int, int]], isolation: int) -> ListOffsetsRequest:
    """One request for (partition, leader epoch, timestamp) triples of one node."""
    topics: dict[str, ListOffsetsTopic] = {}
    for where, leader_epoch, timestamp in partitions:
        topic = topics.setdefault(where.topic, ListOffsetsTopic(where.topic))
        topic.partitions.append(ListOffsetsPartition(where.partition, leader_epoch, timestamp))
    return ListOffsetsRequest(CONSUMER_REPLICA_ID, isolation, list(topics.values()))


class Lookups:
    """Sends the questions that open positions need, one at a time per partition, and applies the answers."""

    def __init__(
        self, config: ConsumerConfig, network: NetworkClient, reset_to: int | None, on_change: Callable[[], None]
    ) -> None:
        self._config = config
        self._network = network
        self._metadata = network.metadata
        self._reset_to = reset_to
        self._isolation = ISOLATION[config.isolation_level]
        self._on_change = on_change

    def drive(self, positions: Iterable[Position], now_ms: int) -> int:
        """Asks what may be asked now. Returns when to call again at the latest (absolute ms)."""
        due = NEVER
        resets: dict[int, dict[TopicPartition, tuple[Position, int, int]]] = {}
        checks: dict[int, dict[TopicPartition, Position]] = {}
        for position in positions:
            if position.asking or position.error is not None:
                continue
            if position.retry_at_ms > now_ms:
                due = min(due, position.retry_at_ms)
                continue
            self._notice_topic(position)
            self._notice_leader(position)
            if position.phase in (Phase.FETCHING, Phase.COMMITTED):
                continue
            timestamp = self._reset_to if position.reset_to is None else position.reset_to
            if position.phase is Phase.RESET and timestamp is None:
                position.error = NoPosition(f"{position.where} has no position and auto.offset.reset is none: seek")
                self._on_change()
                continue
            info = self._metadata.cluster.partition(*position.where)
            if info is None or info.leader not in self._metadata.cluster.nodes:
                self._metadata.note_missing(position.where, now_ms)
                if not self._metadata.update_requested:
                    self._metadata.request_update()
                continue
            if position.phase is Phase.RESET:
                assert timestamp is not None
                resets.setdefault(info.leader, {})[position.where] = (position, info.leader_epoch, timestamp)
            else:
                checks.setdefault(info.leader, {})[position.where] = position
        for node_id, asked in resets.items():
            self._ask_offsets(node_id, asked, now_ms)
        for node_id, checked in checks.items():
            self._ask_epochs(node_id, checked, now_ms)
        return due

    def _notice_topic(self, position: Position) -> None:
        """Another topic of that name: an offset of the old one says nothing in its log."""
        topic_id = self._metadata.cluster.topic_id(position.where.topic)
        if topic_id == position.topic_id or ZERO_UUID in (topic_id, position.topic_id):
            return
        if position.buffered or position.returned:
            return  # it is noticed again once the application has taken what is here
        told = "%s: the topic was deleted and made anew, offset %d is gone: auto.offset.reset says where to go on"
        log.warning(told, position.where, position.offset)
        position.await_reset(None)
        position.offset_epoch = position.leader_epoch = -1

    def _notice_leader(self, position: Position) -> None:
        """A newer leader epoch than the position's: validate what was read, if its epoch is known."""
        info = self._metadata.cluster.partition(*position.where)
        if info is None or info.leader_epoch <= position.leader_epoch:
            return
        first = position.leader_epoch < 0
        if position.buffered and not first:
            return  # it is noticed again once the application has taken what is here
        position.leader_epoch = info.leader_epoch
        position.near = -1
        if first or position.phase is not Phase.FETCHING or position.offset_epoch < 0:
            return
        position.phase = Phase.VALIDATE

    # ---- where to start ---------------------------------------------------------------------------------------------

    def _ask_offsets(self, node_id: int, asked: dict[TopicPartition, tuple[Position, int, int]], now_ms: int) -> None:
        request = list_offsets(
            ((where, epoch, timestamp) for where, (_, epoch, timestamp) in asked.items()), self._isolation
        )
        for position, _, _ in asked.values():
            position.asking = True
        self._network.enqueue(node_id, request, now_ms, partial(self._on_offsets, asked))

    def _on_offsets(
        self,
        asked: dict[TopicPartition, tuple[Position, int, int]],
        response: ListOffsetsResponse | None,
        error: BarnabasError | None,
        now_ms: int,
    ) -> None:
        answers = _by_partition(response, "name")
        for where, (position, _, timestamp) in asked.items():
            position.asking = False
            current = self._reset_to if position.reset_to is None else position.reset_to
            if position.phase is not Phase.RESET or current != timestamp:
                continue  # a seek came in between
            answer: ListOffsetsPartitionResponse | None = answers.get(where)
            if answer is None or answer.error_code:
                self._retry(position, answer.error_code if answer else None, error, now_ms)
            elif answer.offset < 0:
                detail = f"{where}: the leader tells offset {answer.offset} for timestamp {timestamp}"
                position.error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, detail)
            else:
                self._metadata.troubles.clear(where)
                log.debug("%s: the position is reset to offset %d", where, answer.offset)
                position.seek(answer.offset)
        self._on_change()

    # ---- what was read ----------------------------------------------------------------------------------------------

    def _ask_epochs(self, node_id: int, checked: dict[TopicPartition, Position], now_ms: int) -> None:
        connection = self._network.connections.of(node_id)
        if connection.versions and self._network.api_version(node_id, ApiKey.OFFSET_FOR_LEADER_EPOCH) is None:
            for position in checked.values():
                position.phase = Phase.FETCHING  # a broker that cannot tell: trust the offset, as Kafka's client does
            return
        topics: dict[str, OffsetForLeaderTopic] = {}
        for where, position in checked.items():
            position.asking = True
            topic = topics.setdefault(where.topic, OffsetForLeaderTopic(where.topic))
            topic.partitions.append(
                OffsetForLeaderPartition(where.partition, position.leader_epoch, position.offset_epoch)
            )
        request = OffsetForLeaderEpochRequest(CONSUMER_REPLICA_ID, list(topics.values()))
        self._network.enqueue(node_id, request, now_ms, partial(self._on_epochs, checked))

    def _on_epochs(
        self,
        checked: dict[TopicPartition, Position],
        response: OffsetForLeaderEpochResponse | None,
        error: BarnabasError | None,
        now_ms: int,
    ) -> None:
        answers = _by_partition(response, "topic")
        for where, position in checked.items():
            position.asking = False
            if position.phase is not Phase.VALIDATE:
                continue
            answer: EpochEndOffset | None = answers.get(where)
            if answer is None or answer.error_code:
                self._retry(position, answer.error_code if answer else None, error, now_ms)
                continue
            position.phase = Phase.FETCHING
            if 0 <= answer.end_offset < position.offset:
                self._truncated(position, answer.end_offset)
        self._on_change()

    def _truncated(self, position: Position, end: int) -> None:
        if self._reset_to is None:
            position.error = LogTruncated(position.where, position.offset, end)
        else:
            told = "%s: read up to offset %d, but the new leader's log diverges at %d: goes on from there"
            log.warning(told, position.where, position.offset, end)
            position.seek(end)

    # ---- trouble ----------------------------------------------------------------------------------------------------

    def _retry(self, position: Position, code: int | None, error: BarnabasError | None, now_ms: int) -> None:
        if code is not None and code not in RETRIABLE:
            position.error = KafkaError(code, f"{position.where}: its offsets")
        elif error is not None and not isinstance(error, KafkaError):
            position.error = error
        else:
            position.retry_at_ms = now_ms + self._config.retry_backoff_ms
            if code is not None:
                self._metadata.troubles.note(position.where, KafkaError(code, f"{position.where}: its offsets"), now_ms)
            if code in STALE_METADATA and not self._metadata.update_requested:
                self._metadata.request_update()


def _by_partition(response: Any, name: str) -> dict[TopicPartition, Any]:
    """A response's partitions by topic and number; both APIs differ only in how they call the topic and the number."""
    answers = {}
    for topic in response.topics if response is not None else ():
        for each in topic.partitions:
            number = each.partition_index if name == "name" else each.partition
            answers[TopicPartition(getattr(topic, name), number)] = each
    return answers
