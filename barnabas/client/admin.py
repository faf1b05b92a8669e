"""The admin client: topics, partitions, settings, records, the cluster. `AsyncAdmin` for asyncio, `Admin` blocking.

    with Admin(bootstrap_servers="localhost:9092") as admin:
        admin.create_topic("flights", partitions=4, config={"retention.ms": "60000"})

A call that names several things fails with the first error among them; the others were carried out.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeVar

from barnabas.client.loop_thread import LoopThread
from barnabas.net.cluster import PartitionInfo, TopicInfo
from barnabas.net.config import ClientConfig
from barnabas.net.errors import ClientClosed, ClientTimeout, Disconnected
from barnabas.net.host.connection import Client
from barnabas.net.host.surroundings import REAL
from barnabas.net.metadata import Metadata
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.requests.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.requests.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.protocol.requests.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.requests.describe_cluster import DescribeClusterRequest
from barnabas.protocol.requests.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.requests.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

T = TypeVar("T")

TOPIC: Final = 2
BROKER: Final = 4
"""Kinds of resources that have settings (Kafka's ConfigResource.Type)."""

_SET, _DELETE = 0, 1


class ClusterDescription(NamedTuple):
    """The cluster as one broker sees it."""

    cluster_id: str
    controller_id: int
    brokers: tuple[tuple[int, str, int], ...]
    """(id, host, port) of every broker."""


class AsyncAdmin:
    """Admin requests on the running loop. Settings carry Kafka's names."""

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        self.config = ClientConfig.of(config, **settings)
        # Topics of earlier questions are asked for again with each refresh: a deleted one must not come back by that.
        self._client = Client(self.config, Metadata(self.config, REAL.uniform, allow_auto_create=False))

    async def __aenter__(self) -> AsyncAdmin:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Connects.

        Raises:
            ClientTimeout: no broker answered within `default.api.timeout.ms`.
        """
        try:
            await self._client.start()
        except BaseException:
            await self._client.close()
            raise

    async def close(self) -> None:
        """Closes all connections."""
        await self._client.close()

    # ---- topics ---------------------------------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, Any] | None = None,
        if_absent: bool = False,
    ) -> None:
        """Creates a topic and waits until every partition has a leader; -1 takes the broker's default.

        Raises:
            KafkaError: TOPIC_ALREADY_EXISTS (unless `if_absent`), INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS,
                INVALID_REPLICATION_FACTOR, INVALID_CONFIG.
        """
        configs = [CreatableTopicConfig(key, _text(value)) for key, value in (config or {}).items()]
        topic = CreatableTopic(name, partitions, replication_factor, configs=configs)
        response = await self._to_controller(CreateTopicsRequest([topic], self.config.default_api_timeout_ms))
        for result in response.topics:
            if not (if_absent and result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS):
                _check(result.error_code, result.name, result.error_message)
        await self._until_led(name)

    async def _until_led(self, name: str) -> None:
        deadline_ms = self._client.now_ms() + self.config.default_api_timeout_ms
        while True:
            left_ms = deadline_ms - self._client.now_ms()
            if left_ms <= 0:
                raise ClientTimeout(f"the topic {name} was created, but not all its partitions got a leader in time")
            cluster = await self._client.refresh_metadata([name], left_ms)
            infos = cluster.partitions_for(name)
            if infos and all(info.leader in cluster.nodes for info in infos):
                return

    async def delete_topics(self, *names: str) -> None:
        """Deletes topics.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        request = DeleteTopicsRequest(
            [DeleteTopicState(name) for name in names], list(names), self.config.default_api_timeout_ms
        )
        response = await self._to_controller(request)
        for result in response.responses:
            _check(result.error_code, result.name or "", result.error_message)

    async def create_partitions(self, name: str, count: int) -> None:
        """Raises a topic's number of partitions to `count`.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS (it has as many or more).
        """
        topic = CreatePartitionsTopic(name, count, None)
        response = await self._to_controller(CreatePartitionsRequest([topic], self.config.default_api_timeout_ms))
        for result in response.results:
            _check(result.error_code, result.name, result.error_message)
        await self._until_led(name)

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, internal ones only if asked for."""
        response: MetadataResponse = await self._to_any(MetadataRequest(None, allow_auto_topic_creation=False))
        return sorted(topic.name or "" for topic in response.topics if internal or not topic.is_internal)

    async def describe_topics(self, *names: str) -> dict[str, TopicInfo]:
        """Partitions, leaders and replicas of topics.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION.
        """
        asked = [MetadataRequestTopic(name=name) for name in names]
        response: MetadataResponse = await self._to_any(MetadataRequest(asked, allow_auto_topic_creation=False))
        for topic in response.topics:
            _check(topic.error_code, topic.name or "", None)
        return {topic.name or "": _topic_info(topic) for topic in response.topics}

    # ---- records --------------------------------------------------------------------------------------------------

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes the records before an offset of each partition (-1: all that are readable).

        Returns:
            The new first offset of each partition.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, POLICY_VIOLATION (a topic that is only compacted).
        """
        cluster = await self._client.refresh_metadata({where.topic for where in before})
        by_node: dict[int, dict[str, DeleteRecordsTopic]] = {}
        for where, offset in before.items():
            info = cluster.partition(*where)
            if info is None or info.leader not in cluster.nodes:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(where))
            topic = by_node.setdefault(info.leader, {}).setdefault(where.topic, DeleteRecordsTopic(where.topic))
            topic.partitions.append(DeleteRecordsPartition(where.partition, offset))
        low: dict[TopicPartition, int] = {}
        for node_id, topics in by_node.items():
            request = DeleteRecordsRequest(list(topics.values()), self.config.request_timeout_ms)
            response = await self._client.send(node_id, request)
            for each in response.topics:
                for part in each.partitions:
                    _check(part.error_code, f"{each.name}-{part.partition_index}", None)
                    low[TopicPartition(each.name, part.partition_index)] = part.low_watermark
        return low

    # ---- settings -------------------------------------------------------------------------------------------------

    async def describe_configs(self, name: str, *, kind: int = TOPIC) -> dict[str, str | None]:
        """The settings of a topic (or of a broker by its id); None where a value is secret."""
        request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)])
        response = await (self._client.send(int(name), request) if kind == BROKER else self._to_any(request))
        settings: dict[str, str | None] = {}
        for result in response.results:
            _check(result.error_code, name, result.error_message)
            settings.update((entry.name, entry.value) for entry in result.configs)
        return settings

    async def alter_configs(
        self, name: str, change: Mapping[str, Any] | None = None, *, reset: Sequence[str] = (), kind: int = TOPIC
    ) -> None:
        """Changes settings of a topic (or a broker); those in `reset` go back to their defaults.

        Raises:
            KafkaError: INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION.
        """
        entries = [AlterableConfig(key, _SET, _text(value)) for key, value in (change or {}).items()]
        entries += [AlterableConfig(key, _DELETE, None) for key in reset]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, entries)])
        response = await (self._client.send(int(name), request) if kind == BROKER else self._to_controller(request))
        for result in response.responses:
            _check(result.error_code, name, result.error_message)

    # ---- the cluster ----------------------------------------------------------------------------------------------

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        response = await self._to_any(DescribeClusterRequest())
        _check(response.error_code, "the cluster", response.error_message)
        brokers = tuple((each.broker_id, each.host, each.port) for each in response.brokers)
        return ClusterDescription(response.cluster_id, response.controller_id, brokers)

    # ---- inside ---------------------------------------------------------------------------------------------------

    async def _to_any(self, request: Any) -> Any:
        node = await self._client.any_node()
        return await self._client.send(node.id, request)

    async def _to_controller(self, request: Any) -> Any:
        """Sends to the controller; where that moved or is unknown, learns anew and tries once more."""
        for attempt in (1, 2):
            cluster = self._client.cluster
            if cluster.controller_id not in cluster.nodes:
                cluster = await self._client.refresh_metadata()
            controller = cluster.controller_id
            if controller not in cluster.nodes:
                controller = (await self._client.any_node()).id
            try:
                response = await self._client.send(controller, request)
            except Disconnected as error:
                if attempt == 2 or error.timed_out:
                    raise
                await self._client.refresh_metadata()
                continue
            if attempt == 1 and ErrorCode.NOT_CONTROLLER in _codes(response):
                await self._client.refresh_metadata()
                continue
            return response
        raise AssertionError("the second attempt returns or raises")


