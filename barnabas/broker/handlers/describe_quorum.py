"""DescribeQuorum (55, KIP-836). Asked of the leader of the metadata log: the controller, or a broker that stands alone.

- Told of is partition 0 of `__cluster_metadata`, asked for by itself; anything else, and anything beside it, is
  UNKNOWN_TOPIC_OR_PARTITION.
- One voter, which has all there is: every record is its own, and is committed once it is written. The epoch is the
  metadata log's. Of several controllers each: how far its log is on its device, as the leader has heard, and when it
  last fetched, which is when it last had all, if it has (else -1). The other brokers of a cluster are observers: where
  they last asked from, when that was, and when they last had all; for five minutes after they have fallen silent.
- v2 (KIP-853): no directory ids, as for voters that are configured; `nodes` tells where each voter has the listener
  that was asked, for controllers have none of their own.
- Asked by another broker, who does not decide answers NOT_CONTROLLER, and tells `nodes` all the same: a broker that has
  only addresses learns from any of them who the controllers are (`host/voters`).
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.config.quorum import Voter, voters_of
from barnabas.broker.config.topics import METADATA_TOPIC
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import CLUSTER, Operation, Services
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    RequestedPartitionData,
    TopicData,
)

_NODES_FROM: Final = 2
_NOT_HERE: Final = "This server does not host this topic-partition."


def handle(services: Services, request: DescribeQuorumRequest, context: RequestContext, now_ms: int) -> None:
    """Answer with the voters, and with those that follow them."""
    if not services.authorise(context.connection.principal, Operation.DESCRIBE, CLUSTER):
        context.respond(DescribeQuorumResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    nodes = _nodes(services, context) if context.api_version >= _NODES_FROM else []
    if services.forward is not None and services.members is None:
        context.respond(DescribeQuorumResponse(error_code=ErrorCode.NOT_CONTROLLER, nodes=nodes))
        return
    topics = request.topics
    if (
        len(topics) != 1
        or topics[0].topic_name != METADATA_TOPIC
        or topics[0].partitions != [RequestedPartitionData(0)]
    ):
        unknown = [
            TopicData(
                one.topic_name,
                [
                    PartitionData(part.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOT_HERE)
                    for part in one.partitions
                ],
            )
            for one in topics
        ]
        context.respond(DescribeQuorumResponse(topics=unknown))
        return
    end, epoch = services.metadata_end()
    wall_ms = services.replicas.shared.wall_clock.now_ms()
    voters = _voters(services, end, now_ms, wall_ms)
    seen = {} if services.members is None else services.members.feed.observers(now_ms)
    voting = {one.replica_id for one in voters}
    observers = [
        ReplicaState(
            one,
            log_end_offset=each.end_offset,
            last_fetch_timestamp=wall_ms - (now_ms - each.asked_ms),
            last_caught_up_timestamp=-1 if each.caught_up_ms < 0 else wall_ms - (now_ms - each.caught_up_ms),
        )
        for one, each in seen.items()
        if one not in voting
    ]
    told = PartitionData(
        0,
        leader_id=services.node_id,
        leader_epoch=epoch,
        high_watermark=end,
        current_voters=voters,
        observers=observers,
    )
    context.respond(DescribeQuorumResponse(topics=[TopicData(METADATA_TOPIC, [told])], nodes=nodes))


def _voters(services: Services, end: int, now_ms: int, wall_ms: int) -> list[ReplicaState]:
    me, leading = services.node_id, None if services.quorum is None else services.quorum.leading
    mine = ReplicaState(me, log_end_offset=end, last_fetch_timestamp=wall_ms, last_caught_up_timestamp=wall_ms)
    if leading is None:
        return [mine]
    mine.log_end_offset = leading.ends[me]
    voters = [mine]
    for one, fetched_ms in leading.fetched_ms.items():
        fetched_wall_ms = -1 if fetched_ms < 0 else wall_ms - (now_ms - fetched_ms)
        caught_up_ms = fetched_wall_ms if leading.ends[one] >= end else -1
        voters.append(ReplicaState(one, ZERO_UUID, leading.ends[one], fetched_wall_ms, caught_up_ms))
    return sorted(voters, key=lambda voter: voter.replica_id)


def _nodes(services: Services, context: RequestContext) -> list[Node]:
    return [Node(one.node_id, _listeners(services, context, one)) for one in voters_of(services.config)]


def _listeners(services: Services, context: RequestContext, voter: Voter) -> list[Listener]:
    """Where a voter has the listener that was asked: as the settings have it for brokers, else as it has told."""
    name = context.connection.listener
    if context.connection.peer >= 0 and voter.host:
        return [Listener(name, voter.host, voter.port)]
    broker = services.image.brokers.get(voter.node_id)
    endpoint = None if broker is None else broker.endpoint(name)
    return [] if endpoint is None else [Listener(name, *endpoint)]
