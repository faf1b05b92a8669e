"""DeleteGroups (42). A real broker deletes empty groups with all they have committed.

Each group has an error of its own: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND. One named twice is answered once.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.group.deleting import delete_group
from barnabas.broker.group.shard import Shard
from barnabas.broker.handlers.coordinators import may, until_committed
from barnabas.broker.handlers.services import Operation, Services
from barnabas.broker.handlers.steps import answer, work_of
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

_PER_STEP = 20
"""Each is written by itself."""


def handle(services: Services, request: DeleteGroupsRequest, context: RequestContext, now_ms: int) -> None:
    """Delete them."""
    services.work(_serve(services, request, context, now_ms), request, context)


def _serve(services: Services, request: DeleteGroupsRequest, context: RequestContext, now_ms: int) -> Job[None]:
    results: list[DeletableGroupResult] = []
    work = 0
    deleted: list[tuple[Shard, DeletableGroupResult]] = []
    for group_id in dict.fromkeys(request.groups_names):
        result = DeletableGroupResult(group_id)
        results.append(result)
        try:
            if not may(services, context, Operation.DELETE, group_id):
                raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            shard = services.groups.shard_of(group_id)
            yield from delete_group(shard, group_id, now_ms)
            deleted.append((shard, result))
        except KafkaError as fault:
            result.error_code = fault.code
        work += work_of(group_id)
        if work >= _PER_STEP:
            work = 0
            yield None
    refused = yield from until_committed((shard for shard, _ in deleted), context, now_ms)
    for shard, result in deleted:
        result.error_code = refused.get(shard, ErrorCode.NONE)
    yield from answer(context, DeleteGroupsResponse(results=results), len(results))
