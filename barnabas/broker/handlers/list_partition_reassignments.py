"""ListPartitionReassignments (46). The controller tells which partitions are on their way to other brokers.

No list means all. Partitions and topics that are not there are passed over, as in Kafka, and so are those that stay
where they are. A partition named twice is told once (Kafka: twice).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final

from barnabas.broker.cluster.image import Image
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import CLUSTER, Operation, Services
from barnabas.broker.handlers.steps import SLICE, Slice, answer
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

_BYTES: Final = 400
"""What a partition takes as it is told, and written."""


def handle(
    services: Services, request: ListPartitionReassignmentsRequest, context: RequestContext, now_ms: int
) -> None:
    """Look through those that are named, or all."""
    counts: Iterable[int]
    if request.topics is None:
        counts = (len(topic.partitions) for topic in services.image.topics.values())
    else:
        counts = (len(topic.partition_indexes) for topic in request.topics)
    large = any(total > SLICE for total in accumulate(counts))
    work = services.work_in_line if large else services.work
    work(_serve(services, request, context), request, context)


def _serve(services: Services, request: ListPartitionReassignmentsRequest, context: RequestContext) -> Job[None]:
    if not services.authorise(context.connection.principal, Operation.DESCRIBE, CLUSTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        context.respond(ListPartitionReassignmentsResponse(error_code=code, error_message=None))
        return
    named: Iterable[TopicPartition] = _all(services.image)
    if request.topics is not None:
        pairs = (TopicPartition(topic.name, one) for topic in request.topics for one in topic.partition_indexes)
        named = dict.fromkeys(pairs)
    found: dict[str, OngoingTopicReassignment] = {}
    slice_ = Slice()
    told = 0
    with services.charging(context) as charge:
        for key in named:
            state = services.image.partition(*key)
            if state is not None and state.moves:
                topic = found.setdefault(key.topic, OngoingTopicReassignment(key.topic))
                lists = (list(one) for one in (state.replicas, state.adding, state.removing))
                topic.partitions.append(OngoingPartitionReassignment(key.partition, *lists))
                told += 1
            if slice_.is_over():
                charge(told * _BYTES)
                told = 0
                yield None
        charge(told * _BYTES)
        response = ListPartitionReassignmentsResponse(error_message=None, topics=list(found.values()))
        yield from answer(context, response, sum(1 + len(one.partitions) for one in found.values()))


def _all(image: Image) -> Iterator[TopicPartition]:
    for topic in list(image.topics.values()):
        yield from list(topic.keys.values())
