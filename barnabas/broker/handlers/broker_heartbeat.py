"""BrokerHeartbeat (63). A broker's sign of life; the answer says whether it is fenced. Brokers alone ask.

- A broker that is not the controller: NOT_CONTROLLER. A broker that names another's id: CLUSTER_AUTHORIZATION_FAILED.
- One that is not registered: BROKER_ID_NOT_REGISTERED. An epoch that is not the broker's present one:
  STALE_BROKER_EPOCH.
- `want_shut_down` counts as a wish to be fenced, and may be answered with the shutdown at once: its leaders move in the
  same change (Kafka moves them one after the other, and answers when all are gone).
"""

from __future__ import annotations

from barnabas.broker.cluster.registrations import Beat, Heartbeat
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


def handle(services: Services, request: BrokerHeartbeatRequest, context: RequestContext, now_ms: int) -> None:
    """Hear a broker; it is answered when what that comes to is committed."""
    if request.broker_id != context.connection.peer:
        context.respond(BrokerHeartbeatResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    if services.members is None:
        context.respond(BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER))
        return

    def done(fault: KafkaError | None, told: Beat | None) -> None:
        if fault is not None or told is None:
            code = ErrorCode.UNKNOWN_SERVER_ERROR if fault is None else fault.code
            context.respond(BrokerHeartbeatResponse(error_code=code))
        else:
            leaves = request.want_shut_down and told.is_fenced
            context.respond(BrokerHeartbeatResponse(0, 0, told.is_caught_up, told.is_fenced, leaves))

    wants_fence = request.want_fence or request.want_shut_down
    beat = Heartbeat(request.broker_id, request.broker_epoch, request.current_metadata_offset, wants_fence)
    services.members.heartbeat(beat, done, now_ms)
