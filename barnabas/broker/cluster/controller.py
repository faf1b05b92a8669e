"""The controller of a cluster of one: decides, writes records, and answers when they are committed.

Two images (`writing`). The controller's own has every record that was appended; decisions are made over it, so that
two requests in flight cannot both create a topic. The brokers' has every committed record; all else reads that one. A
record is committed here once it is on stable storage; in a cluster, once the quorum has it. Nothing above notices.

    request -> decide over the pending image -> append records -> (sync) -> committed image, delta -> answer

What concerns many partitions is a job of bounded steps that has its turn alone (`turns`). What a client asked for is
one batch like any other, made on the side and put in force in one step: nobody ever sees a part of it. What becomes of
the partitions of a broker that is fenced or unfenced comes in slices, as in Apache Kafka (`leadership`).

Long because whatever is asked of a controller is here; how each is decided stands in the rooms beside it.

Source: `QuorumController`, `ReplicationControlManager.alterPartition`, `ProducerIdControlManager` of Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from barnabas.broker.cluster import config_rules, reassignment, topic_rules
from barnabas.broker.cluster.config_rules import Changes
from barnabas.broker.cluster.features import ELIGIBLE, SUPPORTED_FEATURES, Spans, Update, new_levels
from barnabas.broker.cluster.image import Delta, Image, PartitionState
from barnabas.broker.cluster.leadership import judge, resigned
from barnabas.broker.cluster.offsets_topic import is_offsets_topic
from barnabas.broker.cluster.reassignment import Move
from barnabas.broker.cluster.record_log import Commit, RecordLog
from barnabas.broker.cluster.records import (
    MetadataRecord,
    PartitionChange,
    ProducerIds,
)
from barnabas.broker.cluster.settings_room import SettingsRoom
from barnabas.broker.cluster.succession import MIN_ISR, Terms, smaller_minimum, terms_from
from barnabas.broker.cluster.topic_rules import NewTopic, Taken, TopicResult
from barnabas.broker.cluster.turns import SMALL_MAX, RunJob, Turns
from barnabas.broker.cluster.writing import Writing
from barnabas.broker.config import BrokerConfig
from barnabas.broker.config.quorum import voters_of
from barnabas.broker.config.topics import PARTITIONS_PER_OPERATION_MAX
from barnabas.broker.jobs import Job
from barnabas.broker.ports import Entropy, IsrAnswer, IsrProposal
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID

logger = logging.getLogger(__name__)

Growth: TypeAlias = tuple[str, int, Sequence[Sequence[int]] | None]
"""How many partitions a topic is to have: its name, the count, and the replicas of the new ones."""
Done: TypeAlias = Callable[[list[TopicResult]], None]
PRODUCER_ID_BLOCK_SIZE: Final = 1000
CHECKED_PER_STEP: Final = 100
"""Work of checking settings (`work_of`) in one step: about 20 µs each."""


class LocalController:
    """Takes proposals, one after the other; `publish` hears of every committed change before its answer goes out.

    `defer` runs a callback a little later, never from inside the call; `run` takes on jobs;
    `features` tells which levels this release knows.
    """

    def __init__(
        self,
        config: BrokerConfig,
        log: RecordLog,
        image: Image,
        entropy: Entropy,
        publish: Callable[[Delta], None],
        defer: Callable[[Callable[[], None]], None],
        run: RunJob,
        features: Callable[[], Spans] = lambda: SUPPORTED_FEATURES,
    ) -> None:
        self._config = config
        self._features = features
        self._log = log
        self._image = image
        self._entropy = entropy
        self._defer = defer
        self._writing = Writing(log, image, publish, defer, lambda: self._turns.go_on())
        self._turns = Turns(run, lambda: self._writing.under_way)
        self._groups_wait = False  # for their own topic, which is in the line of what the cluster needs

    def create_topics(
        self, topics: Sequence[NewTopic], validate_only: bool, done: Done, take_turn: Callable[[], bool] = lambda: True
    ) -> None:
        """Create topics; each on its own succeeds or fails. `done` gets one result per topic, in order.

        `take_turn` is asked when it begins; on False nothing is done, and `done` not called.
        """
        total = sum(max(topic_rules.partitions_of(topic, self._config.num_partitions), 0) for topic in topics)
        if total > PARTITIONS_PER_OPERATION_MAX:
            fault = KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
            done([TopicResult(topic.name, error=fault) for topic in topics])
            return
        size = max(total, len(topics))
        if size <= SMALL_MAX:
            size += sum(config_rules.work_of(one.settings.values()) for one in topics if one.settings)
        operation = self._create_topics(topics, validate_only, done, take_turn)
        first = not (validate_only or self._groups_wait) and is_offsets_topic(topics, self.pending)
        if first:
            self._groups_wait = True
            operation = self._create_first(operation)
        failed = lambda fault: done([TopicResult(one.name, error=fault) for one in topics])  # noqa: E731
        self._turns.take(size, operation, failed, first=first)

    def _create_first(self, creation: Job[None]) -> Job[None]:
        """Creation of what no group is served without; of one at a time, for clients may ask for it as well."""
        try:
            yield from creation
        finally:
            self._groups_wait = False

    def _create_topics(
        self, topics: Sequence[NewTopic], validate_only: bool, done: Done, take_turn: Callable[[], bool]
    ) -> Job[None]:
        if not take_turn():
            return
        results = []
        records: list[MetadataRecord] = []
        scratch = self.pending if len(topics) == 1 else self.pending.sketch()
        room = SettingsRoom(self.pending.settings_bytes)
        taken = Taken(scratch.topics)
        for topic in topics:
            try:
                created, result = yield from topic_rules.create_topic(
                    scratch,
                    topic,
                    self._fresh_topic_id(),
                    taken=taken,
                    defaults=(self._config.num_partitions, self._config.default_replication_factor),
                    below=self._entropy.below,
                    check_settings=partial(config_rules.check_new_settings, self._config, room, topic.name),
                )
            except KafkaError as fault:
                results.append(TopicResult(topic.name, error=fault.kept()))
                yield None
                continue
            if scratch is not self.pending:
                scratch.add(topic.name, result.topic_id)
                taken.add(topic.name)
            records += created
            results.append(result)
            yield None
        yield from self._finish([] if validate_only else records, results, done)

    def delete_topics(self, topic_ids: Sequence[bytes], done: Done) -> None:
        """Delete topics by id, each at most once in a call. Many go in slices: after a fault some are gone."""
        operation = self._delete_topics(topic_ids, done)
        self._turns.take(
            len(topic_ids), operation, lambda fault: done([TopicResult("", one, fault) for one in topic_ids])
        )

    def _delete_topics(self, topic_ids: Sequence[bytes], done: Done) -> Job[None]:
        results = []
        records: list[MetadataRecord] = []
        for number, topic_id in enumerate(topic_ids, 1):
            try:
                topic = topic_rules.find_topic(self.pending, None, topic_id)
                records += topic_rules.remove_topic(topic)
                results.append(TopicResult(topic.name, topic_id))
            except KafkaError as fault:
                results.append(TopicResult("", topic_id, fault.kept()))
            if number % SMALL_MAX == 0:
                yield None

        def committed(fault: KafkaError | None) -> None:
            for result in results:
                if fault is not None and result.topic_id in self._image.topics_by_id:
                    result.error = fault  # it is there still, also where it was said to be gone
            done(results)

        if not records:
            self._writing.settled(committed)
        elif self._turns.alone:
            yield from self._writing.write_in_slices(records, committed)
        else:
            self._writing.write(records, committed)

    def create_partitions(self, topics: Sequence[Growth], validate_only: bool, done: Done) -> None:
        """Bring topics, each named once, to a number of partitions: (name, count, replicas of the new ones)."""
        size = 0
        for name, count, _ in topics:
            topic = self.pending.topics.get(name)
            size += 0 if topic is None else max(count - len(topic.partitions), 0)
        operation = self._create_partitions(topics, validate_only, done)
        self._turns.take(
            max(size, len(topics)), operation, lambda fault: done([TopicResult(one[0], error=fault) for one in topics])
        )

    def _create_partitions(self, topics: Sequence[Growth], validate_only: bool, done: Done) -> Job[None]:
        results = []
        records: list[MetadataRecord] = []
        for name, count, assignments in topics:
            try:
                records += yield from topic_rules.add_partitions(
                    self.pending, name, count, assignments, self._entropy.below
                )
                results.append(TopicResult(name))
            except KafkaError as fault:
                results.append(TopicResult(name, error=fault.kept()))
            yield None
        yield from self._finish([] if validate_only else records, results, done)

    def alter_configs(
        self, resources: Sequence[Changes], validate_only: bool, done: Callable[[list[KafkaError | None]], None]
    ) -> None:
        """Change settings of resources, each named once: (type, name, changes). One error or None per resource."""
        ends_elrs = any(one.name == MIN_ISR for _, _, changes in resources for one in changes)
        work = len(resources) * config_rules.CHANGED_SETTINGS_WEIGHT
        if work <= SMALL_MAX:
            work = sum(config_rules.work_of_changes(self.pending, one) for one in resources)
        self._turns.take(
            work + (self._partition_count() if ends_elrs else 0),
            self._alter_configs(resources, validate_only, done),
            lambda fault: done([fault for _ in resources]),
        )

    def _alter_configs(
        self, resources: Sequence[Changes], validate_only: bool, done: Callable[[list[KafkaError | None]], None]
    ) -> Job[None]:
        errors: list[KafkaError | None] = []
        records: list[MetadataRecord] = []
        room = SettingsRoom(self.pending.settings_bytes)
        work = 0
        for resource in resources:
            resource_type, name, changes = resource
            work += config_rules.work_of_changes(self.pending, resource)
            try:
                records += config_rules.alter(self.pending, self._config, resource_type, name, changes, room)
                errors.append(None)
            except KafkaError as fault:
                errors.append(fault.kept())
            if work >= CHECKED_PER_STEP:
                work = 0
                yield None

        records += yield from smaller_minimum(self.pending, self._config, records)

        def committed(fault: KafkaError | None) -> None:
            done(errors if fault is None else [fault for _ in errors])  # a refusal, too, may go by what was lost

        if validate_only or not records:
            self._writing.settled(committed)
        elif self._turns.alone:
            yield from self._writing.write_alone(records, committed)
        else:
            self._writing.write(records, committed)

    def alter_partition(self, proposal: IsrProposal, done: Callable[[IsrAnswer], None]) -> None:
        """Change an ISR. The answer never comes from inside this call (see `ports`)."""
        self._turns.do(
            lambda: self._alter_partition(proposal, done),
            lambda fault: self._defer(lambda: done(IsrAnswer(fault.code))),
        )

    def _alter_partition(self, proposal: IsrProposal, done: Callable[[IsrAnswer], None]) -> None:
        topic = self.pending.topics_by_id.get(proposal.topic_id)
        state = None if topic is None else topic.partitions.get(proposal.partition.partition)
        code = judge(self.pending, proposal, state)
        if code:
            self._refuse(code, done)
            return
        assert topic is not None
        assert state is not None
        if state.leader in proposal.isr:
            record: PartitionChange | None = self._with_isr(proposal, state)
        else:
            terms = self.terms_of(topic.name)
            record = resigned(self.pending, proposal.partition.partition, state, proposal.isr, terms)
        if record is None:
            self._refuse(ErrorCode.INELIGIBLE_REPLICA, done)
            return
        leader_epoch = state.leader_epoch + (record.leader is not None)
        recovering = state.recovering if record.recovering is None else record.recovering
        answer = IsrAnswer(0, leader_epoch, state.partition_epoch + 1, record.isr or state.isr, recovering)
        if record.leader not in (None, state.leader):  # it has ended a reassignment, in which this leader goes
            answer = IsrAnswer(ErrorCode.NEW_LEADER_ELECTED)
        self._writing.write([record], lambda fault: done(answer if fault is None else IsrAnswer(fault.code)))

    def _refuse(self, code: int, done: Callable[[IsrAnswer], None]) -> None:
        def settled(fault: KafkaError | None) -> None:
            answer = IsrAnswer(code if fault is None else fault.code)
            self._defer(lambda: done(answer))

        self._writing.settled(settled)

    def _with_isr(self, proposal: IsrProposal, state: PartitionState) -> PartitionChange:
        """What a partition becomes with the ISR proposed."""
        number = proposal.partition.partition
        recovered = False if state.recovering and not proposal.recovering else None
        change = reassignment.changed(
            self.pending, number, state, proposal.isr, terms=self.terms_of(proposal.partition.topic)
        )
        if change is None:
            return PartitionChange(proposal.topic_id, number, isr=proposal.isr, recovering=recovered)
        if change.replicas is not None:
            logger.info("%s is where it was to go: on %s", proposal.partition, list(change.replicas))
        return change if change.recovering else change._replace(recovering=recovered)

    def reassign(
        self, moves: Sequence[Move], may_resize: bool, done: Callable[[list[KafkaError | None]], None]
    ) -> None:
        """Move partitions, each named once, or give up what is under way; one error or None for each, in order."""
        told: list[KafkaError | None] = []

        def decide(image: Image) -> Job[list[MetadataRecord]]:
            return reassignment.decide(image, moves, told, may_resize=may_resize, terms_of=self.terms_of)

        def decided(fault: KafkaError | None) -> None:
            done(told if fault is None else [fault for _ in moves])

        self._turns.take(len(moves), self._decide(decide, decided), decided)

    def update_features(self, updates: Sequence[Update], validate_only: bool, done: Commit) -> None:
        """Bring features, each named once, to other levels: all of them, or, for a KafkaError, none (KIP-1022)."""

        def decide(image: Image) -> Job[list[MetadataRecord]]:
            controllers = [one.node_id for one in voters_of(self._config)]
            records = new_levels(image, updates, self._features(), self._config.node_id, controllers)
            yield from ()
            return [] if validate_only else records

        self._turns.take(len(updates), self._decide(decide, done), done)

    def allocate_producer_ids(self, broker_id: int, done: Callable[[KafkaError | None, int, int], None]) -> None:
        """A block of producer ids nobody else gets, not even after its record was lost: `done(error, first, count)`."""

        def allocate() -> None:
            first = self.pending.next_producer_id
            end = first + PRODUCER_ID_BLOCK_SIZE

            def committed(fault: KafkaError | None) -> None:
                if fault is not None:
                    done(fault, first, PRODUCER_ID_BLOCK_SIZE)
                else:
                    self._log.keep_producer_ids(end, lambda fault: done(fault, first, PRODUCER_ID_BLOCK_SIZE))

            self._writing.write([ProducerIds(broker_id, end)], committed)

        self._turns.do(allocate, lambda fault: done(fault, -1, 0))

    def decide(
        self, decision: Callable[[Image], Job[list[MetadataRecord]]], done: Commit, *, first: bool = False
    ) -> None:
        """Have `decision` made over all that was appended so far, in its turn, and what it gives back written.

        It is alone if it may concern many partitions; then it is written, and seen, in slices, so the order of its
        records is to make sense. `done` hears of the last commit, or of the KafkaError it was ended by. `first`: it
        does not wait for what clients have asked for.
        """
        self._turns.take(self._partition_count(), self._decide(decision, done), done, first=first)

    def _partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.pending.topics.values())

    def _decide(self, decision: Callable[[Image], Job[list[MetadataRecord]]], done: Commit) -> Job[None]:
        try:
            records = yield from decision(self.pending)
        except KafkaError as refusal:
            fault = refusal.kept()
            self._defer(lambda: done(fault))
            return
        if not records:
            self._writing.settled(lambda fault: self._defer(lambda: done(fault)))
        elif self._turns.alone:
            yield from self._writing.write_in_slices(records, done)
        else:
            self._writing.write(records, done)

    def terms_of(self, topic: str) -> Terms:
        """What the settings of a topic say of who may lead it."""
        given = self.pending.topic_overrides(topic)
        return terms_from(given, self._config, eligible=ELIGIBLE in self.pending.features)

    def settled(self, done: Commit) -> None:
        """For what is found in the pending image without a turn: `done` hears when that is committed, or lost."""
        self._writing.settled(done)

    @property
    def pending(self) -> Image:
        """All that was appended, committed or not; another image after a refusal."""
        return self._writing.pending

    def reload(self) -> None:
        """Start over from the committed image: it was just replayed."""
        self._writing.reload()

    def write(self, records: Sequence[MetadataRecord], done: Commit) -> None:
        """Append records as they are, for what no other method decides (further brokers, an assignment by hand)."""

        def write() -> None:
            self._writing.write(records, done)

        self._turns.do(write, done)

    def _fresh_topic_id(self) -> bytes:
        topic_id = ZERO_UUID
        while topic_id == ZERO_UUID or topic_id in self.pending.topics_by_id:
            topic_id = self._entropy.uuid()
        return topic_id

    def _finish(
        self,
        records: Sequence[MetadataRecord],
        results: list[TopicResult],
        done: Done,
    ) -> Job[None]:
        def committed(fault: KafkaError | None) -> None:
            if fault is not None:
                for result in results:
                    result.error = fault  # a refusal, too, may go by what was lost
            done(results)

        if not records:
            self._writing.settled(committed)
        elif self._turns.alone:
            yield from self._writing.write_alone(records, committed)
        else:
            self._writing.write(records, committed)
