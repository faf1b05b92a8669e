"""What a client fetches, partition by partition: what it asked, and what it was told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.config.topics import TOPIC_NAME_LENGTH_MAX
from barnabas.broker.handlers.steps import SLICE, slices
from barnabas.broker.replica.types import FetchInfo
from barnabas.protocol.ids import ZERO_UUID, TopicPartition

if TYPE_CHECKING:  # loaded with the first fetch
    from barnabas.protocol.requests.fetch import FetchPartition, FetchTopic, ForgottenTopic, PartitionData

UNKNOWN_MAX: Final = 1000
"""Partitions that nobody knows of all sessions together, as a consumer may ask for before its topic is made."""

Key = tuple[str | bytes, int]


class Asked:
    """One partition a client fetches, and what it was last told of it (-1: nothing)."""

    __slots__ = ("high_watermark", "info", "key", "log_start_offset", "partition", "topic", "topic_id")

    def __init__(self, topic: FetchTopic, part: FetchPartition) -> None:
        self.topic = topic.topic
        self.topic_id = topic.topic_id
        self.partition = part.partition
        self.key: TopicPartition | None = (
            None if topic.topic_id != ZERO_UUID else TopicPartition(topic.topic, part.partition)
        )
        """The partition by name; None while a topic id is not resolved."""
        self.high_watermark = -1
        self.log_start_offset = -1
        self.update(part)

    def update(self, part: FetchPartition) -> None:
        """Take over what the client asks now."""
        self.info = FetchInfo(
            self.topic_id,
            part.fetch_offset,
            part.log_start_offset,
            part.partition_max_bytes,
            part.current_leader_epoch,
            part.last_fetched_epoch,
        )

    def told(self, data: PartitionData) -> bool:
        """Remember what the answer says; whether an incremental answer must list it."""
        must = bool(data.records) or data.preferred_read_replica != -1 or data.diverging_epoch is not None
        if self.high_watermark != data.high_watermark:
            self.high_watermark = data.high_watermark
            must = True
        if self.log_start_offset != data.log_start_offset:
            self.log_start_offset = data.log_start_offset
            must = True
        if data.error_code:
            self.high_watermark = -1
            must = True
        return must


def weight(asked: Asked) -> int:
    """How much a partition that nobody knows counts: a name that no topic can have, more than there is room for."""
    return 1 if len(asked.topic) <= TOPIC_NAME_LENGTH_MAX else UNKNOWN_MAX + 1


def merge(asked: dict[Key, Asked], topic: FetchTopic, partitions: Iterable[FetchPartition], uses_ids: bool) -> None:
    """Some partitions of a topic are asked for, or differently."""
    name: str | bytes = topic.topic_id if uses_ids else topic.topic
    for part in partitions:
        known = asked.get((name, part.partition))
        if known is None:
            asked[name, part.partition] = Asked(topic, part)
        else:
            known.update(part)


def forget(asked: dict[Key, Asked], topic: ForgottenTopic, partitions: Iterable[int], uses_ids: bool) -> None:
    """Some partitions of a topic are no longer asked for."""
    name: str | bytes = topic.topic_id if uses_ids else topic.topic
    for partition in partitions:
        asked.pop((name, partition), None)


def in_steps(topics: Sequence[Any], take: Callable[[Any, Sequence[Any]], None]) -> Iterator[None]:
    """Have the partitions of the topics taken, so many in a step."""
    left = SLICE
    for topic in topics:
        for some in slices(topic.partitions):
            take(topic, some)
            left -= len(some) + 1
            if left <= 0:
                left = SLICE
                yield None
