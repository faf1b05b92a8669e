"""The cluster as an admin client sees it: brokers, directories, producers, features, elections, what has settings.

The base of `AsyncAdmin` for these, and for whom to ask: any broker, each of them, a partition's leader, the controller.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from barnabas.client.answers import check, codes, error_of, note_asked_twice, topic_info
from barnabas.client.arguments import checked_partitions, checked_topics
from barnabas.client.cluster_views import (
    ClusterDescription,
    Features,
    LogDir,
    ProducerState,
    QuorumDescription,
    Reassignment,
    ReplicaSize,
    TransactionListing,
    replica,
)
from barnabas.client.handle import Handle
from barnabas.net import network, versions
from barnabas.net.config import ClientConfig
from barnabas.net.errors import ConfigError, Disconnected
from barnabas.net.host.connection import Client
from barnabas.net.topology import TopicInfo
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests import describe_producers, describe_quorum, elect_leaders
from barnabas.protocol.requests.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.requests.describe_cluster import DescribeClusterRequest
from barnabas.protocol.requests.describe_log_dirs import DescribeLogDirsRequest
from barnabas.protocol.requests.describe_producers import PartitionResponse as ProducersOfPartition
from barnabas.protocol.requests.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from barnabas.protocol.requests.list_config_resources import ListConfigResourcesRequest
from barnabas.protocol.requests.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.protocol.requests.list_transactions import ListTransactionsRequest
from barnabas.protocol.requests.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from barnabas.protocol.requests.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.requests.update_features import FeatureUpdateKey, UpdateFeaturesRequest

_ASKED_AT_ONCE: Final = 10  # however many brokers there are said to be
_UNKNOWN_MS: Final = 1000
_METADATA_LOG: Final = "__cluster_metadata"
_PREFERRED, _UNCLEAN = 0, 1
_UPGRADE, _SAFE_DOWNGRADE = 1, 2

Outcomes = dict[TopicPartition, KafkaError | None]
"""What became of each partition: None, or why not."""


class AsyncCluster(Handle):
    """The part of `AsyncAdmin` that the cluster has."""

    config: ClientConfig
    _client: Client

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        response = await self._to_any(DescribeClusterRequest())
        check(response.error_code, "the cluster", response.error_message)
        brokers = tuple((each.broker_id, each.host, each.port) for each in response.brokers)
        racks = {each.broker_id: each.rack for each in response.brokers}
        return ClusterDescription(response.cluster_id, response.controller_id, brokers, racks)

    async def describe_quorum(self) -> QuorumDescription:
        """Who leads and who keeps the metadata log, and how far each replica is."""
        partition = describe_quorum.RequestedPartitionData(0)
        topic = describe_quorum.RequestedTopicData(_METADATA_LOG, [partition])
        response = await self._to_any(describe_quorum.DescribeQuorumRequest([topic]))
        check(response.error_code, "the quorum", response.error_message)
        part = response.topics[0].partitions[0]
        check(part.error_code, "the quorum", part.error_message)
        voters, observers = (tuple(map(replica, each)) for each in (part.current_voters, part.observers))
        return QuorumDescription(part.leader_id, part.leader_epoch, part.high_watermark, voters, observers)

    async def describe_features(self) -> Features:
        """The levels of the cluster's features, and which ones a broker knows."""
        response = await self._to_any(versions.question())
        check(response.error_code, "the features", None)
        return Features(
            response.finalized_features_epoch,
            {each.name: each.max_version_level for each in response.finalized_features},
            {each.name: (each.min_version, each.max_version) for each in response.supported_features},
        )

    async def update_features(
        self, levels: Mapping[str, int], *, downgrade: bool = False, validate_only: bool = False
    ) -> None:
        """Sets features to these levels: up, with `downgrade` down where nothing is lost by it.

        Raises:
            KafkaError: INVALID_UPDATE_VERSION, FEATURE_UPDATE_FAILED.
        """
        way = _SAFE_DOWNGRADE if downgrade else _UPGRADE
        updates = [FeatureUpdateKey(name, level, downgrade, way) for name, level in levels.items()]
        request = UpdateFeaturesRequest(self.config.default_api_timeout_ms, updates, validate_only)
        response = await self._to_controller(request)
        for each in response.results:
            check(each.error_code, each.feature, each.error_message)
        check(response.error_code, "the features", response.error_message)

    async def list_config_resources(self, *kinds: int) -> list[tuple[int, str]]:
        """(kind, name) of all that has settings of its own; only of these kinds if any are named.

        Raises:
            KafkaError: UNSUPPORTED_VERSION, of a kind that the broker does not list.
        """
        response = await self._to_any(ListConfigResourcesRequest(list(kinds)))
        check(response.error_code, "the resources", None)
        return sorted((each.resource_type, each.resource_name) for each in response.config_resources)

    # ---- partitions -----------------------------------------------------------------------------------------------

    async def describe_partitions(self, *names: str, page: int = 2000) -> dict[str, TopicInfo]:
        """Partitions, leaders and replicas of topics, asked for in pages: of however many partitions.

        Raises:
            ConfigError: a page of no partition.
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION.
        """
        if page < 1:
            raise ConfigError(f"describe_partitions: a page of {page} partitions; give 1 or more")
        asked = [TopicRequest(name) for name in sorted(set(checked_topics(names, "describe_partitions")))]
        found: dict[str, MetadataResponseTopic] = {}
        cursor = None
        while asked:
            response = await self._to_any(DescribeTopicPartitionsRequest(asked, page, cursor))
            for told in response.topics:
                name = told.name or ""
                check(told.error_code, name, None)
                topic = found.setdefault(name, MetadataResponseTopic(0, name, told.topic_id, told.is_internal))
                topic.partitions += told.partitions
            ahead = response.next_cursor
            if ahead is None or (cursor is not None and _place(ahead) <= _place(cursor)):
                break
            cursor = ahead
        return {name: topic_info(topic) for name, topic in found.items()}

    async def describe_log_dirs(self) -> dict[int, tuple[LogDir, ...]]:
        """By broker, the directories of its logs: their sizes in bytes, and what each partition takes.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR: a directory is lost.
        """
        found = {}
        for node, answer in await self._to_all(DescribeLogDirsRequest(None)):
            check(answer.error_code, f"the directories of broker {node}", None)
            dirs = []
            for each in answer.results:
                check(each.error_code, f"{each.log_dir} of broker {node}", None)
                replicas = {
                    TopicPartition(topic.name, part.partition_index): ReplicaSize(
                        part.partition_size, part.offset_lag, part.is_future_key
                    )
                    for topic in each.topics
                    for part in topic.partitions
                }
                dirs.append(LogDir(each.log_dir, each.total_bytes, each.usable_bytes, replicas))
            found[node] = tuple(dirs)
        return found

    async def describe_producers(self, *partitions: TopicPartition) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """The idempotent producers that each partition knows.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        wanted = checked_partitions(partitions, "describe_producers")
        return {where: await self._producers_of(where) for where in wanted}

    async def _producers_of(self, where: TopicPartition) -> tuple[ProducerState, ...]:
        """Asks the leader; again for a second where nobody knows of the partition, which may be made just now."""
        unknown_until_ms = self._client.now_ms() + _UNKNOWN_MS
        while True:
            part = await self._ask_leader(where)
            unknown = part is None or part.error_code in (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
            )
            if not unknown or self._client.now_ms() >= unknown_until_ms:
                break
            await asyncio.sleep(self.config.retry_backoff_ms / 1000)
        if part is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(where))
        check(part.error_code, str(where), part.error_message)
        return tuple(
            ProducerState(
                each.producer_id,
                each.producer_epoch,
                each.last_sequence,
                each.last_timestamp,
                each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
            )
            for each in part.active_producers
        )

    async def _ask_leader(self, where: TopicPartition) -> ProducersOfPartition | None:
        cluster = await self._client.refresh_metadata([where.topic])
        info = cluster.partition(*where)
        if info is None or info.leader not in cluster.nodes:
            return None
        asked = describe_producers.TopicRequest(where.topic, [where.partition])
        answer = await self._client.send(info.leader, describe_producers.DescribeProducersRequest([asked]))
        part: ProducersOfPartition = answer.topics[0].partitions[0]
        return part

    async def elect_leaders(self, *partitions: TopicPartition, unclean: bool = False) -> Outcomes:
        """Makes the preferred replica of each partition its leader (of all partitions, if none is named).

        With `unclean` any replica that lives, where there is no leader: records may be lost.

        Returns:
            What became of each: None, or why not (ELECTION_NOT_NEEDED: it leads already). Of all partitions, only those
            whose leader changed or could not are told of.
        """
        topics: dict[str, elect_leaders.TopicPartitions] = {}
        for where in checked_partitions(partitions, "elect_leaders"):
            topics.setdefault(where.topic, elect_leaders.TopicPartitions(where.topic)).partitions.append(
                where.partition
            )
        asked = list(topics.values()) if topics else None
        kind = _UNCLEAN if unclean else _PREFERRED
        response = await self._to_controller(
            elect_leaders.ElectLeadersRequest(kind, asked, self.config.default_api_timeout_ms)
        )
        check(response.error_code, "the election", None)
        return {
            TopicPartition(topic.topic, part.partition_id): error_of(
                part.error_code, f"{topic.topic}-{part.partition_id}", part.error_message
            )
            for topic in response.replica_election_results
            for part in topic.partition_result
        }

    async def alter_partition_reassignments(
        self, moves: Mapping[TopicPartition, Sequence[int] | None], *, may_resize: bool = True
    ) -> Outcomes:
        """Begins to move partitions to these brokers, the first of which is to lead; None gives up what is under way.

        Args:
            moves: the replicas that each partition is to have.
            may_resize: whether these may be more or fewer than it has.

        Returns:
            What became of each: None, or why not (NO_REASSIGNMENT_IN_PROGRESS, INVALID_REPLICA_ASSIGNMENT,
            INVALID_REPLICATION_FACTOR). How far they are tells `list_partition_reassignments`.
        """
        topics: dict[str, ReassignableTopic] = {}
        for where in checked_partitions(list(moves), "alter_partition_reassignments"):
            replicas = moves[where]
            part = ReassignablePartition(where.partition, None if replicas is None else list(replicas))
            topics.setdefault(where.topic, ReassignableTopic(where.topic)).partitions.append(part)
        request = AlterPartitionReassignmentsRequest(
            self.config.default_api_timeout_ms, list(topics.values()), may_resize
        )
        response = await self._to_controller(request)
        check(response.error_code, "the reassignments", response.error_message)
        return {
            TopicPartition(topic.name, part.partition_index): error_of(
                part.error_code, f"{topic.name}-{part.partition_index}", part.error_message
            )
            for topic in response.responses
            for part in topic.partitions
        }

    async def unregister_broker(self, broker_id: int) -> None:
        """Has the cluster forget a broker that was stopped for good; what it had stays assigned to it.

        Raises:
            KafkaError: BROKER_ID_NOT_REGISTERED; INVALID_REQUEST of one that is alive (Apache Kafka forgets it).
        """
        response = await self._to_controller(UnregisterBrokerRequest(broker_id))
        check(response.error_code, f"broker {broker_id}", response.error_message)

    async def list_partition_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """The partitions whose replicas move at present."""
        request = ListPartitionReassignmentsRequest(self.config.default_api_timeout_ms, None)
        response = await self._to_controller(request)
        check(response.error_code, "the reassignments", response.error_message)
        return {
            TopicPartition(topic.name, part.partition_index): Reassignment(
                tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
            )
            for topic in response.topics
            for part in topic.partitions
        }

    async def list_transactions(self, *, states: Iterable[str] = ()) -> list[TransactionListing]:
        """The transactions that the brokers know, only those in one of these states if any are named."""
        if isinstance(states, str):
            raise ConfigError(f"states: {states!r} is one word; give a list of them: states=[{states!r}]")
        found = []
        for _, answer in await self._to_all(ListTransactionsRequest(list(states))):
            check(answer.error_code, "list_transactions", None)
            found += [
                TransactionListing(each.transactional_id, each.producer_id, each.transaction_state)
                for each in answer.transaction_states
            ]
        return sorted(found)

    # ---- whom to ask ----------------------------------------------------------------------------------------------

    async def _to_all(self, request: Any) -> list[tuple[int, Any]]:
        cluster = await self._client.refresh_metadata()
        nodes = sorted(cluster.nodes)
        return list(
            zip(nodes, await asyncio.gather(*(self._client.send(node, request) for node in nodes)), strict=True)
        )

    async def _to_any(self, request: Any) -> Any:
        """Sends to the least loaded node; where that is gone or silent, to the next: these requests change nothing.

        Silent is who lets in and says no more (`is_slow`), as a process that is paused. The last is waited for.
        """
        others = len(self._client.cluster.nodes)
        while True:
            node = await self._client.any_node()
            others -= 1
            answer = asyncio.ensure_future(self._client.send(node.id, request))
            try:
                while others > 0 and not answer.done():
                    await asyncio.wait({answer}, timeout=network.SLOW_MS / 1000)
                    if self._client.network.is_slow(node.id, self._client.now_ms()):
                        break
                else:
                    return await answer
            except Disconnected as error:
                if others <= 0 or error.timed_out:
                    raise
            finally:
                answer.cancel()

    async def _known_everywhere(self, names: Collection[str], count: int) -> None:
        """Waits until all brokers know these topics with so many partitions: whichever is asked next knows them.

        A broker hears of a topic a moment after the controller. Who cannot say within a second is passed over.
        """
        left = iter(self._client.cluster.nodes)
        if len(self._client.cluster.nodes) < 2 or not names:
            return  # the only one has just told

        async def ask_each() -> None:
            for node in left:
                with contextlib.suppress(BarnabasError):  # it cannot say
                    await self._known_by(node, names, count)

        asks = [asyncio.ensure_future(ask_each()) for _ in range(_ASKED_AT_ONCE)]
        try:
            await asyncio.wait(asks, timeout=network.SLOW_MS / 1000)
        finally:
            for ask in asks:
                ask.cancel()
            await asyncio.gather(*asks, return_exceptions=True)

    async def _known_by(self, node: int, names: Collection[str], count: int) -> None:
        request = MetadataRequest([MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False)
        while True:
            response = await self._client.send(node, request)
            if all(len(topic.partitions) >= count for topic in response.topics):
                return
            await asyncio.sleep(self.config.retry_backoff_ms / 1000)

    async def _to_controller(self, request: Any) -> Any:
        """Sends to the controller; where it is gone, to the next, once, and where there is none, until there is."""
        asked, until_ms = False, self._client.now_ms() + self.config.default_api_timeout_ms
        while True:
            cluster = self._client.cluster
            if cluster.controller_id not in cluster.nodes:
                cluster = await self._client.refresh_metadata()
            controller = cluster.controller_id
            if controller not in cluster.nodes:
                controller = (await self._client.any_node()).id
            try:
                response = await self._client.send(controller, request)
            except Disconnected as error:
                if asked or error.timed_out:
                    raise
                asked = True
                await self._client.refresh_metadata()
                continue
            if asked:
                note_asked_twice(request, response)
            if ErrorCode.NOT_CONTROLLER not in codes(response) or self._client.now_ms() >= until_ms:
                return response
            await asyncio.sleep(self.config.retry_backoff_ms / 1000)
            await self._client.refresh_metadata()


def _place(cursor: Any) -> tuple[str, int]:
    return cursor.topic_name, cursor.partition_index
