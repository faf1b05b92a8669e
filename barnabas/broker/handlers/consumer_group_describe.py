"""ConsumerGroupDescribe (69). A real broker tells of groups of the consumer protocol (KIP-848), member by member.

One that is not there, or a classic one, is GROUP_ID_NOT_FOUND, after which an admin client asks DescribeGroups. v1:
which members speak the classic protocol. One named twice is told once (Kafka tells it twice). Where `group.version` is
off, each is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.cluster.features import GROUPS
from barnabas.broker.context import RequestContext
from barnabas.broker.group.consumer.describing import Told, describe_consumer
from barnabas.broker.handlers.coordinators import check_named
from barnabas.broker.handlers.services import Operation, Resource, Services, authorised_operations
from barnabas.broker.handlers.steps import SLICE, answer, work_of
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(services: Services, request: ConsumerGroupDescribeRequest, context: RequestContext, now_ms: int) -> None:
    """Tell of each group."""
    services.work_in_line(_serve(services, request, context), request, context)


def _serve(services: Services, request: ConsumerGroupDescribeRequest, context: RequestContext) -> Job[None]:
    told = []
    elements = 0
    with services.charging(context) as charge:
        for group_id in dict.fromkeys(request.group_ids):
            one, more = yield from _one(services, context, group_id, charge)
            if request.include_authorized_operations and not one.error_code:
                resource = Resource("group", group_id)
                one.authorized_operations = authorised_operations(services, context, resource)
            told.append(one)
            before, elements = elements, elements + more + work_of(group_id)
            if elements // SLICE > before // SLICE:
                yield None
        yield from answer(context, ConsumerGroupDescribeResponse(groups=told), elements)


def _one(services: Services, context: RequestContext, group_id: str, charge: Callable[[int], None]) -> Job[Told]:
    if GROUPS not in services.image.features:
        return Told(DescribedGroup(ErrorCode.UNSUPPORTED_VERSION, None, group_id), 1)
    try:
        check_named(services, context, Operation.DESCRIBE, group_id)
        return (yield from describe_consumer(services.groups.shard_of(group_id), group_id, charge))
    except KafkaError as fault:
        return Told(DescribedGroup(fault.code, fault.detail or None, group_id), 1)
