"""Metadata (3). A real broker answers from its committed image; it never waits.

- v0: an empty array of topics means all of them. v1 on: null means all, empty means none.
- A topic named that is not there: UNKNOWN_TOPIC_OR_PARTITION, after its creation was started when
  `auto.create.topics.enable`, `allow_auto_topic_creation` (v4 on; always before) and the principal allow it.
  A name no topic can have: INVALID_TOPIC_EXCEPTION.
- v12 on asks by id: UNKNOWN_TOPIC_ID, name null. Where one topic is asked for by its id, names are not looked at, as in
  Kafka; neither name nor id: UNKNOWN_TOPIC_ID (Kafka: UNKNOWN_SERVER_ERROR for all). At v10 and v11 an id is
  INVALID_REQUEST for every topic asked.
- A partition without leader: LEADER_NOT_AVAILABLE, leader -1; so is one whose log is still to be made here, as many of
  them may be after a topic of thousands was created (Kafka names the leader, which answers NOT_LEADER_OR_FOLLOWER till
  then). A leader without this listener: LISTENER_NOT_FOUND (v6
  on; LEADER_NOT_AVAILABLE before).
- Replicas on brokers that are fenced are `offline_replicas` (v5 on). `controller_id` is any live broker (a client
  sends its admin requests there).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from barnabas.broker.cluster.image import TopicState
from barnabas.broker.cluster.topic_rules import (
    NewTopic,
    Taken,
    TopicResult,
    check_topic_name,
)
from barnabas.broker.config.topics import INTERNAL_TOPICS, METADATA_TOPIC
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.leaders import seen_leader
from barnabas.broker.handlers.services import (
    AUTO_CREATE_IN_FLIGHT_MAX,
    CLUSTER,
    Charge,
    Operation,
    Resource,
    Services,
    authorised_operations,
)
from barnabas.broker.handlers.steps import SLICE, answer, slices
from barnabas.broker.handlers.throttling import Throttle
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import NO_LEADER, ZERO_UUID
from barnabas.protocol.requests.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

FIRST_USE_WEIGHT: Final = 3
"""What a partition made on first use costs of the mutation quota: a misspelt name asks for one as well, and what
nobody asked for by name is not missed by whoever has to wait."""
CREATED_AT_ONCE_MAX: Final = 100
"""Partitions that one operation creates on first use."""
_BYTES: Final = 350
"""What a topic or a partition with three replicas takes as it is told, and written."""

T = TypeVar("T")


def handle(services: Services, request: MetadataRequest, context: RequestContext, now_ms: int) -> None:
    """Answer with brokers and topics, and start the creation of topics that are not there."""
    work = services.work_in_line if _is_large(services, request, context) else services.work
    work(_serve(services, request, context, now_ms), request, context)


def _is_large(services: Services, request: MetadataRequest, context: RequestContext) -> bool:
    """Whether the answer takes more than one slice."""
    topics, asked = services.image.topics, request.topics
    told: Iterable[TopicState | None]
    if asked is None or (not asked and context.api_version == 0):
        told = topics.values()
    else:
        told = (topics.get(one.name) if one.name else services.image.topics_by_id.get(one.topic_id) for one in asked)
    elements = 0
    for topic in told:
        elements += 1 if topic is None else 1 + len(topic.partitions)
        if elements > SLICE:
            return True
    return False


def _serve(services: Services, request: MetadataRequest, context: RequestContext, now_ms: int) -> Job[None]:
    with services.charging(context) as charge:
        yield from _answer(services, request, context, charge, now_ms)


def _answer(
    services: Services, request: MetadataRequest, context: RequestContext, charge: Charge, now_ms: int
) -> Job[None]:
    creation = Creation(services, context, now_ms)
    try:
        topics = yield from _topics(services, request, context, creation, charge)
    finally:
        creation.begin()  # also when nobody is left to answer: names noted as being created are waited for
    image = services.image
    listener = context.connection.listener
    brokers = []
    for _, broker in sorted(image.brokers.items()):
        # This one is alive, for it answers: while it recovers its logs, clients must not be left without any broker.
        if broker.fenced and broker.broker_id != services.node_id:
            continue
        endpoint = broker.endpoint(listener)
        if endpoint is not None:
            brokers.append(MetadataResponseBroker(broker.broker_id, *endpoint, broker.rack))
    response = MetadataResponse(
        brokers=brokers,
        cluster_id=services.cluster_id,
        controller_id=brokers[services.entropy.below(len(brokers)) if len(brokers) > 1 else 0].node_id
        if brokers
        else NO_LEADER,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorised_operations(services, context, CLUSTER)
    partitions = sum(len(topic.partitions) for topic in topics)
    yield from answer(context, response, len(topics) + partitions)


def _topics(
    services: Services, request: MetadataRequest, context: RequestContext, creation: Creation, charge: Charge
) -> Job[list[MetadataResponseTopic]]:
    image = services.image
    asked = request.topics
    if asked is None or (not asked and context.api_version == 0):
        everything = list(image.topics.values())
        return (
            yield from _each(
                everything,
                lambda topic: (
                    _describe(services, topic, request, context)
                    if _may_see(services, topic.name, context)
                    else _nothing()
                ),
                charge,
            )
        )
    if context.api_version < 12 and any(topic.topic_id != ZERO_UUID for topic in asked):
        return [MetadataResponseTopic(ErrorCode.INVALID_REQUEST, topic.name or "", topic.topic_id) for topic in asked]
    may_create = (
        services.config.auto_create_topics_enable
        and (request.allow_auto_topic_creation or context.api_version < 4)
        and not services.recovering()
    )
    by_id = [topic for topic in asked if topic.topic_id != ZERO_UUID]
    once = list({_key(one): one for one in by_id or asked}.values())
    return (
        yield from _each(
            once, lambda topic: _one(services, topic, request, context, creation if may_create else None), charge
        )
    )


def _each(
    things: Sequence[T], describe: Callable[[T], Job[MetadataResponseTopic | None]], charge: Charge
) -> Job[list[MetadataResponseTopic]]:
    """What is told of each, `SLICE` topics and partitions at a time."""
    told: list[MetadataResponseTopic] = []
    elements = 0
    for number, thing in enumerate(things, 1):
        topic = yield from describe(thing)
        elements += 1
        if topic is not None:
            told.append(topic)
            elements += len(topic.partitions)
        if elements >= SLICE and number < len(things):
            charge(elements * _BYTES)
            elements = 0
            yield None
    if elements > SLICE or len(told) > SLICE:
        charge(elements * _BYTES)
    return told


def _nothing() -> Job[None]:
    return
    yield


class Creation:
    """What one request creates on first use, with the broker's defaults (`AutoTopicCreationManager`).

    Above the mutation quota nothing is begun, and the answer is as if it were, without a throttle time: in Kafka the
    controller refuses what the broker has sent on to it, and nobody is told. Who produces over the same connection to
    other topics has to wait for nothing.
    """

    __slots__ = ("_names", "_services", "_throttle", "taken")

    def __init__(self, services: Services, context: RequestContext, now_ms: int) -> None:
        self._services = services
        self._names: list[str] = []
        self.taken = Taken(services.image.topics)
        self._throttle = Throttle(services, context, 0, now_ms)

    def ask_for(self, name: str) -> None:
        """Have a topic created with the others of this request, unless its creation is under way."""
        services = self._services
        creating = services.creating
        if name in creating or len(creating) >= AUTO_CREATE_IN_FLIGHT_MAX:
            return
        if self._throttle.refusal(FIRST_USE_WEIGHT * services.config.num_partitions) is None:
            creating[name] = None
            self._names.append(name)

    def begin(self) -> None:
        """Start all creations, so many partitions in one operation."""
        self._throttle.tell()
        services = self._services

        def done(results: list[TopicResult]) -> None:
            for result in results:
                services.creating.pop(result.name, None)

        for names in slices(self._names, max(1, CREATED_AT_ONCE_MAX // services.config.num_partitions)):
            if names:
                services.controller.create_topics([NewTopic(name) for name in names], False, done)


def _key(topic: MetadataRequestTopic) -> str | bytes | None:
    return topic.name if topic.topic_id == ZERO_UUID else topic.topic_id


def _one(
    services: Services,
    asked: MetadataRequestTopic,
    request: MetadataRequest,
    context: RequestContext,
    creation: Creation | None,
) -> Job[MetadataResponseTopic | None]:
    """What is told of a topic named, whose creation is begun if it may be."""
    image = services.image
    if asked.name is None or asked.topic_id != ZERO_UUID:
        topic = image.topics_by_id.get(asked.topic_id)
        if topic is None or not _may_see(services, topic.name, context):
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
        return (yield from _describe(services, topic, request, context))
    name = asked.name
    if not _may_see(services, name, context):
        return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    topic = image.topics.get(name)
    if topic is not None:
        return (yield from _describe(services, topic, request, context))
    told = MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, is_internal=name in INTERNAL_TOPICS)
    if request.include_topic_authorized_operations:  # Kafka tells them whether there is such a topic or not
        told.topic_authorized_operations = authorised_operations(services, context, Resource("topic", name))
    try:
        check_topic_name(name)
        if creation is not None:
            creation.taken.check_collision(name)
    except KafkaError as fault:
        told.error_code, told.is_internal = fault.code, False
        return told
    if creation is not None and name != METADATA_TOPIC:
        resource = Resource("topic", name)
        authorise, principal = services.authorise, context.connection.principal
        if not (authorise(principal, Operation.CREATE, CLUSTER) or authorise(principal, Operation.CREATE, resource)):
            return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
        creation.ask_for(name)
    return told


def _may_see(services: Services, name: str, context: RequestContext) -> bool:
    return services.authorise(context.connection.principal, Operation.DESCRIBE, Resource("topic", name))


def _describe(
    services: Services, topic: TopicState, request: MetadataRequest, context: RequestContext
) -> Job[MetadataResponseTopic | None]:
    """What is told of a topic that is there, a slice of its partitions at a time."""
    image, replicas, listener = services.image, services.replicas, context.connection.listener
    coming = replicas.is_coming if replicas.behind else None
    partitions = []
    for number, (index, state) in enumerate(list(topic.partitions.items())):
        if number and number % SLICE == 0:
            yield None
        error, leader = seen_leader(services, listener, coming, topic, index)
        if error == ErrorCode.LISTENER_NOT_FOUND and context.api_version < 6:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        partitions.append(
            MetadataResponsePartition(
                error,
                index,
                leader,
                state.leader_epoch,
                list(state.replicas),
                list(state.isr),
                [replica for replica in state.replicas if not image.is_alive(replica)],
            )
        )
    described = MetadataResponseTopic(0, topic.name, topic.topic_id, topic.name in INTERNAL_TOPICS, partitions)
    if request.include_topic_authorized_operations:
        resource = Resource("topic", topic.name)
        described.topic_authorized_operations = authorised_operations(services, context, resource)
    return described
