"""InitProducerId (22). For idempotent producers: a fresh id at epoch 0, from this broker's block.

- Without transactional id every call gets a new id, also one that names its old id and epoch (v3 on); one of the two
  without the other is INVALID_REQUEST. No id is written down but the blocks.
- An empty transactional id is INVALID_REQUEST. Any other needs the transaction coordinator, which this release does not
  have: it is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which clients take for final (a retriable error would
  have them try for ever).
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import CLUSTER, Operation, Services
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.protocol.requests.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(services: Services, request: InitProducerIdRequest, context: RequestContext, now_ms: int) -> None:
    """Give out a producer id, now or when the controller has granted a block."""
    error = _refusal(services, request, context)
    if error:
        context.respond(InitProducerIdResponse(error_code=error, producer_epoch=NO_PRODUCER_EPOCH))
        return

    def taken(fault: KafkaError | None, producer_id: int) -> None:
        if fault is not None:
            # Kafka's answer while no block can be had: clients try again.
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            context.respond(InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH))
        else:
            context.respond(InitProducerIdResponse(producer_id=producer_id))

    services.producer_ids.take(taken)


def _refusal(services: Services, request: InitProducerIdRequest, context: RequestContext) -> int:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is not None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not services.authorise(context.connection.principal, Operation.IDEMPOTENT_WRITE, CLUSTER):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return ErrorCode.NONE
