"""ElectLeaders (43). The controller lets the preferred replica lead, or any that lives (`cluster/elections`).

Of a broker that stands alone there is nothing to choose: its only replica leads, or cannot.

- A topic or partition that is not there: UNKNOWN_TOPIC_OR_PARTITION. An election nobody knows: INVALID_REQUEST.
- No list at all means all partitions; those that need no election are not told of, so a topic may have none to tell.
  One that is named without partitions is told so, too, whether it is there or not.
- A partition named twice is answered once (Kafka: twice). The time-out of the request is not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.cluster.elections import PREFERRED, UNCLEAN, refusal
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import CLUSTER, Operation, Services
from barnabas.broker.handlers.steps import SLICE, Slice, answer, slices
from barnabas.broker.jobs import Gate, Job, wait
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from barnabas.broker.cluster.members import Elected, Members

_TYPED_FROM: Final = 1


def handle(services: Services, request: ElectLeadersRequest, context: RequestContext, now_ms: int) -> None:
    """Hold the elections, and say of each partition what came of it."""
    asked = request.topic_partitions
    size = len(services.image.topics) if asked is None else sum(1 + len(topic.partitions) for topic in asked)
    work = services.work_in_line if size > SLICE else services.work
    work(_serve(services, request, context), request, context)


def _serve(services: Services, request: ElectLeadersRequest, context: RequestContext) -> Job[None]:
    if not services.authorise(context.connection.principal, Operation.ALTER, CLUSTER):
        context.respond(ElectLeadersResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    election = request.election_type if context.api_version >= _TYPED_FROM else PREFERRED
    told: Elected = {}
    named = _named(request)
    known = election in (PREFERRED, UNCLEAN)
    if services.members is not None and known:
        told = yield from _hold(services.members, election, named)
    elif named is not None:
        for some in slices(named):
            told |= {key: refusal(services.image, key, election) for key in some}
            if len(told) < len(named):
                yield None
    results: dict[str, ReplicaElectionResult] = {}
    asked = request.topic_partitions
    for names in slices(list(services.image.topics) if asked is None else [one.topic for one in asked]):
        results |= {name: ReplicaElectionResult(name) for name in names}
        yield None
    slice_ = Slice()
    for key, (code, text) in told.items():
        results[key.topic].partition_result.append(PartitionResult(key.partition, code, text or None))
        if slice_.is_over():
            yield None
    code = 0 if known else ErrorCode.INVALID_REQUEST
    response = ElectLeadersResponse(error_code=code, replica_election_results=list(results.values()))
    yield from answer(context, response, len(told) + len(results))


def _named(request: ElectLeadersRequest) -> list[TopicPartition] | None:
    if request.topic_partitions is None:
        return None
    return list(
        dict.fromkeys(TopicPartition(one.topic, part) for one in request.topic_partitions for part in one.partitions)
    )


def _hold(members: Members, election: int, named: list[TopicPartition] | None) -> Job[Elected]:
    """Have the controller elect, and wait until that is committed; what it refuses is told of each partition."""
    told: Elected = {}
    decided = Gate()

    def done(fault: KafkaError | None, elected: Elected) -> None:
        told.update(elected)
        if fault is not None:
            told.update(dict.fromkeys(named or elected, (fault.code, fault.detail)))
        decided.open()

    members.elect(election, named, done)
    yield from wait(decided)
    return told
