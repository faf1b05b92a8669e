"""FetchSnapshot (59). A broker that is further back than the controller's log reaches asks for a snapshot, in pieces.

- A broker that names another's id: CLUSTER_AUTHORIZATION_FAILED. A broker that is not the controller:
  NOT_LEADER_OR_FOLLOWER for each partition. What else is refused stands in `cluster/snapshot_feed`.
"""

from __future__ import annotations

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PartitionSnapshotResult,
    TopicSnapshotResult,
)


def handle(services: Services, request: FetchSnapshotRequest, context: RequestContext, now_ms: int) -> None:
    """Answer with a piece."""
    if request.replica_id != context.connection.peer:
        context.respond(FetchSnapshotResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    if services.members is not None:
        context.respond(services.members.feed.fetch_snapshot(request))
        return
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    told = [
        TopicSnapshotResult(topic.name, [PartitionSnapshotResult(one.partition, code) for one in topic.partitions])
        for topic in request.topics
    ]
    context.respond(FetchSnapshotResponse(topics=told))
