"""BrokerRegistration (62). The controller takes a broker in, fenced; the answer is its epoch. Brokers alone ask.

- A broker that is not the controller: NOT_CONTROLLER. A broker that names another's id: CLUSTER_AUTHORIZATION_FAILED.
- Another cluster's id: INCONSISTENT_CLUSTER_ID. An id that an unfenced broker has: DUPLICATE_BROKER_REGISTRATION.
- Features whose levels in this cluster the broker does not know: UNSUPPORTED_VERSION. They are not kept, for no level
  changes; nor are log directories: each broker has one.
"""

from __future__ import annotations

from barnabas.broker.cluster.registrations import Registration
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse


def handle(services: Services, request: BrokerRegistrationRequest, context: RequestContext, now_ms: int) -> None:
    """Register a broker; it is answered when that is committed."""
    if request.broker_id != context.connection.peer:
        context.respond(BrokerRegistrationResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    if services.members is None:
        context.respond(BrokerRegistrationResponse(error_code=ErrorCode.NOT_CONTROLLER))
        return

    def done(fault: KafkaError | None, epoch: int) -> None:
        context.respond(BrokerRegistrationResponse(0, 0 if fault is None else fault.code, epoch))

    endpoints = tuple((one.name, one.host, one.port) for one in request.listeners)
    asked = Registration(
        request.broker_id,
        request.cluster_id,
        request.incarnation_id,
        endpoints,
        request.rack,
        request.previous_broker_epoch,
        tuple((one.name, one.min_supported_version, one.max_supported_version) for one in request.features),
    )
    services.members.register(asked, done, now_ms)
