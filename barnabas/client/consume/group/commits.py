"""What a group has committed: offsets that are stored, and those that are fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from barnabas.client.consume.group.values import Identity, OffsetAndMetadata, Offsets
from barnabas.client.errors import CommitFailed
from barnabas.net.network import PerVersion
from barnabas.net.topology import Cluster
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from barnabas.protocol.requests.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.protocol.requests.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

IDS_FROM: Final = 10  # the version of both that names topics by their ids alone
_GROUPS_FROM: Final = 8  # the version of OffsetFetch that asks for several groups

OUTRUN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})
"""The group has gone on without this member."""


def _id_of(cluster: Cluster, topic: str, version: int) -> bytes:
    return cluster.topic_id(topic) if version >= IDS_FROM else ZERO_UUID


def highest_version(cluster: Cluster, topics: Iterable[str]) -> int | None:
    """The highest version that can name all of these topics: one by ids needs every id."""
    return None if all(cluster.topic_id(topic) != ZERO_UUID for topic in topics) else IDS_FROM - 1


# ---- commit ---------------------------------------------------------------------------------------------------------


def commit_request(identity: Callable[[], Identity], offsets: Offsets, cluster: Cluster) -> PerVersion:
    """An OffsetCommit, by whoever it is when it leaves."""

    def make(version: int) -> OffsetCommitRequest:
        who = identity()
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for where, each in offsets.items():
            topic = topics.get(where.topic)
            if topic is None:
                topic_id = _id_of(cluster, where.topic, version)
                topic = topics[where.topic] = OffsetCommitRequestTopic(
                    "" if version >= IDS_FROM else where.topic, topic_id
                )
            partition = OffsetCommitRequestPartition(where.partition, each.offset, each.leader_epoch, each.metadata)
            topic.partitions.append(partition)
        return OffsetCommitRequest(
            who.group_id, who.generation, who.member_id, who.instance_id, topics=list(topics.values())
        )

    return PerVersion(ApiKey.OFFSET_COMMIT, make)


def reader_of_commit(cluster: Cluster) -> Callable[[OffsetCommitResponse], tuple[TopicPartition | None, int]]:
    """Takes an answer apart: the first partition that was refused, and its error."""

    def read(response: OffsetCommitResponse) -> tuple[TopicPartition | None, int]:
        for topic in response.topics:
            for part in topic.partitions:
                if part.error_code:
                    name = topic.name or cluster.topic_names.get(topic.topic_id, "")
                    return TopicPartition(name, part.partition_index), part.error_code
        return None, 0

    return read


def commit_error(error: BarnabasError | None, group_id: str) -> BarnabasError | None:
    """The error of a commit as the application is told it."""
    if not isinstance(error, KafkaError):
        return error
    if error.code in OUTRUN:
        return CommitFailed(error.code, group_id)
    if error.code == ErrorCode.REBALANCE_IN_PROGRESS:
        told = f"group {group_id} is rebalancing: poll, which takes part in it, and commit again"
        return KafkaError(error.code, told)
    if error.code == ErrorCode.STALE_MEMBER_EPOCH:
        return KafkaError(error.code, f"group {group_id} began another epoch, which this member has not heard of yet")
    return error


# ---- fetch ----------------------------------------------------------------------------------------------------------


def fetch_request(
    group_id: str, partitions: Iterable[TopicPartition] | None, known: Callable[[], Cluster]
) -> PerVersion:
    """An OffsetFetch of these partitions, of all there are with None; of transactions, once they are settled.

    `known` is asked whenever it leaves: a topic may have been made anew since.
    """
    wanted = None if partitions is None else _by_topic(partitions)

    def make(version: int) -> OffsetFetchRequest:
        stable = version >= _STABLE_FROM
        if version < _GROUPS_FROM:
            few = None if wanted is None else [OffsetFetchRequestTopic(*each) for each in wanted.items()]
            return OffsetFetchRequest(group_id, few, require_stable=stable)
        topics = None
        if wanted is not None:
            cluster = known()
            topics = [
                OffsetFetchRequestTopics("" if version >= IDS_FROM else name, _id_of(cluster, name, version), numbers)
                for name, numbers in wanted.items()
            ]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=topics)], require_stable=stable)

    return PerVersion(ApiKey.OFFSET_FETCH, make)


def fetch_together_request(group_ids: Sequence[str]) -> PerVersion:
    """An OffsetFetch of all that several groups have; older brokers are asked of the first alone, in the older form."""

    def make(version: int) -> OffsetFetchRequest:
        stable = version >= _STABLE_FROM
        if version < _GROUPS_FROM:
            return OffsetFetchRequest(group_ids[0], None, require_stable=stable)
        return OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(one, topics=None) for one in group_ids], require_stable=stable
        )

    return PerVersion(ApiKey.OFFSET_FETCH, make)


_STABLE_FROM: Final = 7


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for where in partitions:
        found.setdefault(where.topic, []).append(where.partition)
    return found


def reader_of_fetch(cluster: Cluster) -> Callable[[OffsetFetchResponse], tuple[Offsets, int]]:
    """Takes an answer about one group apart."""
    return lambda response: read_fetched(response.groups[0] if response.groups else response, cluster)


def ids_told(response: OffsetFetchResponse, cluster: Cluster) -> dict[str, bytes]:
    """The topics of an answer about one group that names them by their ids."""
    topics = response.groups[0].topics if response.groups else ()
    return {cluster.topic_names.get(one.topic_id, ""): one.topic_id for one in topics if one.topic_id != ZERO_UUID}


def read_fetched(group: OffsetFetchResponseGroup | OffsetFetchResponse, cluster: Cluster) -> tuple[Offsets, int]:
    """What a group has committed (partitions with nothing are left out), and the first error."""
    code = group.error_code
    topics: Iterable[Any] = group.topics
    found: Offsets = {}
    for topic in topics:
        topic_id = getattr(topic, "topic_id", ZERO_UUID)
        name = topic.name or cluster.topic_names.get(topic_id, "")
        for part in topic.partitions:
            code = code or part.error_code
            if part.committed_offset >= 0 and not part.error_code:
                found[TopicPartition(name, part.partition_index)] = OffsetAndMetadata(
                    part.committed_offset, part.metadata or "", part.committed_leader_epoch
                )
    return found, code
