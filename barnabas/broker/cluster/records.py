"""The metadata records: everything that outlives a request and is no message of a user.

A record is one msgpack array, `[kind, field, field, ...]`, as the value of a record in an ordinary v2 batch of the log
`__cluster_metadata-0` (a small batch is one operation and is applied whole or not at all). Positions never change
their meaning: a later release appends fields, with defaults, and ignores what it does not know at the end. Kinds are
numbers of ours; the contents follow Kafka's `TopicRecord`, `PartitionRecord`, `PartitionChangeRecord` and their kin.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

import msgpack

from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import Buffer


@dataclass(slots=True, frozen=True)
class RegisterBroker:
    """A broker has come up, still fenced. `endpoints` are (listener, host, port) triples."""

    KIND: ClassVar[int] = 1
    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    endpoints: tuple[tuple[str, str, int], ...]
    rack: str | None = None
    fenced: bool = True


@dataclass(slots=True, frozen=True)
class BrokerChange:
    """A registered broker is fenced, or unfenced."""

    KIND: ClassVar[int] = 2
    broker_id: int
    fenced: bool


@dataclass(slots=True, frozen=True)
class UnregisterBroker:
    """A broker is gone for good."""

    KIND: ClassVar[int] = 3
    broker_id: int


@dataclass(slots=True, frozen=True)
class Topic:
    """A topic, before its partitions."""

    KIND: ClassVar[int] = 4
    topic_id: bytes
    name: str


@dataclass(slots=True, frozen=True)
class Partition:
    """A partition and its first state."""

    KIND: ClassVar[int] = 5
    topic_id: bytes
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0


@dataclass(slots=True, frozen=True)
class PartitionChange:
    """What changes in a partition (None: stays). A given `leader` raises the leader epoch, every change the other."""

    KIND: ClassVar[int] = 6
    topic_id: bytes
    partition: int
    isr: tuple[int, ...] | None = None
    leader: int | None = None
    replicas: tuple[int, ...] | None = None


@dataclass(slots=True, frozen=True)
class RemoveTopic:
    """A topic is gone, with its partitions and settings."""

    KIND: ClassVar[int] = 7
    topic_id: bytes


@dataclass(slots=True, frozen=True)
class Config:
    """A setting of a resource (`TOPIC` 2 or `BROKER` 4; broker name "" is the cluster's default); None removes it."""

    KIND: ClassVar[int] = 8
    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(slots=True, frozen=True)
class ProducerIds:
    """Producer ids below `next_producer_id` are given out (in blocks of 1000)."""

    KIND: ClassVar[int] = 9
    broker_id: int
    next_producer_id: int


@dataclass(slots=True, frozen=True)
class FeatureLevel:
    """A feature of the cluster is at this level."""

    KIND: ClassVar[int] = 10
    name: str
    level: int


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
)

_KINDS: Final[dict[int, type]] = {
    kind.KIND: kind
    for kind in (
        RegisterBroker,
        BrokerChange,
        UnregisterBroker,
        Topic,
        Partition,
        PartitionChange,
        RemoveTopic,
        Config,
        ProducerIds,
        FeatureLevel,
    )
}
_NAMES: Final = {kind: [field.name for field in dataclasses.fields(kind)] for kind in _KINDS.values()}


class UnknownRecord(BarnabasError):
    """A metadata record that a newer release wrote: this one must not touch the data."""


def encode(record: MetadataRecord) -> bytes:
    """The record's value in the log."""
    fields = [record.KIND, *(getattr(record, name) for name in _NAMES[type(record)])]
    packed: bytes = msgpack.packb(fields)
    return packed


def decode(value: Buffer) -> MetadataRecord:
    """The record of a value in the log.

    Raises:
        UnknownRecord: the kind is not known, or the value is no record.
    """
    try:
        kind, *fields = msgpack.unpackb(value, use_list=False)
        record_class = _KINDS[kind]
        known: Any = record_class(*fields[: len(_NAMES[record_class])])
    except (KeyError, TypeError, ValueError) as fault:
        raise UnknownRecord(
            "the metadata log holds a record that this release cannot read; a newer one wrote it"
        ) from fault
    record: MetadataRecord = known
    return record
