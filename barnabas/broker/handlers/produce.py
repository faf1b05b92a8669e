"""Produce (0). A real broker appends each partition by itself and answers as `acks` asks.

Order of the checks: topic id known (v13 on: UNKNOWN_TOPIC_ID), permission (29), partition known (3), one v2 batch
(87, 2), zstd below v7 (76); then acks (21), internal topic (17; the client id `__admin_client` may), hosting and
leadership (56, 6, 3), ISR (19), and what the log says. One partition's failure is no other's.

- acks=0 has no answer; if any partition failed, the connection is closed: the only signal there is.
- v8 on tells the records at fault (`record_errors`), v10 on the current leader with NOT_LEADER_OR_FOLLOWER.
- Versions 0 to 2 are advertised and refused (see ApiVersions). v13 has topic ids and no names.
- A transactional batch needs a right to its transactional id, which nobody can have before transactions come: the
  whole request is TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which clients take for final.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers import leaders
from barnabas.broker.handlers.services import Operation, Services, topic_resource
from barnabas.broker.replica.types import ProduceResult
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import Buffer, TopicPartition
from barnabas.protocol.requests.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_ADMIN_CLIENT: Final = "__admin_client"
_ATTRIBUTES_LOW_AT: Final = 22
_CODEC_MASK: Final = 0x07
_ZSTD: Final = 4
_TRANSACTIONAL: Final = 0x10
# An enum's member is looked up in its class at every use.
_WRITE: Final = Operation.WRITE

Layout: TypeAlias = list[tuple[TopicProduceData, list[TopicPartition]]]
Results: TypeAlias = dict[TopicPartition, ProduceResult]


def handle(services: Services, request: ProduceRequest, context: RequestContext, now_ms: int) -> None:
    """Append, and answer now or when enough replicas have it."""
    version = context.api_version
    image = services.image
    entries: list[tuple[TopicPartition, Buffer]] = []
    refused: Results = {}
    layout: Layout = []
    transactional = 0
    for data in request.topic_data:
        error = 0
        if version >= 13:
            known = image.topics_by_id.get(data.topic_id)
            name, error = (known.name, 0) if known is not None else ("", ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            name = data.name
            known = image.topics.get(name)
        if not error and not services.authorise(context.connection.principal, _WRITE, topic_resource(name)):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        keys: list[TopicPartition] = []
        layout.append((data, keys))
        for part in data.partition_data:
            key = None if known is None else known.keys.get(part.index)
            if key is None:
                key = TopicPartition(name or data.topic_id.hex(), part.index)
                refused[key] = ProduceResult(error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                keys.append(key)
                continue
            keys.append(key)
            records = part.records
            if isinstance(records, list):
                records = b"".join(records)
            if error or not records:
                refused[key] = ProduceResult(error or ErrorCode.INVALID_RECORD)
                continue
            if len(records) > _ATTRIBUTES_LOW_AT:
                attributes = records[_ATTRIBUTES_LOW_AT]
                if version < 7 and attributes & _CODEC_MASK == _ZSTD:
                    refused[key] = ProduceResult(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
                    continue
                transactional |= attributes & _TRANSACTIONAL
            entries.append((key, records))
    if transactional:
        refused = {
            key: ProduceResult(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED) for _, keys in layout for key in keys
        }
        entries = []
    elif len(entries) > 1:
        entries = list(dict(entries).items())  # of a partition named twice the last batch counts

    def respond(results: Results) -> None:
        if refused:
            results = {**results, **refused}
        if request.acks:
            context.respond(_response(services, context, layout, results))
        else:
            _answer_nothing(results, context)

    if entries:
        services.replicas.append_records(
            entries,
            request.acks,
            request.timeout_ms,
            respond,
            now_ms,
            internal_allowed=context.client_id == _ADMIN_CLIENT,
        )
    else:
        respond({})


def _response(services: Services, context: RequestContext, layout: Layout, results: Results) -> ProduceResponse:
    nodes: dict[int, NodeEndpoint] = {}
    topics = []
    for data, keys in layout:
        partitions = []
        for key in keys:
            result = results[key]
            error = result.error_code
            told = PartitionProduceResponse(
                key.partition, error, result.base_offset, result.log_append_time_ms, result.log_start_offset, []
            )
            if error:
                _explain(services, context, key, result, told, nodes)
            partitions.append(told)
        topics.append(TopicProduceResponse(data.name, data.topic_id, partitions))
    return ProduceResponse(topics, 0, list(nodes.values()) if nodes else [])


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
