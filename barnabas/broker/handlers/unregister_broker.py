"""UnregisterBroker (64). The controller forgets a broker for good (`cluster/members`).

- One that nobody knows: BROKER_ID_NOT_REGISTERED. The controller itself: INVALID_REQUEST (Kafka's controllers keep the
  metadata without being registered, so there a broker beside one can be forgotten).
- One that is alive, or starts: INVALID_REQUEST. Apache Kafka 4.3 answers 0 and forgets it: no Metadata names it, its
  own neither, and its process asks on with what counts no more until somebody starts it anew. One request for each
  broker would end a cluster.
- What it had stays assigned to it, as in Kafka: partitions are to be moved before.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import CLUSTER, Operation, Services
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def handle(services: Services, request: UnregisterBrokerRequest, context: RequestContext, now_ms: int) -> None:
    """Have it forgotten; the answer comes once that is written."""

    def done(fault: KafkaError | None) -> None:
        code, text = (0, None) if fault is None else (fault.code, fault.detail or None)
        context.respond(UnregisterBrokerResponse(error_code=code, error_message=text))

    if not services.authorise(context.connection.principal, Operation.ALTER, CLUSTER):
        done(KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ""))
    elif services.members is not None:
        services.members.unregister(request.broker_id, done, now_ms)
    elif request.broker_id in services.image.brokers:
        done(KafkaError(ErrorCode.INVALID_REQUEST, f"broker {services.node_id} stands alone, there is no cluster"))
    else:
        detail = f"Broker ID {request.broker_id} is not currently registered"
        done(KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, detail))
