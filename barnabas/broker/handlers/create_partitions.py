"""CreatePartitions (37). A real broker hands it to the controller and answers when the records are committed.

- `count` is the number wanted in the end; one that is no increase is INVALID_PARTITIONS. Given assignments cover the
  new partitions alone, each with as many replicas as the topic has (INVALID_REPLICA_ASSIGNMENT).
- A topic named twice is INVALID_REQUEST; `validate_only` decides and writes nothing.
"""

from __future__ import annotations

from collections import Counter

from barnabas.broker.cluster.topic_rules import TopicResult
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Operation, Resource, Services
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


def handle(services: Services, request: CreatePartitionsRequest, context: RequestContext, now_ms: int) -> None:
    """Have the topics grown, then tell what became of each."""
    named = Counter(topic.name for topic in request.topics)
    answers: dict[str, CreatePartitionsTopicResult] = {}
    asked = []
    for topic in request.topics:
        answers[topic.name] = CreatePartitionsTopicResult(topic.name)
        if named[topic.name] > 1:
            _fail(answers[topic.name], KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        elif not services.authorise(context.connection.principal, Operation.ALTER, Resource("topic", topic.name)):
            _fail(answers[topic.name], KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."))
        else:
            replicas = None if topic.assignments is None else [one.broker_ids for one in topic.assignments]
            asked.append((topic.name, topic.count, replicas))

    def done(results: list[TopicResult]) -> None:
        for result in results:
            if result.error is not None:
                _fail(answers[result.name], result.error)
        context.respond(CreatePartitionsResponse(results=list(answers.values())))

    services.controller.create_partitions(asked, request.validate_only, done)


def _fail(answer: CreatePartitionsTopicResult, fault: KafkaError) -> None:
    answer.error_code = fault.code
    answer.error_message = fault.detail or None
