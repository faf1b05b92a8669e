"""DeleteTopics (20). A real broker hands it to the controller and answers when the records are committed.

- v6 on names topics by name or id: both is INVALID_REQUEST; an id that is not known UNKNOWN_TOPIC_ID. Before v6 names
  come as a plain list. One named twice, or by its name and by its id, is INVALID_REQUEST, told once; unknown is
  UNKNOWN_TOPIC_OR_PARTITION.
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
    found, answers = yield from _resolve(services, asked, context)
    throttle = Throttle(services, context, QUOTA_REFUSED_FROM, now_ms)
    pending: dict[bytes, DeletableTopicResult] = {}
    for number, (topic_id, told) in enumerate(found.items(), 1):
        if number % SLICE == 0:
            yield None
        topic = services.image.topics_by_id.get(topic_id)
        refusal = None if topic is None else throttle.refusal(len(topic.partitions))
        if refusal is not None:
            _fail(told, refusal)
        else:
            pending[topic_id] = told

    def done(results: list[TopicResult]) -> None:
        for one, result in zip(pending.values(), results, strict=True):
            if result.error is not None:
                _fail(one, result.error)
        response = DeleteTopicsResponse(throttle.tell(), answers)
        services.work(answer(context, response, len(answers)), request, context)

    services.controller.delete_topics(list(pending), done)


def _resolve(
    services: Services, asked: list[DeleteTopicState], context: RequestContext
) -> Job[tuple[dict[bytes, DeletableTopicResult], list[DeletableTopicResult]]]:
    """The topics that may be deleted, by id, and the answers to all that were named, of which some are refused."""
    named = Counter((one.name, one.topic_id) for one in asked)
    answers: list[DeletableTopicResult] = []
    known: dict[bytes, DeletableTopicResult] = {}
    for number, ((name, topic_id), times) in enumerate(named.items(), 1):
        if number % SLICE == 0:
            yield None
        told = DeletableTopicResult(name, topic_id)
        try:
            if times > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name or id.")
            told.topic_id, told.name = _find(services, told, context)
        except KafkaError as fault:
            _fail(told, fault)
        else:
            twin = known.setdefault(told.topic_id, told)
            if twin is not told:
                _fail(twin, KafkaError(ErrorCode.INVALID_REQUEST, "The topic is named by its name and by its id."))
                continue
        answers.append(told)
    return {topic_id: told for topic_id, told in known.items() if not told.error_code}, answers


def _fail(told: DeletableTopicResult, fault: KafkaError) -> None:
    told.error_code, told.error_message = fault.code, fault.detail or None


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
