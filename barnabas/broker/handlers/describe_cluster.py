"""DescribeCluster (60). A real broker answers from its image; brokers only (endpoint type 1).

- v1: endpoint type 2 (controllers) asked of a broker is MISMATCHED_ENDPOINT_TYPE, any other UNSUPPORTED_ENDPOINT_TYPE.
- v2: fenced brokers too, if asked for.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import CLUSTER, Services, authorised_operations
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import NO_LEADER
from barnabas.protocol.requests.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(services: Services, request: DescribeClusterRequest, context: RequestContext, now_ms: int) -> None:
    """Answer with the brokers of the cluster."""
    if request.endpoint_type != _BROKERS:
        mismatched = request.endpoint_type == _CONTROLLERS
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if mismatched else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        what = "this listener belongs to a broker" if mismatched else f"no endpoint type {request.endpoint_type}"
        context.respond(
            DescribeClusterResponse(error_code=code, error_message=f"The request asks for what is not here: {what}.")
        )
        return
    image = services.image
    brokers = []
    for _, broker in sorted(image.brokers.items()):
        endpoint = broker.endpoint(context.connection.listener)
        if endpoint is not None and (request.include_fenced_brokers or not broker.fenced):
            brokers.append(DescribeClusterBroker(broker.broker_id, *endpoint, broker.rack, broker.fenced))
    alive = [broker.broker_id for broker in brokers if not broker.is_fenced]
    response = DescribeClusterResponse(
        cluster_id=services.cluster_id,
        controller_id=alive[services.entropy.below(len(alive))] if alive else NO_LEADER,
        brokers=brokers,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorised_operations(services, context, CLUSTER)
    context.respond(response)
