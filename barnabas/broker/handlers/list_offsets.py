"""ListOffsets (2). A real broker looks offsets up by time, or by a special timestamp.

    -1 latest (v1)   -2 earliest (v1)   -3 largest timestamp (v7)   -4 earliest local (v8)   -5 latest tiered (v9)
    -6 earliest pending upload (v11): no tiered storage, so there is none

- A special value above the request's version, or unknown, is UNSUPPORTED_VERSION; a partition named twice is
  INVALID_REQUEST, told once. A topic without partitions is not told.
- An isolation level that nobody knows: UNKNOWN_SERVER_ERROR for all, as from a Kafka that fails on it.
- A new leader that cannot know yet: OFFSET_NOT_AVAILABLE (v5 on), LEADER_NOT_AVAILABLE before.
- Lookups by time are made a few at a time, for each may look into batches, and out of line, for they may take long.
- A follower's replica id (>= 0) from whoever is no broker of this cluster: CLUSTER_AUTHORIZATION_FAILED for each
  partition. Apache Kafka takes it from anybody who may describe the topic.
- v2 on has the isolation level, v4 on leader epochs. Replicas (>= 0) and debuggers (-2) see up to the log's end; only
  a debugger may ask a follower.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import Operation, Resource, Services, acts_as_broker
from barnabas.broker.handlers.steps import SLICE, answer, gathered, slices
from barnabas.broker.jobs import Gate, Job, wait
from barnabas.broker.log import Isolation
from barnabas.broker.replica.types import ListOffsetsQuery, ListOffsetsResult
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import CONSUMER_REPLICA_ID, DEBUGGING_REPLICA_ID, MAX_TIMESTAMP, TopicPartition
from barnabas.protocol.requests.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

Queries = Mapping[TopicPartition, ListOffsetsQuery]
Results = dict[TopicPartition, ListOffsetsResult]

BY_TIME_AT_ONCE: Final = 4
"""Partitions that are looked up by time in one step: about 2 ms each, where batches are compressed."""
_READ_COMMITTED: Final = 1
_LEVELS: Final = (0, _READ_COMMITTED)
_EARLIEST_PENDING_UPLOAD: Final = -6
_STRANGER: Final = ListOffsetsResult(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
_FIRST_VERSION: Final = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, _EARLIEST_PENDING_UPLOAD: 11}


def handle(services: Services, request: ListOffsetsRequest, context: RequestContext, now_ms: int) -> None:
    """Look up, and answer now or when the bytes are there."""
    if request.isolation_level not in _LEVELS:
        from barnabas.broker.handlers.failures import error_response  # loads every API's messages; rarely needed

        context.respond(error_response(ApiKey.LIST_OFFSETS, request, ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    size = len(request.topics) + sum(len(topic.partitions) for topic in request.topics)
    by_time = any(_is_by_time(part) for topic in request.topics for part in topic.partitions)
    work = services.work_in_line if size > SLICE and not by_time else services.work
    work(_serve(services, request, context, now_ms, by_time), request, context)


def _is_by_time(part: ListOffsetsPartition) -> bool:
    return part.timestamp >= 0 or part.timestamp == MAX_TIMESTAMP


def _serve(
    services: Services, request: ListOffsetsRequest, context: RequestContext, now_ms: int, by_time: bool
) -> Job[None]:
    named = Counter(
        TopicPartition(topic.name, part.partition_index) for topic in request.topics for part in topic.partitions
    )
    answers: dict[TopicPartition, tuple[ListOffsetsTopicResponse, ListOffsetsResult | None]] = {}
    topics: dict[str, ListOffsetsTopicResponse] = {}
    queries: dict[TopicPartition, ListOffsetsQuery] = {}
    seen = 0
    stranger = request.replica_id >= 0 and not acts_as_broker(services, context.connection)
    for topic in request.topics:
        told = topics.setdefault(topic.name, ListOffsetsTopicResponse(topic.name))
        allowed = services.authorise(context.connection.principal, Operation.DESCRIBE, Resource("topic", topic.name))
        for part in topic.partitions:
            key = TopicPartition(topic.name, part.partition_index)
            early = _STRANGER if stranger else _early(part, allowed, named[key], context.api_version)
            answers[key] = told, early
            if early is None:
                queries[key] = ListOffsetsQuery(part.timestamp, part.current_leader_epoch)
            seen += 1
            if seen % SLICE == 0:
                yield None
        seen += 1
        if seen % SLICE == 0:
            yield None
    if request.replica_id != CONSUMER_REPLICA_ID:
        isolation = Isolation.LOG_END
    else:
        isolation = Isolation.TXN_COMMITTED if request.isolation_level == _READ_COMMITTED else Isolation.HIGH_WATERMARK
    leader_only = request.replica_id != DEBUGGING_REPLICA_ID

    def ask(some: Queries, got: Callable[[Results], None]) -> None:
        asker = context.connection
        services.replicas.list_offsets(some, isolation, got, now_ms, leader_only=leader_only, asker=asker)

    results: Results = yield from _in_turn(queries, ask) if by_time else gathered(queries, ask)
    rest = _answer(context, answers, results)
    if by_time and len(answers) + len(topics) > SLICE:
        rest = services.file_line.within(context.connection.id, rest)
    yield from rest


def _in_turn(queries: Queries, ask: Callable[[Queries, Callable[[Results], None]], None]) -> Job[Results]:
    """Ask for a few at a time, the next when these are known."""
    results: Results = {}
    for some in slices(list(queries), BY_TIME_AT_ONCE):
        known = Gate()

        def answered(part: Results, known: Gate = known) -> None:
            results.update(part)
            known.open()

        ask({key: queries[key] for key in some}, answered)
        yield from wait(known)
        if len(results) < len(queries):
            yield None
    return results


def _answer(
    context: RequestContext,
    answers: dict[TopicPartition, tuple[ListOffsetsTopicResponse, ListOffsetsResult | None]],
    results: Results,
) -> Job[None]:
    """What is known of each; a topic of which nothing was asked is not told."""
    topics: dict[str, ListOffsetsTopicResponse] = {}
    for some in slices(list(answers.items())):
        for key, (told, early) in some:
            topics[key.topic] = told
            told.partitions.append(_told(key, early if early is not None else results[key], context.api_version))
        if len(some) < len(answers):
            yield None
    yield from answer(context, ListOffsetsResponse(topics=list(topics.values())), len(answers) + len(topics))


def _told(key: TopicPartition, result: ListOffsetsResult, version: int) -> ListOffsetsPartitionResponse:
    code = result.error_code
    if code == ErrorCode.OFFSET_NOT_AVAILABLE and version < 5:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    epoch = result.leader_epoch if version >= 4 else -1
    return ListOffsetsPartitionResponse(key.partition, code, result.timestamp, result.offset, epoch)


def _early(part: ListOffsetsPartition, allowed: bool, times: int, version: int) -> ListOffsetsResult | None:
    """The answer that needs no look at the log."""
    if not allowed:
        return ListOffsetsResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if times > 1:
        return ListOffsetsResult(ErrorCode.INVALID_REQUEST)
    if part.timestamp < 0 and version < _FIRST_VERSION.get(part.timestamp, version + 1):
        return ListOffsetsResult(ErrorCode.UNSUPPORTED_VERSION)
    return ListOffsetsResult() if part.timestamp == _EARLIEST_PENDING_UPLOAD else None
