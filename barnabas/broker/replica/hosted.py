"""The partitions this broker hosts, and what to say of others. Source: `ReplicaManager.getPartitionOrError`."""

from __future__ import annotations

from barnabas.broker.replica.partition import Partition
from barnabas.broker.replica.shared import Shared
from barnabas.broker.replica.types import PartitionState
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition


class HostedPartitions:
    """Partitions by name, and how many of them each topic has.

    `offline` holds those whose log cannot be used, and what the metadata says of them.
    """

    __slots__ = ("offline", "online", "shared", "topics")

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.online: dict[TopicPartition, Partition] = {}
        self.offline: dict[TopicPartition, PartitionState] = {}
        self.topics: dict[str, int] = {}

    def add(self, partition: Partition) -> None:
        """It is hosted here from now on; it was not before."""
        key = partition.topic_partition
        self.online[key] = partition
        self.topics[key.topic] = self.topics.get(key.topic, 0) + 1

    def take(self, key: TopicPartition) -> Partition | None:
        """It is hosted here no longer, if it was."""
        partition = self.online.pop(key, None)
        if partition is not None:
            left = self.topics.pop(key.topic) - 1
            if left:
                self.topics[key.topic] = left
        return partition

    def get(self, key: TopicPartition) -> Partition:
        """The partition.

        Raises:
            KafkaError: as `error_of` says.
        """
        partition = self.online.get(key)
        if partition is None:
            raise self.absent(key)
        return partition

    def absent(self, key: TopicPartition) -> KafkaError:
        """The error for a partition that is not online."""
        return KafkaError(self.error_of(key), f"{key} is not served by broker {self.shared.broker_id}")

    def error_of(self, key: TopicPartition) -> ErrorCode:
        """Why a partition that is not online cannot be served: its disk, another broker has it, or nobody knows it."""
        if key in self.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.shared.cluster.contains(key):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
