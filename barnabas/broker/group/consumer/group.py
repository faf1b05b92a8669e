"""One group of the consumer protocol. Source: `ConsumerGroup` and `ModernGroup` of Apache Kafka.

All of it is in the log, and is changed by `adopt` alone, record by record; whatever else stands here (who owns a
partition, how often a topic is wanted) is counted along. Alarms and memory are `replaying`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, TypeVar

from barnabas.broker.group.alarms import Alarm
from barnabas.broker.group.consumer.values import (
    Assignment,
    Classic,
    ConsumerRecord,
    Current,
    CurrentRecord,
    EpochRecord,
    Given,
    MemberRecord,
    MemberState,
    PatternRecord,
    Resolved,
    Subscription,
    TargetEpochRecord,
    TargetRecord,
)
from barnabas.broker.group.values import CommittedOffset
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition

FIRST_EPOCH: Final = 1
"""Of a group that nobody has joined yet (Apache Kafka 4.3); its first subscription makes it 2."""
NOTHING: Final[Assignment] = {}
SAID_NOTHING: Final = Subscription()
_HAS_NOTHING, _STABLE = Current(), MemberState.STABLE
_Key = TypeVar("_Key", str, tuple[str, ...])


class ConsumerState(Enum):
    """The state of a group; it follows from its epochs and members. The value is Kafka's name for it."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerMember:
    """One member: what it said, what it has, and what rings for it. `join` and `sync` are a classic member's.

    `session` rings at `session_until_ms`, or earlier. It takes `size` bytes, what it said `said_size` (-1: not known).
    """

    __slots__ = (
        "address",
        "current",
        "join",
        "member_id",
        "rebalance",
        "said_size",
        "session",
        "session_until_ms",
        "size",
        "subscription",
        "sync",
    )

    def __init__(
        self, member_id: str, subscription: Subscription = SAID_NOTHING, current: Current = _HAS_NOTHING
    ) -> None:
        self.member_id = member_id
        self.subscription = subscription
        self.current = current
        self.session: Alarm | None = None
        self.rebalance: Alarm | None = None
        self.join: Alarm | None = None
        self.sync: Alarm | None = None
        self.address = ""
        self.size = self.session_until_ms = 0
        self.said_size = -1

    @property
    def classic(self) -> Classic | None:
        """What it said as a member that speaks the classic protocol, if it does."""
        return self.subscription.classic


