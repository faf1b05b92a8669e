"""What the metadata log adds up to: brokers, topics by name and id, partitions, settings. Changed by records alone.

`image.apply(records)` returns the `Delta`: what is different now, for those who act on it. What hangs on the image
(`PartitionState`, `BrokerState`, settings) is never changed, only replaced. An image is the replica room's
`ClusterView`.

Images share topics: a copy of one with 10,000 would be 20 ms of work, and there is one for each change that is refused.
A topic belongs to the image that made it, which may change it; any other copies it first.

Long because every kind of record is here: what it changes, and how it is told again.

Records of a topic that is not there are passed over: its own record was given up by a repair (see `repair`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from barnabas.broker.cluster.records import (
    BrokerChange,
    Cluster,
    Config,
    FeatureLevel,
    MetadataRecord,
    NewEpoch,
    Partition,
    PartitionChange,
    ProducerIds,
    RegisterBroker,
    RemoveTopic,
    Topic,
    UnregisterBroker,
)
from barnabas.broker.cluster.settings_room import bytes_of, entry_bytes, owner_bytes
from barnabas.protocol.ids import TopicPartition

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
GROUP_RESOURCE: Final = 32


@dataclass(slots=True, frozen=True)
class BrokerState:
    """A registered broker. `endpoints` are (listener, host, port) triples, `features` (name, lowest, highest) level."""

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    endpoints: tuple[tuple[str, str, int], ...]
    rack: str | None
    fenced: bool
    features: tuple[tuple[str, int, int], ...] = ()

    def endpoint(self, listener: str) -> tuple[str, int] | None:
        """Host and port of a listener, or None when this broker has none of that name."""
        for name, host, port in self.endpoints:
            if name == listener:
                return host, port
        return None


@dataclass(slots=True, frozen=True)
class PartitionState:
    """A partition: who leads, how often that and the rest changed, where it is to be, and who is in sync.

    `recovering`: its leader was elected without having been in sync, and what was acknowledged may be lost. While it is
    reassigned, `replicas` has all that it is to have and, behind them, those `removing`; `adding` were none before.
    `elr`: who left the ISR when that fell below its minimum, and so has all that was committed. `last_known`: who led
    last, while nobody is in sync (`succession`).
    """

    topic_id: bytes
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    recovering: bool = False
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether it is being reassigned."""
        return bool(self.removing or self.adding)


@dataclass(slots=True)
class TopicState:
    """A topic and its partitions by number (0 to n - 1, in order); `keys` has their names, made once.

    `owner`: what the image has that may change it.
    """

    name: str
    topic_id: bytes
    partitions: dict[int, PartitionState] = field(default_factory=dict)
    keys: dict[int, TopicPartition] = field(default_factory=dict)
    owner: object = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Delta:
    """What `apply` changed: partitions that are new or different, partitions of deleted topics, settings, brokers."""

    partitions: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    removed: dict[TopicPartition, bytes] = field(default_factory=dict)
    topic_configs: dict[str, None] = field(default_factory=dict)
    broker_configs: bool = False
    brokers: bool = False


