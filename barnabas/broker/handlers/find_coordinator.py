"""FindCoordinator (10). A real broker names the broker that leads the group's or transaction's partition.

There are no groups and no transactions yet, so every key has COORDINATOR_NOT_AVAILABLE, which a client may ask again
about. It is served all the same: librdkafka takes a broker without this API for one too old to read lz4, and would send
records uncompressed without a word.

- A key named twice is answered once.
- v1: key types (0 group, 1 transaction), and an error message. v4: many keys. v5 and v6 name further errors.
- A key type that nobody knows is INVALID_REQUEST; so is that of share groups (2, KIP-932), which are not served.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import NO_LEADER
from barnabas.protocol.requests.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_MANY_KEYS_FROM = 4
_KEY_TYPES = (0, 1)
_NONE_YET = "This release has no consumer groups and no transactions; assign partitions instead of subscribing."


def handle(services: Services, request: FindCoordinatorRequest, context: RequestContext, now_ms: int) -> None:
    """Say for each key that nobody coordinates it."""
    code, text = ErrorCode.COORDINATOR_NOT_AVAILABLE, _NONE_YET
    if request.key_type not in _KEY_TYPES:
        code = ErrorCode.INVALID_REQUEST
        text = f"Key type {request.key_type} is unknown: 0 is a group, 1 a transactional id."
    if context.api_version < _MANY_KEYS_FROM:
        context.respond(FindCoordinatorResponse(0, code, text, NO_LEADER, "", -1))
        return
    none = [Coordinator(key, NO_LEADER, "", -1, code, text) for key in dict.fromkeys(request.coordinator_keys)]
    context.respond(FindCoordinatorResponse(coordinators=none))
