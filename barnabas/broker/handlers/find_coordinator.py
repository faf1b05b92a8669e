"""FindCoordinator (10). A real broker names the broker that leads the group's or transaction's partition.

- The first who asks for a group has `__consumer_offsets` made, and is answered when its partition is there. Kafka says
  COORDINATOR_NOT_AVAILABLE at once, and its clients ask again 100 ms later; as does this broker where the topic cannot
  be made, or a partition of it has no leader.
- There are no transactions yet, so a transactional id is refused for good, with InitProducerId's error: after
  COORDINATOR_NOT_AVAILABLE clients ask again until their own patience ends, a minute or never, and do not say why.
- A key named twice is answered once (Kafka answers it twice).
- v1: key types (0 group, 1 transaction), and an error message. v4: many keys. v5 and v6 name further errors.
- A key type that nobody knows is INVALID_REQUEST; so is that of share groups (2, KIP-932), which are not served.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.cluster.offsets_topic import create_offsets_topic, lacks_brokers
from barnabas.broker.config.topics import OFFSETS_TOPIC
from barnabas.broker.context import RequestContext
from barnabas.broker.group.placement import partition_of
from barnabas.broker.handlers.coordinators import may
from barnabas.broker.handlers.leaders import endpoint
from barnabas.broker.handlers.services import Operation, Services
from barnabas.broker.handlers.steps import SLICE, answer, work_of
from barnabas.broker.jobs import Job, wait
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import NO_LEADER
from barnabas.protocol.requests.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_MANY_KEYS_FROM: Final = 4
_GROUP: Final = 0
_TRANSACTION: Final = 1
_NO_TRANSACTIONS: Final = "This release has no transactions."
_FOUND: Final = "NONE"  # as Kafka says it up to v3; v4 on it says nothing
_COMING: Final = "The coordinator is not available."


def handle(services: Services, request: FindCoordinatorRequest, context: RequestContext, now_ms: int) -> None:
    """Say for each key who coordinates it."""
    work = services.work_in_line if len(request.coordinator_keys) > SLICE else services.work
    work(_serve(services, request, context), request, context)


def _serve(services: Services, request: FindCoordinatorRequest, context: RequestContext) -> Job[None]:
    if context.api_version < _MANY_KEYS_FROM:
        one = yield from _find(services, context, request.key_type, request.key)
        text = one.error_message if one.error_code else _FOUND
        told = FindCoordinatorResponse(0, one.error_code, text, one.node_id, one.host, one.port)
        context.respond(told)
        return
    found = []
    work = 0
    for key in dict.fromkeys(request.coordinator_keys):
        one = yield from _find(services, context, request.key_type, key)
        found.append(one)
        work += work_of(key)
        if work >= SLICE:
            work = 0
            yield None
    yield from answer(context, FindCoordinatorResponse(coordinators=found), len(found))


def _find(services: Services, context: RequestContext, key_type: int, key: str) -> Job[Coordinator]:
    try:
        if key_type == _GROUP:
            return (yield from _find_group(services, context, key))
        if key_type == _TRANSACTION:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _NO_TRANSACTIONS)
        detail = f"Key type {key_type} is unknown: 0 is a group, 1 a transactional id."
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
    except KafkaError as fault:
        return Coordinator(key, NO_LEADER, "", -1, fault.code, fault.detail)


def _find_group(services: Services, context: RequestContext, group_id: str) -> Job[Coordinator]:
    if not may(services, context, Operation.DESCRIBE, group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed.")
    image = services.image
    if OFFSETS_TOPIC not in image.topics and not services.recovering():
        alone = services.members is None and services.forward is None
        lacking = "" if alone else lacks_brokers(image, services.config)
        if lacking:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, lacking)
        making = create_offsets_topic(image, services.config, services.controller, services.creating, alone=alone)
        if making is not None:
            yield from wait(making)
    topic = image.topics.get(OFFSETS_TOPIC)
    if topic is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, _COMING)
    index = partition_of(group_id, len(topic.partitions))
    while services.replicas.is_coming(topic.keys[index]):
        yield None
    leader = topic.partitions[index].leader
    place = None if leader == NO_LEADER else endpoint(services, leader, context)
    if place is None or (leader == services.node_id and index not in services.groups.shards):
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, _COMING)
    host, port, _ = place
    return Coordinator(group_id, leader, host, port, error_message="")
