"""The controller of another broker, as the rooms of this one ask for changes (`proposals.Proposals`).

What the controller answers is taken as it comes; what it has decided comes with the metadata, as for everybody. No
answer is NOT_CONTROLLER, which whoever asks takes for "later". ISRs that change in one step are proposed by one request
(Apache Kafka's `DefaultAlterPartitionManager` gathers what comes while a request is under way).

What clients ask to be changed is not asked from here: their requests are forwarded whole (`Services.forward`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from barnabas.broker.cluster.config_rules import Alteration
from barnabas.broker.cluster.features import Update
from barnabas.broker.cluster.reassignment import Move
from barnabas.broker.cluster.record_log import Commit
from barnabas.broker.cluster.topic_rules import NewTopic, TopicResult
from barnabas.broker.config.topics import OFFSETS_TOPIC
from barnabas.broker.ports import IsrAnswer, IsrProposal
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas.protocol.requests.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    BrokerState,
)
from barnabas.protocol.requests.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

Ask: TypeAlias = Callable[..., None]
"""`ask(request, done)`: `done(response or None)`, later."""
CREATE_MS_MAX: Final = 30_000
PROPOSED_AT_ONCE_MAX: Final = 250
"""Partitions of one AlterPartition request, which takes the controller some 5 ms to read."""


class RemoteController:
    """Asks the controller for what this broker needs.

    Args:
        ask: the way to it.
        create: another one, for topics that clients are the first to use: that waits there for what clients ask. No
            group is served before its own topic is there, which goes by `ask`.
        node_id: this broker.
        epoch: in which this broker is registered now.
        defer: runs a callback at the end of a step.
    """

    def __init__(
        self,
        ask: Ask,
        create: Ask,
        node_id: int,
        epoch: Callable[[], int],
        defer: Callable[[Callable[[], None]], None],
    ) -> None:
        self._ask = ask
        self._create = create
        self._node_id = node_id
        self._epoch = epoch
        self._defer = defer
        self._gathered: list[tuple[IsrProposal, Callable[[IsrAnswer], None]]] = []  # one a partition, until a step ends

    def alter_partition(self, proposal: IsrProposal, done: Callable[[IsrAnswer], None]) -> None:
        """Ask for another ISR, with all others of this step."""
        self._gathered.append((proposal, done))
        if len(self._gathered) == 1:
            self._defer(self._propose)

    def _propose(self) -> None:
        gathered, self._gathered = self._gathered, []
        for start in range(0, len(gathered), PROPOSED_AT_ONCE_MAX):
            some = gathered[start : start + PROPOSED_AT_ONCE_MAX]
            topics: dict[bytes, AlterPartitionTopic] = {}
            told: dict[bytes, list[Callable[[IsrAnswer], None]]] = {}
            for proposal, done in some:
                topic = topics.setdefault(proposal.topic_id, AlterPartitionTopic(proposal.topic_id))
                topic.partitions.append(_proposed(proposal))
                told.setdefault(proposal.topic_id, []).append(done)
            request = AlterPartitionRequest(self._node_id, self._epoch(), list(topics.values()))
            self._ask(request, partial(_told_isrs, list(itertools.chain(*told.values()))))

    def allocate_producer_ids(self, broker_id: int, done: Callable[[KafkaError | None, int, int], None]) -> None:
        """Ask for a block of producer ids."""

        def told(response: AllocateProducerIdsResponse | None) -> None:
            fault = _fault(-1 if response is None else response.error_code)
            if response is None or fault is not None:
                done(fault, -1, 0)
            else:
                done(None, response.producer_id_start, response.producer_id_len)

        self._ask(AllocateProducerIdsRequest(broker_id, self._epoch()), told)

    def create_topics(
        self,
        topics: Sequence[NewTopic],
        validate_only: bool,
        done: Callable[[list[TopicResult]], None],
        take_turn: Callable[[], bool] = lambda: True,
    ) -> None:
        """Ask for topics, as a client would."""
        if not take_turn():
            return
        request = CreateTopicsRequest([_creatable(one) for one in topics], CREATE_MS_MAX, validate_only)

        def told(response: CreateTopicsResponse | None) -> None:
            answers = {} if response is None else {one.name: one for one in response.topics}
            results = []
            for topic in topics:
                answer = answers.get(topic.name)
                if answer is None:
                    results.append(TopicResult(topic.name, error=_fault(-1)))
                    continue
                fault = _fault(answer.error_code, answer.error_message or "")
                counts = answer.num_partitions, answer.replication_factor
                results.append(TopicResult(topic.name, answer.topic_id, fault, *counts))
            done(results)

        alone = [one.name for one in topics] == [OFFSETS_TOPIC]
        (self._ask if alone else self._create)(request, told)

    def delete_topics(self, topic_ids: Sequence[bytes], done: Callable[[list[TopicResult]], None]) -> None:
        """Refused: such requests are forwarded whole."""
        done([TopicResult("", one, _fault(-1)) for one in topic_ids])

    def create_partitions(
        self,
        topics: Sequence[tuple[str, int, Sequence[Sequence[int]] | None]],
        validate_only: bool,
        done: Callable[[list[TopicResult]], None],
    ) -> None:
        """Refused: such requests are forwarded whole."""
        done([TopicResult(name, error=_fault(-1)) for name, _, _ in topics])

    def alter_configs(
        self,
        resources: Sequence[tuple[int, str, Sequence[Alteration]]],
        validate_only: bool,
        done: Callable[[list[KafkaError | None]], None],
    ) -> None:
        """Refused: such requests are forwarded whole."""
        done([_fault(-1) for _ in resources])

    def update_features(self, updates: Sequence[Update], validate_only: bool, done: Commit) -> None:
        """Refused: such requests are forwarded whole."""
        done(_fault(-1))

    def reassign(
        self, moves: Sequence[Move], may_resize: bool, done: Callable[[list[KafkaError | None]], None]
    ) -> None:
        """Refused: such requests are forwarded whole."""
        done([_fault(-1) for _ in moves])


def _fault(code: int, detail: str = "the controller cannot be asked now") -> KafkaError | None:
    """What an error code of the controller's comes to; -1 for no answer."""
    if not code:
        return None
    try:
        return KafkaError(ErrorCode.NOT_CONTROLLER if code == -1 else ErrorCode(code), detail)
    except ValueError:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller answers with error {code}")


