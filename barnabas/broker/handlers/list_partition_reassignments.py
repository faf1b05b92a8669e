"""ListPartitionReassignments (46). A real broker asks the controller which partitions are moving to other brokers.

None is: there is one broker. Partitions and topics that are not there are passed over, as in Kafka.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.protocol.requests.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    services: Services, request: ListPartitionReassignmentsRequest, context: RequestContext, now_ms: int
) -> None:
    """Answer with none."""
    context.respond(ListPartitionReassignmentsResponse(error_message=None))
