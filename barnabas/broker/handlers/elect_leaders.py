"""ElectLeaders (43). A real broker has the controller let the preferred replica lead, or any that lives.

On one broker there is nothing to choose: ELECTION_NOT_NEEDED where the only replica leads, and where it cannot,
PREFERRED_LEADER_NOT_AVAILABLE, or for an unclean election (1, from v1 on) ELIGIBLE_LEADERS_NOT_AVAILABLE.

- A topic or partition that is not there: UNKNOWN_TOPIC_OR_PARTITION. An election nobody knows: INVALID_REQUEST.
- No list at all means all topics; what needs no election is not told then, so each topic has none to tell.
- A partition named twice is answered once (Kafka: twice).
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import CLUSTER, Operation, Services
from barnabas.broker.handlers.steps import SLICE, answer, slices
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import NO_LEADER
from barnabas.protocol.requests.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_PREFERRED: Final = 0
_UNCLEAN: Final = 1
_TYPED_FROM: Final = 1


def handle(services: Services, request: ElectLeadersRequest, context: RequestContext, now_ms: int) -> None:
    """Say of each partition why no other leader is elected."""
    everything = request.topic_partitions is None and len(services.image.topics) > SLICE
    work = services.work_in_line if everything else services.work
    work(_serve(services, request, context), request, context)


def _serve(services: Services, request: ElectLeadersRequest, context: RequestContext) -> Job[None]:
    if not services.authorise(context.connection.principal, Operation.ALTER, CLUSTER):
        context.respond(ElectLeadersResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    election = request.election_type if context.api_version >= _TYPED_FROM else _PREFERRED
    results: dict[str, ReplicaElectionResult] = {}
    count = 0
    if request.topic_partitions is None:
        for names in slices(list(services.image.topics)):
            results |= {name: ReplicaElectionResult(name) for name in names}
            yield None
    else:
        named = {(one.topic, index): None for one in request.topic_partitions for index in one.partitions}
        for some in slices(list(named)):
            for topic, index in some:
                told = results.setdefault(topic, ReplicaElectionResult(topic))
                told.partition_result.append(PartitionResult(index, *_outcome(services, topic, index, election)))
            count += len(some)
            if count < len(named):
                yield None
    code = 0 if election in (_PREFERRED, _UNCLEAN) else ErrorCode.INVALID_REQUEST
    response = ElectLeadersResponse(error_code=code, replica_election_results=list(results.values()))
    yield from answer(context, response, count + len(results))


def _outcome(services: Services, name: str, index: int, election: int) -> tuple[int, str]:
    """The error of one partition, and its text."""
    if election not in (_PREFERRED, _UNCLEAN):
        return ErrorCode.INVALID_REQUEST, f"Unknown election type {election}"
    topic = services.image.topics.get(name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    state = topic.partitions.get(index)
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    if state.leader == state.replicas[0] or (election == _UNCLEAN and state.leader != NO_LEADER):
        return ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    if election == _UNCLEAN:
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica of the partition is alive."
    return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"Broker {state.replicas[0]} is to lead, and is not alive."
