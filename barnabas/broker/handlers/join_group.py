"""JoinGroup (11). A real broker lets a member into a group, and answers when all others have joined, too.

- The session timeout must lie between `group.min.session.timeout.ms` and `group.max.session.timeout.ms`:
  INVALID_SESSION_TIMEOUT.
- v1: rebalance timeout. v4: who has no member id yet is given one with MEMBER_ID_REQUIRED. v5: static members. v7: the
  protocol may be null, and its type is told. v8: a reason. v9: a leader that came back may be told to skip assigning.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.group.joining import join
from barnabas.broker.group.membership import NULL_PROTOCOL_FROM
from barnabas.broker.group.reply import Reply
from barnabas.broker.handlers.coordinators import check_named, nothing_left
from barnabas.broker.handlers.services import Operation, Services
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupResponse

_READ: Final = Operation.READ  # once: to look an enum's member up takes as long as thirty instructions
_WITHOUT_MEMBER: Final = frozenset(
    (
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)
"""Errors that Kafka tells without repeating who asked, unless he was let in and waits."""


class _Joining(Reply):
    """Answers a JoinGroup, of which nothing else is kept than who asked."""

    __slots__ = ("_member_id", "waits")

    def __init__(self, context: RequestContext, member_id: str) -> None:
        self.context = context
        self._member_id = member_id
        self.waits = False

    def refusal(self, code: int) -> JoinGroupResponse:
        """The answer that says an error."""
        name = None if self.context.api_version >= NULL_PROTOCOL_FROM else ""
        told_id = "" if code in _WITHOUT_MEMBER and not self.waits else self._member_id
        return JoinGroupResponse(error_code=code, protocol_name=name, member_id=told_id)


def handle(services: Services, request: JoinGroupRequest, context: RequestContext, now_ms: int) -> bool:
    """Let the member in, now or later."""
    reply = _Joining(context, request.member_id)
    config = services.config
    group_id = request.group_id
    try:
        check_named(services, context, _READ, group_id)
        if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
        join(services.groups.shard_of(group_id), request, reply, now_ms)
        reply.waits = True
    except KafkaError as fault:
        reply.refuse(fault.code)
    return nothing_left(services)
