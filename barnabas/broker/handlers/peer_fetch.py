"""Fetch (1) on the listener of brokers: of records, as any replica; of the metadata, from the controller's log.

- A replica id that is not the broker's own: CLUSTER_AUTHORIZATION_FAILED for the whole answer.
- The metadata topic of a broker that is not the controller: NOT_LEADER_OR_FOLLOWER, as a quorum's follower says.
"""

from __future__ import annotations

from barnabas.broker.cluster.metadata_log import TOPIC_ID
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers import fetch
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData


def handle(services: Services, request: FetchRequest, context: RequestContext, now_ms: int) -> None:
    """Read, and answer now or when enough has come."""
    replica = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    if replica != context.connection.peer:
        context.respond(FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    if not any(topic.topic_id == TOPIC_ID for topic in request.topics):
        fetch.handle(services, request, context, now_ms)
    elif services.members is None:
        part = PartitionData(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, records=b"")
        context.respond(FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[part])]))
    else:
        services.members.feed.fetch(request, context.respond, now_ms)
