"""OffsetDelete (47). A real broker forgets what a group has committed for some partitions.

A topic that the group consumes: GROUP_SUBSCRIBED_TO_TOPIC; a topic or partition that is not there:
UNKNOWN_TOPIC_OR_PARTITION; a group with members of whose topics nobody knows: NON_EMPTY_GROUP. The order of the answer
stands in `refused_first`.
"""

from __future__ import annotations

from functools import partial

from barnabas.broker.context import RequestContext
from barnabas.broker.group.offsets import delete
from barnabas.broker.handlers.coordinators import check_named, reply_to
from barnabas.broker.handlers.refused_first import RefusedFirst
from barnabas.broker.handlers.services import Operation, Resource, Services
from barnabas.broker.handlers.steps import Slice, slices
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(services: Services, request: OffsetDeleteRequest, context: RequestContext, now_ms: int) -> None:
    """Forget them."""
    services.work(_serve(services, request, context, now_ms), request, context)


def _serve(services: Services, request: OffsetDeleteRequest, context: RequestContext, now_ms: int) -> Job[None]:
    reply = reply_to(request, context)
    answers: RefusedFirst[OffsetDeleteResponseTopic] = RefusedFirst()
    wanted: list[tuple[OffsetDeleteResponsePartition, TopicPartition]] = []
    current = Slice()
    for topic in request.topics:
        make = partial(OffsetDeleteResponseTopic, topic.name)
        told = make()
        allowed = services.authorise(context.connection.principal, Operation.READ, Resource("topic", topic.name))
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        state = services.image.topics.get(topic.name) if allowed else None
        refused = None if state is not None else answers.refused(topic.name, make)
        for part in topic.partitions:
            one = OffsetDeleteResponsePartition(part.partition_index, code)
            key = None if state is None else state.keys.get(part.partition_index)
            if key is not None:
                told.partitions.append(one)
                wanted.append((one, key))
            else:
                refused = refused or answers.refused(topic.name, make)
                refused.partitions.append(one)
            if current.is_over():
                yield None
        answers.take(topic.name, told)
        if current.is_over():
            yield None
    response = OffsetDeleteResponse(topics=(yield from answers.merged()))
    try:
        check_named(services, context, Operation.DELETE, request.group_id)
        for some in slices(wanted):
            shard = services.groups.shard_of(request.group_id)
            codes = delete(shard, request.group_id, [key for _, key in some], now_ms)
            for one, key in some:
                one.error_code = codes[key]
            if some is not wanted:
                yield None
    except KafkaError as fault:
        reply.refuse(fault.code)
        return
    shard.answer(reply, response, now_ms)
