"""CreatePartitions (37). A real broker hands it to the controller and answers when the records are committed.

- `count` is the number wanted in the end; one that is no increase is INVALID_PARTITIONS. Given assignments cover the
  new partitions alone, each with as many replicas as the topic has (INVALID_REPLICA_ASSIGNMENT).
- `__consumer_offsets` cannot grow: INVALID_PARTITIONS. Kafka lets it, and looks for groups in other partitions than
  those that have their offsets from its next start on.
- What is above the mutation quota: THROTTLING_QUOTA_EXCEEDED (v3 on), else a throttled answer. More than a request may
  have is POLICY_VIOLATION whatever is left of the quota, and takes nothing of it (Kafka: UNKNOWN_SERVER_ERROR).
- A topic named twice is INVALID_REQUEST; `validate_only` decides and writes nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from barnabas.broker.cluster.topic_rules import TopicResult
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Operation, Resource, Services
from barnabas.broker.handlers.steps import SLICE, answer, slices
from barnabas.broker.handlers.throttling import Throttle
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

QUOTA_REFUSED_FROM: Final = 3


def handle(services: Services, request: CreatePartitionsRequest, context: RequestContext, now_ms: int) -> None:
    """Have the topics grown, then tell what became of each."""
    services.work(_serve(services, request, context, now_ms), request, context)


def _serve(services: Services, request: CreatePartitionsRequest, context: RequestContext, now_ms: int) -> Job[None]:
    named = Counter(topic.name for topic in request.topics)
    answers: dict[str, CreatePartitionsTopicResult] = {}
    asked = []
    taken: dict[str, int] = {}
    throttle = Throttle(services, context, QUOTA_REFUSED_FROM, now_ms)
    for number, topic in enumerate(request.topics, 1):
        if number % SLICE == 0:
            yield None
        answers[topic.name] = CreatePartitionsTopicResult(topic.name)
        if named[topic.name] > 1:
            _fail(answers[topic.name], KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        elif not services.authorise(context.connection.principal, Operation.ALTER, Resource("topic", topic.name)):
            _fail(answers[topic.name], KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."))
        elif not request.validate_only and (fault := throttle.refusal(_added(services, topic))) is not None:
            _fail(answers[topic.name], fault)
        else:
            taken[topic.name] = 0 if request.validate_only else _added(services, topic)
            replicas = None if topic.assignments is None else [one.broker_ids for one in topic.assignments]
            asked.append((topic.name, topic.count, replicas))

    def done(results: list[TopicResult]) -> None:
        for result in results:
            if result.error is not None:
                throttle.give_back(taken[result.name])
        services.work(_tell(results, answers, context, throttle), request, context)

    services.controller.create_partitions(asked, request.validate_only, done)


def _tell(
    results: list[TopicResult],
    answers: dict[str, CreatePartitionsTopicResult],
    context: RequestContext,
    throttle: Throttle,
) -> Job[None]:
    for some in slices(results):
        for result in some:
            if result.error is not None:
                _fail(answers[result.name], result.error)
        if some is not results:
            yield None
    yield from answer(context, CreatePartitionsResponse(throttle.tell(), list(answers.values())), len(answers))


def _added(services: Services, topic: CreatePartitionsTopic) -> int:
    known = services.image.topics.get(topic.name)
    have = len(known.partitions) if known is not None else topic.count
    return max(topic.count - have, 0)


def _fail(answer: CreatePartitionsTopicResult, fault: KafkaError) -> None:
    answer.error_code = fault.code
    answer.error_message = fault.detail or None
