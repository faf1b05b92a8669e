"""Produce (0). A real broker appends each partition by itself and answers as `acks` asks.

Order of the checks: topic id known (v13 on: UNKNOWN_TOPIC_ID), permission (29), partition known (3), one v2 batch
(87, 2), zstd below v7 (76); then acks (21), internal topic (17; see `_may_write_internal`), hosting and leadership
(56, 6, 3), ISR (19), and what the log says. One partition's failure is no other's.

- acks=0 has no answer; if any partition failed, the connection is closed: the only signal there is.
- v8 on tells the records at fault (`record_errors`), v10 on the current leader with NOT_LEADER_OR_FOLLOWER.
- Versions 0 to 2 are advertised and refused (see ApiVersions). v13 has topic ids and no names.
- A transactional batch needs a right to its transactional id, which nobody can have before transactions come: the
  whole request is TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which clients take for final.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from barnabas.broker.cluster.image import TopicState
from barnabas.broker.config.listeners import LOCAL
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers import leaders
from barnabas.broker.handlers.services import Operation, Resource, Services, allow_all, topic_resource
from barnabas.broker.handlers.steps import SLICE, answer
from barnabas.broker.jobs import Job
from barnabas.broker.log.look import ERRORS_MAX, LARGE
from barnabas.broker.log.types import AppendInfo
from barnabas.broker.replica.produce import append_one
from barnabas.broker.replica.types import ProduceResult
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import Buffer, TopicPartition
from barnabas.protocol.requests.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    OneBatchRequest,
    OneBatchResponse,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

_ADMIN_CLIENT: Final = "__admin_client"
_TOPIC_IDS: Final = 13
_ZSTD_ALLOWED: Final = 7
_ATTRIBUTES_LOW_AT: Final = 22
_CODEC_MASK: Final = 0x07
_ZSTD: Final = 4
_TRANSACTIONAL: Final = 0x10
_TOLD_APART: Final = _ZSTD | _TRANSACTIONAL
"""Attributes without which `_refusal` has nothing to say of a batch."""
# An enum's member is looked up in its class at every use.
_WRITE: Final = Operation.WRITE
_made: Final = object.__new__

PARTITIONS_AT_ONCE_MAX: Final = 200
"""Partitions of one request that are appended to in one step, fewer where their batches are work: 10 to 20 µs each."""

Layout: TypeAlias = list[tuple[str, bytes, list[TopicPartition]]]
Results: TypeAlias = dict[TopicPartition, ProduceResult]
Sorted: TypeAlias = tuple[list[tuple[TopicPartition, Buffer]], Results, Layout, bool]


def handle(services: Services, request: ProduceRequest, context: RequestContext, now_ms: int) -> bool:
    """Append, and answer now or when enough replicas have it. True if nothing is left to do (see `registry`)."""
    if isinstance(request, OneBatchRequest):
        response = _append_one(services, request, context, now_ms)
        if response is not None:
            context.respond(response)
            return not services.replicas.actions
    services.work(_append_all(services, request, context, now_ms), request, context)
    return False


def _append_one(
    services: Services, request: OneBatchRequest, context: RequestContext, now_ms: int
) -> ProduceResponse | None:
    """The answer, if it can be given at once and nothing but the log has a say. None: nothing was done."""
    version = context.api_version
    image = services.image
    known = image.topics.get(request.name) if version < _TOPIC_IDS else image.topics_by_id.get(request.topic_id)
    records = request.records
    if known is None or isinstance(records, list) or not _ATTRIBUTES_LOW_AT < len(records) <= LARGE:
        return None
    key = known.keys.get(request.index)
    if (
        key is None
        or (records[_ATTRIBUTES_LOW_AT] & _TOLD_APART and _refusal(records, version))
        or (services.authorise is not allow_all and not _may_write(services, context, known.name, known))
    ):
        return None
    connection, client_id = context.connection, context.client_id
    asker = connection.id, connection.client_host, client_id
    hosted = services.replicas.hosted  # straight there: every call counts on this way, and one through C costs most
    internal = client_id == _ADMIN_CLIENT and _may_write_internal(context)
    done = append_one(hosted, key, records, request.acks, internal, asker, now_ms)
    if isinstance(done, AppendInfo):
        told = _made(OneBatchResponse)  # without `__init__`: to call that takes longer than to set all fields
        told.name, told.topic_id, told.index = request.name, request.topic_id, request.index
        told.error_code, told.base_offset, told.log_append_time_ms = 0, done.first_offset, done.log_append_time_ms
        told.log_start_offset, told.throttle_time_ms = done.log_start_offset, 0
        return told
    return (
        None if done is None else _response(services, context, [(request.name, request.topic_id, [key])], {key: done})
    )


def _may_write(services: Services, context: RequestContext, name: str, known: TopicState | None) -> bool:
    resource = Resource("topic", name) if known is None else topic_resource(name)
    return services.authorise(context.connection.principal, _WRITE, resource)


def _may_write_internal(context: RequestContext) -> bool:
    """Whether who asks may write to internal topics: the administrator, over the local socket.

    Apache Kafka has anybody in who calls himself `__admin_client`. What is written there is kept in memory as groups,
    and counts for nobody; a name that anybody may use proves nothing.
    """
    return context.client_id == _ADMIN_CLIENT and context.connection.listener == LOCAL


def _refusal(records: Buffer, version: int) -> int:
    """Why a batch is not even brought to its partition (0: it is)."""
    if len(records) <= _ATTRIBUTES_LOW_AT:
        return 0 if records else ErrorCode.INVALID_RECORD
    attributes = records[_ATTRIBUTES_LOW_AT]
    if version < _ZSTD_ALLOWED and attributes & _CODEC_MASK == _ZSTD:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if attributes & _TRANSACTIONAL:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return 0


def _sorted(services: Services, request: ProduceRequest, context: RequestContext) -> Job[Sorted]:
    """What can be appended, what is refused before, what an answer needs, and whether a batch is transactional."""
    version = context.api_version
    image = services.image
    entries: list[tuple[TopicPartition, Buffer]] = []
    refused: Results = {}
    # What an answer needs: it may wait for long, and must not keep the records, nor the buffer they lie in.
    layout: Layout = []
    transactional = False
    seen = 0
    for data in request.topic_data:
        if not data.partition_data:
            continue
        error = 0
        if version >= _TOPIC_IDS:
            known = image.topics_by_id.get(data.topic_id)
            name, error = (known.name, 0) if known is not None else ("", ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            name = data.name
            known = image.topics.get(name)
        if not error and not _may_write(services, context, name, known):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        keys: list[TopicPartition] = []
        layout.append((data.name, data.topic_id, keys))
        for part in data.partition_data:
            seen += 1
            if seen % SLICE == 0:
                yield None
            key = None if known is None else known.keys.get(part.index)
            if key is None:
                key = TopicPartition(name or data.topic_id.hex(), part.index)
                refused[key] = ProduceResult(error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                keys.append(key)
                continue
            keys.append(key)
            records = b"".join(part.records) if isinstance(part.records, list) else part.records or b""
            code = error or _refusal(records, version)
            if code:
                refused[key] = ProduceResult(code)
                transactional |= code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            else:
                entries.append((key, records))
    return entries, refused, layout, transactional


def _append_all(services: Services, request: ProduceRequest, context: RequestContext, now_ms: int) -> Job[None]:
    acks = request.acks
    entries, refused, layout, transactional = yield from _sorted(services, request, context)
    if transactional:
        refused = {
            key: ProduceResult(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED) for _, _, keys in layout for key in keys
        }
        entries = []
    elif len(entries) > 1:
        entries = list(dict(entries).items())  # of a partition named twice the last batch counts
    layout = _once(layout, len(entries) + len(refused))

    def respond(results: Results) -> None:
        if refused:
            results = {**results, **refused}
        if not acks:
            _answer_nothing(results, context)
        elif _elements(results) <= SLICE:
            context.respond(_response(services, context, layout, results))
        else:  # without the request: while a produce waits, nothing may hold its records
            steps = _respond_in_slices(services, context, layout, results)
            services.work(steps, ProduceRequest(acks=acks), context)

    asker = context.connection.id, context.connection.client_host, context.client_id
    internal_allowed = _may_write_internal(context)

    def append(some: Sequence[tuple[TopicPartition, Buffer]], got: Callable[[Results], None]) -> int:
        return services.replicas.append_records(
            some,
            acks,
            request.timeout_ms,
            got,
            now_ms,
            internal_allowed=internal_allowed,
            asker=asker,
            connection=context.connection,
        )

    if not entries:
        respond({})
    elif len(entries) == 1:
        append(entries, respond)
    else:
        yield from _append_in_slices(entries, append, respond)


def _once(layout: Layout, partitions: int) -> Layout:
    """What is named twice is answered once, as in Kafka: a topic, and each of the `partitions` that there are."""
    same = len(layout) == 1 or len({(name, topic_id) for name, topic_id, _ in layout}) == len(layout)
    if same and sum(len(keys) for _, _, keys in layout) == partitions:
        return layout
    topics: dict[tuple[str, bytes], dict[TopicPartition, None]] = {}
    for name, topic_id, keys in layout:
        topics.setdefault((name, topic_id), {}).update(dict.fromkeys(keys))
    return [(name, topic_id, list(keys)) for (name, topic_id), keys in topics.items()]


def _append_in_slices(
    entries: Sequence[tuple[TopicPartition, Buffer]],
    append: Callable[[Sequence[tuple[TopicPartition, Buffer]], Callable[[Results], None]], int],
    respond: Callable[[Results], None],
) -> Job[None]:
    """Append to some partitions at a time: others may append in between, to these partitions, too.

    Records at fault are told of up to `ERRORS_MAX` in all; which batches are refused, and why, always.
    """
    count = len(entries)
    results: Results = {}
    told = 0

    def got(some: Results) -> None:  # holds no records: it may wait for long
        nonlocal told
        for one in some.values():
            if one.record_errors:
                told += len(one.record_errors)
                if told > ERRORS_MAX:
                    one.record_errors = None
        results.update(some)
        if len(results) == count:
            respond(results)

    at = append(entries if count <= PARTITIONS_AT_ONCE_MAX else entries[:PARTITIONS_AT_ONCE_MAX], got)
    while at < count:
        yield None
        at += append(entries[at : at + PARTITIONS_AT_ONCE_MAX], got)


def _elements(results: Results) -> int:
    """How much an answer has to tell: partitions, and records at fault."""
    return len(results) + sum([len(one.record_errors) for one in results.values() if one.record_errors])


def _response(services: Services, context: RequestContext, layout: Layout, results: Results) -> ProduceResponse:
    if len(results) == 1 and len(layout) == 1 and len(layout[0][2]) == 1:
        name, topic_id, (key,) = layout[0]
        result = results[key]
        if not result.error_code:
            start, append_ms = result.log_start_offset, result.log_append_time_ms
            return OneBatchResponse(name, topic_id, key.partition, 0, result.base_offset, append_ms, start)
    nodes: dict[int, NodeEndpoint] = {}
    topics = []
    for name, topic_id, keys in layout:
        partitions = [_told(services, context, key, results[key], nodes) for key in keys]
        topics.append(TopicProduceResponse(name, topic_id, partitions))
    return ProduceResponse(topics, 0, list(nodes.values()) if nodes else [])


def _respond_in_slices(services: Services, context: RequestContext, layout: Layout, results: Results) -> Job[None]:
    """As `_response`, of many."""
    nodes: dict[int, NodeEndpoint] = {}
    topics: list[TopicProduceResponse] = []
    done = 0
    for name, topic_id, keys in layout:
        topics.append(TopicProduceResponse(name, topic_id))
        for key in keys:
            topics[-1].partition_responses.append(_told(services, context, key, results[key], nodes))
            done += 1 + len(results[key].record_errors or ())
            if done >= SLICE:
                done = 0
                yield None
    yield from answer(context, ProduceResponse(topics, 0, list(nodes.values())), _elements(results) + len(topics))


def _told(
    services: Services,
    context: RequestContext,
    key: TopicPartition,
    result: ProduceResult,
    nodes: dict[int, NodeEndpoint],
) -> PartitionProduceResponse:
    """The answer for one partition; `nodes` gets the brokers it names."""
    error = result.error_code
    told = PartitionProduceResponse(
        key.partition, error, result.base_offset, result.log_append_time_ms, result.log_start_offset, []
    )
    if error:
        _explain(services, context, key, result, told, nodes)
    return told


def _answer_nothing(results: dict[TopicPartition, ProduceResult], context: RequestContext) -> None:
    for key, result in results.items():
        if result.error_code:
            context.close(f"producing to {key} with acks=0 failed: {ErrorCode(result.error_code).name}")
            break
    context.respond(None)


def _explain(
    services: Services,
    context: RequestContext,
    key: TopicPartition,
    result: ProduceResult,
    told: PartitionProduceResponse,
    nodes: dict[int, NodeEndpoint],
) -> None:
    """Add to an answer what helps with its error."""
    told.error_message = result.error_message
    if result.record_errors:
        told.record_errors = [BatchIndexAndErrorMessage(index, message) for index, message in result.record_errors]
    if result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and context.api_version >= 10:
        leader = leaders.current_leader(services, key)
        if leader is not None:
            told.current_leader = LeaderIdAndEpoch(*leader)
            found = leaders.endpoint(services, leader[0], context)
            if found is not None:
                nodes[leader[0]] = NodeEndpoint(leader[0], *found)
