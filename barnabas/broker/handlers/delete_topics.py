"""DeleteTopics (20). A real broker hands it to the controller and answers when the records are committed.

- v6 on names topics by name or id: both is INVALID_REQUEST; an id that is not known UNKNOWN_TOPIC_ID. Before v6 names
  come as a plain list. One named twice is INVALID_REQUEST, told once; unknown is UNKNOWN_TOPIC_OR_PARTITION.
- What is above the mutation quota: THROTTLING_QUOTA_EXCEEDED (v5 on), else a throttled answer.
- `delete.topic.enable` false: TOPIC_DELETION_DISABLED (v3 on), INVALID_REQUEST before.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from barnabas.broker.cluster.topic_rules import TopicResult, find_topic
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Operation, Resource, Services
from barnabas.broker.handlers.steps import SLICE, answer
from barnabas.broker.handlers.throttling import Throttle
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

QUOTA_REFUSED_FROM: Final = 5


def handle(services: Services, request: DeleteTopicsRequest, context: RequestContext, now_ms: int) -> None:
    """Have the topics deleted, then tell what became of each."""
    asked = request.topics if context.api_version >= 6 else [DeleteTopicState(name) for name in request.topic_names]
    if not services.config.delete_topic_enable:
        known = context.api_version >= 3
        code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
        context.respond(
            DeleteTopicsResponse(responses=[DeletableTopicResult(one.name, one.topic_id, code) for one in asked])
        )
        return
    services.work(_serve(services, asked, request, context, now_ms), request, context)


def _serve(
    services: Services,
    asked: list[DeleteTopicState],
    request: DeleteTopicsRequest,
    context: RequestContext,
    now_ms: int,
) -> Job[None]:
    named = Counter((one.name, one.topic_id) for one in asked)
    answers = [DeletableTopicResult(name, topic_id) for name, topic_id in named]
    throttle = Throttle(services, context, QUOTA_REFUSED_FROM, now_ms)
    pending: list[DeletableTopicResult] = []
    found: dict[bytes, str] = {}
    for number, told in enumerate(answers, 1):
        if number % SLICE == 0:
            yield None
        try:
            if named[told.name, told.topic_id] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name or id.")
            topic_id, name = _find(services, told, context)
            if topic_id in found:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "The topic is named by its name and by its id.")
            refusal = throttle.refusal(len(services.image.topics_by_id[topic_id].partitions))
            if refusal is not None:
                raise refusal
        except KafkaError as fault:
            told.error_code, told.error_message = fault.code, fault.detail or None
            continue
        found[topic_id] = told.name = name
        told.topic_id = topic_id
        pending.append(told)

    def done(results: list[TopicResult]) -> None:
        for one, result in zip(pending, results, strict=True):
            if result.error is not None:
                one.error_code, one.error_message = result.error.code, result.error.detail or None
        response = DeleteTopicsResponse(throttle.throttle_ms, answers)
        services.work(answer(context, response, len(answers)), request, context)

    services.controller.delete_topics(list(found), done)


def _find(services: Services, asked: DeletableTopicResult, context: RequestContext) -> tuple[bytes, str]:
    if asked.name is not None and asked.topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if asked.name is None and asked.topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    principal = context.connection.principal
    if asked.name is not None and not services.authorise(principal, Operation.DELETE, Resource("topic", asked.name)):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    topic = find_topic(services.image, asked.name, asked.topic_id)
    if not services.authorise(principal, Operation.DELETE, Resource("topic", topic.name)):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    return topic.topic_id, topic.name
