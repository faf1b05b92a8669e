"""ConsumerGroupDescribe (69). A real broker tells of groups of the consumer protocol (KIP-848); there are none yet.

So each is GROUP_ID_NOT_FOUND, after which an admin client asks DescribeGroups.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.coordinators import check_named
from barnabas.broker.handlers.services import Operation, Services
from barnabas.broker.handlers.steps import SLICE, answer
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

_IS_NOT: Final = {False: "not found", True: "is not a consumer group"}


def handle(services: Services, request: ConsumerGroupDescribeRequest, context: RequestContext, now_ms: int) -> None:
    """Say for each that it is not there."""
    services.work(_serve(services, request, context), request, context)


def _serve(services: Services, request: ConsumerGroupDescribeRequest, context: RequestContext) -> Job[None]:
    told = []
    for number, group_id in enumerate(request.group_ids, 1):
        try:
            check_named(services, context, Operation.DESCRIBE, group_id)
            shard = services.groups.shard_of(group_id)
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {_IS_NOT[group_id in shard.groups]}.")
        except KafkaError as fault:
            told.append(DescribedGroup(fault.code, fault.detail or None, group_id))
        if number % SLICE == 0:
            yield None
    yield from answer(context, ConsumerGroupDescribeResponse(groups=told), len(told))
