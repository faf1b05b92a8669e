"""AlterPartition (56). A leader proposes the ISR of partitions; the answer is what holds then. Brokers alone ask.

- A broker that is not the controller: NOT_CONTROLLER. One that names another's id: CLUSTER_AUTHORIZATION_FAILED.
  An epoch that is not the broker's present one: STALE_BROKER_EPOCH. Each for the whole answer.
- A partition that another broker leads: NOT_LEADER_OR_FOLLOWER (Kafka: INVALID_REQUEST, which it counts as a defect).
- RECOVERING with more than one in sync, or of a partition that is not: INVALID_REQUEST. A leader has nothing to mend
  it by, here as in Apache Kafka: its first proposal says RECOVERED.
- An ISR without the leader, of those that were in it: the leader gives up (`replica/damage`). Kafka: INVALID_REQUEST.
- From v3 on members come with their broker epochs (KIP-903): one of an earlier life is INELIGIBLE_REPLICA. Epoch -1
  fits any. v2 has ids alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.broker.ports import IsrAnswer, IsrProposal
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionPartitionResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopicResult,
)

EPOCHS_FROM: Final = 3
RECOVERED, RECOVERING = 0, 1
"""`LeaderRecoveryState`: whether a leader was elected that may lack what was acknowledged, and has not mended it."""

Told: TypeAlias = Callable[[AlterPartitionPartitionResult, int, IsrAnswer], None]


def handle(services: Services, request: AlterPartitionRequest, context: RequestContext, now_ms: int) -> None:
    """Decide over all partitions; the answer leaves when the last is decided."""
    error = refusal(services, request.broker_id, request.broker_epoch, context)
    if error:
        context.respond(AlterPartitionResponse(error_code=error))
        return
    response = AlterPartitionResponse()
    left = sum(len(topic.partitions) for topic in request.topics)

    def told(result: AlterPartitionPartitionResult, leader: int, answer: IsrAnswer) -> None:
        nonlocal left
        result.error_code = answer.error_code
        if not answer.error_code:
            result.leader_id, result.leader_epoch = leader, answer.leader_epoch
            result.partition_epoch, result.isr = answer.partition_epoch, list(answer.isr)
            result.leader_recovery_state = int(answer.recovering)
        left -= 1
        if not left:
            context.respond(response)

    if not left:
        context.respond(response)
    for topic in request.topics:
        response.topics.append(AlterPartitionTopicResult(topic.topic_id))
        for part in topic.partitions:
            result = AlterPartitionPartitionResult(part.partition_index)
            response.topics[-1].partitions.append(result)
            _propose(services, request, topic.topic_id, part, context.api_version, result, told)


def refusal(services: Services, broker_id: int, broker_epoch: int, context: RequestContext) -> int:
    """Why the controller does not act on what a broker asks; 0 if it does."""
    if broker_id != context.connection.peer:
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if services.members is None:
        return ErrorCode.NOT_CONTROLLER
    if broker_epoch != services.image.broker_epoch(broker_id):
        return ErrorCode.STALE_BROKER_EPOCH
    return 0


def _propose(
    services: Services,
    request: AlterPartitionRequest,
    topic_id: bytes,
    asked: AlterPartitionPartition,
    version: int,
    result: AlterPartitionPartitionResult,
    told: Told,
) -> None:
    done = partial(told, result, request.broker_id)
    topic = services.image.topics_by_id.get(topic_id)
    if topic is None or asked.partition_index not in topic.partitions:
        done(IsrAnswer(ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return
    if version >= EPOCHS_FROM:
        isr = tuple(member.broker_id for member in asked.new_isr_with_epochs)
        epochs = tuple(member.broker_epoch for member in asked.new_isr_with_epochs)
    else:
        isr, epochs = tuple(asked.new_isr), ()
    state = topic.partitions[asked.partition_index]
    if state.leader_epoch == asked.leader_epoch and state.leader != request.broker_id:
        done(IsrAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        return
    if asked.leader_recovery_state not in (RECOVERED, RECOVERING):
        done(IsrAnswer(ErrorCode.INVALID_REQUEST))
        return
    key = TopicPartition(topic.name, asked.partition_index)
    recovering = asked.leader_recovery_state == RECOVERING
    proposal = IsrProposal(key, topic_id, asked.leader_epoch, asked.partition_epoch, isr, epochs, recovering)
    services.controller.alter_partition(proposal, done)
