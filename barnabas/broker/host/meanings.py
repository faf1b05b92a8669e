"""What each metric says, for the HELP lines of `/metrics`. Keys are Kafka's type and name."""

from __future__ import annotations

from typing import Final

from barnabas.broker.metrics import Reading

MEANINGS: Final = {
    "KafkaServer.BrokerState": "0 not running, 1 starting, 2 recovering, 3 serving, 7 stopping",
    "LogManager.LossCount": "Times that a log had lost something, since the start",
    "LogManager.LostBytes": "Bytes that were found lost, since the start",
    "LogManager.FailedReadCount": "Reads of the disk that failed, since the start",
    "LogManager.FailedWriteCount": "Writes of small files that failed and are tried again, since the start",
    "KafkaController.ActiveControllerCount": "1 where the active controller is",
    "KafkaController.ActiveBrokerCount": "Brokers that serve",
    "KafkaController.FencedBrokerCount": "Brokers that are known and do not serve",
    "KafkaController.GlobalTopicCount": "Topics of the cluster",
    "KafkaController.GlobalPartitionCount": "Partitions of the cluster",
    "KafkaController.OfflinePartitionsCount": "Partitions without a leader",
    "LogCleanerManager.uncleanable-partitions-count": "Partitions whose compaction failed and stands back",
    "socket-server-metrics.connection-count": "Connections that are open",
    "socket-server-metrics.connection-creation-total": "Connections that came in, refused ones too",
    "socket-server-metrics.connection-refused-total": "Connections that were one too many",
    "socket-server-metrics.incoming-byte-total": "Bytes that were received",
    "socket-server-metrics.request-total": "Requests that were received",
    "SocketServer.MemoryPoolAvailable": "Bytes that may still be held for requests",
    "SocketServer.MemoryPoolUsed": "Bytes that are held for requests",
    "Memory.HeldBytes": "Bytes that are held for requests, by what holds them",
    "Memory.LimitBytes": "Bytes that may be held for requests; -1 without a limit",
    "Memory.WaitingConnections": "Connections that are not read from until there is memory",
    "Memory.EndedConnections": "Connections that were ended because they held most memory",
    "BrokerTopicMetrics.MessagesInPerSec": "Records that were appended",
    "BrokerTopicMetrics.BytesInPerSec": "Bytes of records that were appended",
    "BrokerTopicMetrics.BytesOutPerSec": "Bytes of records that consumers were sent",
    "BrokerTopicMetrics.BytesRejectedPerSec": "Bytes of batches that were too large",
    "BrokerTopicMetrics.FailedProduceRequestsPerSec": "Appends to a partition that failed",
    "BrokerTopicMetrics.FailedFetchRequestsPerSec": "Reads of a partition that failed",
    "BrokerTopicMetrics.TotalProduceRequestsPerSec": "Appends to a partition that were asked for",
    "BrokerTopicMetrics.TotalFetchRequestsPerSec": "Reads of a partition that were asked for",
    "BrokerTopicMetrics.ReplicationBytesOutPerSec": "Bytes of records that followers were sent",
    "ReplicaManager.IsrExpandsPerSec": "Replicas that came back in sync",
    "ReplicaManager.IsrShrinksPerSec": "Replicas that fell out of sync",
    "ReplicaManager.FailedIsrUpdatesPerSec": "Changes of the replicas in sync that the controller refused",
    "ReplicaManager.LeaderCount": "Partitions that this broker leads",
    "ReplicaManager.PartitionCount": "Partitions that this broker has",
    "ReplicaManager.UnderReplicatedPartitions": "Led partitions with a replica out of sync",
    "ReplicaManager.UnderMinIsrPartitionCount": "Led partitions with fewer in sync than min.insync.replicas",
    "ReplicaManager.AtMinIsrPartitionCount": "Led partitions with no more in sync than min.insync.replicas",
    "ReplicaManager.OfflineReplicaCount": "Replicas whose log cannot be used",
    "DelayedProduceMetrics.ExpiresPerSec": "Partitions that were pending when their produce request timed out",
    "DelayedFetchMetrics.ExpiresPerSec": "Fetches that waited to their end",
    "DelayedDeleteRecordsMetrics.ExpiresPerSec": "Partitions that were pending when their deletion timed out",
    "DelayedOperationPurgatory.PurgatorySize": "Entries in the lists of those that wait for something",
    "DelayedOperationPurgatory.NumDelayedOperations": "Operations that wait",
    "FetchSessionCache.IncrementalFetchSessionEvictionsPerSec": "Fetch sessions that made room for others",
    "FetchSessionCache.NumIncrementalFetchSessions": "Fetch sessions that are kept",
    "FetchSessionCache.NumIncrementalFetchPartitionsCached": "Partitions that fetch sessions remember",
    "group-coordinator-metrics.offset-commit-count": "Offsets that groups committed",
    "group-coordinator-metrics.offset-deletion-count": "Offsets of groups that were deleted on demand",
    "group-coordinator-metrics.offset-expiration-count": "Offsets of groups whose time was over",
    "group-coordinator-metrics.group-completed-rebalance-count": "Rebalances that ended with an assignment",
    "group-coordinator-metrics.group-count": "Groups, by the protocol they use",
    "GroupMetadataManager.NumGroups": "Groups that this broker coordinates",
    "GroupMetadataManager.NumOffsets": "Offsets that groups have committed",
    "GroupMetadataManager.NumGroupsEmpty": "Groups without members",
    "GroupMetadataManager.NumGroupsPreparingRebalance": "Groups that wait for their members to join",
    "GroupMetadataManager.NumGroupsCompletingRebalance": "Groups that wait for their leader to assign",
    "GroupMetadataManager.NumGroupsStable": "Groups whose members have an assignment",
    "GroupMetadataManager.NumGroupsDead": "Groups that are going",
    "Partition.UnderReplicated": "1 if a replica is out of sync",
    "Partition.UnderMinIsr": "1 if fewer are in sync than min.insync.replicas",
    "Partition.AtMinIsr": "1 if no more are in sync than min.insync.replicas",
    "Partition.InSyncReplicasCount": "Replicas in sync, the leader among them",
    "Partition.ReplicasCount": "Replicas, where this broker leads",
    "Partition.LastStableOffsetLag": "Records below the high watermark that belong to open transactions",
    "Log.LogStartOffset": "Offset of the first record",
    "Log.LogEndOffset": "Offset that the next record gets",
    "Log.NumLogSegments": "Segments of the log",
    "Log.Size": "Bytes of the log's segments",
}


def meaning(reading: Reading) -> str:
    """A sentence, and under what name Apache Kafka has (or would have) the metric."""
    bean = f"{reading.domain}:type={reading.type},name={reading.name}"
    told = MEANINGS.get(f"{reading.type}.{reading.name}")
    return bean if told is None else f"{told} ({bean})"