class ConsumerGroup:
    """A group of the consumer protocol. `checked` is the version of the metadata that its hash was last held to."""

    __slots__ = (
        "address",
        "assigning",
        "assignors",
        "changes",
        "checked",
        "classic_protocols",
        "classics",
        "downgrading",
        "epoch",
        "group_id",
        "lists",
        "members",
        "metadata_hash",
        "names",
        "offsets",
        "owners",
        "pattern_bytes",
        "patterns",
        "resolve_from_ms",
        "resolved",
        "resolving",
        "same",
        "static",
        "target_at_ms",
        "target_epoch",
        "targets",
        "tried_at_ms",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = self.target_epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_at_ms = 0
        self.tried_at_ms = 0
        """When a target was computed last, written or not (time of day)."""
        self.members: dict[str, ConsumerMember] = {}
        self.static: dict[str, str] = {}
        """Instance id to member id."""
        self.targets: dict[str, Assignment] = {}
        self.owners: dict[bytes, dict[int, str]] = {}
        """Who has a partition, or has still to give it up: by topic id and partition."""
        self.assignors: dict[str, int] = {}
        """How many members ask for an assignor."""
        self.names: dict[str, int] = {}
        """How many lists, and patterns, mean a topic."""
        self.lists: dict[tuple[str, ...], int] = {}
        """How many members name exactly these topics."""
        self.same: dict[tuple[str, ...], tuple[str, ...]] = {}
        """The one object of each list, which all have who name it: a list may be long, and have many members."""
        self.patterns: dict[str, int] = {}
        """How many members have a pattern."""
        self.resolved: dict[str, Resolved] = {}
        self.resolving = False
        self.assigning = False
        """Whether a target is being computed as a job."""
        self.resolve_from_ms = 0
        """Not before this time of day again, after what was found could not be written."""
        self.pattern_bytes = 0
        """What the patterns and their topics take."""
        self.classics = 0
        """How many members speak the classic protocol."""
        self.classic_protocols: dict[str, int] = {}
        """How many of them know one of its protocols."""
        self.offsets: dict[TopicPartition, CommittedOffset] = {}
        self.address = ""
        """Who brought it, of whose share its own bytes and its offsets are."""
        self.checked = -1
        self.changes = 0
        """How many records it has adopted."""
        self.downgrading = False
        """Whether it is about to become a classic group."""

    # Looking

    @property
    def state(self) -> ConsumerState:
        """How far it has come; looks at every member."""
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        for member in self.members.values():
            if not is_reconciled(member.current, self.target_epoch):
                return ConsumerState.RECONCILING
        return ConsumerState.STABLE

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    def consumes(self, topic: str) -> bool:
        """Whether a member wants that topic."""
        return topic in self.names

    def member(self, member_id: str) -> ConsumerMember:
        """A member.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID.
        """
        member = self.members.get(member_id)
        if member is None:
            detail = f"Member {member_id} is not a member of group {self.group_id}."
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, detail)
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member that has that instance id."""
        return None if instance_id is None else self.members.get(self.static.get(instance_id, ""))

    def wanted(self, subscription: Subscription) -> frozenset[str]:
        """All topics that a member wants, by name and by what its pattern has matched so far."""
        found = self.resolved.get(subscription.pattern)
        if found is None:
            return frozenset(subscription.topics)
        return found.topics.union(subscription.topics) if subscription.topics else found.topics

    def is_free(self, topic_id: bytes, partition: int, *but: str) -> bool:
        """Whether nobody has that partition, other than the members named."""
        owner = self.owners.get(topic_id, {}).get(partition)
        return owner is None or owner in but

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether partitions that it is to have are still with others."""
        if member.current.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        assigned = member.current.assigned
        return any(
            number not in assigned.get(topic_id, ()) and not self.is_free(topic_id, number, member.member_id)
            for topic_id, numbers in self.targets.get(member.member_id, NOTHING).items()
            for number in numbers
        )

    def preferred_assignor(self, before: Subscription, after: Subscription, known: Sequence[str]) -> str:
        """What most members ask for, once one of them says something else; of equals the one asked for first.

        Only those of `group.consumer.assignors` count, else the first of these: a member may have come when there were
        others, and Apache Kafka answers all of its group with an error from then on.
        """
        counts = dict(self.assignors)
        if before.assignor is not None:
            counts[before.assignor] = counts.get(before.assignor, 1) - 1
        if after.assignor is not None:
            counts[after.assignor] = counts.get(after.assignor, 0) + 1
        asked = (name for name, count in counts.items() if count and name in known)
        return max(asked, key=counts.__getitem__, default=known[0])

    def topics_after(self, before: Iterable[Subscription], after: Iterable[Subscription]) -> frozenset[str] | None:
        """What all members want once some have said something else, have come, or are gone; None if that is as before.

        Nearly always it is, and the names of others are not gone through then; nor are those of a list that others
        name as well, however many members leave it.
        """
        lists: dict[int, tuple[tuple[str, ...], int]] = {}
        patterns: dict[str, int] = {}
        for said, change in [*((one, -1) for one in before), *((one, 1) for one in after)]:
            same = self.same.get(said.topics, said.topics)
            _, count = lists.get(id(same), (same, 0))
            lists[id(same)] = same, count + change
            if said.pattern:
                patterns[said.pattern] = patterns.get(said.pattern, 0) + change
        names: dict[str, int] = {}
        for same, change in lists.values():
            there = self.lists.get(same, 0)
            come = (there + change > 0) - (there > 0)
            for name in same if come else ():
                names[name] = names.get(name, 0) + come
        for pattern, change in patterns.items():
            found = self.resolved.get(pattern)
            if found is not None and not self.patterns.get(pattern, 0) + change:
                for name in found.topics:
                    names[name] = names.get(name, 0) - 1
        now = self.names
        differ = [name for name, change in names.items() if (now.get(name, 0) + change > 0) is not (name in now)]
        return frozenset(now.keys() ^ differ) if differ else None

    # What the log says

    def adopt(self, record: ConsumerRecord) -> None:
        """Be as a record says. A tombstone of what is not there changes nothing."""
        self.changes += 1
        kind = type(record)
        if kind is CurrentRecord:
            self._adopt_current(record)  # type: ignore[arg-type]
        elif kind is TargetRecord:
            self._adopt_target(record)  # type: ignore[arg-type]
        elif kind is MemberRecord:
            self._adopt_member(record)  # type: ignore[arg-type]
        elif kind is PatternRecord:
            self._adopt_pattern(record)  # type: ignore[arg-type]
        elif kind is EpochRecord:
            self._adopt_epoch(record)  # type: ignore[arg-type]
        else:
            self._adopt_target_epoch(record)  # type: ignore[arg-type]

    def _adopt_epoch(self, record: EpochRecord) -> None:
        if record.epoch is not None:
            self.epoch, self.metadata_hash = record.epoch, record.metadata_hash

    def _adopt_target_epoch(self, record: TargetEpochRecord) -> None:
        self.target_epoch = -1 if record.epoch is None else record.epoch
        self.target_at_ms = record.at_ms

    def _adopt_target(self, record: TargetRecord) -> None:
        if record.target is None:
            self.targets.pop(record.member_id, None)
        else:
            self.targets[record.member_id] = record.target

    def _adopt_member(self, record: MemberRecord) -> None:
        member_id, said = record.member_id, record.subscription
        member = self.members.get(member_id)
        before = None if member is None else member.subscription
        if said is not None:
            said = said._replace(topics=self.same.get(said.topics, said.topics))
            self._count(said, 1)
        if said is None:
            if member is None:
                return
            self._own(member_id, member.current, False)
            del self.members[member_id]
        elif member is None:
            self.members[member_id] = ConsumerMember(member_id, said)
        else:
            member.subscription = said
            member.said_size = -1
        if before is not None:
            self._count(before, -1)
            if before.instance_id is not None and self.static.get(before.instance_id) == member_id:
                del self.static[before.instance_id]
        if said is not None and said.instance_id is not None:
            self.static[said.instance_id] = member_id

    def _adopt_current(self, record: CurrentRecord) -> None:
        member = self.members.get(record.member_id)
        if member is None:
            if record.current is None:
                return
            member = self.members[record.member_id] = ConsumerMember(record.member_id)
            self._count(member.subscription, 1)
        before, after = member.current, Current(-1, -1) if record.current is None else record.current
        member.current = after
        if after.assigned != before.assigned or after.revoking != before.revoking:
            self._own(record.member_id, before, False)
            self._own(record.member_id, after, True)

    def _adopt_pattern(self, record: PatternRecord) -> None:
        before = self.resolved.pop(record.pattern, None)
        if before is not None:
            _change(self.names, before.topics, -1)
        if record.resolved is not None:
            self.resolved[record.pattern] = record.resolved
            _change(self.names, record.resolved.topics, 1)

    def _own(self, member_id: str, current: Current, owns: bool) -> None:
        for given in (current.assigned, current.revoking):
            for topic_id, numbers in given.items():
                owners = self.owners.setdefault(topic_id, {})
                for number in numbers:
                    if owns:
                        owners[number] = member_id
                    elif owners.get(number) == member_id:
                        del owners[number]
                if not owners:
                    del self.owners[topic_id]

    def _count(self, said: Subscription, change: int) -> None:
        there = self.lists.get(said.topics, 0)
        _change(self.lists, (said.topics,), change)
        if not there:
            self.same[said.topics] = said.topics
            _change(self.names, said.topics, 1)
        elif not there + change:
            del self.same[said.topics]
            _change(self.names, said.topics, -1)
        _change(self.patterns, (said.pattern,) if said.pattern else (), change)
        _change(self.assignors, () if said.assignor is None else (said.assignor,), change)
        if said.classic is not None:
            self.classics += change
            _change(self.classic_protocols, (name for name, _ in said.classic.protocols), change)


def is_reconciled(current: Current, target_epoch: int) -> bool:
    """Whether a member has reached its target."""
    return current.state is _STABLE and current.epoch == target_epoch


def partitions_of(given: Given | Assignment) -> int:
    """How many partitions these are; mostly of one topic, or none."""
    if not given:
        return 0
    if len(given) == 1:
        (some,) = given.values()
        return len(some)
    return sum(map(len, given.values()))


def _change(counts: dict[_Key, int], names: Iterable[_Key], change: int) -> None:
    for name in names:
        count = counts.get(name, 0) + change
        if count:
            counts[name] = count
        else:
            del counts[name]
