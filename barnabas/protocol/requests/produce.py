"""Produce, API key 0. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field

from barnabas.protocol.ids import ZERO_UUID, Records
from barnabas.protocol.requests import message


@message
class PartitionProduceData:
    index: int = 0
    records: Records | None = None


@message
class TopicProduceData:
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partition_data: list[PartitionProduceData] = field(default_factory=list)


@message
class ProduceRequest:
    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: list[TopicProduceData] = field(default_factory=list)


class OneBatchRequest(ProduceRequest):
    """The commonest request, one batch for one partition without a transaction, laid flat.

    Reads like any other ProduceRequest; who knows it by its type spares a list and an object on each level.
    """

    __slots__ = ("index", "name", "records", "topic_id")

    def __init__(self, acks: int, timeout_ms: int, name: str, topic_id: bytes, index: int, records: Records) -> None:
        self.transactional_id = None
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.name = name
        self.topic_id = topic_id
        self.index = index
        self.records = records

    @property
    def topic_data(self) -> list[TopicProduceData]:  # type: ignore[override]  # made when it is asked for
        """The batch where it stands in a request."""
        return [TopicProduceData(self.name, self.topic_id, [PartitionProduceData(self.index, self.records)])]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProduceRequest) and _asked(self) == _asked(other)

    __hash__ = None  # type: ignore[assignment]  # as its like


def _asked(request: ProduceRequest) -> tuple[object, ...]:
    return request.transactional_id, request.acks, request.timeout_ms, request.topic_data


@message
class BatchIndexAndErrorMessage:
    batch_index: int = 0
    batch_index_error_message: str | None = None


@message
class LeaderIdAndEpoch:
    leader_id: int = -1
    leader_epoch: int = -1


@message
class PartitionProduceResponse:
    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: list[BatchIndexAndErrorMessage] = field(default_factory=list)
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch | None = None


@message
class TopicProduceResponse:
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partition_responses: list[PartitionProduceResponse] = field(default_factory=list)


@message
class NodeEndpoint:
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


@message
class ProduceResponse:
    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: int = 0
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)


class OneBatchResponse(ProduceResponse):
    """The answer to one batch with nothing to explain, laid flat. Reads like any other ProduceResponse."""

    __slots__ = ("base_offset", "error_code", "index", "log_append_time_ms", "log_start_offset", "name", "topic_id")

    def __init__(
        self,
        name: str,
        topic_id: bytes,
        index: int,
        error_code: int,
        base_offset: int,
        log_append_time_ms: int,
        log_start_offset: int,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.throttle_time_ms = 0

    @property
    def responses(self) -> list[TopicProduceResponse]:  # type: ignore[override]  # made when it is asked for
        """The partition where it stands in a response."""
        told = PartitionProduceResponse(
            self.index, self.error_code, self.base_offset, self.log_append_time_ms, self.log_start_offset, []
        )
        return [TopicProduceResponse(self.name, self.topic_id, [told])]

    @property
    def node_endpoints(self) -> list[NodeEndpoint]:  # type: ignore[override]
        """None are needed."""
        return []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProduceResponse) and _answered(self) == _answered(other)

    __hash__ = None  # type: ignore[assignment]  # as its like


def _answered(response: ProduceResponse) -> tuple[object, ...]:
    return response.responses, response.throttle_time_ms, response.node_endpoints
