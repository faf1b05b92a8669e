"""DescribeTopicPartitions (75, KIP-966). A real broker answers from its image, a page of partitions at a time.

- Topics are told in the order of their names, each once; none named means all there are. A page has as many partitions
  as the request allows, at least one and at most `PAGE_MAX`; what is left is told by `next_cursor`, from which the
  next request goes on. Topics before the cursor are passed over.
- A cursor below partition 0, and one at a topic that is not among those named, are INVALID_REQUEST for every topic
  asked for. A name that is not there: UNKNOWN_TOPIC_OR_PARTITION, one no topic has: INVALID_TOPIC_EXCEPTION (an empty
  one, too: Kafka fails within, and tells of no topic); Metadata's
  other errors stand at partitions. No topic is ever created. Eligible leaders (KIP-966) may be none: empty, never null.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.cluster.image import TopicState
from barnabas.broker.cluster.topic_rules import check_topic_name
from barnabas.broker.config.topics import INTERNAL_TOPICS
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.leaders import seen_leader
from barnabas.broker.handlers.services import Operation, Resource, Services, authorised_operations
from barnabas.broker.handlers.steps import SLICE, answer
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

PAGE_MAX: Final = 2000
"""Partitions in an answer: Kafka's default of `max.request.partition.size.limit`."""


def handle(services: Services, request: DescribeTopicPartitionsRequest, context: RequestContext, now_ms: int) -> None:
    """Answer with a page of partitions."""
    large = len(request.topics or services.image.topics) > SLICE or request.response_partition_limit > SLICE
    work = services.work_in_line if large else services.work
    work(_serve(services, request, context), request, context)


def _serve(services: Services, request: DescribeTopicPartitionsRequest, context: RequestContext) -> Job[None]:
    cursor = request.cursor
    everything = not request.topics
    names = sorted(services.image.topics if everything else {topic.name for topic in request.topics})
    if cursor is not None:
        if cursor.partition_index < 0 or not (everything or cursor.topic_name in names):
            refused = [DescribeTopicPartitionsResponseTopic(ErrorCode.INVALID_REQUEST, name) for name in names]
            yield from answer(context, DescribeTopicPartitionsResponse(topics=refused), len(refused))
            return
        names = [name for name in names if name >= cursor.topic_name]
    page = _Page(services, context, max(1, min(request.response_partition_limit, PAGE_MAX)))
    turn = SLICE
    for name in names:
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if not page.take(name, first, everything):
            break
        if len(page.topics) + page.partitions >= turn:
            turn += SLICE
            yield None
    response = DescribeTopicPartitionsResponse(topics=page.topics, next_cursor=page.next_cursor)
    yield from answer(context, response, len(page.topics) + page.partitions)


class _Page:
    """What one answer tells."""

    __slots__ = ("_coming", "_context", "_limit", "_services", "next_cursor", "partitions", "topics")

    def __init__(self, services: Services, context: RequestContext, limit: int) -> None:
        self._services = services
        self._context = context
        self._coming = services.replicas.is_coming if services.replicas.behind else None
        self._limit = limit
        self.topics: list[DescribeTopicPartitionsResponseTopic] = []
        self.partitions = 0
        self.next_cursor: Cursor | None = None

    def take(self, name: str, first: int, everything: bool) -> bool:
        """Tell of a topic, from its partition `first` on; False if the page is full."""
        if self.partitions == self._limit:
            self.next_cursor = Cursor(name, 0)
            return False
        resource = Resource("topic", name)
        if not self._services.authorise(self._context.connection.principal, Operation.DESCRIBE, resource):
            if not everything:
                self.topics.append(DescribeTopicPartitionsResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name))
            return True
        told = DescribeTopicPartitionsResponseTopic(name=name, is_internal=name in INTERNAL_TOPICS)
        told.topic_authorized_operations = authorised_operations(self._services, self._context, resource)
        self.topics.append(told)
        topic = self._services.image.topics.get(name)
        if topic is None:
            told.error_code = _absent(name)
            return True
        told.topic_id = topic.topic_id
        end = min(len(topic.partitions), first + self._limit - self.partitions)
        told.partitions = [self._partition(topic, index) for index in range(first, end)]
        self.partitions += len(told.partitions)
        if end < len(topic.partitions):
            self.next_cursor = Cursor(name, end)
        return self.next_cursor is None

    def _partition(self, topic: TopicState, index: int) -> DescribeTopicPartitionsResponsePartition:
        state, image = topic.partitions[index], self._services.image
        error, leader = seen_leader(self._services, self._context.connection.listener, self._coming, topic, index)
        return DescribeTopicPartitionsResponsePartition(
            error,
            index,
            leader,
            state.leader_epoch,
            list(state.replicas),
            list(state.isr),
            list(state.elr),
            list(state.last_known),
            [replica for replica in state.replicas if not image.is_alive(replica)],
        )


def _absent(name: str) -> int:
    """The error of a topic that is not there."""
    try:
        check_topic_name(name)
    except KafkaError as fault:
        return fault.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
