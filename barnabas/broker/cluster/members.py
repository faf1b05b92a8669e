"""The controller's side of the other brokers: it takes them in, hears them, and does without those that are silent.

    register     -> RegisterBroker, and what it led or had in sync goes, if it was not fenced yet
    heartbeat    -> BrokerChange where it is fenced or unfenced by it, with what that means for partitions
    its session is over -> the same as a heartbeat that wants the fence

A broker and its partitions change in one batch of records, or, where they are many, in slices: the order of
`leadership` keeps everybody from seeing a leader that is fenced. Who is decided over stands in `registrations`.

Source: `QuorumController.registerBroker`, `processBrokerHeartbeat`, `maybeFenceStaleBroker` of Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeAlias

from barnabas.broker.cluster.controller import LocalController
from barnabas.broker.cluster.feed import MetadataFeed
from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.leadership import fenced, unfenced
from barnabas.broker.cluster.records import MetadataRecord
from barnabas.broker.cluster.registrations import Beat, Heartbeat, Registration, Registrations
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import KafkaError

Registered: TypeAlias = Callable[[KafkaError | None, int], None]
"""Hears of a refusal, or of the broker's epoch."""
Heard: TypeAlias = Callable[[KafkaError | None, Beat | None], None]
"""Hears of a refusal, or of what the heartbeat came to."""

REFUSED_AGAIN_MS: Final = 1000
"""After a fence that could not be written: on a full disk, for one."""

logger = logging.getLogger(__name__)


class Members:
    """All brokers but the controller's own, which registers itself as a start goes on.

    Args:
        registrations: who has a session.
        controller: what decides and writes.
        end_offset: where the next record of the metadata log will stand.
        feed: what carries the committed metadata to them.
    """

    def __init__(
        self,
        registrations: Registrations,
        controller: LocalController,
        end_offset: Callable[[], int],
        feed: MetadataFeed,
    ) -> None:
        self._registrations = registrations
        self._controller = controller
        self._end_offset = end_offset
        self._fencing: set[int] = set()
        self._not_before_ms = 0
        self.feed = feed

    def begin(self, image: Image, now_ms: int) -> None:
        """The metadata is replayed: whoever is registered has a session from now on."""
        self._registrations.take_over(image, now_ms)

    def register(self, asked: Registration, done: Registered, now_ms: int) -> None:
        """Take in a broker, which is fenced at first; `done(None, epoch)`, later."""
        epoch = -1

        def decide(image: Image) -> Job[list[MetadataRecord]]:
            nonlocal epoch
            record = self._registrations.register(image, asked, self._end_offset(), now_ms)
            if record is None:
                epoch = image.broker_epoch(asked.broker_id)
                return []
            epoch = record.broker_epoch
            changes = yield from fenced(image, asked.broker_id)
            return [record, *changes]

        self._controller.decide(decide, lambda fault: done(fault, epoch if fault is None else -1))

    def heartbeat(self, beat: Heartbeat, done: Heard, now_ms: int) -> None:
        """Take in a sign of life; `done(None, told)`, now or later."""
        told: Beat | None = None
        try:
            told = self._registrations.heartbeat(self._controller.pending, beat, now_ms)
        except KafkaError as refusal:
            done(refusal.kept(), None)
            return
        if told.record is None:  # as nearly always: nothing is to be decided
            done(None, told)
            return

        def decide(image: Image) -> Job[list[MetadataRecord]]:
            nonlocal told
            told = self._registrations.heartbeat(image, beat, now_ms)
            if told.record is None:
                return []
            what = fenced if told.is_fenced else unfenced
            changes = yield from what(image, beat.broker_id)
            return [*changes, told.record] if told.is_fenced else [told.record, *changes]

        def decided(fault: KafkaError | None) -> None:
            if fault is None and told is not None and told.record is not None:
                logger.info("broker %d is %s", beat.broker_id, "fenced, as it wants" if told.is_fenced else "unfenced")
            done(fault, told if fault is None else None)

        self._controller.decide(decide, decided)

    def tick(self, now_ms: int) -> None:
        """Fence those whose session is over."""
        if now_ms < self._not_before_ms:
            return
        for record in self._registrations.expired(self._controller.pending, now_ms):
            if record.broker_id not in self._fencing:
                self._fencing.add(record.broker_id)
                self._fence(record.broker_id, now_ms)

    def _fence(self, broker_id: int, now_ms: int) -> None:
        silent = False

        def decide(image: Image) -> Job[list[MetadataRecord]]:
            nonlocal silent
            records = [one for one in self._registrations.expired(image, now_ms) if one.broker_id == broker_id]
            silent = bool(records)
            if not silent:
                return []  # it was heard of while this had to wait for its turn
            changes = yield from fenced(image, broker_id)
            return [*changes, *records]

        def done(fault: KafkaError | None) -> None:
            self._fencing.discard(broker_id)
            if fault is not None:
                self._not_before_ms = now_ms + REFUSED_AGAIN_MS
            elif silent:
                logger.warning("broker %d is fenced: nothing was heard of it for %d ms", broker_id, self.session_ms)

        self._controller.decide(decide, done)

    def next_deadline_ms(self) -> int | None:
        """When the next session is over, if nothing is heard (monotonic ms)."""
        due_ms = self._registrations.next_deadline_ms(self._controller.pending, self._fencing)
        return None if due_ms is None else max(due_ms, self._not_before_ms)

    @property
    def session_ms(self) -> int:
        """How long a broker may be silent."""
        return self._registrations.session_ms
