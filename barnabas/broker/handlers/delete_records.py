"""DeleteRecords (21). A real broker raises the log start at once and answers when every alive replica has followed.

- Offset -1 stands for the high watermark; the answer is the low watermark (-1 with an error, but the one reached when
  the time was up). Errors: 1, 3, 6, 7, 17 (internal topic), 29, 44 (a topic that only compacts), 56.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Operation, Resource, Services
from barnabas.broker.handlers.steps import Slice, answer, gathered, slices
from barnabas.broker.jobs import Job
from barnabas.broker.replica.types import DeleteRecordsResult
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def handle(services: Services, request: DeleteRecordsRequest, context: RequestContext, now_ms: int) -> None:
    """Delete, and answer now or when the replicas have followed."""
    services.work(_serve(services, request, context, now_ms), request, context)


def _serve(services: Services, request: DeleteRecordsRequest, context: RequestContext, now_ms: int) -> Job[None]:
    topics: dict[str, DeleteRecordsTopicResult] = {}
    offsets: dict[TopicPartition, int] = {}
    refused: dict[TopicPartition, DeleteRecordsResult] = {}
    current = Slice()
    for topic in request.topics:
        if topic.partitions:
            topics[topic.name] = DeleteRecordsTopicResult(topic.name)
        allowed = services.authorise(context.connection.principal, Operation.DELETE, Resource("topic", topic.name))
        for part in topic.partitions:
            key = TopicPartition(topic.name, part.partition_index)
            if not allowed:
                refused[key] = DeleteRecordsResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif not services.image.contains(key):
                refused[key] = DeleteRecordsResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                offsets[key] = part.offset
            if current.is_over():
                yield None
        if current.is_over():
            yield None
    results: dict[TopicPartition, DeleteRecordsResult] = yield from gathered(
        offsets,
        lambda some, got: services.replicas.delete_records(some, request.timeout_ms, got, now_ms, context.connection),
    )
    told = list({**results, **refused}.items())
    for some in slices(told):
        for key, result in some:
            topics[key.topic].partitions.append(
                DeleteRecordsPartitionResult(key.partition, result.low_watermark, result.error_code)
            )
        if some is not told:
            yield None
    response = DeleteRecordsResponse(topics=list(topics.values()))
    yield from answer(context, response, len(told) + len(topics))
