"""Which replica a consumer of a rack is told to read from (KIP-392), where `replica.selector.class` asks for it.

Of the replicas in sync that have what it asks for, those of its rack; the leader if it is one of them, or none is; else
the one that has most, of several that were last behind the longest ago, of several the highest id.

Source: `ReplicaManager.findPreferredReadReplica`, `RackAwareReplicaSelector`, `ReplicaView.comparator` of Apache Kafka.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.replica.partition import Partition

NONE: Final = -1


def nearest(partition: Partition, rack: str, listener: str, offset: int) -> int:
    """The replica to read `offset` from instead of this one, which leads; -1 for none."""
    shared = partition.shared
    racks, in_sync = shared.cluster.rack, partition.isr.committed
    if not partition.log.log_start_offset <= offset <= partition.log.log_end_offset:
        return NONE
    if racks(shared.broker_id, listener) == rack:
        return NONE
    able = [
        (one.end.offset, one.last_caught_up_ms, one.broker_id)
        for one in partition.remotes.values()
        if one.broker_id in in_sync
        and one.log_start_offset <= offset <= one.end.offset
        and racks(one.broker_id, listener) == rack
    ]
    return max(able)[2] if able else NONE
