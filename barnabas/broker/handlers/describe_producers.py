"""DescribeProducers (61, KIP-664). A real broker tells the producers that a partition remembers, a follower its own.

- A topic or partition that is not there: UNKNOWN_TOPIC_OR_PARTITION; a name no topic has: INVALID_TOPIC_EXCEPTION; one
  that has no replica here: NOT_LEADER_OR_FOLLOWER.
- A partition named twice is told once (Kafka: twice): a partition remembers up to 4,000.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.cluster.topic_rules import check_topic_name
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Charge, Operation, Resource, Services
from barnabas.broker.handlers.steps import SLICE, answer
from barnabas.broker.jobs import Job
from barnabas.broker.log.producer_state import Producer
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

_BYTES: Final = 250
"""What a producer takes as it is told, and written."""
_NOT_HERE: Final = "This server does not host this topic-partition."


def handle(services: Services, request: DescribeProducersRequest, context: RequestContext, now_ms: int) -> None:
    """Answer with the producers of each partition."""
    partitions = services.image.topics
    large = sum(len(one.partition_indexes) for one in request.topics if one.name in partitions) > 1
    work = services.work_in_line if large else services.work
    work(_serve(services, request, context), request, context)


def _serve(services: Services, request: DescribeProducersRequest, context: RequestContext) -> Job[None]:
    with services.charging(context) as charge:
        yield from _answer(services, request, context, charge)


def _answer(
    services: Services, request: DescribeProducersRequest, context: RequestContext, charge: Charge
) -> Job[None]:
    topics: dict[str, TopicResponse] = {}
    seen: set[TopicPartition] = set()
    told = made = 0
    for topic in request.topics:
        response = topics.setdefault(topic.name, TopicResponse(topic.name))
        refusal = _refusal(services, topic.name, context)
        made += 1
        for index in topic.partition_indexes:
            key = TopicPartition(topic.name, index)
            if key in seen:
                continue
            seen.add(key)
            partition = _partition(services, key) if refusal is None else PartitionResponse(index, *refusal)
            response.partitions.append(partition)
            made += 1 + len(partition.active_producers)
            if made >= SLICE:
                charge(made * _BYTES)
                told, made = told + made, 0
                yield None
    charge(made * _BYTES)
    yield from answer(context, DescribeProducersResponse(topics=list(topics.values())), told + made)


def _refusal(services: Services, name: str, context: RequestContext) -> tuple[int, str | None] | None:
    """The error of all partitions of a topic, and its text."""
    try:
        check_topic_name(name)
    except KafkaError as fault:
        return fault.code, fault.detail
    if not services.authorise(context.connection.principal, Operation.READ, Resource("topic", name)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, None
    return None if name in services.image.topics else (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOT_HERE)


def _partition(services: Services, key: TopicPartition) -> PartitionResponse:
    hosted = services.replicas.hosted
    partition = hosted.online.get(key)
    if partition is None:
        return PartitionResponse(key.partition, hosted.error_of(key))
    producers = [_told(producer_id, one) for producer_id, one in partition.log.producers.producers.items()]
    return PartitionResponse(key.partition, active_producers=producers)


def _told(producer_id: int, producer: Producer) -> ProducerState:
    last = producer.batches[-1] if producer.batches else None
    return ProducerState(
        producer_id,
        producer.epoch,
        -1 if last is None else last.last_sequence,
        producer.timestamp if last is None else last.timestamp,
        producer.coordinator_epoch,
        producer.txn_first_offset,
    )
