"""What can be read of the whole broker: `kafka.server:type=KafkaServer` and `kafka.controller:type=KafkaController`.

Of a voter of the quorum: `kafka.server:type=raft-metrics`, of which `voter-failed` is ours (Kafka's process ends).

What was lost stands under `kafka.log:type=LogManager` (names of ours: Kafka counts nothing of the kind).

Everything is counted when somebody reads. States are the numbers of Kafka's `BrokerState`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker.node.startup import Phase

if TYPE_CHECKING:
    from barnabas.broker.cluster.quorum_log import QuorumLog
    from barnabas.broker.metrics import MetricsRegistry
    from barnabas.broker.node.core import Core
    from barnabas.broker.raft.raft import Raft

_STATES: Final = {
    Phase.NEW: 0,  # NOT_RUNNING
    Phase.LOADING: 1,  # STARTING
    Phase.RECOVERING: 2,  # RECOVERY
    Phase.HOSTING: 2,
    Phase.READY: 3,  # RUNNING
    Phase.STOPPING: 7,  # SHUTTING_DOWN
}
_APPLIED: Final = {
    "kafka.controller:KafkaController": (
        "LastAppliedRecordOffset",
        "LastAppliedRecordTimestamp",
        "LastAppliedRecordLagMs",
    ),
    "broker-metadata-metrics": (
        "last-applied-record-offset",
        "last-applied-record-timestamp",
        "last-applied-record-lag-ms",
    ),
}
"""A node has one image, which its controller and its broker go by: either tells of it under the names that it has."""
_SILENT_MS: Final = 1000
"""Twice as long as a controller may wait for news before it answers (`WAIT_MS` of `cluster.observer`)."""


def register(core: Core) -> None:
    """Register the gauges of a broker. Of the cluster each tells what its own image says."""
    registry, image, kind = core.registry, core.image, "kafka.controller:KafkaController"
    registry.gauge("KafkaServer", "BrokerState", None, lambda: _STATES[core.phase])
    losses = core.logs.losses
    registry.counter("kafka.log:LogManager", "LossCount", None, lambda: losses.count)
    registry.counter("kafka.log:LogManager", "LostBytes", None, lambda: losses.size)
    registry.counter("kafka.log:LogManager", "FailedReadCount", None, lambda: losses.failed_reads)
    registry.counter("kafka.log:LogManager", "FailedWriteCount", None, lambda: losses.failed_writes)
    registry.gauge(kind, "ActiveControllerCount", None, lambda: int(core.is_active))
    registry.gauge(kind, "LastCommittedRecordOffset", None, lambda: _committed(core) - 1)
    registry.gauge(kind, "ActiveBrokerCount", None, lambda: sum(not one.fenced for one in image.brokers.values()))
    registry.gauge(kind, "FencedBrokerCount", None, lambda: sum(one.fenced for one in image.brokers.values()))
    registry.gauge(kind, "GlobalTopicCount", None, lambda: len(image.topics))
    registry.gauge(kind, "GlobalPartitionCount", None, lambda: sum(len(t.partitions) for t in image.topics.values()))
    cleaner = core.logs.cleaner
    registry.gauge("kafka.log:LogCleanerManager", "uncleanable-partitions-count", None, lambda: cleaner.uncleanable)
    for name in ("ElectionFromEligibleLeaderReplicasPerSec", "UncleanLeaderElectionsPerSec"):
        registry.meter("kafka.controller:ControllerStats", name)  # `cluster/members` counts them
    registry.gauge(kind, "OfflinePartitionsCount", None, lambda: _leaderless(core))
    registry.gauge(kind, "PreferredReplicaImbalanceCount", None, lambda: _imbalanced(core))
    for type_name, names in _APPLIED.items():
        for name, read in zip(names, (_last_applied, _applied_ms, _lag_ms), strict=True):
            registry.gauge(type_name, name, None, partial(read, core))


def register_voter(registry: MetricsRegistry, raft: Raft, log: QuorumLog) -> None:
    """Register the gauges of this node's part in the quorum; offsets are of the metadata's log."""
    kind = "raft-metrics"
    registry.gauge(kind, "current-leader", None, lambda: raft.leader)
    registry.gauge(kind, "current-epoch", None, lambda: raft.epoch)
    registry.gauge(kind, "high-watermark", None, lambda: log.committed)
    registry.gauge(kind, "log-end-offset", None, lambda: log.end.end)
    registry.gauge(kind, "number-of-voters", None, lambda: len(raft.voters))
    registry.gauge(kind, "voter-failed", None, lambda: int(raft.fault is not None))


def _committed(core: Core) -> int:
    """The end of what the controller has committed, as far as this broker has heard."""
    if core.member is not None:
        return max(core.member.observer.committed, core.member.observer.end_offset)
    return core.metadata.log.high_watermark


def _applied(core: Core) -> int:
    """The end of what this broker's image has."""
    return core.metadata.log.high_watermark if core.member is None else core.member.observer.end_offset


def _last_applied(core: Core) -> int:
    return _applied(core) - 1


def _applied_ms(core: Core) -> int:
    """When the last record that this broker's image has was written (wall ms); the controller's own are all there."""
    return core.clock.now_ms() if core.member is None else core.member.observer.applied_ms


def _lag_ms(core: Core) -> int:
    """Kafka's controller writes something twice a second, and what was last applied tells. Ours writes nothing then.

    So there is no lag while nothing is awaited, and the controller that would say so answers.
    """
    if _committed(core) > _applied(core):
        return max(core.clock.now_ms() - _applied_ms(core), 0)
    silent_ms = core.now_ms - _heard_ms(core)
    return silent_ms if silent_ms > _SILENT_MS else 0


def _heard_ms(core: Core) -> int:
    """When this node last heard of whoever leads the controllers (monotonic ms); who does so hears of itself."""
    raft = None if core.voter is None else core.voter.raft
    if core.member is None or (raft is not None and raft.leading is not None):
        return core.now_ms
    return core.member.observer.heard_ms if raft is None else raft.heard_ms


def _imbalanced(core: Core) -> int:
    topics = core.image.topics.values()
    return sum(state.leader != state.replicas[0] for topic in topics for state in topic.partitions.values())


def _leaderless(core: Core) -> int:
    return sum(state.leader < 0 for topic in core.image.topics.values() for state in topic.partitions.values())
