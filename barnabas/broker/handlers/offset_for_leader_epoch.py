"""OffsetForLeaderEpoch (23). A real broker tells where a leader epoch ended, so that others can cut what diverges.

- Undefined is (-1, -1) without error. Epoch fencing as in Fetch (74, 75); only the leader answers (6); 3 when nobody
  knows the partition. v3 on: replica id -2 for consumers' checks.
- A follower's replica id (>= 0) from whoever is no broker of this cluster: CLUSTER_AUTHORIZATION_FAILED for each
  partition. Apache Kafka takes it from anybody who may describe the topic.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Operation, Resource, Services, acts_as_broker
from barnabas.broker.handlers.steps import SLICE, Slice, answer, gathered, slices
from barnabas.broker.jobs import Job
from barnabas.broker.replica.types import EpochQuery, EpochResult
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)


def handle(services: Services, request: OffsetForLeaderEpochRequest, context: RequestContext, now_ms: int) -> None:
    """Answer at once."""
    size = len(request.topics) + sum(len(topic.partitions) for topic in request.topics)
    work = services.work_in_line if size > SLICE else services.work
    work(_serve(services, request, context), request, context)


def _serve(services: Services, request: OffsetForLeaderEpochRequest, context: RequestContext) -> Job[None]:
    principal = context.connection.principal
    broker = acts_as_broker(services, context.connection)
    refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED if request.replica_id < 0 else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    results: dict[TopicPartition, EpochResult] = {}
    queries: dict[TopicPartition, EpochQuery] = {}
    current = Slice()
    for topic in request.topics:
        allowed = broker or (
            request.replica_id < 0 and services.authorise(principal, Operation.DESCRIBE, Resource("topic", topic.topic))
        )
        for part in topic.partitions:
            key = TopicPartition(topic.topic, part.partition)
            if not allowed:
                results[key] = EpochResult(refusal)
            else:
                queries[key] = EpochQuery(part.leader_epoch, part.current_leader_epoch)
            if current.is_over():
                yield None
        if current.is_over():
            yield None
    results |= yield from gathered(queries, lambda some, got: got(services.replicas.offsets_for_leader_epoch(some)))
    topics = {topic.topic: OffsetForLeaderTopicResult(topic.topic) for topic in request.topics}
    told = list(results.items())
    for some in slices(told):
        for key, result in some:
            topics[key.topic].partitions.append(
                EpochEndOffset(result.error_code, key.partition, result.leader_epoch, result.end_offset)
            )
        if some is not told:
            yield None
    response = OffsetForLeaderEpochResponse(topics=list(topics.values()))
    yield from answer(context, response, len(told) + len(topics))
