"""The admin client on asyncio: topics, partitions, settings, records, lag, groups, the cluster.

    async with AsyncAdmin("localhost:9092") as admin:
        await admin.create_topic("flights", partitions=4, config={"retention.ms": "60000"})
        answers = await admin.create_topics("arrivals", NewTopic("departures", partitions=2))

`create_topics` and `delete_topics` have an answer for each topic: None, or the error, which they do not raise. Others
raise; one that names several things fails with the first error among them, and the others were carried out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Never, Self, Unpack

from barnabas.client.answers import (
    check,
    error_of,
    led,
    text,
    topic_info,
)
from barnabas.client.arguments import check_named, checked_partitions, checked_topic, checked_topics
from barnabas.client.async_access import AsyncAccess
from barnabas.client.async_cluster import AsyncCluster
from barnabas.client.async_configs import AsyncConfigs
from barnabas.client.async_groups import AsyncGroups
from barnabas.client.consume.lookups import ISOLATION
from barnabas.client.offsets import OffsetAndTimestamp, lookup
from barnabas.net.config import ClientConfig
from barnabas.net.counts import Metrics
from barnabas.net.errors import ClientTimeout, ConfigError
from barnabas.net.host.connection import Client
from barnabas.net.host.surroundings import REAL
from barnabas.net.metadata import Metadata
from barnabas.net.topology import TopicInfo
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import LATEST_TIMESTAMP, TopicPartition
from barnabas.protocol.requests.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.protocol.requests.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.requests.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.protocol.requests.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.requests.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

if TYPE_CHECKING:
    from barnabas.client.settings import ClientSettings


class NewTopic(NamedTuple):
    """A topic to be made; -1 takes the broker's default.

    `replicas` are the brokers of each partition, the first of which is to lead; both numbers stay -1 then.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    config: Mapping[str, Any] | None = None
    replicas: Sequence[Sequence[int]] | None = None


