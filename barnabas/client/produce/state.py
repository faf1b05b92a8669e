"""Idempotence: producer id, epoch, and the sequence of every partition (half of Kafka's `TransactionManager`).

A batch gets id, epoch and sequence when it is first drained, and keeps them on every retry, so that the broker can tell
a retry from a new batch. When the sequence of a partition can no longer be trusted (a batch failed for good, expired
while its fate is unknown, or left a gap), the epoch is bumped: what is still to be sent starts again at sequence 0.
A topic that is made anew knows no sequence: what was sent to the one before it keeps its own, and goes first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from barnabas.client.produce.batch import ProducerBatch
from barnabas.protocol.batch import add_sequence
from barnabas.protocol.errors import RETRIABLE, ErrorCode
from barnabas.protocol.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ZERO_UUID, TopicPartition

_EPOCH_MAX: Final = 2**15 - 1
_LOST_STATE: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


@dataclass(slots=True)
class PartitionState:
    """One partition's sequences. `in_flight` are the batches that have one and no outcome, in sequence order.

    `heard_of` is the topic, by id, in which a batch was acknowledged last.
    """

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    next_sequence: int = 0
    last_acked: int = -1
    last_acked_offset: int = -1
    heard_of: bytes = ZERO_UUID
    unresolved: int | None = None
    in_flight: list[ProducerBatch] = field(default_factory=list)


class ProducerState:
    """The producer's id and epoch, and what each partition's sequences allow."""

    def __init__(self) -> None:
        self.producer_id = NO_PRODUCER_ID
        self.epoch = NO_PRODUCER_EPOCH
        self._partitions: dict[TopicPartition, PartitionState] = {}
        self._to_bump: dict[TopicPartition, None] = {}
        self._unresolved: dict[TopicPartition, None] = {}

    @property
    def has_id(self) -> bool:
        """Whether a broker gave us a producer id."""
        return self.producer_id != NO_PRODUCER_ID

    def set_id(self, producer_id: int, epoch: int) -> None:
        """InitProducerId was answered. What waits since the last id was used up goes under this one."""
        self.producer_id = producer_id
        self.epoch = epoch
        for state in self._partitions.values():
            if state.producer_id == NO_PRODUCER_ID and state.in_flight:
                self._restart(state)

    def partition(self, where: TopicPartition) -> PartitionState:
        """The state of one partition, made on first mention."""
        found = self._partitions.get(where)
        if found is None:
            found = self._partitions[where] = PartitionState()
        return found

    # ---- sending --------------------------------------------------------------------------------------------------

    def may_drain(self, batch: ProducerBatch, topic_id: bytes = ZERO_UUID) -> bool:
        """Whether this batch, its partition's next, may leave now, for the topic of that id.

        Not without an id; not a new one while the partition's sequences are unresolved or older epochs are in flight;
        and while the first batch in flight is being retried, only that one. Unlike in Kafka the first of an epoch is
        acknowledged before the next one leaves: a broker that knows nothing of a producer takes any sequence, and would
        write the next one where it refused the first (too large, not yet led), which was out of order from then on. So
        is the first in a topic that was made anew, and before it whatever was sent to the one that it replaces.
        """
        if not self.has_id:
            return False
        state = self.partition(batch.where)
        if not batch.has_sequence:
            stale = (state.producer_id, state.epoch) != (self.producer_id, self.epoch)
            unheard = state.last_acked < 0 or state.heard_of != topic_id
            if state.unresolved is not None or (state.in_flight and (stale or unheard)):
                return False
            return not any(each.topic_id != topic_id or (each.retry and not each.in_flight) for each in state.in_flight)
        return bool(state.in_flight) and state.in_flight[0] is batch

    def on_drained(self, batch: ProducerBatch) -> None:
        """Fix id, epoch and sequence at the first drain."""
        if batch.has_sequence:
            return
        state = self.partition(batch.where)
        if (state.producer_id, state.epoch) != (self.producer_id, self.epoch):
            self._restart(state)
        batch.set_producer(self.producer_id, self.epoch, state.next_sequence)
        state.next_sequence = add_sequence(state.next_sequence, batch.record_count)
        state.in_flight.append(batch)

    def on_split(self, batch: ProducerBatch, parts: list[ProducerBatch], starts: list[int]) -> None:
        """The parts of a batch take its place and its sequences."""
        if not batch.has_sequence:
            return
        state = self.partition(batch.where)
        at = state.in_flight.index(batch)
        state.in_flight[at : at + 1] = parts
        for part, start in zip(parts, starts, strict=True):
            sequence = add_sequence(batch.base_sequence, start)
            part.set_producer(batch.producer_id, batch.producer_epoch, sequence)

    # ---- answers --------------------------------------------------------------------------------------------------

    def on_acked(self, batch: ProducerBatch, base_offset: int) -> None:
        """The batch was written (or had been already)."""
        state = self.partition(batch.where)
        self._forget(state, batch)
        if (batch.producer_id, batch.producer_epoch) != (state.producer_id, state.epoch):
            return
        if state.last_acked < 0 or is_after(batch.last_sequence, state.last_acked):
            state.last_acked = batch.last_sequence
        state.heard_of = batch.topic_id
        if base_offset >= 0:
            state.last_acked_offset = max(state.last_acked_offset, base_offset + batch.record_count - 1)

    def on_failed(self, batch: ProducerBatch, code: int | None, *, sequence_unused: bool) -> None:
        """The batch failed for good. Later sequences would leave a gap, so the epoch goes up."""
        if not batch.has_sequence:
            return
        self._forget(self.partition(batch.where), batch)
        if sequence_unused or code in _LOST_STATE:
            self._to_bump[batch.where] = None

    def on_expired_in_flight(self, batch: ProducerBatch) -> None:
        """The batch ran out of time and nobody knows whether it was written: nothing new until the rest is back."""
        if not batch.has_sequence:
            return
        state = self.partition(batch.where)
        self._forget(state, batch)
        following = add_sequence(batch.last_sequence, 1)
        if state.unresolved is None or is_after(following, state.unresolved):
            state.unresolved = following
            self._unresolved[batch.where] = None

    def can_retry(self, batch: ProducerBatch, code: int, log_start_offset: int) -> bool:
        """Whether the broker's refusal allows another attempt (`TransactionManager.canRetry`); may ask for a bump."""
        state = self.partition(batch.where)
        if code == ErrorCode.UNKNOWN_PRODUCER_ID:
            if log_start_offset != -1 and not batch.sequence_reset:
                current = (batch.producer_id, batch.producer_epoch) == (self.producer_id, self.epoch)
                if state.last_acked_offset < log_start_offset or current:
                    self._to_bump[batch.where] = None
            return True
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            is_next = batch.base_sequence == _next(state.last_acked)
            if state.unresolved is None and (batch.sequence_reset or not is_next):
                return True  # an earlier one is still to be written; this one follows it
            if state.unresolved is None or is_next or batch.base_sequence == state.unresolved:
                self._to_bump[batch.where] = None
            return True
        return code in RETRIABLE

    # ---- epoch bumps ------------------------------------------------------------------------------------------------

    def resolve(self) -> bool:
        """Settle unresolved partitions whose batches are all back, then bump the epoch if one asked for it.

        Returns:
            Whether the epoch changed (or the id is to be asked for again).
        """
        for where in list(self._unresolved):
            state = self._partitions[where]
            if state.unresolved is not None:
                if state.in_flight:
                    continue
                if state.unresolved != _next(state.last_acked):
                    self._to_bump[where] = None
            state.unresolved = None
            del self._unresolved[where]
        if not self._to_bump or not self.has_id:
            return False
        if self.epoch >= _EPOCH_MAX:
            self.producer_id, self.epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        else:
            self.epoch += 1
        for where in self._to_bump:
            self._restart(self.partition(where))
        self._to_bump.clear()
        return True

    def _restart(self, state: PartitionState) -> None:
        """Sequences begin at 0 under the present id and epoch, also those of batches that wait for a retry."""
        state.producer_id, state.epoch = self.producer_id, self.epoch
        state.next_sequence = 0
        state.last_acked = -1
        state.unresolved = None
        for batch in state.in_flight:
            batch.set_producer(self.producer_id, self.epoch, state.next_sequence)
            state.next_sequence = add_sequence(state.next_sequence, batch.record_count)

    def _forget(self, state: PartitionState, batch: ProducerBatch) -> None:
        if batch in state.in_flight:
            state.in_flight.remove(batch)


def _next(sequence: int) -> int:
    return 0 if sequence < 0 else add_sequence(sequence, 1)


def is_after(sequence: int, other: int) -> bool:
    """Whether `sequence` comes after `other` on the circle of 31 bits."""
    return 0 < (sequence - other) & 0x7FFFFFFF < 1 << 30