def _codes(response: Any) -> set[int]:
    results: Iterable[Any] = ()
    for name in ("topics", "responses", "results"):
        results = getattr(response, name, results)
    return {result.error_code for result in results}


def _topic_info(topic: MetadataResponseTopic) -> TopicInfo:
    name = topic.name or ""
    ordered = sorted(topic.partitions, key=lambda each: each.partition_index)
    partitions = tuple(PartitionInfo.told(name, partition) for partition in ordered)
    return TopicInfo(name, topic.topic_id, partitions, topic.is_internal)


def _check(code: int, what: str, message: str | None) -> None:
    if code:
        raise KafkaError(code, f"{what}: {message}" if message else what)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Admin:
    """What `AsyncAdmin` does, blocking, on a thread of its own; it is connected once this returns."""

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        self._inner = AsyncAdmin(config, **settings)
        self._thread = LoopThread("barnabas-admin")
        try:
            self._call(self._inner.start())
        except BaseException:
            self._thread.stop()
            raise

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.call(work)

    def close(self) -> None:
        """Closes all connections and ends the thread."""
        with suppress(ClientClosed):
            self._call(self._inner.close())
        self._thread.stop()

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, Any] | None = None,
        if_absent: bool = False,
    ) -> None:
        """Creates a topic and waits until every partition has a leader; -1 takes the broker's default."""
        self._call(
            self._inner.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                config=config,
                if_absent=if_absent,
            )
        )

    def delete_topics(self, *names: str) -> None:
        """Deletes topics."""
        self._call(self._inner.delete_topics(*names))

    def create_partitions(self, name: str, count: int) -> None:
        """Raises a topic's number of partitions to `count`."""
        self._call(self._inner.create_partitions(name, count))

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, internal ones only if asked for."""
        return self._call(self._inner.list_topics(internal=internal))

    def describe_topics(self, *names: str) -> dict[str, TopicInfo]:
        """Partitions, leaders and replicas of topics."""
        return self._call(self._inner.describe_topics(*names))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes the records before an offset of each partition (-1: all); returns the new first offsets."""
        return self._call(self._inner.delete_records(before))

    def describe_configs(self, name: str, *, kind: int = TOPIC) -> dict[str, str | None]:
        """The settings of a topic (or of a broker by its id); None where a value is secret."""
        return self._call(self._inner.describe_configs(name, kind=kind))

    def alter_configs(
        self, name: str, change: Mapping[str, Any] | None = None, *, reset: Sequence[str] = (), kind: int = TOPIC
    ) -> None:
        """Changes settings of a topic (or a broker); those in `reset` go back to their defaults."""
        self._call(self._inner.alter_configs(name, change, reset=reset, kind=kind))

    def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        return self._call(self._inner.describe_cluster())
