"""The group coordinator in its place: what it needs of the other rooms, and how it hears of leadership."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.config.topics import OFFSETS_TOPIC
from barnabas.broker.group.coordinator import GroupCoordinator
from barnabas.broker.group.journal import PartitionJournal
from barnabas.broker.replica.partition import Partition

if TYPE_CHECKING:
    from barnabas.broker.node.core import Core


def assemble(core: Core) -> GroupCoordinator:
    """The coordinator of this broker, which hears of each partition of `__consumer_offsets` that it leads."""
    image = core.image

    def partitions() -> int:
        topic = image.topics.get(OFFSETS_TOPIC)
        return 0 if topic is None else len(topic.partitions)

    coordinator = GroupCoordinator(
        core.config,
        core.clock,
        core.entropy,
        core.registry,
        partitions,
        lambda job, ended: core.jobs.add("groups", job, ended),
        core.now_ms,
    )

    def heard(partition: Partition, leads: bool, epoch: int, now_ms: int) -> None:
        topic, index = partition.topic_partition
        if topic != OFFSETS_TOPIC:
            return
        partition.listeners.clear()
        if leads and partition.is_leader and partition.leader_epoch == epoch:
            journal = PartitionJournal(core.replicas, partition, partial(coordinator.committed, index))
            coordinator.elected(index, epoch, partition.log, journal)
        else:
            coordinator.resigned(index)

    core.replicas.shared.leadership.append(heard)
    return coordinator
