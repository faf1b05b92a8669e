"""What all logs of one broker have room for together."""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.log.index_room import INDEX_BYTES_MAX, IndexRoom
from barnabas.broker.log.producer_state import ProducerRoom
from barnabas.protocol.ids import TopicPartition

SEGMENTS_MAX: Final = 20_000
"""A segment holds 5 KB of memory: what is known of it and of its file, and the beginnings of its indexes. Whoever may
alter a topic may set `segment.ms=1`, with which every batch has one of its own: 3,700 a second were seen. Apache Kafka
has no such bound."""
CROWDED_BYTES_MIN: Final = 1024 * 1024
"""Above that a segment is rolled from so many bytes on (the least `segment.bytes` of Apache Kafka 4)."""

logger = logging.getLogger(__name__)


class Room:
    """Counts of the logs of one broker; `index_bytes`: what their indexes may take in memory."""

    __slots__ = ("_told", "indexes", "producers", "segments")

    def __init__(self, index_bytes: int = INDEX_BYTES_MAX) -> None:
        self.producers = ProducerRoom()
        self.indexes = IndexRoom(index_bytes)
        self.segments = 0
        self._told = False

    def must_grow(self, size: int, key: TopicPartition) -> bool:
        """Whether an active segment of `size` bytes is written to further, though its settings ask for a new one."""
        if self.segments < SEGMENTS_MAX or size >= CROWDED_BYTES_MIN:
            return False
        if not self._told:
            self._told = True
            logger.warning(
                "all logs together have %d segments: from now on one of less than %d bytes is written to further, "
                "whatever segment.ms, segment.bytes and segment.index.bytes say (first: %s)",
                self.segments,
                CROWDED_BYTES_MIN,
                key,
            )
        return True
