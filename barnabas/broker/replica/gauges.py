"""What can be read of partitions, of all and of each.

    kafka.server:type=ReplicaManager    all of this broker
    kafka.cluster:type=Partition        one
    kafka.log:type=Log                  its log
    kafka.server:type=ReplicaFetcherManager, FetcherLagMetrics    what follows other brokers

The gauges of single partitions are worked out by one collector when somebody reads, so that ten thousand partitions
cost no registrations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from barnabas.broker.metrics import MetricsRegistry, Number, Sample
from barnabas.broker.replica.partition import Partition

if TYPE_CHECKING:
    from barnabas.broker.replica.manager import ReplicaManager

_OF_ALL: Final[dict[str, Callable[[Partition], bool]]] = {
    "LeaderCount": lambda partition: partition.is_leader,
    "PartitionCount": lambda partition: True,
    "UnderReplicatedPartitions": lambda partition: partition.under_replicated,
    "UnderMinIsrPartitionCount": lambda partition: partition.under_min_isr,
    "AtMinIsrPartitionCount": lambda partition: partition.at_min_isr,
    "ReassigningPartitions": lambda partition: partition.is_leader and partition.moves,
}
"""Name to what is counted."""

_OF_ONE: Final[dict[str, Callable[[Partition], int]]] = {
    "UnderReplicated": lambda partition: int(partition.under_replicated),
    "UnderMinIsr": lambda partition: int(partition.under_min_isr),
    "AtMinIsr": lambda partition: int(partition.at_min_isr),
    "InSyncReplicasCount": lambda partition: len(partition.isr.committed),
    "ReplicasCount": lambda partition: len(partition.replicas) if partition.is_leader else 0,
    "LastStableOffsetLag": lambda partition: partition.log.high_watermark - partition.log.last_stable_offset,
}

_OF_LOG: Final[dict[str, Callable[[Partition], int]]] = {
    "LogStartOffset": lambda partition: partition.log.log_start_offset,
    "LogEndOffset": lambda partition: partition.log.log_end_offset,
    "NumLogSegments": lambda partition: len(partition.log.segments),
    "Size": lambda partition: partition.log.size_bytes,
}


def register(manager: ReplicaManager, registry: MetricsRegistry) -> None:
    """Register the gauges of a broker's partitions."""

    def counter(counts: Callable[[Partition], bool]) -> Callable[[], Number]:
        return lambda: sum(map(counts, manager.hosted.online.values()))

    for name, counts in _OF_ALL.items():
        registry.gauge("ReplicaManager", name, None, counter(counts))
    registry.gauge("ReplicaManager", "OfflineReplicaCount", None, lambda: len(manager.hosted.offline))

    tags = {"clientId": "Replica"}
    registry.gauge("ReplicaFetcherManager", "MaxLag", tags, lambda: max((one[2] for one in manager.lags()), default=0))
    registry.gauge("ReplicaFetcherManager", "MinFetchRate", tags, manager.fetch_rate_min)

    def of_each() -> Iterator[Sample]:
        partitions = list(manager.hosted.online.items())  # read in steps, between which others come
        for type_name, gauges in (("kafka.cluster:Partition", _OF_ONE), ("kafka.log:Log", _OF_LOG)):
            for name, read in gauges.items():
                for key, partition in partitions:
                    tags = {"topic": key.topic, "partition": str(key.partition)}
                    yield Sample(type_name, name, tags, read(partition))
        for leader_id, key, lag in manager.lags():
            tags = {
                "clientId": f"ReplicaFetcherThread-0-{leader_id}",
                "topic": key.topic,
                "partition": str(key.partition),
            }
            yield Sample("FetcherLagMetrics", "ConsumerLag", tags, lag)

    registry.collector(of_each)
