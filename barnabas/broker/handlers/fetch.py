"""Fetch (1). A real broker answers at once, or parks the request until enough has come (the replica room decides).

Order: session (70, 71, 106 for the whole answer), then per partition topic id known (100), permission (29), partition
known (3), and what reading says: epoch (74, 75), leadership (6), topic id (103), divergence, range (1).

- An isolation level that nobody knows: UNKNOWN_SERVER_ERROR for all, as from a Kafka that fails on it.
- `max_wait_ms` is capped by `barnabas.fetch.max.wait.ms` (Kafka: a client may wait 24 days).
- Errors found before reading only join the answer: with one readable partition the request still waits.
- Records are an empty field, never null, where there are none (kafka-python breaks on null).
- v4 to v12 name topics, v13 on has ids alone. v7 on has sessions, v9 on leader epochs, v12 on diverging epochs.
- A consumer, or a debugger, below v11 can only be served by the leader. From v11 on its rack may have it sent to
  another replica. v16 on tells the current leader with errors 6 and 74.
- The replica id stands in `replica_state` from v15 on. Followers (>= 0) and debuggers (-2) see up to the log's end.
- A follower's id from whoever is no broker of this cluster: CLUSTER_AUTHORIZATION_FAILED for each partition. Apache
  Kafka takes it from anybody where no authorizer is set, and answers TOPIC_AUTHORIZATION_FAILED where one refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.broker.config.broker_config import RACK_AWARE
from barnabas.broker.context import Connection, RequestContext
from barnabas.broker.handlers import leaders
from barnabas.broker.handlers.asked import Asked, weight
from barnabas.broker.handlers.services import Operation, Resource, Services, acts_as_broker, topic_resource
from barnabas.broker.handlers.sessions import FIRST_VERSION_WITH_IDS, Fetching
from barnabas.broker.handlers.steps import SLICE, answer, slices
from barnabas.broker.jobs import Job
from barnabas.broker.log import Isolation
from barnabas.broker.replica.fetch import FetchResults
from barnabas.broker.replica.types import FetchInfo, FetchParams, FetchResult
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import CONSUMER_REPLICA_ID, DEBUGGING_REPLICA_ID, ZERO_UUID, TopicPartition
from barnabas.protocol.requests.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

_READ_COMMITTED: Final = 1
_LEVELS: Final = (0, _READ_COMMITTED)
# An enum's member is looked up in its class at every use.
_READ: Final = Operation.READ
_LOG_END: Final = Isolation.LOG_END
_HIGH_WATERMARK: Final = Isolation.HIGH_WATERMARK
_TXN_COMMITTED: Final = Isolation.TXN_COMMITTED
_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_HINTED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(services: Services, request: FetchRequest, context: RequestContext, now_ms: int) -> None:
    """Read, and answer now or when enough has come."""
    if request.isolation_level not in _LEVELS:
        from barnabas.broker.handlers.failures import error_response  # loads every API's messages; rarely needed

        context.respond(error_response(ApiKey.FETCH, request, ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    if services.sessions.size(request) > SLICE:
        services.work_in_line(_serve_in_slices(services, request, context, now_ms), request, context)
        return
    fetching: Fetching = services.sessions.begin(request, context.api_version, context, now_ms)
    if fetching.error:
        context.respond(FetchResponse(error_code=fetching.error))
        return
    fetch = _Fetch(services, request, context, fetching, now_ms)
    fetch.take(fetching.asked.values())
    fetch.read()


def _serve_in_slices(services: Services, request: FetchRequest, context: RequestContext, now_ms: int) -> Job[None]:
    """A request of many partitions, once it is its turn: what it asks is sorted by then alone, for that is large."""
    fetching = yield from services.sessions.begin_in_steps(request, context.api_version, context, now_ms)
    if fetching.error:
        context.respond(FetchResponse(error_code=fetching.error))
        return
    yield from _Fetch(services, request, context, fetching, now_ms).serve_in_slices()


class _Fetch:
    """One request on its way: what it asks, in its order; what can be read, and what is refused before reading."""

    __slots__ = (
        "context",
        "fetching",
        "found",
        "now_ms",
        "order",
        "params",
        "readable",
        "refused",
        "request",
        "services",
    )

    def __init__(
        self, services: Services, request: FetchRequest, context: RequestContext, fetching: Fetching, now_ms: int
    ) -> None:
        self.services = services
        self.request = request
        self.context = context
        self.fetching = fetching
        self.now_ms = now_ms
        self.params = _params(services, request, context.api_version, context.connection)
        self.found: list[FetchResults] | None = None
        """Where to leave what was read, while a job goes on with it."""
        self.order: list[Asked] = []
        self.readable: list[tuple[TopicPartition, FetchInfo]] = []
        self.refused: list[tuple[Asked, PartitionData]] = []

    def take(self, some: Iterable[Asked]) -> None:
        """Look at some more."""
        services, context, params = self.services, self.context, self.params
        for asked in some:
            error = _refusal(services, asked, context, params)
            if error:
                self.refused.append((asked, _failed(asked.partition, error)))
            else:
                assert asked.key is not None
                self.order.append(asked)
                self.readable.append((asked.key, asked.info))

    def serve_in_slices(self) -> Job[None]:
        """Look at many, read and answer, or have the fetch wait. Between slices others may change a session."""
        session = self.fetching.session
        for some in slices(list(self.fetching.asked.values())):
            if session is not None and session.epoch != self.fetching.epoch:
                self.context.respond(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH))
                return
            self.take(some)
            yield None
        found: list[FetchResults] = [{}]
        if self.readable:
            found.clear()
            self.found = found
            replicas = self.services.replicas
            reading = replicas.fetch_in_steps(self.params, self.readable, self.respond_to_many, self.now_ms)
            try:
                yield from reading
            finally:
                self.found = None
        for results in found:
            yield from self._respond_in_slices(results)

    def read(self) -> None:
        """Have read what can be."""
        if self.readable:
            self.services.replicas.fetch(self.params, self.readable, self.respond, self.now_ms)
        else:
            self.respond({}, self.now_ms)

    def respond(self, results: FetchResults, now_ms: int) -> None:
        """Tell what was read, and when: a session that is opened by it begins then."""
        self.now_ms = now_ms
        self.context.respond(self._complete(self._told(self.order, results)))

    def respond_to_many(self, results: FetchResults, now_ms: int) -> None:
        """As `respond`, in steps; while a job goes on with this request, that does it."""
        self.now_ms = now_ms
        if self.found is not None:
            self.found.append(results)
        else:
            self.services.work(self._respond_in_slices(results), self.request, self.context)

    def _respond_in_slices(self, results: FetchResults) -> Job[None]:
        answers: list[tuple[Asked, PartitionData]] = []
        for some in slices(self.order):
            answers += self._told(some, results)
            yield None
        yield from answer(self.context, self._complete(answers), len(answers))

    def _told(self, some: Iterable[Asked], results: FetchResults) -> list[tuple[Asked, PartitionData]]:
        committed = self.params.isolation is _TXN_COMMITTED
        return [(asked, _data(asked.partition, results[asked.key], committed)) for asked in some]  # type: ignore[index]

    def _complete(self, answers: list[tuple[Asked, PartitionData]]) -> FetchResponse:
        context, fetching = self.context, self.fetching
        if self.refused:
            answers += self.refused
        if fetching.opens or fetching.session is not None:
            listed = self._listed(answers)
            if listed is None:
                return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        else:
            listed = answers
        nodes = _hints(self.services, context, listed) if context.api_version >= 16 else []
        return FetchResponse(0, 0, fetching.session_id, _by_topic(listed), nodes)

    def _listed(self, answers: list[tuple[Asked, PartitionData]]) -> list[tuple[Asked, PartitionData]] | None:
        """What of the answers the session sends; None: it went on without this request."""
        services, params = self.services, self.params
        return services.sessions.finish(
            self.fetching,
            answers,
            self.context,
            privileged=params.replica_id >= 0 and _is_follower(services, params),
            unknown=sum(weight(asked) for asked, data in self.refused if data.error_code in _UNKNOWN),
            uses_ids=self.context.api_version >= FIRST_VERSION_WITH_IDS,
            now_ms=self.now_ms,
        )


def _is_follower(services: Services, params: FetchParams) -> bool:
    """Whether another broker of the cluster asks, by what it says: any client may write a replica id."""
    return params.replica_id in services.image.brokers and params.replica_id != services.node_id


def _params(services: Services, request: FetchRequest, version: int, connection: Connection) -> FetchParams:
    replica_id, replica_epoch = request.replica_id, -1
    if version >= 15:
        state = request.replica_state
        replica_id, replica_epoch = (-1, -1) if state is None else (state.replica_id, state.replica_epoch)
    if replica_id != CONSUMER_REPLICA_ID:
        isolation = _LOG_END
    else:
        isolation = _TXN_COMMITTED if request.isolation_level == _READ_COMMITTED else _HIGH_WATERMARK
    rack = request.rack_id
    if rack and (replica_id != CONSUMER_REPLICA_ID or services.config.replica_selector_class != RACK_AWARE):
        rack = ""
    max_bytes = min(request.max_bytes, services.config.fetch_max_bytes)
    return FetchParams(
        replica_id,
        replica_epoch,
        min(request.max_wait_ms, services.config.barnabas_fetch_max_wait_ms),
        min(request.min_bytes, max_bytes),
        max_bytes,
        isolation,
        replica_id >= 0 or (version < 11 and replica_id in (CONSUMER_REPLICA_ID, DEBUGGING_REPLICA_ID)),
        connection,
        rack,
    )


def _refusal(services: Services, asked: Asked, context: RequestContext, params: FetchParams) -> int:
    """The error found before reading (0: none); resolves a topic id on the way."""
    key = asked.key
    if key is None:
        topic = services.image.topics_by_id.get(asked.topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        key = topic.keys.get(asked.partition) or TopicPartition(topic.name, asked.partition)
    else:
        topic = services.image.topics.get(key.topic)
        if topic is not None and asked.topic_id not in (ZERO_UUID, topic.topic_id):
            return ErrorCode.INCONSISTENT_TOPIC_ID
    if params.replica_id >= 0:
        if not acts_as_broker(services, context.connection):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    else:
        resource = Resource("topic", key.topic) if topic is None else topic_resource(key.topic)
        if not services.authorise(context.connection.principal, _READ, resource):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic is None or asked.partition not in topic.partitions:
        if topic is None and asked.topic_id == ZERO_UUID and context.api_version >= FIRST_VERSION_WITH_IDS:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # also for an id that a session resolved while the topic was there
    asked.key = key
    return 0


def _failed(partition: int, error: int) -> PartitionData:
    return PartitionData(partition, error, -1, aborted_transactions=[], records=b"")


def _data(partition: int, result: FetchResult, committed: bool) -> PartitionData:
    diverging = result.diverging_epoch
    return PartitionData(
        partition,
        result.error_code,
        result.high_watermark,
        result.last_stable_offset,
        result.log_start_offset,
        None if diverging is None else EpochEndOffset(diverging.leader_epoch, diverging.end_offset),
        None,
        None,
        [] if committed and not result.error_code else None,
        result.preferred_read_replica,
        result.records,
    )


def _by_topic(listed: list[tuple[Asked, PartitionData]]) -> list[FetchableTopicResponse]:
    """Neighbouring partitions of one topic together, in the order they were served."""
    topics: list[FetchableTopicResponse] = []
    last: FetchableTopicResponse | None = None
    for asked, data in listed:
        if last is None or last.topic != asked.topic or last.topic_id != asked.topic_id:
            last = FetchableTopicResponse(asked.topic, asked.topic_id, [data])
            topics.append(last)
        else:
            last.partitions.append(data)
    return topics


def _hints(
    services: Services, context: RequestContext, listed: list[tuple[Asked, PartitionData]]
) -> list[NodeEndpoint]:
    """Tell the current leader of partitions that were asked of the wrong broker, and where it is."""
    nodes: dict[int, NodeEndpoint] = {}
    for asked, data in listed:
        if data.error_code not in _HINTED or asked.key is None:
            continue
        leader = leaders.current_leader(services, asked.key)
        if leader is not None:
            data.current_leader = LeaderIdAndEpoch(*leader)
            found = leaders.endpoint(services, leader[0], context)
            if found is not None:
                nodes[leader[0]] = NodeEndpoint(leader[0], *found)
    return list(nodes.values())
