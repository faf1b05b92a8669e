"""The controller's side of the other brokers: it takes them in, hears them, and does without those that are silent.

    register     -> RegisterBroker, and what it led or had in sync goes, if it was not fenced yet
    heartbeat    -> BrokerChange where it is fenced or unfenced by it, with what that means for partitions
    its session is over, or its process is shown to be gone (`evidence`) -> the same as a heartbeat that wants the fence
    an election is asked for, or due -> what `elections` say

A broker and its partitions change in one batch of records, or, where they are many, in slices: the order of
`leadership` keeps everybody from seeing a leader that is fenced. Who is decided over stands in `registrations`.

Source: `QuorumController.registerBroker`, `processBrokerHeartbeat`, `maybeFenceStaleBroker` of Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from barnabas.broker.cluster import elections
from barnabas.broker.cluster.controller import LocalController
from barnabas.broker.cluster.elections import PREFERRED, UNCLEAN
from barnabas.broker.cluster.evidence import Doubt, Evidence, Knock
from barnabas.broker.cluster.feed import MetadataFeed
from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.leadership import fenced, nobody_has_all, unfenced, unproven
from barnabas.broker.cluster.record_log import Commit
from barnabas.broker.cluster.records import BrokerChange, MetadataRecord, PartitionChange
from barnabas.broker.cluster.registrations import Beat, Heartbeat, Registration, Registrations
from barnabas.broker.config import BrokerConfig
from barnabas.broker.jobs import Job
from barnabas.broker.metrics import Meter
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import NO_LEADER, TopicPartition

Registered: TypeAlias = Callable[[KafkaError | None, int], None]
"""Hears of a refusal, or of the broker's epoch."""
Heard: TypeAlias = Callable[[KafkaError | None, Beat | None], None]
"""Hears of a refusal, or of what the heartbeat came to."""

Elected: TypeAlias = dict[TopicPartition, tuple[int, str]]
"""What came of an election, by partition: error code and text; 0 for a leader elected."""

REFUSED_AGAIN_MS: Final = 1000
"""After a fence that could not be written: on a full disk, for one."""
TOLD_MAX: Final = 10
"""Partitions that one line of the log names."""

logger = logging.getLogger(__name__)


