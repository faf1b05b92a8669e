"""The controller's side of a snapshot's way to other brokers: a piece of it at a time, for who asks with FetchSnapshot.

The snapshot is given from memory, from the very bytes that a start has checked or that were written: what the device
makes of the file later hurts nobody but the next start. Only the newest is given; who was reading the one before it is
told so, and begins anew.

    another cluster's id                          INCONSISTENT_CLUSTER_ID for the whole answer
    more than one partition, or none              INVALID_REQUEST for the whole answer: nobody is given it many times
    another topic, or partition                   UNKNOWN_TOPIC_OR_PARTITION
    another snapshot than the newest              SNAPSHOT_NOT_FOUND
    a position that it has not                    POSITION_OUT_OF_RANGE

Source: `KafkaRaftClient.handleFetchSnapshotRequest` of Apache Kafka (KIP-630).
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.cluster.metadata_log import HeldSnapshot
from barnabas.broker.config.topics import METADATA_TOPIC
from barnabas.broker.raft.fetching import epoch_fault
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderIdAndEpoch,
    PartitionSnapshot,
    PartitionSnapshotResult,
    SnapshotId,
    TopicSnapshotResult,
)

PIECE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of an answer, whatever is asked for."""


def answer(
    request: FetchSnapshotRequest, snapshot: HeldSnapshot | None, cluster_id: str, leader: tuple[int, int]
) -> FetchSnapshotResponse:
    """What an observer is told. `leader` is this node, and the epoch in which it is the controller."""
    if request.cluster_id not in (None, cluster_id):
        return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    if [len(topic.partitions) for topic in request.topics] != [1]:
        return FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
    response = FetchSnapshotResponse()
    for topic in request.topics:
        known = topic.name == METADATA_TOPIC
        parts = [_piece(one, known, request.max_bytes, snapshot, leader) for one in topic.partitions]
        response.topics.append(TopicSnapshotResult(topic.name, parts))
    return response


def _piece(
    asked: PartitionSnapshot, known: bool, bytes_max: int, snapshot: HeldSnapshot | None, leader: tuple[int, int]
) -> PartitionSnapshotResult:
    told = PartitionSnapshotResult(asked.partition, 0, asked.snapshot_id, LeaderIdAndEpoch(*leader))
    if not known or asked.partition:
        told.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif epoch_fault(asked.current_leader_epoch, leader[1]):
        told.error_code = epoch_fault(asked.current_leader_epoch, leader[1])
    elif snapshot is None or asked.snapshot_id != SnapshotId(snapshot.end, snapshot.epoch):
        told.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
    elif not 0 <= asked.position < len(snapshot.data):
        told.error_code = ErrorCode.POSITION_OUT_OF_RANGE
    else:
        size = max(1, min(bytes_max, PIECE_BYTES_MAX))
        told.size, told.position = len(snapshot.data), asked.position
        told.unaligned_records = memoryview(snapshot.data)[asked.position : asked.position + size]
    return told