class Image:
    """The cluster's state. Read its fields freely; only `apply` writes them."""

    __slots__ = (
        "_owner",
        "brokers",
        "cluster_id",
        "configs",
        "features",
        "next_producer_id",
        "settings_bytes",
        "topics",
        "topics_by_id",
    )

    def __init__(self) -> None:
        self.cluster_id = ""
        self.brokers: dict[int, BrokerState] = {}
        self.topics: dict[str, TopicState] = {}
        self.topics_by_id: dict[bytes, TopicState] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.settings_bytes = 0
        """What the settings take in memory (`settings_room`)."""
        self.features: dict[str, int] = {}
        """Levels above 0: what is off is not there."""
        self.next_producer_id = 0
        self._owner = object()

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        """A partition by name, or None when there is none."""
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(partition)

    def topic_overrides(self, topic: str) -> dict[str, str]:
        """The settings given to a topic itself."""
        return self.configs.get((TOPIC_RESOURCE, topic), {})

    def group_overrides(self, group_id: str) -> dict[str, str]:
        """The settings given to a group itself, which need not exist."""
        return self.configs.get((GROUP_RESOURCE, group_id), {})

    def contains(self, partition: TopicPartition) -> bool:
        """Whether there is such a partition."""
        return self.partition(partition.topic, partition.partition) is not None

    def is_alive(self, broker_id: int) -> bool:
        """Whether the broker is registered and not fenced."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def broker_epoch(self, broker_id: int) -> int:
        """In which of its lives the broker is registered; -1 while it is not."""
        broker = self.brokers.get(broker_id)
        return -1 if broker is None else broker.broker_epoch

    def rack(self, broker_id: int, listener: str) -> str | None:
        """Where a broker stands that is alive and has that listener."""
        broker = self.brokers.get(broker_id)
        return None if broker is None or broker.fenced or broker.endpoint(listener) is None else broker.rack

    def isr_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether the broker may be in an ISR; epoch -1 fits any."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced and broker_epoch in (-1, broker.broker_epoch)

    def alive_brokers(self) -> list[BrokerState]:
        """Brokers that are not fenced, by id."""
        return [broker for _, broker in sorted(self.brokers.items()) if not broker.fenced]

    def apply(self, records: Iterable[MetadataRecord], delta: Delta | None = None) -> Delta:
        """Take in records, in order; a delta that is given is gone on with."""
        delta = Delta() if delta is None else delta
        for record in records:
            _APPLY[type(record)](self, record, delta)
        return delta

    def borrow(self, other: Image, topic_id: bytes) -> None:
        """Take a topic and its settings over from another image, to change it here on the side (see `take`).

        Nothing happens if it is here already, or is not there: a topic still to come.
        """
        topic = other.topics_by_id.get(topic_id)
        if topic is not None and topic_id not in self.topics_by_id:
            self.topics[topic.name] = self.topics_by_id[topic_id] = topic
            self._set_settings(topic.name, other.topic_overrides(topic.name))

    def become(self, side: Image) -> None:
        """Be what another image is, at once; that one is not to be used any more."""
        for name in self.__slots__:
            setattr(self, name, getattr(side, name))

    def take(self, side: Image) -> None:
        """Put topics that were made or changed on the side in force, with their settings, at once.

        That one is not to be changed any more.
        """
        self.topics.update(side.topics)
        self.topics_by_id.update(side.topics_by_id)
        for name in side.topics:
            settings = side.topic_overrides(name)
            if settings or (TOPIC_RESOURCE, name) in self.configs:
                self._set_settings(name, settings)

    def _set_settings(self, topic: str, settings: dict[str, str]) -> None:
        """Let a topic have these settings and no others."""
        self.settings_bytes += bytes_of(settings) - bytes_of(self.topic_overrides(topic))
        if settings:
            self.configs[TOPIC_RESOURCE, topic] = settings
        else:
            self.configs.pop((TOPIC_RESOURCE, topic), None)

    def own(self, topic_id: bytes) -> TopicState | None:
        """A topic that is to be changed; of one that another image may have too, a copy takes its place here."""
        topic = self.topics_by_id.get(topic_id)
        if topic is not None and topic.owner is not self._owner:
            topic = TopicState(topic.name, topic_id, dict(topic.partitions), dict(topic.keys), self._owner)
            self.topics[topic.name] = self.topics_by_id[topic_id] = topic
        return topic

    def add(self, name: str, topic_id: bytes) -> None:
        """A new topic, without partitions yet."""
        self.topics[name] = self.topics_by_id[topic_id] = TopicState(name, topic_id, owner=self._owner)

    def sketch(self) -> Image:
        """The same brokers and topics; further topics may be noted down, what is there must not be changed."""
        other = Image()
        other.brokers = self.brokers
        other.topics = dict(self.topics)
        return other

    def copy(self) -> Image:
        """An image of its own with the same content (what hangs on it is shared until one of both changes it)."""
        other = Image()
        other.cluster_id = self.cluster_id
        other.brokers = dict(self.brokers)
        other.topics = dict(self.topics)
        other.topics_by_id = dict(self.topics_by_id)
        other.configs = dict(self.configs)
        other.settings_bytes = self.settings_bytes
        other.features = dict(self.features)
        other.next_producer_id = self.next_producer_id
        self._owner = object()  # no topic that there is belongs to either from now on
        return other

    def to_records(self) -> Iterator[MetadataRecord]:
        """The shortest list of records that adds up to this image (a snapshot)."""
        if self.cluster_id:
            yield Cluster(self.cluster_id)
        for name, level in sorted(self.features.items()):
            yield FeatureLevel(name, level)
        for _, broker in sorted(self.brokers.items()):
            yield RegisterBroker(
                broker.broker_id,
                broker.broker_epoch,
                broker.incarnation_id,
                broker.endpoints,
                broker.rack,
                broker.fenced,
                broker.features,
            )
        for topic in self.topics.values():
            yield Topic(topic.topic_id, topic.name)
            for partition, state in topic.partitions.items():
                yield Partition(
                    topic.topic_id,
                    partition,
                    state.replicas,
                    state.isr,
                    state.leader,
                    state.leader_epoch,
                    state.partition_epoch,
                    state.recovering,
                    state.removing,
                    state.adding,
                    state.elr,
                    state.last_known,
                )
        # As they came: to sort those of 50,000 groups would be a step.
        for (kind, resource), settings in self.configs.items():
            for name, value in sorted(settings.items()):
                yield Config(kind, resource, name, value)
        if self.next_producer_id:
            yield ProducerIds(-1, self.next_producer_id)


def _register(image: Image, record: RegisterBroker, delta: Delta) -> None:
    image.brokers[record.broker_id] = BrokerState(
        record.broker_id,
        record.broker_epoch,
        record.incarnation_id,
        tuple(tuple(endpoint) for endpoint in record.endpoints),  # type: ignore[misc]
        record.rack,
        record.fenced,
        tuple(tuple(span) for span in record.features),  # type: ignore[misc]
    )
    delta.brokers = True


def _change_broker(image: Image, record: BrokerChange, delta: Delta) -> None:
    broker = image.brokers.get(record.broker_id)
    if broker is not None:
        image.brokers[record.broker_id] = replace(broker, fenced=record.fenced)
        delta.brokers = True


def _unregister(image: Image, record: UnregisterBroker, delta: Delta) -> None:
    delta.brokers |= image.brokers.pop(record.broker_id, None) is not None


def _topic(image: Image, record: Topic, delta: Delta) -> None:
    image.add(record.name, record.topic_id)


def _partition(image: Image, record: Partition, delta: Delta) -> None:
    topic = image.own(record.topic_id)
    if topic is None:
        return
    state = PartitionState(
        record.topic_id,
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        tuple(record.replicas),
        tuple(record.isr),
        record.recovering,
        tuple(record.removing),
        tuple(record.adding),
        tuple(record.elr),
        tuple(record.last_known),
    )
    topic.partitions[record.partition] = state
    key = topic.keys[record.partition] = TopicPartition(topic.name, record.partition)
    delta.partitions[key] = state


def _change_partition(image: Image, record: PartitionChange, delta: Delta) -> None:
    topic = image.own(record.topic_id)
    old = None if topic is None else topic.partitions.get(record.partition)
    if topic is None or old is None:
        return
    state = PartitionState(
        old.topic_id,
        old.leader if record.leader is None else record.leader,
        old.leader_epoch if record.leader is None else old.leader_epoch + 1,
        old.partition_epoch + 1,
        old.replicas if record.replicas is None else tuple(record.replicas),
        old.isr if record.isr is None else tuple(record.isr),
        old.recovering if record.recovering is None else record.recovering,
        old.removing if record.removing is None else tuple(record.removing),
        old.adding if record.adding is None else tuple(record.adding),
        old.elr if record.elr is None else tuple(record.elr),
        old.last_known if record.last_known is None else tuple(record.last_known),
    )
    topic.partitions[record.partition] = state
    delta.partitions[topic.keys[record.partition]] = state


def _remove_topic(image: Image, record: RemoveTopic, delta: Delta) -> None:
    topic = image.topics_by_id.pop(record.topic_id, None)
    if topic is None:
        return
    del image.topics[topic.name]
    image.settings_bytes -= bytes_of(image.configs.pop((TOPIC_RESOURCE, topic.name), {}))
    delta.topic_configs.pop(topic.name, None)
    if delta.partitions:
        for key in topic.keys.values():
            delta.partitions.pop(key, None)
    delta.removed.update(dict.fromkeys(topic.keys.values(), record.topic_id))


def _config(image: Image, record: Config, delta: Delta) -> None:
    key = (record.resource_type, record.resource_name)
    before = image.configs.get(key, {})
    settings = dict(before)
    image.settings_bytes -= entry_bytes(record.name, before.get(record.name))
    if record.value is None:
        settings.pop(record.name, None)
    else:
        settings[record.name] = record.value
        image.settings_bytes += entry_bytes(record.name, record.value)
    if settings:
        image.configs[key] = settings
    else:
        image.configs.pop(key, None)
    if record.resource_type == GROUP_RESOURCE:
        image.settings_bytes += (bool(settings) - bool(before)) * owner_bytes(record.resource_name)
    if record.resource_type == TOPIC_RESOURCE:
        delta.topic_configs[record.resource_name] = None
    elif record.resource_type == BROKER_RESOURCE:
        delta.broker_configs = True


def _producer_ids(image: Image, record: ProducerIds, delta: Delta) -> None:
    image.next_producer_id = max(image.next_producer_id, record.next_producer_id)


def _feature(image: Image, record: FeatureLevel, delta: Delta) -> None:
    if record.level:
        image.features[record.name] = record.level
    else:
        image.features.pop(record.name, None)


def _cluster(image: Image, record: Cluster, delta: Delta) -> None:
    image.cluster_id = record.cluster_id


def _new_epoch(image: Image, record: NewEpoch, delta: Delta) -> None:
    pass


_APPLY: Final[dict[type, Callable[[Image, Any, Delta], None]]] = {
    RegisterBroker: _register,
    BrokerChange: _change_broker,
    UnregisterBroker: _unregister,
    Topic: _topic,
    Partition: _partition,
    PartitionChange: _change_partition,
    RemoveTopic: _remove_topic,
    Config: _config,
    ProducerIds: _producer_ids,
    FeatureLevel: _feature,
    Cluster: _cluster,
    NewEpoch: _new_epoch,
}
