"""Serving an OffsetForLeaderEpoch. Source: `ReplicaManager.lastOffsetForLeaderEpoch` of Apache Kafka."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.broker.replica.hosted import HostedPartitions
from barnabas.broker.replica.types import EpochQuery, EpochResult
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import TopicPartition


def offsets_for_leader_epoch(
    hosted: HostedPartitions, queries: Mapping[TopicPartition, EpochQuery]
) -> dict[TopicPartition, EpochResult]:
    """Where epochs ended, see `ReplicaManager.offsets_for_leader_epoch`."""
    results = {}
    for key, query in queries.items():
        try:
            end = hosted.get(key).epoch_end(query.leader_epoch, query.current_leader_epoch, leader_only=True)
            results[key] = EpochResult(0, end.leader_epoch, end.end_offset)
        except KafkaError as error:
            results[key] = EpochResult(error.code)
    return results