class Members:
    """All brokers but the controller's own, which registers itself as a start goes on.

    Args:
        registrations: who has a session.
        controller: what decides and writes.
        end_offset: where the next record of the metadata log will stand.
        feed: what carries the committed metadata to them.
        config: the settings in force.
        unclean: counts elections of a leader that may lack what was committed.
        knock: connects to where a broker listens for brokers.
        later: runs a callback at the end of a step, with the time.
        eligible: counts elections of a leader that was not in sync, and lacks nothing.
    """

    def __init__(
        self,
        registrations: Registrations,
        controller: LocalController,
        end_offset: Callable[[], int],
        feed: MetadataFeed,
        config: BrokerConfig,
        unclean: Meter,
        knock: Knock,
        later: Callable[[Callable[[int], None]], None],
        eligible: Meter,
    ) -> None:
        self._registrations = registrations
        self._controller = controller
        self._end_offset = end_offset
        self._fencing: set[int] = set()
        self._not_before_ms = 0
        self.feed = feed
        self._config = config
        self._unclean = unclean
        self._eligible = eligible
        self._elect_ms: dict[int, int] = {}
        """When the controller looks for elections by itself the next time, by kind (monotonic ms)."""
        self._evidence = Evidence(knock, self._gone, later)
        self.fenced_silent = self.fenced_gone = 0
        """Brokers that were fenced here: their session was over; their process was shown to be gone."""

    def begin(self, image: Image, now_ms: int) -> None:
        """The metadata is replayed: whoever is registered has a session from now on."""
        self._registrations.take_over(image, now_ms)
        for election in (PREFERRED, UNCLEAN):
            self._elect_ms[election] = now_ms + self._interval_ms(election)

    def doubt_all(self, image: Image, own_id: int) -> None:
        """Another node was the controller until now: whose process is gone, and was heard of by that one alone?"""
        for broker_id, broker in image.brokers.items():
            if not broker.fenced and broker_id != own_id:
                self._evidence.closed(broker_id, broker.broker_epoch)

    def register(self, asked: Registration, done: Registered, now_ms: int) -> None:
        """Take in a broker, which is fenced at first; `done(None, epoch)`, later."""
        epoch = -1
        doubtful: list[PartitionChange] = []

        def decide(image: Image) -> Job[list[MetadataRecord]]:
            nonlocal epoch
            record = self._registrations.register(image, asked, self._end_offset(), now_ms)
            if record is None:
                self._evidence.alive(asked.broker_id)
                epoch = image.broker_epoch(asked.broker_id)
                return []
            epoch = record.broker_epoch
            proven = asked.previous_epoch == image.broker_epoch(asked.broker_id) >= 0  # who was forgotten shows nothing
            leaves = fenced if proven else unproven
            changes = yield from leaves(image, asked.broker_id, self._controller.terms_of)
            doubtful.extend([] if proven else nobody_has_all(image, changes))
            return [record, *changes]

        def decided(fault: KafkaError | None) -> None:
            if fault is None and doubtful:
                say_unproven(self._controller.pending, asked.broker_id, doubtful)
            done(fault, epoch if fault is None else -1)

        self._decide(decide, decided)

    def heartbeat(self, beat: Heartbeat, done: Heard, now_ms: int) -> None:
        """Take in a sign of life; `done(None, told)`, now or later."""
        told: Beat | None = None
        try:
            told = self._registrations.heartbeat(self._controller.pending, beat, now_ms)
        except KafkaError as refusal:
            done(refusal.kept(), None)
            return
        self._evidence.alive(beat.broker_id)
        if told.record is None:  # as nearly always: nothing is to be decided
            self._controller.settled(lambda fault: done(fault, told if fault is None else None))
            return

        def decide(image: Image) -> Job[list[MetadataRecord]]:
            nonlocal told
            told = self._registrations.heartbeat(image, beat, now_ms)
            if told.record is None:
                return []
            what = fenced if told.is_fenced else unfenced
            changes = yield from what(image, beat.broker_id, self._controller.terms_of)
            return [*changes, told.record] if told.is_fenced else [told.record, *changes]

        def decided(fault: KafkaError | None) -> None:
            if fault is None and told is not None and told.record is not None:
                logger.info("broker %d is %s", beat.broker_id, "fenced, as it wants" if told.is_fenced else "unfenced")
            done(fault, told if fault is None else None)

        self._decide(decide, decided)

    def unregister(self, broker_id: int, done: Commit, now_ms: int) -> None:
        """Do without a broker for good, which is not there any more: it leads nothing, is in no ISR, is forgotten."""

        def decide(image: Image) -> Job[list[MetadataRecord]]:
            record = self._registrations.unregister(image, broker_id, now_ms)
            changes = yield from fenced(image, broker_id, self._controller.terms_of)
            return [*changes, record]

        self._decide(decide, done, first=False)

    def elect(
        self, election: int, named: Sequence[TopicPartition] | None, done: Callable[[KafkaError | None, Elected], None]
    ) -> None:
        """Elect the leaders of partitions, each named once; None for all that need it. `done` hears of it later."""
        told: Elected = {}

        def decide(image: Image) -> Job[list[MetadataRecord]]:
            keys = elections.needing(image, election) if named is None else iter(named)
            return (yield from elections.asked(image, keys, election, told, self._controller.terms_of))

        self._decide(decide, lambda fault: done(fault, told), first=False)

    def tick(self, now_ms: int) -> None:
        """Fence those whose session is over, and hold the elections that are due."""
        for election, due_ms in self._elect_ms.items():
            if now_ms >= due_ms:
                self._elect_ms[election] = now_ms + self._interval_ms(election)
                if election == UNCLEAN or self._config.auto_leader_rebalance_enable:
                    self._elect_all(election)
        self._evidence.tick(now_ms)
        if now_ms < self._not_before_ms:
            return
        for record in self._registrations.expired(self._controller.pending, now_ms):
            self._silent(record.broker_id, now_ms)

    def disconnected(self, broker_id: int) -> None:
        """A connection from a broker is gone."""
        image = self._controller.pending
        if image.is_alive(broker_id):
            self._evidence.closed(broker_id, image.broker_epoch(broker_id))

    def _silent(self, broker_id: int, now_ms: int) -> None:
        def holds(image: Image) -> bool:  # unless it was heard of while this had to wait for its turn
            return any(one.broker_id == broker_id for one in self._registrations.expired(image, now_ms))

        def told() -> None:
            self.fenced_silent += 1
            logger.warning("broker %d is fenced: nothing was heard of it for %d ms", broker_id, self.session_ms)

        self._fence(broker_id, holds, told, now_ms)

    def _gone(self, broker_id: int, doubt: Doubt, now_ms: int) -> None:
        def holds(image: Image) -> bool:
            same = image.is_alive(broker_id) and image.broker_epoch(broker_id) == doubt.epoch
            return same and self._evidence.holds(broker_id, doubt)

        def told() -> None:
            self.fenced_gone += 1
            why = "its connections are closed, and where it listened for brokers nobody does"
            logger.warning("broker %d is fenced: %s", broker_id, why)

        self._fence(broker_id, holds, told, now_ms)

    def _fence(self, broker_id: int, holds: Callable[[Image], bool], told: Callable[[], None], now_ms: int) -> None:
        if broker_id in self._fencing:
            return
        self._fencing.add(broker_id)
        fences = False

        def decide(image: Image) -> Job[list[MetadataRecord]]:
            nonlocal fences
            fences = holds(image)
            if not fences:
                return []
            changes = yield from fenced(image, broker_id, self._controller.terms_of)
            return [*changes, BrokerChange(broker_id, fenced=True)]

        def done(fault: KafkaError | None) -> None:
            self._fencing.discard(broker_id)
            if fault is not None:
                self._not_before_ms = now_ms + REFUSED_AGAIN_MS
                self._evidence.again(broker_id, self._not_before_ms)
                return
            self._evidence.alive(broker_id)  # what was known of it is used up
            if fences:
                told()

        self._decide(decide, done)

    def _elect_all(self, election: int) -> None:
        def decide(image: Image) -> Job[list[MetadataRecord]]:
            changes = yield from elections.all_of(image, election, self._controller.terms_of)
            if changes and election == PREFERRED:
                logger.info("%d partitions are given back to their preferred leader", len(changes))
            return changes

        self._decide(decide, lambda fault: None)

    def take_part(self, broker_id: int, done: Commit) -> None:
        """The controller's own broker has its logs open: it is unfenced, and leads what it may."""

        def decide(image: Image) -> Job[list[MetadataRecord]]:
            changes = yield from unfenced(image, broker_id, self._controller.terms_of)
            return [BrokerChange(broker_id, fenced=False), *changes]

        self._decide(decide, done)

    def _decide(
        self, decision: Callable[[Image], Job[list[MetadataRecord]]], done: Commit, *, first: bool = True
    ) -> None:
        """Have the controller decide; a leader that was not in sync is counted, one that may lack something told of."""
        unclean: list[str] = []
        eligible = 0

        def decide(image: Image) -> Job[list[MetadataRecord]]:
            nonlocal eligible
            records = yield from decision(image)
            for one in records:
                if isinstance(one, PartitionChange) and one.leader not in (None, NO_LEADER):
                    if one.recovering:
                        unclean.append(f"{name_of(image, one)} ({one.leader})")
                    elif one.isr == (one.leader,):
                        eligible += one.leader in image.topics_by_id[one.topic_id].partitions[one.partition].elr
            return records

        def decided(fault: KafkaError | None) -> None:
            if fault is None:
                self._eligible.mark(eligible)
            if unclean and fault is None:
                self._unclean.mark(len(unclean))
                what = "%d partitions have a leader that may lack what was acknowledged, for nobody else could: %s"
                logger.warning(what, len(unclean), some_of(unclean))
            done(fault)

        self._controller.decide(decide, decided, first=first)

    def _interval_ms(self, election: int) -> int:
        if election == PREFERRED:
            return self._config.leader_imbalance_check_interval_seconds * 1000
        return self._config.unclean_leader_election_interval_ms

    def next_deadline_ms(self) -> int | None:
        """When the next session is over, if nothing is heard, or an election or a knock is due (monotonic ms)."""
        session_ms = self._registrations.next_deadline_ms(self._controller.pending, self._fencing)
        due = [*self._elect_ms.values()]
        if session_ms is not None:
            due.append(max(session_ms, self._not_before_ms))
        knock_ms = self._evidence.next_deadline_ms()
        if knock_ms is not None:
            due.append(knock_ms)
        return min(due, default=None)

    @property
    def session_ms(self) -> int:
        """How long a broker may be silent."""
        return self._registrations.session_ms


def say_unproven(image: Image, broker_id: int, doubtful: Sequence[PartitionChange]) -> None:
    """Tell of partitions that may have lost what was acknowledged, with the last replica that had it (`unproven`)."""
    logger.warning(
        "broker %d cannot show that it lost nothing (no clean stop, and its machine was started anew, or its directory "
        "is another); nobody else has what was acknowledged in %d partitions, and it may be lost: %s",
        broker_id,
        len(doubtful),
        some_of([name_of(image, one) for one in doubtful]),
    )


def name_of(image: Image, change: PartitionChange) -> str:
    """The partition that changes."""
    return f"{image.topics_by_id[change.topic_id].name}-{change.partition}"


def some_of(names: Sequence[str]) -> str:
    """The first of many."""
    return ", ".join(names[:TOLD_MAX]) + (", ..." if len(names) > TOLD_MAX else "")
