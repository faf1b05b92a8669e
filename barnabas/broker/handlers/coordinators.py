"""How the handlers of the group APIs ask the coordinator, and how they say that it refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from barnabas.broker.context import RequestContext
from barnabas.broker.group.reply import Reply, Settled
from barnabas.broker.group.shard import Shard
from barnabas.broker.handlers.failures import error_response
from barnabas.broker.handlers.services import Operation, Resource, Services, allow_all
from barnabas.broker.jobs import Job, wait
from barnabas.protocol.errors import ErrorCode, KafkaError

_READ: Final = Operation.READ  # once: to look an enum's member up takes as long as thirty instructions


def may(services: Services, context: RequestContext, operation: Operation, group_id: str) -> bool:
    """Whether the principal may do this with a group."""
    authorise = services.authorise
    return authorise is allow_all or authorise(context.connection.principal, operation, Resource("group", group_id))


def check_named(services: Services, context: RequestContext, operation: Operation, group_id: str) -> None:
    """Refuse a group that may not be asked about, or has no name.

    Raises:
        KafkaError: GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID.
    """
    if services.authorise is not allow_all and not may(services, context, operation, group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)


def reply_to(request: Any, context: RequestContext) -> Reply:
    """The way back of a request, whose error is one for all of it."""
    return Reply(context, lambda code: error_response(context.api_key, request, code))


def until_committed(shards: Iterable[Shard], context: RequestContext, now_ms: int) -> Job[dict[Shard, int]]:
    """Wait until all that these have written is committed.

    Returns:
        What the client is to be told of those where that cannot be said.
    """
    waiting: dict[Shard, Settled] = {}
    for shard in dict.fromkeys(shards):
        if shard.behind:
            waiting[shard] = Settled(context)
            shard.answer(waiting[shard], None, now_ms)
    for one in waiting.values():
        yield from wait(one.gate)
    return {shard: one.code for shard, one in waiting.items() if one.code}


def nothing_left(services: Services) -> bool:
    """Whether a group's request has left nothing to do (see `registry`); what it has planned the core knows."""
    return not (services.replicas.actions or services.groups.timer.due)


def serve(
    services: Services,
    request: Any,
    reply: Reply,
    ask: Callable[[Shard, Any, Reply, int], None],
    now_ms: int,
) -> bool:
    """Have a group's shard serve a member's request; True if nothing is left to do."""
    group_id = request.group_id
    try:
        check_named(services, reply.context, _READ, group_id)
        ask(services.groups.shard_of(group_id), request, reply, now_ms)
    except KafkaError as fault:
        reply.refuse(fault.code)
    return nothing_left(services)
