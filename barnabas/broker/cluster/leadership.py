"""Who leads a partition and who is in sync: pure decisions over an image."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.broker.cluster.image import Image, PartitionState
from barnabas.broker.cluster.records import MetadataRecord, PartitionChange
from barnabas.broker.cluster.turns import SMALL_MAX
from barnabas.broker.ports import IsrProposal
from barnabas.protocol.errors import ErrorCode


def judge(image: Image, proposal: IsrProposal, state: PartitionState | None) -> int:
    """Whether an ISR may change so: 0, or the error (`ReplicationControlManager.validateAlterPartitionData`)."""
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > state.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if proposal.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if proposal.partition_epoch < state.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if not set(proposal.isr) <= set(state.replicas) or state.leader not in proposal.isr:
        return ErrorCode.INVALID_REQUEST
    if not all(image.is_alive(member) for member in proposal.isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return 0


def hand_over(image: Image, wanted: Callable[[PartitionState], bool], leader: int) -> Iterator[list[MetadataRecord]]:
    """Records, in slices, that give the partitions wanted another leader; topics may go between slices."""
    changes: list[MetadataRecord] = []
    for topic in list(image.topics.values()):
        for partition, state in topic.partitions.items():
            if topic.topic_id not in image.topics_by_id:
                break  # deleted since the last slice
            if wanted(state):
                changes.append(PartitionChange(topic.topic_id, partition, leader=leader))
            if len(changes) >= SMALL_MAX:
                yield changes
                changes = []
    if changes:
        yield changes
