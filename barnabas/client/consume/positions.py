"""What a consumer knows of each assigned partition: where it stands, what is buffered, whether it may be fetched.

state        meaning                                      left by
COMMITTED    no position: what has the group committed?   the answer: FETCHING, or RESET; a seek
RESET        no position: ask the leader for an offset    an offset arrives, a seek
VALIDATE     the leader changed: does the log still       the answer: FETCHING, or a truncation was found
             hold what we have read?
FETCHING     a position that may be fetched               a seek, OFFSET_OUT_OF_RANGE, a new leader epoch
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from barnabas.client.consume.record import ConsumerRecord, RecordReader
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from barnabas.protocol.requests.fetch import AbortedTransaction

_LEFT_MS: Final = 10_000
"""As long as a broker's session lasts, about (9 s): then its metadata is without the replica that was left."""


class Phase(Enum):
    """The state of a partition's position."""

    COMMITTED = "committed"
    RESET = "reset"
    VALIDATE = "validate"
    FETCHING = "fetching"


@dataclass(slots=True)
class Fetched:
    """One partition's part of an answer, as it came; walked and decoded when the application asks for it."""

    data: memoryview
    aborted: Sequence[AbortedTransaction] | None
    leader_epoch: int = -1  # in which its leader was asked: one of another epoch refuses


@dataclass(slots=True, eq=False)
class Position:
    """One assigned partition. Offsets are -1 while unknown."""

    where: TopicPartition
    phase: Phase = Phase.RESET
    offset: int = -1
    offset_epoch: int = -1
    leader_epoch: int = -1
    topic_id: bytes = ZERO_UUID  # of the topic that told of this position; zeros until one has
    reset_to: int | None = None
    paused: bool = False
    held: bool = False  # about to be given up to another member of the group: its position does not move any more
    asking: bool = False
    retry_at_ms: int = 0
    near: int = -1  # the replica that its leader has told to read from (KIP-392), -1 for none
    near_until_ms: int = 0
    near_again_ms: int = 0  # until then the leader is not told of a rack, and so gives the records itself
    fetched: Fetched | None = None
    reader: RecordReader | None = None  # of `fetched`, once it is read record by record
    returned: deque[ConsumerRecord] = field(default_factory=deque)  # handed out ahead and given back
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    error: BarnabasError | None = None

    @property
    def servable(self) -> bool:
        """Whether the application can be given something of this partition, or must be told what is wrong with it."""
        return not (self.paused or self.held) and (
            self.fetched is not None or bool(self.returned) or self.error is not None
        )

    @property
    def next_offset(self) -> int | None:
        """The offset of the next record that will be handed out; None while it is not known."""
        if self.phase in (Phase.COMMITTED, Phase.RESET):
            return None
        return self.returned[0].offset if self.returned else self.offset

    @property
    def lag(self) -> int | None:
        """Records not handed out yet; None while that is unknown."""
        offset = self.next_offset
        return None if offset is None or self.high_watermark < 0 else max(self.high_watermark - offset, 0)

    @property
    def unasked(self) -> bool:
        """Whether its group must be asked where it begins."""
        return self.phase is Phase.COMMITTED and not self.asking and self.error is None

    @property
    def buffered(self) -> bool:
        """Whether something waits for the application here."""
        return self.fetched is not None

    def source(self, leader: int, nodes: Container[int], now_ms: int) -> int:
        """Whom to read from: the replica near here, while it is there and that was told of late; else the leader."""
        if self.near >= 0 and (now_ms >= self.near_until_ms or self.near not in nodes):
            self.near = -1
        return leader if self.near < 0 else self.near

    def leave_near(self, now_ms: int) -> None:
        """The replica near here cannot be reached: read from the leader, which knows that only once it is fenced.

        Kafka's client asks its leader, is sent there again, and waits for the metadata to be without that replica.
        """
        if self.near >= 0:
            self.near, self.near_again_ms = -1, now_ms + _LEFT_MS

    def seeks_near(self, now_ms: int) -> bool:
        """Whether the leader may send it to a replica near here."""
        return now_ms >= self.near_again_ms

    def drop_buffer(self) -> None:
        """Forget what was fetched: it belongs to another position."""
        self.fetched = None
        self.reader = None
        self.returned.clear()

    def seek(self, offset: int, offset_epoch: int = -1) -> None:
        """Go to an offset; what was buffered or in flight for another one no longer counts."""
        self.drop_buffer()
        self.phase = Phase.FETCHING
        self.offset = offset
        self.offset_epoch = offset_epoch
        self.topic_id = ZERO_UUID
        self.reset_to = None
        self.error = None
        self.retry_at_ms = 0

    def await_reset(self, timestamp: int | None) -> None:
        """Ask for an offset by timestamp (earliest, latest), or by the reset policy (None)."""
        self.drop_buffer()
        self.phase = Phase.RESET
        self.offset = -1
        self.topic_id = ZERO_UUID
        self.reset_to = timestamp
        self.error = None
        self.retry_at_ms = 0


def no_whole_batch(position: Position) -> KafkaError:
    """What came holds no batch to its end."""
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"{position.where}: no whole batch at offset {position.offset}; if the broker cuts large batches, "
        "raise max.partition.fetch.bytes",
    )
