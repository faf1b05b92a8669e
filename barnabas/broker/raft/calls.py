"""What voters say to each other, put into Kafka's messages and taken out of them: always of `__cluster_metadata-0`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from barnabas.broker.config.topics import METADATA_TOPIC
from barnabas.broker.raft.world import Mark
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests import begin_quorum_epoch, end_quorum_epoch
from barnabas.protocol.requests import vote as voting

Request: TypeAlias = (
    voting.VoteRequest | begin_quorum_epoch.BeginQuorumEpochRequest | end_quorum_epoch.EndQuorumEpochRequest
)


def vote(cluster_id: str, voter: int, me: int, epoch: int, end: Mark, pre: bool) -> voting.VoteRequest:
    """Ask a voter for its vote, or, with `pre`, whether it would give it."""
    part = voting.AskedPartition(0, epoch, me, last_offset_epoch=end.epoch, last_offset=end.end, pre_vote=pre)
    return voting.VoteRequest(cluster_id, voter, [voting.AskedTopic(METADATA_TOPIC, [part])])


def vote_told(code: int, leader: int, epoch: int, granted: bool) -> voting.VoteResponse:
    """The answer to it."""
    part = voting.PartitionData(0, code, leader, epoch, granted)
    return voting.VoteResponse(topics=[voting.TopicData(METADATA_TOPIC, [part])])


def begin(cluster_id: str, voter: int, me: int, epoch: int) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    """Tell a voter who leads."""
    part = begin_quorum_epoch.BegunPartition(0, leader_id=me, leader_epoch=epoch)
    topics = [begin_quorum_epoch.BegunTopic(METADATA_TOPIC, [part])]
    return begin_quorum_epoch.BeginQuorumEpochRequest(cluster_id, voter, topics)


def begin_told(code: int, leader: int, epoch: int) -> begin_quorum_epoch.BeginQuorumEpochResponse:
    """The answer to it."""
    part = begin_quorum_epoch.PartitionData(0, code, leader, epoch)
    return begin_quorum_epoch.BeginQuorumEpochResponse(topics=[begin_quorum_epoch.TopicData(METADATA_TOPIC, [part])])


def end(cluster_id: str, me: int, epoch: int, successors: Sequence[int]) -> end_quorum_epoch.EndQuorumEpochRequest:
    """Tell a voter that its leader goes, and who is to come next, in this order."""
    candidates = [end_quorum_epoch.ReplicaInfo(one) for one in successors]
    part = end_quorum_epoch.EndedPartition(0, me, epoch, preferred_candidates=candidates)
    return end_quorum_epoch.EndQuorumEpochRequest(cluster_id, [end_quorum_epoch.EndedTopic(METADATA_TOPIC, [part])])


def end_told(code: int, leader: int, epoch: int) -> end_quorum_epoch.EndQuorumEpochResponse:
    """The answer to it."""
    part = end_quorum_epoch.PartitionData(0, code, leader, epoch)
    return end_quorum_epoch.EndQuorumEpochResponse(topics=[end_quorum_epoch.TopicData(METADATA_TOPIC, [part])])


def speaker(request: Request) -> int:
    """Which voter a request is of; -1 where it does not say."""
    parts = [part for topic in request.topics for part in topic.partitions]
    if len(parts) != 1:
        return -1
    (part,) = parts
    return part.replica_id if isinstance(part, voting.AskedPartition) else part.leader_id


def asked_by_voter(request: Request, cluster_id: str, voters: Sequence[int]) -> tuple[Any | None, int]:
    """The one partition that a request is about, and what is wrong with it; None where all of it is refused."""
    if request.cluster_id not in (None, cluster_id):
        return None, ErrorCode.INCONSISTENT_CLUSTER_ID
    if [[part.partition_index for part in topic.partitions] for topic in request.topics] != [[0]]:
        return None, ErrorCode.INVALID_REQUEST
    (topic,) = request.topics
    part: Any = topic.partitions[0]
    if topic.topic_name != METADATA_TOPIC:
        return part, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if speaker(request) not in voters:
        return part, ErrorCode.INCONSISTENT_VOTER_SET
    if isinstance(part, voting.AskedPartition):
        newest = part.replica_epoch if part.pre_vote else part.replica_epoch - 1
        if not 0 <= part.last_offset_epoch <= newest or part.last_offset < 0:
            return part, ErrorCode.INVALID_REQUEST
    return part, 0


def told(response: Any | None) -> Any | None:
    """The one partition that an answer is about; None where there is none, or it is refused altogether."""
    if response is None or response.error_code:
        return None
    parts = [part for topic in response.topics for part in topic.partitions]
    return parts[0] if len(parts) == 1 else None
