"""What is written down of a run for the checkers: plain facts, so that a test can forge a history.

Long because every fact that any checker asks for stands here, each with what it means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from barnabas.protocol.ids import TopicPartition


class Sent(NamedTuple):
    """A producer has taken a record; from one producer to one partition in this order."""

    producer: str
    partition: TopicPartition
    value: bytes
    idempotent: bool = True


class Acknowledged(NamedTuple):
    """A record's outcome: it was written, at this offset (-1: not told)."""

    producer: str
    partition: TopicPartition
    value: bytes
    offset: int


class Failed(NamedTuple):
    """A record's outcome: an error. It may be there all the same."""

    producer: str
    partition: TopicPartition
    value: bytes
    error: str


class Polled(NamedTuple):
    """A consumer was given a record; of one partition in this order, from offset 0 on."""

    consumer: str
    partition: TopicPartition
    offset: int
    value: bytes


class Kept(NamedTuple):
    """At the end, when all is healed: everything a partition holds, from its start to its end."""

    partition: TopicPartition
    records: tuple[tuple[int, bytes], ...]


class KeptAnew(NamedTuple):
    """The same of a topic that is deleted and made anew, as it is in the end."""

    partition: TopicPartition
    records: tuple[tuple[int, bytes], ...]


class Remade(NamedTuple):
    """A topic was made that had another one of its name before it."""

    topic: str
    topic_id: bytes


class Agreed(NamedTuple):
    """All brokers that run know the topic of that name that was made last, and no earlier one."""

    topic: str


class KeptUncertain(NamedTuple):
    """The same of a topic whose leader may have been one that was not in sync."""

    partition: TopicPartition
    records: tuple[tuple[int, bytes], ...]


class Uncertain(NamedTuple):
    """A partition is led from now on by one who may lack what was committed: its topic lets him. Told before that."""

    partition: TopicPartition


class Certain(NamedTuple):
    """All brokers that run know of the last such election."""

    partition: TopicPartition


class Copied(NamedTuple):
    """In the end: all batches that a replica has, each as first and last offset, leader epoch and sum."""

    broker: str
    partition: TopicPartition
    batches: tuple[tuple[int, int, int, int], ...]


class Looked(NamedTuple):
    """Where a partition stood after a turn of its broker; told when it has changed, and behind each `Led`."""

    broker: str
    incarnation: int
    partition: TopicPartition
    high_watermark: int
    end: int


class Gone(NamedTuple):
    """A broker has deleted a replica, begun another in its place, or cut off what was damaged: it counts no more."""

    broker: str
    partition: TopicPartition


class Led(NamedTuple):
    """A broker leads a partition, or `leads` no more; told when that, or its ISR, has changed.

    `least`: so many replicas are to be in sync where anything is committed.
    """

    broker: str
    incarnation: int
    partition: TopicPartition
    leader_epoch: int
    isr: tuple[str, ...]
    least: int
    leads: bool = True


class Decided(NamedTuple):
    """A partition as the controller has it, and who is not fenced; told when it has changed. No leader: "".

    `anyone`: its topic lets any replica lead where nobody else can. `away`: who of the alive was fenced meanwhile, too.
    """

    partition: TopicPartition
    leader: str
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[str, ...]
    isr: tuple[str, ...]
    alive: tuple[str, ...]
    elr: tuple[str, ...] = ()
    last_known: tuple[str, ...] = ()
    anyone: bool = False
    away: tuple[str, ...] = ()


class Removed(NamedTuple):
    """The controller has deleted a partition, with its topic."""

    partition: TopicPartition


class Committed(NamedTuple):
    """A batch that a broker has below its high watermark; told once in each of its lives."""

    broker: str
    incarnation: int
    partition: TopicPartition
    offset: int
    last_offset: int
    leader_epoch: int
    crc: int


class Epochs(NamedTuple):
    """Leader epochs of a log, (epoch, first offset): what its broker knows, and what the batches say.

    `is_cut`: the log was cut since it was looked at before. `leads`: the epoch in which its broker leads it, or -1.
    """

    broker: str
    partition: TopicPartition
    end: int
    known: tuple[tuple[int, int], ...]
    found: tuple[tuple[int, int], ...]
    is_cut: bool = False
    leads: int = -1


class Counted(NamedTuple):
    """A leader has another end of a follower's log; its disk holds everything below `synced` for good by now."""

    leader: str
    partition: TopicPartition
    follower: str
    end: int
    synced: int


class Proposing(NamedTuple):
    """The controller has read a change of an ISR, of a name of its own (`request`).

    Of each member: who it is, and the broker epoch in which it has told where its log ends (-1: not told).
    """

    request: str
    members: tuple[tuple[str, int], ...]


class Proposed(NamedTuple):
    """A change of an ISR that a leader proposed on one partition epoch was made, as another; the same: none was due."""

    partition: TopicPartition
    based_on: int
    made: int
    request: str = ""


class Registered(NamedTuple):
    """The controller has a broker in this epoch, which every life of a broker has anew."""

    broker: str
    epoch: int


class PowerLost(NamedTuple):
    """A broker's machine has lost power; `synced`: no acknowledged record was without its sync."""

    broker: str
    synced: bool


class Flipped(NamedTuple):
    """A broker was killed, and a bit of its logs is another now: its start finds it, after it has registered."""

    broker: str


