"""The metadata records: everything that outlives a request and is no message of a user.

A record is one msgpack array, `[kind, field, field, ...]`, as the value of a record in an ordinary v2 batch of the log
`__cluster_metadata-0` (a small batch is one operation and is applied whole or not at all). Positions never change
their meaning: a later release appends fields, with defaults, and ignores what it does not know at the end. Kinds are
numbers of ours; the contents follow Kafka's `TopicRecord`, `PartitionRecord`, `PartitionChangeRecord` and their kin.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import msgpack

from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import Buffer


class RegisterBroker(NamedTuple):
    """A broker has come up, still fenced. `endpoints` are (listener, host, port) triples.

    `features` are (name, lowest, highest) level that its release knows; an earlier release wrote none.
    """

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    endpoints: tuple[tuple[str, str, int], ...]
    rack: str | None = None
    fenced: bool = True
    features: tuple[tuple[str, int, int], ...] = ()


class BrokerChange(NamedTuple):
    """A registered broker is fenced, or unfenced."""

    broker_id: int
    fenced: bool


class UnregisterBroker(NamedTuple):
    """A broker is gone for good."""

    broker_id: int


class Topic(NamedTuple):
    """A topic, before its partitions."""

    topic_id: bytes
    name: str


class Partition(NamedTuple):
    """A partition and its first state."""

    topic_id: bytes
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    recovering: bool = False
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()


class PartitionChange(NamedTuple):
    """What changes in a partition (None: stays). A given `leader` raises the leader epoch, every change the other.

    `recovering`: its leader was not in sync when it was elected, and no follower has been since. `removing` and
    `adding`: which of the replicas are to go, and which are to be in sync first (`reassignment`). `elr`, `last_known`:
    who has what was committed without being in sync, and who led last (`succession`).
    """

    topic_id: bytes
    partition: int
    isr: tuple[int, ...] | None = None
    leader: int | None = None
    replicas: tuple[int, ...] | None = None
    recovering: bool | None = None
    removing: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    elr: tuple[int, ...] | None = None
    last_known: tuple[int, ...] | None = None


class RemoveTopic(NamedTuple):
    """A topic is gone, with its partitions and settings."""

    topic_id: bytes


class Config(NamedTuple):
    """A setting of a topic (2), broker (4; the name "" for all of them) or group (32); None removes it."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


class ProducerIds(NamedTuple):
    """Producer ids below `next_producer_id` are given out (in blocks of 1000)."""

    broker_id: int
    next_producer_id: int


class FeatureLevel(NamedTuple):
    """A feature of the cluster is at this level; at 0 it is off."""

    name: str
    level: int


class Cluster(NamedTuple):
    """Whose metadata this is: the cluster's id in Kafka's text form, once and for all."""

    cluster_id: str


class NewEpoch(NamedTuple):
    """One of several controllers begins an epoch (Kafka's LeaderChange): what came before it is committed with it."""

    leader: int


MetadataRecord: TypeAlias = (
    RegisterBroker
    | BrokerChange
    | UnregisterBroker
    | Topic
    | Partition
    | PartitionChange
    | RemoveTopic
    | Config
    | ProducerIds
    | FeatureLevel
    | Cluster
    | NewEpoch
)

_KINDS: Final[dict[int, Any]] = {
    1: RegisterBroker,
    2: BrokerChange,
    3: UnregisterBroker,
    4: Topic,
    5: Partition,
    6: PartitionChange,
    7: RemoveTopic,
    8: Config,
    9: ProducerIds,
    10: FeatureLevel,
    11: Cluster,
    12: NewEpoch,
}
_NUMBERS: Final = {kind: number for number, kind in _KINDS.items()}


class UnknownRecord(BarnabasError):
    """A metadata record that a newer release wrote: this one must not touch the data."""


def encode(record: MetadataRecord) -> bytes:
    """The record's value in the log."""
    packed: bytes = msgpack.packb([_NUMBERS[type(record)], *record])
    return packed


def decode(value: Buffer) -> MetadataRecord:
    """The record of a value in the log.

    Raises:
        UnknownRecord: the kind is not known, or the value is no record.
    """
    try:
        kind, *fields = msgpack.unpackb(value, use_list=False)
        record_class = _KINDS[kind]
        known: Any = record_class(*fields[: len(record_class._fields)])
    except (KeyError, TypeError, ValueError) as fault:
        raise UnknownRecord(
            "the metadata log holds a record that this release cannot read; a newer one wrote it"
        ) from fault
    record: MetadataRecord = known
    return record