Answers = dict[str, KafkaError | None]
"""What became of each topic: None, or why not."""
_QUOTA: Final = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class AsyncAdmin(AsyncCluster, AsyncConfigs, AsyncGroups, AsyncAccess):
    """Admin requests on the running loop. Settings carry Kafka's names: `config` or keywords, as with `Producer`.

    `start` connects, `close` ends; `async with` does both.
    """

    def __init__(
        self, config: Mapping[str, Any] | str | None = None, *more: Never, **settings: Unpack[ClientSettings]
    ) -> None:
        check_named(more)
        self.config = ClientConfig.of(config, **settings)
        # Topics of earlier questions are asked for again with each refresh: a deleted one must not come back by that.
        self._client = Client(self.config, Metadata(self.config, REAL.uniform, allow_auto_create=False))

    def leave_with(self, leave: Callable[[BaseException], None]) -> None:
        """What becomes of a `sys.exit` in a callback, for who has this on a thread of its own."""
        self._client.leave = leave

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> Self:
        """Connects.

        Raises:
            ClientClosed: it was closed: make a new one.
            ClientTimeout: no broker answered within `default.api.timeout.ms`.
        """
        try:
            await self._client.start()
        except BaseException:
            await self._client.close()
            raise
        return self

    async def close(self) -> None:
        """Closes all connections."""
        await self._client.close()

    def metrics(self) -> Metrics:
        """Figures in groups, by Kafka's names: `metrics()["admin-client-metrics"]["request-total"]`."""
        return self._client.metrics("admin-client")

    # ---- topics ---------------------------------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, Any] | None = None,
        replicas: Sequence[Sequence[int]] | None = None,
        if_absent: bool = False,
        validate_only: bool = False,
    ) -> None:
        """Creates a topic and waits until every partition has a leader, and the brokers know of it.

        The arguments are those of `NewTopic`. A broker that cannot say within a second what it knows is not waited for.
        With `validate_only` nothing is made: what would be refused is raised.

        Raises:
            KafkaError: TOPIC_ALREADY_EXISTS (unless `if_absent`), INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS,
                INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG.
        """
        topic = NewTopic(checked_topic(name, "create_topics"), partitions, replication_factor, config, replicas)
        (error,) = (await self._create([topic], validate_only)).values()
        exists = error is not None and error.code == ErrorCode.TOPIC_ALREADY_EXISTS
        if error is not None and not (if_absent and exists):
            raise error
        if not validate_only:
            await self._until_led({name})

    async def create_topics(self, *topics: NewTopic | str, validate_only: bool = False) -> Answers:
        """Creates topics in one request and waits until what was made has leaders; what became of each."""
        wanted = [each if isinstance(each, NewTopic) else NewTopic(each) for each in topics]
        for topic in wanted:
            checked_topic(topic.name, "create_topics")
        if not wanted:
            return {}
        answers = await self._create(wanted, validate_only)
        held = any(error is not None and error.code == _QUOTA for error in answers.values())
        if not validate_only and not held:  # the broker says nothing on this connection while the quota is exceeded
            await self._until_led({name for name, error in answers.items() if error is None})
        return answers

    async def _create(self, topics: Sequence[NewTopic], validate_only: bool) -> Answers:
        asked = [
            CreatableTopic(
                topic.name,
                topic.partitions,
                topic.replication_factor,
                [CreatableReplicaAssignment(at, list(brokers)) for at, brokers in enumerate(topic.replicas or ())],
                configs=[CreatableTopicConfig(key, text(value)) for key, value in (topic.config or {}).items()],
            )
            for topic in topics
        ]

        async def ask(names: Collection[str] | None) -> tuple[Answers, int]:
            wanted = [each for each in asked if names is None or each.name in names]
            request = CreateTopicsRequest(wanted, self.config.default_api_timeout_ms, validate_only)
            response = await self._to_controller(request)
            told = {each.name: error_of(each.error_code, each.name, each.error_message) for each in response.topics}
            return told, response.throttle_time_ms

        return await self._within_quota(ask)

    async def _within_quota(self, ask: Callable[[Collection[str] | None], Awaitable[tuple[Answers, int]]]) -> Answers:
        """Asks again for what the quota of mutations (KIP-599) holds back, within `default.api.timeout.ms`.

        `ask` takes the names of topics, None at first for all, and tells what became of them and how long to wait (ms).
        """
        deadline_ms = self._client.now_ms() + self.config.default_api_timeout_ms
        answers, wait_ms = await ask(None)
        while held := {name for name, error in answers.items() if error is not None and error.code == _QUOTA}:
            wait_ms = max(wait_ms, self.config.retry_backoff_ms)
            if self._client.now_ms() + wait_ms > deadline_ms:
                break
            await asyncio.sleep(wait_ms / 1000)
            again, wait_ms = await ask(held)
            answers |= again
        return answers

    async def _until_led(self, names: Collection[str], count: int = 1) -> None:
        deadline_ms = self._client.now_ms() + self.config.default_api_timeout_ms
        leaderless = set(names)
        while leaderless:
            left_ms = deadline_ms - self._client.now_ms()
            if left_ms <= 0:
                told = ", ".join(sorted(leaderless))
                raise ClientTimeout(
                    f"made, but not all partitions got a leader in time: {told}{self._client.metadata.troubles.why()}"
                )
            cluster = await self._client.refresh_metadata(leaderless, left_ms)
            leaderless = {name for name in leaderless if not led(cluster, name, count)}
        await self._known_everywhere(names, count)

    async def delete_topic(self, name: str) -> None:
        """Deletes a topic.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION.
        """
        (error,) = (await self.delete_topics(name)).values()
        if error is not None:
            raise error

    async def delete_topics(self, *names: str) -> Answers:
        """Deletes topics in one request; what became of each."""
        wanted = checked_topics(names, "delete_topics")
        if not wanted:
            return {}

        async def ask(names: Collection[str] | None) -> tuple[Answers, int]:
            asked = [name for name in wanted if names is None or name in names]
            request = DeleteTopicsRequest(
                [DeleteTopicState(name) for name in asked], asked, self.config.default_api_timeout_ms
            )
            response = await self._to_controller(request)
            told = {
                each.name or "": error_of(each.error_code, each.name or "", each.error_message)
                for each in response.responses
            }
            return told, response.throttle_time_ms

        return await self._within_quota(ask)

    async def create_partitions(
        self, name: str, count: int, *, replicas: Sequence[Sequence[int]] | None = None, validate_only: bool = False
    ) -> None:
        """Raises a topic's number of partitions to `count`; with `validate_only` only says whether that can be done.

        Args:
            name: the topic.
            count: how many it is to have.
            replicas: the brokers of each new partition, the first of which is to lead; None leaves it to the cluster.
            validate_only: nothing is made.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS (it has as many or more),
                INVALID_REPLICA_ASSIGNMENT.
        """
        assigned = None if replicas is None else [CreatePartitionsAssignment(list(brokers)) for brokers in replicas]
        topic = CreatePartitionsTopic(checked_topic(name, "create_partitions"), count, assigned)
        request = CreatePartitionsRequest([topic], self.config.default_api_timeout_ms, validate_only)

        async def ask(names: Collection[str] | None) -> tuple[Answers, int]:
            response = await self._to_controller(request)
            told = {each.name: error_of(each.error_code, each.name, each.error_message) for each in response.results}
            return told, response.throttle_time_ms

        for error in (await self._within_quota(ask)).values():
            if error is not None:
                raise error
        if not validate_only:
            await self._until_led({name}, count)

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, internal ones only if asked for."""
        response: MetadataResponse = await self._to_any(MetadataRequest(None, allow_auto_topic_creation=False))
        return sorted(topic.name or "" for topic in response.topics if internal or not topic.is_internal)

    async def describe_topics(self, *names: str) -> dict[str, TopicInfo]:
        """Partitions, leaders and replicas of topics.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION.
        """
        if not names:
            return {}
        asked = [MetadataRequestTopic(name=name) for name in checked_topics(names, "describe_topics")]
        response: MetadataResponse = await self._to_any(MetadataRequest(asked, allow_auto_topic_creation=False))
        for topic in response.topics:
            check(topic.error_code, topic.name or "", None)
        return {topic.name or "": topic_info(topic) for topic in response.topics}

    async def describe_all_topics(
        self, *, internal: bool = False, among: Callable[[Collection[str]], Iterable[str]] | None = None
    ) -> dict[str, TopicInfo]:
        """What `describe_topics` tells, of all topics in one question, internal ones only if asked for.

        Args:
            internal: those of the brokers' own, too.
            among: which of these names; None: all.

        Raises:
            KafkaError: one of them has an error.
        """
        response: MetadataResponse = await self._to_any(MetadataRequest(None, allow_auto_topic_creation=False))
        topics = {topic.name or "": topic for topic in response.topics if internal or not topic.is_internal}
        names = topics if among is None else list(among(topics))
        for name in names:
            check(topics[name].error_code, name, None)
        return {name: topic_info(topics[name]) for name in names}

    # ---- records --------------------------------------------------------------------------------------------------

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes the records before an offset of each partition (-1: all that are readable).

        Returns:
            The new first offset of each partition.

        Raises:
            ConfigError: something is no partition.
            KafkaError: OFFSET_OUT_OF_RANGE, POLICY_VIOLATION (a topic that is only compacted).
        """
        before = dict(zip(checked_partitions(before, "delete_records"), before.values(), strict=True))
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
                    check(part.error_code, f"{each.name}-{part.partition_index}", None)
                    low[TopicPartition(each.name, part.partition_index)] = part.low_watermark
        return low

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The first offset at or after a timestamp (ms since the epoch), -1 where no record is so young.

        -2 asks for the first offset, -1 for the end, -3 for that of the largest timestamp.

        Raises:
            ConfigError: an isolation level that is none.
            ClientTimeout: a partition is unknown, or its leader did not answer, in `default.api.timeout.ms`.
        """
        wanted = dict(zip(checked_partitions(timestamps, "list_offsets"), timestamps.values(), strict=True))
        return await lookup(self._client, wanted, _isolation(isolation_level))

    async def group_lag(self, name: str, *, isolation_level: str = "read_uncommitted") -> dict[TopicPartition, int]:
        """How many offsets lie between what a group has committed and the end, of each partition it committed."""
        offsets = await self.group_offsets(name)
        positions = {where: each.offset for where, each in offsets.items()}
        return await self.lag(positions, isolation_level=isolation_level)

    async def lag(
        self, positions: Mapping[TopicPartition, int], *, isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, int]:
        """How many offsets lie between a position and the end of its partition, for each.

        The end is the high watermark, with `read_committed` the last stable offset. Negative: the position is behind
        the end, as after records were lost.

        Raises:
            ConfigError: an isolation level that is none.
            ClientTimeout: a partition is unknown, or its leader did not answer, in `default.api.timeout.ms`.
        """
        wanted = dict.fromkeys(checked_partitions(positions, "lag"), LATEST_TIMESTAMP)
        ends = await lookup(self._client, wanted, _isolation(isolation_level))
        return {where: ends[where].offset - position for where, position in positions.items()}


def _isolation(level: str) -> int:
    if level not in ISOLATION:
        raise ConfigError(f"isolation_level: {level!r} is none of {', '.join(ISOLATION)}")
    return ISOLATION[level]