class Voted(NamedTuple):
    """A controller has given its vote in a term of the quorum: it has said so, or asks others for theirs.

    `kept`: its disk holds that, or what it did in a later term.
    """

    voter: str
    term: int
    candidate: str
    kept: bool = True


class Elected(NamedTuple):
    """A controller leads the quorum in a term, which begins at this offset of its log."""

    voter: str
    incarnation: int
    term: int
    start: int


class Raised(NamedTuple):
    """The leader of a term of the quorum has found that more is committed, the last of it of that term."""

    voter: str
    term: int
    last_term: int


class Recorded(NamedTuple):
    """A batch of metadata that a controller has committed; told once in each of its lives.

    `term` is in which it was written, `known_in` that of the controller: it was committed in none later.
    """

    voter: str
    incarnation: int
    offset: int
    last_offset: int
    term: int
    crc: int
    known_in: int


class Stands(NamedTuple):
    """A controller's log of metadata: its newest snapshot's end, what is committed, where it ends."""

    voter: str
    start: int
    committed: int
    end: int


class Imaged(NamedTuple):
    """What a broker has of the metadata up to an offset: a sum over all of it."""

    broker: str
    end: int
    digest: str


class Parted(NamedTuple):
    """A broker can follow the metadata no further, whose disk is well."""

    broker: str
    why: str


class Parked(NamedTuple):
    """An operation that waits, numbered within an incarnation: told when it is first seen, and while it is late."""

    broker: str
    incarnation: int
    operation: int
    deadline_ms: int
    now_ms: int


class Completed(NamedTuple):
    """An operation waits no more, and whether it has its answer."""

    broker: str
    incarnation: int
    operation: int
    answered: bool


class Overlooked(NamedTuple):
    """After a turn an operation still waits for a partition that it need not wait for: up to here it is committed."""

    broker: str
    partition: str
    offset: int


class Held(NamedTuple):
    """What a broker keeps for others, in bytes, told when it has changed: in all, by what it is, and by whose it is.

    `limit`: how much it may be. `gone`: connections that are no more and for which it keeps something all the same,
    other than what a read of the device that is under way brings.
    """

    broker: str
    total: int
    limit: int
    of_kinds: int
    of_holders: int
    gone: tuple[int, ...] = ()


class Asked(NamedTuple):
    """A broker has read a request."""

    connection: str
    correlation_id: int


class Answered(NamedTuple):
    """A broker has written an answer; `writes`: to one who had something written."""

    connection: str
    correlation_id: int
    writes: bool = False


class Grouped(NamedTuple):
    """A group as its coordinator has it, told when it has changed; `epoch` is the leader epoch of its partition.

    Of each member: its id, its generation or epoch, and what it has, or is to give up still. Where the group is between
    two generations nobody has anything.
    """

    broker: str
    incarnation: int
    epoch: int
    group: str
    is_classic: bool
    members: tuple[tuple[str, int, tuple[TopicPartition, ...]], ...]


class Committing(NamedTuple):
    """A broker has read an OffsetCommit, of a name of its own (`request`)."""

    broker: str
    request: str
    group: str
    member: str
    generation: int
    offsets: tuple[tuple[TopicPartition, int], ...]


class Renamed(NamedTuple):
    """Topics that an OffsetCommit names were made anew since it was read: it may be of these."""

    request: str
    offsets: tuple[tuple[TopicPartition, int], ...]


class CommitTold(NamedTuple):
    """Its answer: `epoch` as in `Grouped` (-1: not the coordinator), error codes of all partitions but `Renamed`'s."""

    broker: str
    request: str
    epoch: int
    codes: tuple[tuple[TopicPartition, int], ...]


class OffsetsAsked(NamedTuple):
    """A broker has read an OffsetFetch."""

    request: str
    group: str


class OffsetsTold(NamedTuple):
    """Its answer, without what failed; -1: nothing was committed."""

    request: str
    epoch: int
    offsets: tuple[tuple[TopicPartition, int], ...]


class Handed(NamedTuple):
    """A member of a group was given a record."""

    group: str
    member: str
    partition: TopicPartition
    offset: int


class Healed(NamedTuple):
    """All was healed so long ago (ms): told at once, and when everything is to be well again."""

    since_ms: int


class Over(NamedTuple):
    """The run is over: all was healed, and everybody had his time (ms) to come to an end."""

    since_healed_ms: int


Event: TypeAlias = (
    Sent
    | Acknowledged
    | Failed
    | Polled
    | Kept
    | KeptAnew
    | KeptUncertain
    | Uncertain
    | Certain
    | Copied
    | Remade
    | Renamed
    | Agreed
    | Looked
    | Gone
    | Led
    | Decided
    | Removed
    | Committed
    | Epochs
    | Counted
    | Proposing
    | Proposed
    | Registered
    | PowerLost
    | Flipped
    | Voted
    | Elected
    | Raised
    | Recorded
    | Stands
    | Imaged
    | Parted
    | Parked
    | Completed
    | Overlooked
    | Held
    | Asked
    | Answered
    | Grouped
    | Committing
    | CommitTold
    | OffsetsAsked
    | OffsetsTold
    | Handed
    | Healed
    | Over
)
Tell: TypeAlias = Callable[[Event], None]
