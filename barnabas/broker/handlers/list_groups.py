"""ListGroups (16). A real broker lists the groups it coordinates.

While some are still being loaded: COORDINATOR_LOAD_IN_PROGRESS. v4: only those in certain states, v5: of certain types;
neither asks for upper and lower case.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.group.looking import listed
from barnabas.broker.handlers.coordinators import may
from barnabas.broker.handlers.services import CLUSTER, Operation, Services
from barnabas.broker.handlers.steps import SLICE, answer
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.list_groups import ListGroupsRequest, ListGroupsResponse

_BYTES: Final = 150
"""What a group takes beside its names, which are written, and wait to be sent."""


def handle(services: Services, request: ListGroupsRequest, context: RequestContext, now_ms: int) -> None:
    """List them."""
    services.work_in_line(_serve(services, request, context), request, context)


def _serve(services: Services, request: ListGroupsRequest, context: RequestContext) -> Job[None]:
    if services.groups.loading:
        context.respond(ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    states = frozenset(state.strip().lower() for state in request.states_filter)
    types = frozenset(kind.lower() for kind in request.types_filter)
    sees_all = services.authorise(context.connection.principal, Operation.DESCRIBE, CLUSTER)
    told = []
    size = 0
    with services.charging(context) as charge:
        for number, group in enumerate(services.groups.groups(), 1):
            one = listed(group, states, types)
            if one is not None and (sees_all or may(services, context, Operation.DESCRIBE, one.group_id)):
                told.append(one)
                size += _BYTES + 2 * (len(one.group_id) + len(one.protocol_type))
            if number % SLICE == 0:
                charge(size)
                size = 0
                yield None
        charge(size)
        yield from answer(context, ListGroupsResponse(groups=told), len(told))
