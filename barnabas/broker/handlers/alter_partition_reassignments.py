"""AlterPartitionReassignments (45). The controller moves partitions to other brokers (`cluster/reassignment`).

- Null replicas give up what is under way: NO_REASSIGNMENT_IN_PROGRESS where nothing is.
- The answer comes once that is written; how far the move is, ListPartitionReassignments tells.
- Below v1 a partition may get more or fewer replicas than it has; from v1 on the client says whether it may.
- A partition named twice is INVALID_REQUEST (Kafka decides twice over the same state). The time-out is not looked at.
"""

from __future__ import annotations

from collections import Counter

from barnabas.broker.cluster.reassignment import Move
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import CLUSTER, Operation, Services
from barnabas.broker.handlers.steps import Slice, answer
from barnabas.broker.jobs import Gate, Job, wait
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(
    services: Services, request: AlterPartitionReassignmentsRequest, context: RequestContext, now_ms: int
) -> None:
    """Have all that can be moved begun, and say what became of each."""
    services.work(_serve(services, request, context), request, context)


def _serve(services: Services, request: AlterPartitionReassignmentsRequest, context: RequestContext) -> Job[None]:
    if not services.authorise(context.connection.principal, Operation.ALTER, CLUSTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        context.respond(AlterPartitionReassignmentsResponse(error_code=code, error_message=None))
        return
    asked = [
        Move(TopicPartition(topic.name, part.partition_index), None if part.replicas is None else tuple(part.replicas))
        for topic in request.topics
        for part in topic.partitions
    ]
    named = Counter(move.key for move in asked)
    moves = [move for move in asked if named[move.key] == 1]
    told: dict[TopicPartition, KafkaError | None] = {}
    decided = Gate()

    def done(faults: list[KafkaError | None]) -> None:
        told.update((move.key, fault) for move, fault in zip(moves, faults, strict=True))
        decided.open()

    services.controller.reassign(moves, request.allow_replication_factor_change, done)
    yield from wait(decided)
    twice = KafkaError(ErrorCode.INVALID_REQUEST, "The partition is named more than once.")
    responses: list[ReassignableTopicResponse] = []
    slice_ = Slice()
    for topic in request.topics:
        responses.append(ReassignableTopicResponse(topic.name))
        for part in topic.partitions:
            fault = told.get(TopicPartition(topic.name, part.partition_index), twice)
            responses[-1].partitions.append(_result(part.partition_index, fault))
            if slice_.is_over():
                yield None
        if slice_.is_over():
            yield None
    response = AlterPartitionReassignmentsResponse(
        error_message=None if request.topics else "",  # as there
        responses=responses,
        allow_replication_factor_change=request.allow_replication_factor_change,
    )
    yield from answer(context, response, len(asked) + len(responses))


def _result(partition: int, fault: KafkaError | None) -> ReassignablePartitionResponse:
    if fault is None:
        return ReassignablePartitionResponse(partition, 0, None)
    return ReassignablePartitionResponse(partition, fault.code, fault.detail or None)
