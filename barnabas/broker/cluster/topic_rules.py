"""What may be created, grown and deleted: pure decisions over an image (`ReplicationControlManager` of Apache Kafka).

Each answers with the records to append and one result per topic. The order of the checks is Kafka's: name, collision,
existence, settings, counts, placement. What may concern many partitions is a job of bounded steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from barnabas.broker.cluster.image import TOPIC_RESOURCE, Image, TopicState
from barnabas.broker.cluster.placement import Placement
from barnabas.broker.cluster.records import Config, MetadataRecord, Partition, RemoveTopic, Topic
from barnabas.broker.config.topics import OFFSETS_TOPIC, PARTITIONS_PER_OPERATION_MAX, TOPIC_NAME_LENGTH_MAX
from barnabas.broker.jobs import Job
from barnabas.broker.log.names import NAME_BYTES_MAX
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID

PARTITIONS_PER_STEP: Final = 250
"""A step of about one ms, whatever is done with them."""

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(slots=True, frozen=True)
class NewTopic:
    """A topic to create. Counts are -1 for the broker's default; `assignments` gives the replicas of each partition."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    settings: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class TopicResult:
    """What became of one topic. `error` is None when it went well."""

    name: str
    topic_id: bytes = ZERO_UUID
    error: KafkaError | None = None
    partitions: int = -1
    replication_factor: int = -1


Rules = Callable[[Mapping[str, str]], object]
"""Checks a topic's settings; raises KafkaError(INVALID_CONFIG)."""


def check_topic_name(name: str) -> None:
    """Refuse names that Kafka refuses.

    Raises:
        KafkaError: INVALID_TOPIC_EXCEPTION.
    """
    problem = None
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        problem = f"the length of '{name}' is longer than the max allowed length {TOPIC_NAME_LENGTH_MAX}"
    elif not _LEGAL.fullmatch(name):
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


class Taken:
    """The names of one request's new topics must not collide with: each is looked at once, however many are asked for.

    Nothing is done before a name with `.` or `_` asks.
    """

    def __init__(self, topics: Mapping[str, object]) -> None:
        self._topics = topics
        self._folded: dict[str, str] | None = None

    def check_collision(self, name: str) -> None:
        """Refuse a name that differs from an existing one in `.` and `_` alone (their metrics would be the same).

        Raises:
            KafkaError: INVALID_TOPIC_EXCEPTION.
        """
        if "." not in name and "_" not in name:
            return
        if self._folded is None:
            self._folded = {other.replace(".", "_"): other for other in self._topics if "." in other or "_" in other}
        other = self._folded.get(name.replace(".", "_"), name)
        if other != name:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")

    def add(self, name: str) -> None:
        """A topic that the same request makes."""
        if self._folded is not None:
            self._folded[name.replace(".", "_")] = name


def first_state(image: Image, topic_id: bytes, partition: int, replicas: Sequence[int]) -> Partition:
    """A new partition: in sync are the replicas whose brokers are unfenced, the first of them leads.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT (none of them is).
    """
    isr = tuple(one for one in replicas if not image.brokers[one].fenced)
    if not isr:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in "
            "controlled shutdown.",
        )
    return Partition(topic_id, partition, tuple(replicas), isr, isr[0])


def check_replicas(image: Image, replicas: Sequence[int], factor: int | None) -> None:
    """Refuse replicas that no partition can have; `factor`: how many there must be, None for any number.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT.
    """
    in_order = sorted(replicas)
    stranger = next((one for one in in_order if one not in image.brokers), None)
    twice = next((one for one, other in pairwise(in_order) if one == other), None)
    if not replicas:
        problem = "an empty replica list."
    elif stranger is not None and (twice is None or stranger <= twice):
        problem = f"broker {stranger}, but no such broker is registered."
    elif twice is not None:
        problem = f"the broker {twice} more than once."
    elif factor is not None and len(replicas) != factor:
        problem = (
            f"a partition with {len(replicas)} replica(s), but this is not consistent with previous partitions, which "
            f"have {factor} replica(s)."
        )
    else:
        return
    raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {problem}")


