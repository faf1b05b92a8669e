"""CreateTopics (19). A real broker hands it to the controller and answers when the records are committed.

- Each topic succeeds or fails on its own; one named twice is INVALID_REQUEST. The checks are in `topic_rules`.
- v5 on tells partitions, replication factor and all settings of what was created (never null: Java clients break on
  it); v7 the topic id. `validate_only` decides and writes nothing.
- What is above the mutation quota: THROTTLING_QUOTA_EXCEEDED (v6 on), else a throttled answer. A topic that is there
  costs nothing to ask for, and is never throttled: programs create theirs at every start.
- `timeout_ms` is the time until the creation begins, see `patience`; afterwards every topic is REQUEST_TIMED_OUT.
- Counts of -1 stand for the broker's defaults; the settings told are those in force (KIP-525).
"""

from __future__ import annotations

from collections import Counter
from typing import Final, TypeAlias

from barnabas.broker.cluster.topic_rules import NewTopic, TopicResult, partitions_of
from barnabas.broker.config.topics import METADATA_TOPIC
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.config_entries import topic_entries
from barnabas.broker.handlers.patience import Patience
from barnabas.broker.handlers.services import CLUSTER, Operation, Resource, Services
from barnabas.broker.handlers.steps import SLICE, answer, slices
from barnabas.broker.handlers.throttling import Throttle
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

QUOTA_REFUSED_FROM: Final = 6
TOLD_PER_STEP: Final = 20
"""Topics whose settings are worked out in one step: about 150 µs each where all differ."""
TOLD_MAX: Final = 1000
"""So many different sets of settings are told in one answer; topics with further ones are told without."""
Told: TypeAlias = dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]]
"""All settings of a topic by those it was given: a thousand topics of one request seldom differ in them."""


def handle(services: Services, request: CreateTopicsRequest, context: RequestContext, now_ms: int) -> None:
    """Have the topics created, then tell what became of each."""
    services.work(_serve(services, request, context, now_ms), request, context)


def _serve(services: Services, request: CreateTopicsRequest, context: RequestContext, now_ms: int) -> Job[None]:
    def give_up() -> None:
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        context.respond(CreateTopicsResponse(0, [_failed(name, late) for name in named]))

    answers: dict[str, CreatableTopicResult] = {}
    named = Counter(topic.name for topic in request.topics)
    if request.timeout_ms <= 0:
        give_up()
        return
    asked: list[CreatableTopic] = []
    new: list[NewTopic] = []
    throttle = Throttle(services, context, QUOTA_REFUSED_FROM, now_ms)
    for number, topic in enumerate(request.topics, 1):
        if number % SLICE == 0:
            yield None
        refusal = _refusal(services, topic, named[topic.name], context)
        wanted = _new_topic(topic)
        if refusal is None and not request.validate_only:
            refusal = throttle.refusal(_counted(services, wanted))
        if refusal is not None:
            answers[topic.name] = _failed(topic.name, refusal)
        else:
            answers[topic.name] = CreatableTopicResult(topic.name)
            asked.append(topic)
            new.append(wanted)

    patience = Patience(services.replicas.shared.timer, give_up)

    def done(results: list[TopicResult]) -> None:
        if not patience.take_turn():
            return
        for wanted, result in zip(new, results, strict=True):
            if result.error is not None and not request.validate_only:
                throttle.give_back(_counted(services, wanted))
        services.work(
            _tell(services, list(zip(asked, results, strict=True)), answers, context, throttle), request, context
        )

    services.controller.create_topics(new, request.validate_only, done, patience.take_turn)
    patience.wait(request.timeout_ms, now_ms)


def _tell(
    services: Services,
    results: list[tuple[CreatableTopic, TopicResult]],
    answers: dict[str, CreatableTopicResult],
    context: RequestContext,
    throttle: Throttle,
) -> Job[None]:
    told: Told = {}
    for some in slices(results, TOLD_PER_STEP):
        for topic, result in some:
            answers[topic.name] = _answer(services, topic, result, told)
        if some is not results:
            yield None
    settings = sum(len(one.configs or ()) for one in answers.values())
    response = CreateTopicsResponse(throttle.tell(), list(answers.values()))
    yield from answer(context, response, len(answers) + settings)


def _refusal(services: Services, topic: CreatableTopic, times: int, context: RequestContext) -> KafkaError | None:
    name = topic.name
    if times > 1:
        return KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    authorise, principal = services.authorise, context.connection.principal
    allowed = authorise(principal, Operation.CREATE, CLUSTER) or authorise(
        principal, Operation.CREATE, Resource("topic", name)
    )
    if name == METADATA_TOPIC:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if not allowed:
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    if name in services.image.topics:
        return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    given = Counter(one.partition_index for one in topic.assignments)
    twice = next((index for index, times in given.items() if times > 1), None)
    if twice is not None:
        detail = f"Found multiple manual partition assignments for partition {twice}"
        return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)
    return None


def _counted(services: Services, topic: NewTopic) -> int:
    """What a topic takes of the mutation quota."""
    return max(partitions_of(topic, services.config.num_partitions), 1)


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {one.partition_index: one.broker_ids for one in topic.assignments},
        {setting.name: setting.value for setting in topic.configs},
    )


def _failed(name: str, fault: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name, error_code=fault.code, error_message=fault.detail or None)


def _answer(services: Services, topic: CreatableTopic, result: TopicResult, told: Told) -> CreatableTopicResult:
    if result.error is not None:
        return _failed(topic.name, result.error)
    overrides = {setting.name: setting.value for setting in topic.configs if setting.value is not None}
    same = tuple(sorted(overrides.items()))
    configs = told.get(same)
    if configs is None and len(told) < TOLD_MAX:
        entries = topic_entries(services.image, services.static_config, overrides, services.stored_settings)
        configs = told[same] = [
            CreatableTopicConfigs(entry.name, entry.value, entry.read_only, entry.source, entry.sensitive)
            for entry in entries
        ]
    return CreatableTopicResult(
        topic.name,
        result.topic_id,
        num_partitions=result.partitions,
        replication_factor=result.replication_factor,
        configs=configs,
    )