def _proposed(proposal: IsrProposal) -> AlterPartitionPartition:
    return AlterPartitionPartition(
        proposal.partition.partition,
        proposal.leader_epoch,
        new_isr_with_epochs=[BrokerState(*one) for one in zip(proposal.isr, proposal.epochs, strict=True)],
        leader_recovery_state=int(proposal.recovering),
        partition_epoch=proposal.partition_epoch,
    )


def _told_isrs(told: list[Callable[[IsrAnswer], None]], response: AlterPartitionResponse | None) -> None:
    """Tell each what became of its proposal: the answer has them in the order of the request."""
    parts: list[Any] = [] if response is None else [part for topic in response.topics for part in topic.partitions]
    if response is None or response.error_code or len(parts) != len(told):
        code = ErrorCode.NOT_CONTROLLER if response is None else response.error_code
        for done in told:
            done(IsrAnswer(code or ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    for done, part in zip(told, parts, strict=True):
        recovering = part.leader_recovery_state == 1
        done(IsrAnswer(part.error_code, part.leader_epoch, part.partition_epoch, tuple(part.isr), recovering))


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        topic.name,
        topic.partitions,
        topic.replication_factor,
        [CreatableReplicaAssignment(number, list(replicas)) for number, replicas in topic.assignments.items()],
        [CreatableTopicConfig(name, value) for name, value in topic.settings.items()],
    )
