"""Both sides of replication, and every answer that waits for it.

    manager = ReplicaManager(broker_id, config, logs, controller, cluster, wall_clock, registry, now_ms, peers)
    manager.start(now_ms)                      # the tasks: ISR shrink
    manager.apply(delta.partitions, delta.removed, now_ms)

What is led here stands in `partition`, what follows another broker in `following`, `fetcher` and `follower`.
`append_records`, `fetch`, `delete_records`, `list_offsets` and `offsets_for_leader_epoch` call `respond(results)` once,
now or later, with a dict by `TopicPartition` in the request's order (`fetch` with the time as well). The caller must
call `drain(now_ms)` at the very end of every step (a handled request, completions of the disk), and `tick(now_ms)` when
`next_deadline_ms()` has come.
"""

from barnabas.broker.replica.manager import ReplicaManager
from barnabas.broker.replica.partition import Partition
from barnabas.broker.replica.types import (
    ClusterView,
    DeleteRecordsResult,
    EpochQuery,
    EpochResult,
    FetchInfo,
    FetchParams,
    FetchResult,
    ListOffsetsQuery,
    ListOffsetsResult,
    PartitionState,
    ProduceResult,
)

__all__ = [
    "ClusterView",
    "DeleteRecordsResult",
    "EpochQuery",
    "EpochResult",
    "FetchInfo",
    "FetchParams",
    "FetchResult",
    "ListOffsetsQuery",
    "ListOffsetsResult",
    "Partition",
    "PartitionState",
    "ProduceResult",
    "ReplicaManager",
]
