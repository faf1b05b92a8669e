"""What is looked at of groups: their states after each turn of a coordinator, commits and offsets on the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from barnabas.broker.config.topics import OFFSETS_TOPIC
from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.group import Group
from barnabas.broker.group.kinds import AnyGroup
from barnabas.broker.group.placement import partition_of
from barnabas.broker.group.state import GroupState, Status
from barnabas.broker.node.core import Core
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.kafka import codec, consumer_protocol
from barnabas.simulator.broker import BrokerProcess
from barnabas.simulator.history import Committing, CommitTold, Event, Grouped, OffsetsAsked, OffsetsTold, Renamed
from barnabas.simulator.incarnations import Incarnations
from barnabas.simulator.world import World

REFUSED_ZOMBIES: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)


Names: TypeAlias = "dict[str | bytes, str]"
"""What topics are called in histories (`incarnations`), by their names and by their ids."""


class GroupWatch:
    """Looks at the groups of one broker, in one of its lives."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell
        self._seen: dict[str, tuple[int, AnyGroup, int, Any]] = {}
        self._told: dict[str, Grouped] = {}

    def look(self, broker: BrokerProcess, core: Core) -> None:
        """A turn is over."""
        for shard in core.groups.shards.values():
            if not shard.groups or shard.status is not Status.ACTIVE:
                continue
            for group in shard.groups.values():
                stands = shard.epoch, group, group.changes, group.state if isinstance(group, Group) else None
                if self._seen.get(group.group_id) == stands:
                    continue
                self._seen[group.group_id] = stands
                is_classic = isinstance(group, Group)
                members = tuple(_members(group, core, broker.machine.world.incarnations))
                now = Grouped(broker.name, broker.incarnation, shard.epoch, group.group_id, is_classic, members)
                before = self._told.get(group.group_id)
                if now != before:
                    self._told[group.group_id] = now
                    self._tell(now)
                    moved = before is not None and before.members != now.members
                    broker.machine.world.count("rebalances", moved and before.epoch == now.epoch)  # type: ignore[union-attr]


def _members(
    group: AnyGroup, core: Core, incarnations: Incarnations
) -> Iterator[tuple[str, int, tuple[TopicPartition, ...]]]:
    if isinstance(group, ConsumerGroup):
        for modern in group.members.values():
            current = modern.current
            has = [
                TopicPartition(incarnations.name(topic_id, core.image.topics_by_id[topic_id].name), number)
                for given in (current.assigned, current.revoking)
                for topic_id, numbers in given.items()
                for number in numbers
                if topic_id in core.image.topics_by_id
            ]
            yield modern.member_id, current.epoch, tuple(sorted(has))
        return
    for member in group.members.values():
        yield member.member_id, group.generation, _share(member.assignment) if _is_settled(group) else ()


def _is_settled(group: Group) -> bool:
    return group.state is GroupState.STABLE and group.protocol_type == "consumer"


def _share(assignment: bytes) -> tuple[TopicPartition, ...]:
    topics = consumer_protocol.decode_assignment(assignment).assigned_partitions
    return tuple(sorted(TopicPartition(each.topic, number) for each in topics for number in each.partitions))


