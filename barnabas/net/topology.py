"""What a client knows of a cluster at one moment: an immutable snapshot, replaced whole by each metadata answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from barnabas.protocol.ids import NO_LEADER, ZERO_UUID, TopicPartition

if TYPE_CHECKING:
    from barnabas.protocol.requests.metadata import MetadataResponsePartition


class Node(NamedTuple):
    """One broker's address. Bootstrap servers, whose id nobody knows yet, have negative ids from -1 down."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def at(self) -> str:
        """`host:port`; an address of IPv6 in brackets, and the path alone of a socket of this machine."""
        return place_of(self.host, self.port)


def place_of(host: str, port: int) -> str:
    """How an address is written."""
    if host.startswith("/"):
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class PartitionInfo(NamedTuple):
    """Where one partition lives. `leader` is -1 while there is none; epoch -1 when the broker does not tell it.

    `elr`: who may lead without being in sync, for they lack nothing; `last_known`: who led last, while nobody can
    (KIP-966). Told to who asks for partitions in pages, and else empty.
    """

    topic: str
    partition: int
    leader: int = NO_LEADER
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()

    @classmethod
    def told(cls, topic: str, partition: MetadataResponsePartition) -> PartitionInfo:
        """As an answer says it: Metadata's, or DescribeTopicPartitions', which says more."""
        return cls(
            topic,
            partition.partition_index,
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
            tuple(getattr(partition, "eligible_leader_replicas", None) or ()),
            tuple(getattr(partition, "last_known_elr", None) or ()),
        )


class TopicInfo(NamedTuple):
    """One topic; `partitions[i].partition == i`."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionInfo, ...]
    is_internal: bool = False


@dataclass(slots=True, frozen=True)
class Cluster:
    """A snapshot: brokers by id, topics by name, and the names behind topic ids."""

    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    topic_names: Mapping[bytes, str] = field(default_factory=dict)
    cluster_id: str | None = None
    controller_id: int = -1
    is_bootstrap: bool = False

    def topic_id(self, topic: str) -> bytes:
        """The topic's id, or sixteen zeros when the broker did not tell one."""
        info = self.topics.get(topic)
        return info.topic_id if info is not None else ZERO_UUID

    def partition(self, topic: str, partition: int) -> PartitionInfo | None:
        """What is known of one partition."""
        info = self.topics.get(topic)
        if info is None or not 0 <= partition < len(info.partitions):
            return None
        return info.partitions[partition]

    def leader(self, where: TopicPartition) -> Node | None:
        """The broker that leads the partition, None while there is none or it is unknown."""
        info = self.partition(*where)
        return None if info is None else self.nodes.get(info.leader)

    def partitions_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """All partitions of a topic, empty when it is unknown."""
        info = self.topics.get(topic)
        return info.partitions if info is not None else ()
