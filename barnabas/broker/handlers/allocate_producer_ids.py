"""AllocateProducerIds (67). The controller gives a broker a block of producer ids of its own. Brokers alone ask.

- Refused as AlterPartition is: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, STALE_BROKER_EPOCH.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.alter_partition import refusal
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.requests.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


def handle(services: Services, request: AllocateProducerIdsRequest, context: RequestContext, now_ms: int) -> None:
    """Give a block; it is answered when it is committed."""
    error = refusal(services, request.broker_id, request.broker_epoch, context)
    if error:
        context.respond(AllocateProducerIdsResponse(error_code=error))
        return

    def done(fault: KafkaError | None, first: int, count: int) -> None:
        if fault is not None:
            context.respond(AllocateProducerIdsResponse(error_code=fault.code))
        else:
            context.respond(AllocateProducerIdsResponse(0, 0, first, count))

    services.controller.allocate_producer_ids(request.broker_id, done)
