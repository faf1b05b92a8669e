"""The group coordinator in its place: what it needs of the other rooms, and how it hears of leadership."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

from barnabas.broker.cluster.image import Image
from barnabas.broker.config.topics import OFFSETS_TOPIC
from barnabas.broker.group.alarms import Alarm
from barnabas.broker.group.coordinator import GroupCoordinator
from barnabas.broker.group.journal import PartitionJournal
from barnabas.broker.jobs import Job
from barnabas.broker.replica.partition import Partition

if TYPE_CHECKING:
    from barnabas.broker.node.core import Core

AHEAD_MS: Final = 1000
"""So long after the first groups are led here, what members of the consumer protocol need is loaded: their first would
wait 40 ms for it. Who comes at once, as with the first group of all, waits rather than has others wait."""
AHEAD: Final = (
    "xxhash",
    "barnabas.protocol.kafka.coordinator.consumer_groups",
    "barnabas.protocol.kafka.consumer_protocol",
    "barnabas.protocol.kafka.consumer_group_heartbeat",
    "barnabas.broker.group.consumer.records",
    "barnabas.broker.group.consumer.assignors.uniform",
    "barnabas.broker.group.consumer.members",
    "barnabas.broker.group.consumer.upgrading",
    "barnabas.broker.group.consumer.heartbeats",
    "barnabas.broker.handlers.consumer_group_heartbeat",
)
"""Modules, a few ms each, those first that others import."""

HASHES_MAX: Final = 10_000
"""Topics whose hash is kept before those that are gone are looked for. Those that are there are kept, however many: a
group asks for all of its own with each change (1 µs for one of one partition that is computed, 6 of a hundred)."""


class ImageTopics:
    """The topics of an image, for groups (`group/consumer/topics.py`)."""

    __slots__ = ("_hashes", "_hashes_max", "_image", "version")

    def __init__(self, image: Image) -> None:
        self._image = image
        self._hashes: dict[str, tuple[bytes, int, int]] = {}
        self._hashes_max = HASHES_MAX
        self.version = 0

    def changed(self) -> None:
        """Topics have come, gone or grown."""
        self.version += 1

    def get(self, name: str) -> tuple[bytes, int] | None:
        """A topic's id, and how many partitions it has; None if there is none."""
        topic = self._image.topics.get(name)
        return None if topic is None else (topic.topic_id, len(topic.partitions))

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of the topic with that id; None if there is none."""
        topic = self._image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def names(self) -> Iterable[str]:
        """All of them."""
        return self._image.topics

    def hash_of(self, name: str) -> int:
        """The hash of a topic that is there; computed once, for some group has asked for it."""
        topic = self._image.topics[name]
        count = len(topic.partitions)
        known = self._hashes.get(name)
        if known is None or known[:2] != (topic.topic_id, count):
            from barnabas.broker.group.consumer.hashing import topic_hash

            if len(self._hashes) >= self._hashes_max:
                there = self._image.topics
                self._hashes = {name: known for name, known in self._hashes.items() if name in there}
                self._hashes_max = max(HASHES_MAX, 2 * len(self._hashes))
            known = self._hashes[name] = (topic.topic_id, count, topic_hash(name, topic.topic_id, count))
        return known[2]


def assemble(core: Core) -> GroupCoordinator:
    """The coordinator of this broker, which hears of each partition of `__consumer_offsets` that it leads."""
    coordinator = GroupCoordinator(
        core.config,
        core.clock,
        core.entropy,
        core.logs.believed_ms,
        core.registry,
        ImageTopics(core.image),
        core.image.group_overrides,
        lambda job, ended: core.jobs.add("groups", job, ended),
        core.now_ms,
    )

    ahead = Alarm(lambda now_ms: core.jobs.add("groups", _load_ahead()))

    def heard(partition: Partition, leads: bool, epoch: int, now_ms: int) -> None:
        topic, index = partition.topic_partition
        if topic != OFFSETS_TOPIC:
            return
        partition.listeners.clear()
        if leads and partition.is_leader and partition.leader_epoch == epoch:
            journal = PartitionJournal(core.replicas, partition, partial(coordinator.committed, index))
            if not coordinator.shards:
                coordinator.shared.alarms.set(ahead, now_ms + AHEAD_MS)
            coordinator.elected(index, epoch, partition.log, journal)
        else:
            coordinator.resigned(index)

    core.replicas.shared.leadership.append(heard)
    return coordinator


def _load_ahead() -> Job[None]:
    for name in AHEAD:
        import_module(name)
        yield None