class OffsetFrames:
    """Reads OffsetCommit and OffsetFetch off the wire."""

    KEYS: Final = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH})

    def __init__(self, world: World, tell: Callable[[Event], None], core_of: Callable[[int], Core | None]) -> None:
        """`core_of`: the core of a broker, by its id."""
        self._world = world
        self._core_of = core_of
        self._tell = tell
        self._asked: dict[tuple[str, int], tuple[int, int, Any, Names]] = {}
        self._last: dict[str, str] = {}

    def read(self, name: str, frame: bytes) -> None:
        """A broker has read a request of `KEYS`."""
        header, request = codec.decode_request(frame)
        key = name, header.correlation_id
        told = _name_of(*key)
        names = self.names(name)
        self._asked[key] = header.api_key, header.api_version, request, names
        if header.api_key == ApiKey.OFFSET_FETCH:
            for group in _groups(request):
                self._tell(OffsetsAsked(f"{told} {group}", group))
            return
        offsets = tuple(
            (_where(names, topic, part.partition_index), part.committed_offset)
            for topic in request.topics
            for part in topic.partitions
        )
        group, member, generation = request.group_id, request.member_id, request.generation_id_or_member_epoch
        self._tell(Committing(name.partition(".")[0], told, group, member, generation, offsets))

    def written(self, name: str, correlation_id: int, frame: bytes) -> bool:
        """A broker has written an answer, perhaps to one of them; whether it is to an OffsetCommit."""
        if (name, correlation_id) not in self._asked:
            return False
        known = self.names(name)
        self._tell_renamed(name, known)
        key, version, request, names = self._asked.pop((name, correlation_id))
        _, response = codec.decode_response(key, version, memoryview(frame))
        if key == ApiKey.OFFSET_FETCH:
            self._tell_offsets(name, correlation_id, request, response, names, known)
        else:
            self._tell_codes(name, correlation_id, request, response, names, known)
        return key == ApiKey.OFFSET_COMMIT

    def _tell_renamed(self, name: str, known: Names) -> None:
        """Commits that a broker has not answered are of what their names mean once it handles them, as in Kafka."""
        broker = name.partition(".")[0]
        for (connection, correlation_id), (key, _, request, names) in self._asked.items():
            if key != ApiKey.OFFSET_COMMIT or connection.partition(".")[0] != broker:
                continue
            offsets = tuple(
                (_where(known, topic, part.partition_index), part.committed_offset)
                for topic in request.topics
                if topic.name in known and known[topic.name] != names.get(topic.name)
                for part in topic.partitions
            )
            if offsets:
                self._tell(Renamed(_name_of(connection, correlation_id), offsets))

    def _tell_codes(
        self, name: str, correlation_id: int, request: Any, response: Any, names: Names, known: Names
    ) -> None:
        codes = tuple(
            (_where(names, topic, part.partition_index), part.error_code)
            for topic in response.topics
            if not topic.name or known.get(topic.name) == names.get(topic.name)
            for part in topic.partitions
        )
        broker, group = name.partition(".")[0], request.group_id
        for code in {code: None for _, code in codes}:
            if code == 0:
                self._world.count("commits", 1)
                self._world.count("coordinators that move", self._last.get(group, broker) != broker)
                self._last[group] = broker
            elif code in REFUSED_ZOMBIES:
                self._world.count("zombies refused")
            elif code == ErrorCode.NOT_COORDINATOR:
                self._world.count("commits whose coordinator moves")
            elif code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                self._world.count("commits while the coordinator loads")
        self._tell(CommitTold(broker, _name_of(name, correlation_id), self._epoch(name, group), codes))

    def _tell_offsets(
        self, name: str, correlation_id: int, request: Any, response: Any, names: Names, known: Names
    ) -> None:
        """What is told of a name that its broker knows no topic of, or another one by now, is of no topic."""
        told = _name_of(name, correlation_id)
        groups = response.groups or [response]
        for group, answer in zip(_groups(request), groups, strict=True):
            offsets = tuple(
                (_where(names, topic, part.partition_index), part.committed_offset)
                for topic in answer.topics
                for part in topic.partitions
                if part.error_code == 0 == answer.error_code
                and (called := known.get(topic.name or topic.topic_id)) is not None
                and called == names.get(topic.name or topic.topic_id)
            )
            self._tell(OffsetsTold(f"{told} {group}", self._epoch(name, group), offsets))

    def core(self, name: str) -> Core | None:
        """The core of the broker that has a connection of that name."""
        return self._core_of(int(name.partition(".")[0].removeprefix("broker")))

    def names(self, name: str) -> Names:
        """The topics that a broker knows, by name and by id: later versions have ids for names."""
        core = self.core(name)
        assert core is not None
        named = self._world.incarnations.name
        found: Names = {}
        for topic_id, topic in core.image.topics_by_id.items():
            found[topic.name] = found[topic_id] = named(topic_id, topic.name)
        return found

    def _epoch(self, name: str, group: str) -> int:
        """The leader epoch of the group's coordinator, if the broker is that."""
        core = self.core(name)
        assert core is not None
        topic = core.image.topics.get(OFFSETS_TOPIC)
        shard = None if topic is None else core.groups.shards.get(partition_of(group, len(topic.partitions)))
        return -1 if shard is None else shard.epoch


def _where(names: Names, topic: Any, number: int) -> TopicPartition:
    """A partition as a request or an answer names it; of a topic that its broker does not know, one of no topic."""
    told = topic.name or topic.topic_id
    return TopicPartition(names.get(told, f"{topic.name}?" if topic.name else topic.topic_id.hex()), number)


def _name_of(connection: str, correlation_id: int) -> str:
    return f"{connection}/{correlation_id}"


def _groups(request: Any) -> list[str]:
    return [each.group_id for each in request.groups] or [request.group_id]
