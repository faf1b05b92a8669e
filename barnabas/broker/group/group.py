"""One classic group: its members, what they vote for, and how far a rebalance has come. Source: `ClassicGroup`.

Nothing here waits, writes or answers by itself: `rebalance` and what stands on it decide, and this keeps count.

What is in the log of it (generation, protocol, leader, members and their assignments) is taken over from there by
`adopt`; all else is the rebalance under way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from barnabas.broker.group.alarms import Alarm
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.state import FOLLOWS, GroupState
from barnabas.broker.group.values import CommittedOffset, StoredGroup, StoredMember
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.group.values import Prepared

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""What a member can be assigned by, the best first: name and metadata."""
Newcomer: TypeAlias = Callable[["Prepared | KafkaError | None"], None]
"""Goes on when a group is converted, or is not: with what is to be written first, or why it is refused."""

_EMPTY: Final = GroupState.EMPTY
CONSUMER: Final = "consumer"
"""The protocol type of groups that consume topics: the only one whose metadata a coordinator looks into."""


class Member:
    """One member. `joining` and `syncing` are its requests that wait; `is_new` until its first generation.

    For that it waits until `new_until_ms`. Its session lasts until `session_until_ms`: the alarm `session` rings then,
    or earlier. `size` is what it takes, `said_size` that without its assignment, as they were weighed last (-1: it was
    not).
    """

    __slots__ = (
        "address",
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "joining",
        "member_id",
        "new_until_ms",
        "protocols",
        "rebalance_timeout_ms",
        "said_size",
        "session",
        "session_timeout_ms",
        "session_until_ms",
        "size",
        "syncing",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.joining: Reply | None = None
        self.syncing: Reply | None = None
        self.is_new = False
        self.new_until_ms = 0
        self.session: Alarm | None = None
        self.session_until_ms = 0
        self.address = ""
        self.size = 0
        self.said_size = -1

    def metadata(self, protocol: str | None) -> bytes:
        """What it said beside a protocol's name; nothing where it does not know it."""
        for name, metadata in self.protocols:  # `next` of a generator takes three times as long
            if name == protocol:
                return metadata
        return b""

    def stored(self, protocol: str | None, assignment: bytes) -> StoredMember:
        """As the log keeps it."""
        return StoredMember(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )


class Pending(NamedTuple):
    """An id that was given out, and not yet used: until when, to which address, and what it takes."""

    alarm: Alarm
    address: str
    size: int


class Group:
    """A classic group. `state_since_ms` is the time of day, -1 unknown; `pending` are ids given out and not used."""

    __slots__ = (
        "address",
        "changes",
        "generation",
        "group_id",
        "held",
        "join_alarm",
        "joined",
        "leader",
        "members",
        "new_member_added",
        "newcomers",
        "offsets",
        "pending",
        "previous_state",
        "protocol",
        "protocol_type",
        "said_bytes",
        "state",
        "state_since_ms",
        "static",
        "supported",
        "sync_alarm",
        "topics",
        "unsynced",
        "waits_for_ids",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = self.previous_state = GroupState.EMPTY
        self.state_since_ms = -1
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}
        """Instance id to member id."""
        self.pending: dict[str, Pending] = {}
        self.unsynced: dict[str, None] = {}
        """Members of this generation that have not asked for their assignment."""
        self.supported: dict[str, int] = {}
        """How many members know a protocol."""
        self.joined = 0
        """How many members wait in JoinGroup."""
        self.held = 0
        """Bytes that its members take."""
        self.changes = 0
        """Another number whenever members have come, gone or changed, or a generation has begun."""
        self.newcomers: list[Newcomer] | None = None
        """Members of the consumer protocol that wait while the group is converted (`upgrading`); None if it is not."""
        self.new_member_added = False
        self.waits_for_ids = False
        """Whether its first generation waits for nothing but ids that were given out."""
        self.topics: frozenset[str] | None = None
        """What its members consume; None where the coordinator cannot know."""
        self.said_bytes = 0
        """Bytes that these take, and its protocol type."""
        self.offsets: dict[TopicPartition, CommittedOffset] = {}
        self.join_alarm: Alarm | None = None
        self.sync_alarm: Alarm | None = None
        self.address = ""
        """Who brought it, of whose share its own bytes and its offsets are."""

    # State

    def move(self, state: GroupState, wall_ms: int) -> None:
        """Enter another state, at that time of day."""
        self.changes += 1
        assert (self.state, state) in FOLLOWS, f"{self.group_id}: {state} does not follow {self.state}"
        self.previous_state = self.state
        self.state = state
        self.state_since_ms = wall_ms

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, and nobody is about to come."""
        return self.state is GroupState.EMPTY

    def consumes(self, topic: str) -> bool:
        """Whether it consumes a topic, as far as anybody can know: one that says nothing may consume any."""
        return self.protocol_type == CONSUMER if self.topics is None else topic in self.topics

    @property
    def all_joined(self) -> bool:
        """Whether nobody is waited for."""
        return self.joined == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long members are waited for: as long as the most patient of them asks."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Members

    def add(self, member: Member) -> None:
        """A member more; the first of all leads."""
        self.changes += 1
        if not self.members:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        self._count(member, 1)

    def remove(self, member_id: str) -> None:
        """A member less, which must wait for nothing any more; if it led, another does."""
        self.changes += 1
        member = self.members.pop(member_id)
        assert member.joining is None, "a member that waits is answered before it goes"
        self._count(member, -1)
        if member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]
        self.unsynced.pop(member_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def rename(self, member: Member, member_id: str) -> None:
        """A static member has come again, and has another id from now on: its place and its lead stay its own."""
        self.changes += 1
        old = member.member_id
        self.members = {
            member_id if each is member else key: each for key, each in self.members.items()
        }  # its place among the others is kept
        member.member_id = member_id
        assert member.instance_id is not None, "a dynamic member is another one under another id"
        self.static[member.instance_id] = member_id
        if self.leader == old:
            self.leader = member_id
        if old in self.unsynced:
            del self.unsynced[old]
            self.unsynced[member_id] = None

    def update(self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        """A member has said anew what it can and wants."""
        self.changes += 1
        if member.protocols != protocols:  # nearly all say what they said
            self._count(member, -1)
            member.protocols = protocols
            self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member that a request names.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID: another has come under that instance id since.
        """
        if instance_id is not None:
            holder = self.static.get(instance_id)
            if holder is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if holder != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    # Who waits

    def park_join(self, member: Member, reply: Reply) -> Reply | None:
        """Let a JoinGroup wait; returns the one that waited before it, which nobody is to hear of any more."""
        before, member.joining = member.joining, reply
        if before is None:
            self.joined += 1
        return before

    def unpark_join(self, member: Member) -> Reply | None:
        """The JoinGroup that waits, to be answered."""
        reply, member.joining = member.joining, None
        if reply is not None:
            self.joined -= 1
        return reply

    def unpark_all(self) -> list[Reply]:
        """All requests that wait, to be answered."""
        waiting = []
        for member in self.members.values():
            syncing, member.syncing = member.syncing, None
            waiting += [reply for reply in (self.unpark_join(member), syncing) if reply is not None]
        return waiting

    # Votes

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether whoever can do these protocols may come: one of them is known to all."""
        if self.state is _EMPTY:
            return bool(protocol_type and protocols)
        if protocol_type != self.protocol_type:
            return False
        everybody = len(self.members)
        for name, _ in protocols:  # noqa: SIM110  # `any` and its generator take three times as long
            if self.supported.get(name, 0) == everybody:
                return True
        return False

    def elect_protocol(self) -> str:
        """What most members like best, of what all of them know; of equals the one voted for first."""
        everybody = len(self.members)
        votes: dict[str, int] = {}
        for member in self.members.values():
            for name, _ in member.protocols:
                if self.supported[name] == everybody:
                    votes[name] = votes.get(name, 0) + 1
                    break
        return max(votes, key=votes.__getitem__)

    def elect_leader(self) -> bool:
        """See to it that one who has joined leads; False if nobody has."""
        if self.leader is None:
            return False
        if self.members[self.leader].joining is not None:
            return True
        for member in self.members.values():
            if member.joining is not None:
                self.leader = member.member_id
                return True
        return False

    # The log

    def stored(self, assignments: dict[str, bytes], wall_ms: int) -> StoredGroup:
        """This generation, for the log, with what was assigned by member id."""
        members = tuple(
            member.stored(self.protocol, assignments.get(member.member_id, b"")) for member in self.members.values()
        )
        return StoredGroup(self.protocol_type, self.generation, self.protocol, self.leader, wall_ms, members)

    def emptied(self, wall_ms: int) -> StoredGroup:
        """What follows when nobody is left: the next generation, of nobody."""
        return StoredGroup(self.protocol_type, self.generation + 1, None, None, wall_ms)

    def adopt(self, stored: StoredGroup) -> None:
        """Be what was written: only now have the members their assignments, or has the group none.

        Members that the record does not have must have left already. A static one may have another id there.
        """
        self.changes += 1
        for one in stored.members:
            holder = None if one.instance_id is None else self.static.get(one.instance_id)
            if holder is not None and holder != one.member_id:
                self.rename(self.members[holder], one.member_id)
            member = self.members.get(one.member_id)
            if member is None:
                protocols = ((stored.protocol or "", one.subscription),)
                timeout_ms = one.session_timeout_ms if one.rebalance_timeout_ms == -1 else one.rebalance_timeout_ms
                host, session_timeout_ms = one.client_host, one.session_timeout_ms
                member = Member(
                    one.member_id, one.instance_id, one.client_id, host, timeout_ms, session_timeout_ms, protocols
                )
                self.add(member)
            member.assignment = one.assignment
        assert len(self.members) == len(stored.members), "who is not in a generation has left before it was written"
        self.protocol_type = stored.protocol_type
        self.protocol = stored.protocol
        self.generation = stored.generation
        self.leader = stored.leader if stored.leader in self.members else next(iter(self.members), None)
        self.previous_state = self.state
        self.state = GroupState.STABLE if stored.members else GroupState.EMPTY
        self.state_since_ms = stored.since_ms

    def _count(self, member: Member, change: int) -> None:
        for name, _ in member.protocols:
            count = self.supported.get(name, 0) + change
            if count:
                self.supported[name] = count
            else:
                del self.supported[name]