def _assigned(image: Image, topic: NewTopic) -> Job[list[tuple[int, ...]]]:
    if topic.replication_factor != -1 or topic.partitions != -1:
        which = "replication factor" if topic.replication_factor != -1 else "number of partitions"
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"A manual partition assignment was specified, but {which} was not set to -1.",
        )
    if sorted(topic.assignments) != list(range(len(topic.assignments))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    chosen: list[tuple[int, ...]] = []
    for partition in range(len(topic.assignments)):
        replicas = tuple(topic.assignments[partition])
        check_replicas(image, replicas, len(chosen[-1]) if chosen else None)
        chosen.append(replicas)
        if len(chosen) % PARTITIONS_PER_STEP == 0:
            yield None
    return chosen


def _placed(
    image: Image, topic: NewTopic, default_partitions: int, default_factor: int, below: Callable[[int], int]
) -> Job[list[tuple[int, ...]]]:
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.partitions < -1 or topic.partitions == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    count = default_partitions if topic.partitions == -1 else topic.partitions
    factor = default_factor if topic.replication_factor == -1 else topic.replication_factor
    return (yield from _place(Placement(image, below), factor, count))


def _place(placement: Placement, factor: int, count: int) -> Job[list[tuple[int, ...]]]:
    chosen = [placement.replicas(factor)]
    while len(chosen) < count:
        chosen += [placement.replicas(factor) for _ in range(min(PARTITIONS_PER_STEP, count - len(chosen)))]
        yield None
    return chosen


def _first_states(
    image: Image, topic_id: bytes, first: int, chosen: Sequence[Sequence[int]]
) -> Job[list[MetadataRecord]]:
    """New partitions from number `first` on."""
    records: list[MetadataRecord] = []
    for partition, replicas in enumerate(chosen, first):
        records.append(first_state(image, topic_id, partition, replicas))
        if len(records) % PARTITIONS_PER_STEP == 0:
            yield None
    return records


def partitions_of(topic: NewTopic, default_partitions: int) -> int:
    """How many partitions a request asks for (0 or less when it is wrong)."""
    return len(topic.assignments) or (default_partitions if topic.partitions == -1 else topic.partitions)


def create_topic(
    image: Image,
    topic: NewTopic,
    topic_id: bytes,
    *,
    taken: Taken,
    defaults: tuple[int, int],
    below: Callable[[int], int],
    check_settings: Rules,
) -> Job[tuple[list[MetadataRecord], TopicResult]]:
    """The records that create a topic; `defaults` are the broker's partitions and replication factor.

    `taken` knows the names there are.

    Raises:
        KafkaError: why it cannot be created.
    """
    check_topic_name(topic.name)
    taken.check_collision(topic.name)
    if topic.name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    settings = {name: value for name, value in topic.settings.items() if value is not None}
    if len(settings) < len(topic.settings):
        nulls = ", ".join(name for name, value in topic.settings.items() if value is None)
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {nulls}")
    if topic.name == OFFSETS_TOPIC:  # Apache Kafka's has the broker's policy where a client makes it: commits grow old
        settings.setdefault("cleanup.policy", "compact")
    check_settings(settings)
    chosen = yield from (_assigned(image, topic) if topic.assignments else _placed(image, topic, *defaults, below))
    records: list[MetadataRecord] = [Topic(topic_id, topic.name)]
    records += [Config(TOPIC_RESOURCE, topic.name, name, value) for name, value in sorted(settings.items())]
    records += yield from _first_states(image, topic_id, 0, chosen)
    return records, TopicResult(topic.name, topic_id, None, len(chosen), len(chosen[0]))


def add_partitions(
    image: Image, name: str, count: int, assignments: Sequence[Sequence[int]] | None, below: Callable[[int], int]
) -> Job[list[MetadataRecord]]:
    """The records that bring a topic to `count` partitions.

    Raises:
        KafkaError: why it cannot grow so.
    """
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    have = len(topic.partitions)
    if count <= have:
        detail = (
            f"Topic already has {have} partition(s)."
            if count == have
            else f"The topic {name} currently has {have} partition(s); {count} would not be an increase."
        )
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, detail)
    if name == OFFSETS_TOPIC:  # Apache Kafka lets it grow, and most groups have lost their offsets at the next start
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"{name} has {have} partition(s) for good: which one a group belongs to goes by their number, so with "
            f"{count} nearly every group would be without its offsets. Other topics can grow.",
        )
    if len(f"{name}-{count - 1}".encode()) > NAME_BYTES_MAX:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The directory of partition {count - 1} would have a name of more than {NAME_BYTES_MAX} bytes, which no "
            f"file system takes; ask for fewer partitions, or use a topic whose name is shorter than {len(name)}.",
        )
    if count - have > PARTITIONS_PER_OPERATION_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    factor = len(topic.partitions[0].replicas)
    if assignments is None:
        chosen: Sequence[Sequence[int]] = yield from _place(Placement(image, below), factor, count - have)
    else:
        if len(assignments) != count - have:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {count - have} additional partition(s), but only {len(assignments)} assignment(s) "
                "were specified.",
            )
        for number, replicas in enumerate(assignments, 1):
            check_replicas(image, replicas, factor)
            if number % PARTITIONS_PER_STEP == 0:
                yield None
        chosen = assignments
    return (yield from _first_states(image, topic.topic_id, have, chosen))


def find_topic(image: Image, name: str | None, topic_id: bytes) -> TopicState:
    """A topic by name, or by id when the name is None.

    Raises:
        KafkaError: UNKNOWN_TOPIC_OR_PARTITION for a name, UNKNOWN_TOPIC_ID for an id.
    """
    topic = image.topics_by_id.get(topic_id) if name is None else image.topics.get(name)
    if topic is None:
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return topic


def remove_topic(topic: TopicState) -> list[MetadataRecord]:
    """The records that delete a topic."""
    return [RemoveTopic(topic.topic_id)]
