"""ConsumerGroupHeartbeat (68). A real broker leads the members of groups of the consumer protocol to their assignment.

- What no member can mean (an epoch below -2, a first request without subscription or timeout): INVALID_REQUEST.
- An assignor that is not in `group.consumer.assignors`: UNSUPPORTED_ASSIGNOR.
- Without `consumer` in `group.coordinator.rebalance.protocols`, or where `group.version` is off: UNSUPPORTED_VERSION,
  at which a client says that it has to take the classic protocol.
- Before v1 the broker may be asked for a member id; from then on the member brings one. v1: regular expressions.

Everything else stands in `group/consumer`.
"""

from __future__ import annotations

from barnabas.broker.cluster.features import GROUPS
from barnabas.broker.context import RequestContext
from barnabas.broker.group.consumer.heartbeats import heartbeat, refused
from barnabas.broker.group.consumer.values import LEFT, LEFT_FOR_A_WHILE
from barnabas.broker.group.reply import Reply
from barnabas.broker.handlers.coordinators import may, nothing_left
from barnabas.broker.handlers.services import Operation, Services, allow_all
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

_OWN_ID_FROM = 1


def handle(services: Services, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now_ms: int) -> bool:
    """Serve one heartbeat."""
    config = services.config
    try:
        if "consumer" not in config.group_coordinator_rebalance_protocols or GROUPS not in services.image.features:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        if services.authorise is not allow_all and not may(services, context, Operation.READ, request.group_id):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        check(request, context.api_version, config.group_consumer_assignors)
        heartbeat(services.groups.shard_of(request.group_id), request, Reply(context, _failure), now_ms)
    except KafkaError as fault:
        context.respond(refused(fault))
    return nothing_left(services)


def _failure(code: int) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code)


def check(request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]) -> None:
    """Refuse what no member can mean (`throwIfConsumerGroupHeartbeatRequestIsInvalid`).

    Raises:
        KafkaError: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR.
    """
    epoch = request.member_epoch
    if (
        epoch > 0
        and request.instance_id is None
        and request.rack_id is None
        and request.server_assignor is None
        and request.member_id.strip()
        and request.group_id.strip()
    ):
        return  # nearly all: none of what follows has anything to say
    if version >= _OWN_ID_FROM or epoch > 0 or epoch == LEFT:
        _check_text(request.member_id, "MemberId can't be empty.")
    _check_text(request.group_id, "GroupId can't be empty.")
    _check_text(request.instance_id, "InstanceId can't be empty.")
    _check_text(request.rack_id, "RackId can't be empty.")
    if epoch == 0:
        _check_first(request)
    elif epoch == LEFT_FOR_A_WHILE and request.instance_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "InstanceId can't be null.")
    elif epoch < LEFT_FOR_A_WHILE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
    wanted = request.server_assignor
    if wanted is not None and wanted not in assignors:
        detail = f"ServerAssignor {wanted} is not supported. Supported assignors: {', '.join(assignors)}."
        raise KafkaError(ErrorCode.UNSUPPORTED_ASSIGNOR, detail)


def _check_first(request: ConsumerGroupHeartbeatRequest) -> None:
    """One that joins says everything, and has nothing."""
    if request.rebalance_timeout_ms == -1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        detail = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)


def _check_text(text: str | None, detail: str) -> None:
    if text is not None and not text.strip():
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
