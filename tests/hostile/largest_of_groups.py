"""The largest requests of the group APIs, as `largest` has those of the others."""

from __future__ import annotations

from barnabas.broker.group.consumer.advancing import NAMES_MAX
from barnabas.protocol.requests.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from barnabas.protocol.requests.delete_groups import DeleteGroupsRequest
from barnabas.protocol.requests.describe_groups import DescribeGroupsRequest
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.requests.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.requests.list_groups import ListGroupsRequest
from barnabas.protocol.requests.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.requests.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.requests.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.requests.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.hostile.largest import ALL, PAIRS, TOPICS, Largest, nobody, there

FEW_TIMES = 10_000 - 10
"""Elements of the APIs that may have 10,000."""


def _commit(topics: list[str], partitions: int) -> OffsetCommitRequest:
    parts = [OffsetCommitRequestPartition(at, 7, -1, "metadata") for at in range(partitions)]
    return OffsetCommitRequest("group", topics=[OffsetCommitRequestTopic(name, partitions=parts) for name in topics])


def _fetch(topics: list[str], partitions: int) -> OffsetFetchRequest:
    indexes = list(range(partitions))
    return OffsetFetchRequest("group", [OffsetFetchRequestTopic(name, indexes) for name in topics])


def _fetch_groups(count: int) -> OffsetFetchRequest:
    asked = [OffsetFetchRequestTopics("t", partition_indexes=[0])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(f"group-{at}", topics=asked) for at in range(count)])


def _delete(topics: list[str], partitions: int) -> OffsetDeleteRequest:
    parts = [OffsetDeleteRequestPartition(at) for at in range(partitions)]
    return OffsetDeleteRequest("group", [OffsetDeleteRequestTopic(name, parts) for name in topics])


def _heartbeat(names: list[str], owned: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        "group",
        "member",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=names,
        topic_partitions=[TopicPartitions(b"1" * 16, list(range(owned)))],
    )


def _newcomer(names: list[str]) -> ConsumerGroupHeartbeatRequest:
    """Each is another member: before v1 the broker gives out its id. Who joins has nothing."""
    return ConsumerGroupHeartbeatRequest(
        f"group of {len(names)} names", rebalance_timeout_ms=1000, subscribed_topic_names=names, topic_partitions=[]
    )


def _pattern(text: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        "group of patterns", "m", rebalance_timeout_ms=1000, subscribed_topic_regex=text, topic_partitions=[]
    )


def _join(count: int, size: int) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(f"protocol-{at}", bytes(size)) for at in range(count)]
    return JoinGroupRequest("group", 10_000, 10_000, "", None, "consumer", protocols)


def _sync(count: int) -> SyncGroupRequest:
    assignments = [SyncGroupRequestAssignment(f"member-{at}", bytes(100)) for at in range(count)]
    return SyncGroupRequest("group", 1, "member-0", None, "consumer", "range", assignments)


def _leave(count: int) -> LeaveGroupRequest:
    return LeaveGroupRequest("group", members=[MemberIdentity(f"member-{at}") for at in range(count)])


def _groups(count: int) -> list[str]:
    return [f"group-{at}" for at in range(count)]


LARGEST: dict[str, Largest] = {
    "OffsetCommit": (8, 9, lambda share: _commit(there(TOPICS // share), 1)),
    "OffsetCommit to nobody": (8, 9, lambda share: _commit(nobody(PAIRS // share), 1)),
    "OffsetCommit, one topic": (8, 9, lambda share: _commit(["wide"], ALL // share)),
    "OffsetCommit, some of each topic": (8, 9, lambda share: _commit(there(44 // share), 450)),
    "OffsetFetch": (9, 7, lambda share: _fetch(there(PAIRS // share), 1)),
    "OffsetFetch, one topic": (9, 1, lambda share: _fetch(["wide"], ALL // share)),
    "OffsetFetch, some of each topic": (9, 7, lambda share: _fetch(there(44 // share), 450)),
    "OffsetFetch, groups": (9, 9, lambda share: _fetch_groups(6_600 // share)),
    "JoinGroup": (11, 9, lambda share: _join(900 // share, 1000)),
    "JoinGroup, one large": (11, 9, lambda share: _join(1, 1_000_000)),
    "SyncGroup": (14, 5, lambda share: _sync(FEW_TIMES // share)),
    "LeaveGroup": (13, 5, lambda share: _leave((5_000 - 10) // share)),
    "DescribeGroups": (15, 6, lambda share: DescribeGroupsRequest(_groups(FEW_TIMES // share))),
    "ListGroups": (16, 5, lambda share: ListGroupsRequest(_groups(900 // share))),
    "DeleteGroups": (42, 2, lambda share: DeleteGroupsRequest(_groups(FEW_TIMES // share))),
    "OffsetDelete": (47, 0, lambda share: _delete(there(PAIRS // share), 1)),
    "OffsetDelete, one topic": (47, 0, lambda share: _delete(["wide"], ALL // share)),
    "ConsumerGroupHeartbeat, names": (68, 1, lambda share: _heartbeat(nobody(ALL // share), 0)),
    "ConsumerGroupHeartbeat, names that are taken": (
        68,
        0,
        lambda share: _newcomer([f"n{at}" for at in range(NAMES_MAX // share)]),
    ),
    "ConsumerGroupHeartbeat, a pattern of classes": (68, 1, lambda share: _pattern("\\PL" * (1300 // share))),
    "ConsumerGroupHeartbeat, a pattern that repeats": (68, 1, lambda share: _pattern("x{0,1000}" * 8)),
    "ConsumerGroupHeartbeat, a pattern that is taken": (68, 1, lambda share: _pattern("x?" * 2000)),
    "ConsumerGroupHeartbeat, partitions": (68, 1, lambda share: _heartbeat(["t"], ALL // share)),
    "ConsumerGroupDescribe": (69, 1, lambda share: ConsumerGroupDescribeRequest(_groups(FEW_TIMES // share))),
}
