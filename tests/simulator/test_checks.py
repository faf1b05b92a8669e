"""Every checker takes an honest history and refuses a forged one, and says which promise it was."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.records import BrokerChange, Partition, PartitionChange, RegisterBroker, Topic
from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check, Checks, all_checks
from barnabas.simulator.decision_watch import DecisionWatch
from barnabas.simulator.history import (
    Acknowledged,
    Agreed,
    Answered,
    Asked,
    Certain,
    Committed,
    Committing,
    CommitTold,
    Completed,
    Copied,
    Counted,
    Decided,
    Elected,
    Epochs,
    Event,
    Failed,
    Flipped,
    Gone,
    Grouped,
    Handed,
    Healed,
    Held,
    Imaged,
    Kept,
    KeptAnew,
    KeptUncertain,
    Led,
    Looked,
    OffsetsAsked,
    OffsetsTold,
    Over,
    Overlooked,
    Parked,
    Parted,
    Polled,
    PowerLost,
    Proposed,
    Proposing,
    Raised,
    Recorded,
    Registered,
    Remade,
    Removed,
    Renamed,
    Sent,
    Stands,
    Uncertain,
    Voted,
)
from barnabas.simulator.world import Broken, World

P = TopicPartition("t", 0)
Q = TopicPartition("t", 1)
ANEW_P = TopicPartition("t.2", 0)
A, B, C, D = b"a", b"b", b"c", b"d"


def sent(*values: bytes, idempotent: bool = True) -> list[Event]:
    return [Sent("p", P, value, idempotent) for value in values]


def acknowledged(*values: bytes, first: int = 0) -> list[Event]:
    return [Acknowledged("p", P, value, offset) for offset, value in enumerate(values, first)]


def polled(*values: bytes, first: int = 0, consumer: str = "c") -> list[Event]:
    return [Polled(consumer, P, offset, value) for offset, value in enumerate(values, first)]


def kept(*values: bytes) -> Kept:
    return Kept(P, tuple(enumerate(values)))


ALL = ("b", "c", "d")


def led(broker: str, epoch: int, *isr: str, life: int = 1, leads: bool = True) -> Led:
    return Led(broker, life, P, epoch, isr, 2, leads)


def decided(
    epochs: tuple[int, int], leader: str, isr: Sequence[str], alive: Sequence[str] = ALL, elr: str = ""
) -> Decided:
    return Decided(P, leader, *epochs, ALL, tuple(isr), tuple(alive), tuple(elr))


def committed(broker: str, offset: int = 0, last: int = 2, epoch: int = 1, crc: int = 7) -> Committed:
    return Committed(broker, 1, P, offset, last, epoch, crc)


def epochs(known: Sequence[tuple[int, int]], found: Sequence[tuple[int, int]], end: int = 9) -> Epochs:
    return Epochs("b", P, end, tuple(known), tuple(found))


HONEST: list[Event] = [
    *sent(A, B, C),
    Looked("b", 1, P, 0, 3),
    *acknowledged(A, B),
    Failed("p", P, C, "late"),
    Looked("b", 1, P, 3, 3),
    *polled(A, B, C),
    *polled(A, B, C, consumer="d"),
    Looked("b", 2, P, 1, 3),
    Parked("b", 1, 1, 500, 100),
    Parked("b", 1, 1, 500, 560),
    Parked("b", 1, 1, 500, 9000),
    Parked("b", 1, 1, 500, 9001),
    Parked("b", 1, 1, 500, 9001),
    Parked("b", 1, 1, 500, 9001),
    Completed("b", 1, 1, True),
    Parked("b", 1, 2, 500, 900),
    Completed("b", 1, 2, True),
    Completed("b", 2, 1, True),
    Healed(0),
    *sent(D),
    Asked("b#1", 1),
    Asked("b#1", 2),
    Answered("b#1", 1),
    Asked("b#2", 7),
    Answered("b#1", 2),
    Healed(60_000),
    Failed("p", P, D, "late"),
    kept(A, B, C),
    Kept(Q, ()),
    Over(61_000),
]

REPLICAS: list[Event] = [
    decided((0, 0), "b", "bcd"),
    led("b", 0, "b", "c", "d"),
    *(Looked(broker, 1, P, 0, 3) for broker in ALL),
    Looked("b", 1, P, 3, 4),
    committed("b"),
    decided((0, 1), "b", "bc"),
    led("b", 0, "b", "c"),
    Looked("d", 1, P, 0, 2),
    decided((0, 2), "b", "b", "bd"),
    led("b", 0, "b"),
    Looked("b", 1, P, 3, 5),
    decided((0, 3), "b", "b", "bcd"),
    Looked("d", 1, P, 3, 4),
    decided((0, 4), "b", "bd"),
    led("b", 0, "b", "d"),
    Looked("b", 1, P, 4, 5),
    decided((1, 5), "d", "d", "cd"),
    led("d", 1, "d", life=2),
    led("b", 0, leads=False),
    Looked("b", 1, P, 4, 6),
    committed("d", 3, 3, 0),
    decided((1, 5), "d", "d"),
    decided((2, 6), "", "d", "bc"),
    PowerLost("d", False),
    Looked("d", 2, P, 1, 2),
    committed("c"),
    epochs([(0, 0), (1, 3), (2, 9)], [(0, 0), (1, 3)]),
    epochs([(0, 0), (1, 3), (2, 9)], [(0, 0), (1, 3)])._replace(is_cut=True, leads=2),
    epochs([], []),
    Counted("b", P, "c", 2, 3),
    Gone("d", P),
    Looked("d", 2, P, 0, 0),
    Proposed(P, 5, 6),
    Proposed(P, 6, 6),
    Registered("d", 7),
    Registered("d", 7),
    Proposing("1", (("b", -1), ("d", 7))),
    Proposing("2", (("d", 7),)),
    Proposed(P, 6, 7, "1"),
    Registered("d", 9),
    Proposed(P, 7, 8, "2"),
    Proposing("3", (("d", 7),)),
]
"""Shrinks, a second life, an election, a leader that was replaced, power lost without a sync."""

NOT_COORDINATOR = 16
ILLEGAL_GENERATION = 22


def grouped(*members: tuple[str, int, Sequence[TopicPartition]], epoch: int = 1, classic: bool = True) -> Grouped:
    told = tuple((member, generation, tuple(partitions)) for member, generation, partitions in members)
    return Grouped("b", 1, epoch, "g", classic, told)


def committing(request: str, offset: int, member: str = "m", generation: int = 1) -> Committing:
    return Committing("b", request, "g", member, generation, ((P, offset),))


def told(request: str, code: int = 0, epoch: int = 1) -> CommitTold:
    return CommitTold("b", request, epoch, ((P, code),))


def fetched(request: str, offset: int, epoch: int = 1) -> list[Event]:
    return [OffsetsAsked(request, "g"), OffsetsTold(request, epoch, ((P, offset),))]


def handed(*offsets: int, member: str = "m") -> list[Event]:
    return [Handed("g", member, P, offset) for offset in offsets]


GROUPS: list[Event] = [
    *fetched("0", -1),
    grouped(("m", 1, [])),
    grouped(("m", 1, [P, Q]), ("n", 1, [])),
    *handed(0, 1),
    committing("1", 1),
    told("1"),
    *fetched("2", 1),
    committing("3", 2),
    *fetched("4", 2),
    *fetched("5", 1),
    told("3", NOT_COORDINATOR),
    *fetched("6", 2, epoch=2),
    grouped(("m", 1, [P]), ("n", 2, [Q]), epoch=2, classic=False),
    *handed(1, 2, member="n"),
    committing("7", 2),
    OffsetsAsked("8", "g"),
    told("7", epoch=2),
    OffsetsTold("8", 2, ((P, 1),)),
    OffsetsAsked("9", "g"),
    committing("10", 3),
    told("10", epoch=2),
    OffsetsTold("9", 2, ((P, 3),)),
    *fetched("11", 1, epoch=1),
    committing("12", 9, generation=0),
    told("12", ILLEGAL_GENERATION, epoch=2),
    committing("13", 8, member="gone"),
    told("13", -1, epoch=2),
    committing("14", 2),
    Renamed("14", ((ANEW_P, 2),)),
    OffsetsAsked("15", "g"),
    OffsetsTold("15", 2, ((ANEW_P, 2),)),
    CommitTold("b", "14", 2, ()),
    *fetched("16", 2, epoch=2),
    kept(A, B, C),
    Over(1),
]
"""A coordinator that moves while a commit is under way, one that does not know it yet, zombies that are refused; a
commit whose topic is made anew before its answer, which nobody can tell of which it is."""


def recorded(voter: str, offset: int, term: int = 1, crc: int = 7, known_in: int = 0) -> Recorded:
    return Recorded(voter, 1, offset, offset, term, crc, known_in or term)


QUORUM: list[Event] = [
    Voted("b", 1, "b"),
    Voted("c", 1, "b"),
    Voted("c", 1, "b"),
    Elected("b", 1, 1, 0),
    recorded("b", 0),
    Raised("b", 1, 1),
    Stands("b", 0, 1, 2),
    Imaged("b", 1, "one"),
    recorded("c", 0),
    Imaged("c", 1, "one"),
    Voted("d", 2, "d"),
    Voted("c", 2, "d"),
    Elected("d", 1, 2, 1),
    recorded("d", 1, term=2),
    Raised("d", 2, 2),
    Stands("d", 1, 2, 2),
    Stands("c", 2, 2, 2),
    recorded("b", 1, term=2),
    Elected("b", 2, 3, 2),
    Imaged("d", 2, "two"),
    Elected("c", 2, 4, 2),
    recorded("b", 2, term=3, known_in=5),
    recorded("b", 3, term=5),
]
"""Terms of three controllers, of whom one takes back what no other has, and one begins with a snapshot.

What was written in term 3 is committed in term 5 by who had it; who led term 4 had not, and nothing was committed then.
"""

ANEW: list[Event] = [
    *sent(A, B, idempotent=False),
    *acknowledged(A, first=-1),
    Remade("t", b"2"),
    *sent(C, idempotent=False),
    *acknowledged(B, C, first=-1),
    Agreed("t"),
    *sent(D, idempotent=False),
    *acknowledged(D, first=-1),
]
"""A topic that is made anew: A was in the one before it, of B and C nobody can say where they are, D is in this one."""


@pytest.mark.parametrize("there", [(D,), (B, D), (B, C, D), (C, D)])
def test_a_topic_that_is_made_anew_has_what_it_may_have(there: Sequence[bytes]) -> None:
    see(all_checks(), [*ANEW, KeptAnew(P, tuple(enumerate(there)))])


UNCLEAN: list[Event] = [
    *sent(A, B, idempotent=False),
    *acknowledged(A, first=-1),
    committed("c"),
    Looked("c", 1, P, 3, 3),
    Looked("b", 1, P, 1, 1),
    decided((0, 0), "c", "c"),
    Uncertain(P),
    decided((1, 1), "b", "b", "bd")._replace(anyone=True),
    committed("b", crc=8),
    Looked("c", 1, P, 1, 1),
    *acknowledged(B, first=-1),
    Certain(P),
    *sent(C, idempotent=False),
    *acknowledged(C, first=-1),
]
"""b leads, who has less than c had committed: A is gone or not, B was acknowledged before all knew, C is there."""


@pytest.mark.parametrize("there", [(C,), (A, C), (B, C), (A, B, C)])
def test_an_unclean_election_takes_what_it_may_take(there: Sequence[bytes]) -> None:
    read = KeptUncertain(P, tuple(enumerate(there)))
    see(all_checks(), [*UNCLEAN, read, Copied("b", P, ((0, 2, 1, 8),)), Copied("c", P, ((0, 2, 1, 8),))])


def test_what_was_under_way_when_another_led_may_be_there_twice_but_nothing_else() -> None:
    begins: list[Event] = [*sent(A, B, C), *acknowledged(A, first=-1), Uncertain(P), *acknowledged(B, C, first=-1)]
    there = [(0, A), (1, B), (2, C), (3, B), (4, C)]
    see([check_of("Unclean")], [*begins, KeptUncertain(P, tuple(there))])
    with pytest.raises(Broken, match="unclean: b'a' at t-0 offset 5"):
        see([check_of("Unclean")], [*begins, KeptUncertain(P, (*there, (5, A)))])


def test_while_some_brokers_do_not_know_of_an_unclean_election_nothing_is_promised() -> None:
    see([check_of("Unclean")], [*sent(A), Certain(P), Uncertain(P), *acknowledged(A, first=-1), KeptUncertain(P, ())])


def test_nobody_has_to_have_what_was_deleted() -> None:
    before: list[Event] = [Looked("c", 1, P, 1, 1), Looked("b", 1, P, 1, 1), decided((0, 1), "b", ["b", "c"])]
    see(all_checks(), [*before, Removed(P), Gone("c", P)])


FORGED: dict[str, tuple[str, Sequence[Event]]] = {
    "Anew: of the one before": ("anew: b'a' at t-0 offset 0 was", [*ANEW, KeptAnew(P, ((0, A), (1, D)))]),
    "Anew: not there": ("anew: b'd', acknowledged, is not in t-0", [*ANEW, KeptAnew(P, ((0, C),))]),
    "Anew: twice": ("anew: b'd' at t-0 offset 1 stands behind b'd'", [*ANEW, KeptAnew(P, ((0, D), (1, D)))]),
    "Anew: out of order": ("anew: b'b' at t-0 offset 1 stands behind b'c'", [*ANEW, KeptAnew(P, ((0, C), (1, B)))]),
    "Unclean: not there": ("unclean: b'c', acknowledged, is not in t-0", [*UNCLEAN, KeptUncertain(P, ((0, A),))]),
    "Unclean: lost without one": ("unclean: b'a', ack", [*sent(A), *acknowledged(A, first=-1), KeptUncertain(P, ())]),
    "Unclean: twice": ("unclean: b'c' at t-0 offset 1 stands", [*UNCLEAN, KeptUncertain(P, ((0, C), (1, C)))]),
    "Unclean: out of order": ("unclean: b'b' at t-0 offset 1", [*UNCLEAN, KeptUncertain(P, ((0, C), (1, B)))]),
    "Unclean: copies": (
        "unclean: c has other batches of t-0 than b, from .1, 2, 1, 9. on",
        [Copied("b", P, ((0, 0, 1, 8), (1, 2, 1, 9))), Copied("c", P, ((0, 0, 1, 8), (1, 2, 1, 7)))],
    ),
    "Unclean: copies of which one ends": (
        "unclean: c has other batches of t-0 than b, from the end on",
        [Copied("b", P, ((0, 0, 1, 8), (1, 2, 1, 9))), Copied("c", P, ((0, 0, 1, 8),))],
    ),
    "Decisions: anyone, whose topic does not let him": (
        "decisions.*not in the ISR",
        [decided((0, 0), "c", "c"), decided((1, 1), "b", "b", "bd")],
    ),
    "Decisions: anyone, while one who may is alive": (
        "decisions.*not in the ISR",
        [decided((0, 0), "c", "c", elr="d"), decided((1, 1), "b", "b", "bd")._replace(anyone=True)],
    ),
    "InSync: deleted by one alone": (
        "in sync: c has committed t-0 up to 1, c",
        [Looked("c", 1, P, 1, 1), Looked("b", 1, P, 1, 1), decided((0, 1), "b", ["b", "c"]), Gone("c", P)],
    ),
    "LostWrites: acknowledged": ("lost write: b'b', acknowledged", [*acknowledged(A, B), kept(A)]),
    "LostWrites: consumed": ("lost write: b'b', consumed", [*polled(A, B), kept(A)]),
    "LostWrites: acknowledged without an offset": ("lost write", [Acknowledged("p", P, A, -1), kept(B)]),
    "Duplicates: in the log": ("duplicate", [*sent(A, B), kept(A, B, A)]),
    "Duplicates: among consumers": ("duplicate", [*sent(A), *polled(A), *polled(A, first=4, consumer="d")]),
    "Order": ("order: b'a'", [*sent(A, B), kept(B, A)]),
    "InconsistentOffsets: two consumers": ("inconsistent", [*polled(A), *polled(B, consumer="d")]),
    "InconsistentOffsets: another was told": ("inconsistent", [*acknowledged(A), *polled(B)]),
    "InconsistentOffsets: it changes": ("inconsistent", [*polled(A), kept(B)]),
    "Polls: back": ("poll goes back", [*polled(A, B), *polled(B, first=1)]),
    "Polls: past a record": ("poll skips", [*polled(A), *polled(C, first=2), kept(A, B, C)]),
    "Polls: past the first": ("poll skips", [*polled(B, first=1), kept(A, B)]),
    "Unseen: the last": ("never seen", [*polled(A), kept(A, B), Over(1)]),
    "Unseen: a whole partition": ("never seen", [Polled("c", Q, 0, C), Kept(Q, ((0, C),)), kept(A), Over(1)]),
    "HighWatermark: falls": ("high watermark: 2", [Looked("b", 1, P, 3, 3), Looked("b", 1, P, 2, 3)]),
    "HighWatermark: past the end": ("high watermark: 4", [Looked("b", 1, P, 4, 3)]),
    "Leaders: two": ("leaders: c", [led("b", 1, "b"), led("c", 1, "c")]),
    "Leaders: in two lives": ("leaders: b", [led("b", 1, "b"), led("b", 1, "b", life=2)]),
    "Decisions: not of the replicas": ("decisions.*replicas", [decided((0, 0), "b", "bx")]),
    "Decisions: nobody in sync": ("decisions.*replicas", [decided((0, 0), "b", "")]),
    "Decisions: in sync and eligible": ("decisions.*eligible", [decided((0, 0), "b", "bc", elr="c")]),
    "Decisions: eligible, beside one in sync": (
        "decisions.*not in the ISR",
        [decided((0, 0), "b", "b", elr="c"), decided((1, 1), "c", "bc")],
    ),
    "Decisions: eligible, beside one in sync, when the leader gives up": (
        "decisions.*not in the ISR",
        [decided((0, 0), "b", "bd", elr="c"), decided((1, 1), "c", "c")],
    ),
    "Decisions: the last leader, beside an eligible one": (
        "decisions.*not in the ISR",
        [decided((0, 0), "", "", elr="c")._replace(last_known=("b",)), decided((1, 1), "b", "b")],
    ),
    "InSync: who is eligible lacks it": (
        "in sync: b has committed",
        [decided((0, 0), "b", "b", elr="c"), Looked("c", 1, P, 0, 2), Looked("b", 1, P, 3, 3)],
    ),
    "Decisions: from outside": ("decisions.*outside", [decided((0, 0), "b", "cd")]),
    "Decisions: a fenced leader": ("decisions.*fenced", [decided((0, 0), "b", "b", "cd")]),
    "Decisions: a fenced member": ("decisions.*fenced", [decided((0, 0), "b", "bc", "b")]),
    "Decisions: was not in sync": (
        "decisions.*was not in the ISR",
        [decided((0, 0), "b", "b"), decided((1, 1), "c", "c")],
    ),
    "Decisions: joins while fenced": (
        "decisions.*takes a fenced",
        [decided((0, 0), "", "b", "c"), decided((1, 1), "", "d", "c")],
    ),
    "Decisions: no new partition epoch": (
        "decisions.*does not rise",
        [decided((0, 0), "b", "bc"), decided((0, 0), "b", "b")],
    ),
    "Decisions: no new leader epoch": (
        "decisions.*another leader in the same epoch",
        [decided((0, 0), "b", "bc"), decided((0, 1), "c", "bc")],
    ),
    "InSync: a member lacks it": (
        "in sync: b has committed",
        [decided((0, 0), "b", "bc"), Looked("c", 1, P, 0, 2), Looked("b", 1, P, 3, 3)],
    ),
    "InSync: joins without it": (
        "in sync: b has committed",
        [Looked("c", 1, P, 0, 2), Looked("b", 1, P, 3, 3), decided((0, 0), "b", "bc")],
    ),
    "InSync: loses it": (
        "in sync: b has committed",
        [decided((0, 0), "b", "c"), Looked("c", 1, P, 0, 3), Looked("b", 1, P, 3, 3), Looked("c", 1, P, 0, 2)],
    ),
    "InSync: loses what was synced": (
        "in sync: b has committed",
        [
            decided((0, 0), "b", "c"),
            Looked("c", 1, P, 0, 3),
            Looked("b", 1, P, 3, 3),
            PowerLost("c", True),
            Looked("c", 2, P, 0, 2),
        ],
    ),
    "InSync: is back in sync without it": (
        "in sync: b has committed",
        [
            decided((0, 0), "b", "bc"),
            Looked("c", 1, P, 0, 3),
            Looked("b", 1, P, 3, 3),
            PowerLost("c", False),
            Looked("c", 2, P, 0, 2),
            decided((0, 1), "b", "b"),
            decided((0, 2), "b", "bc"),
        ],
    ),
    "InSync: is registered anew, in sync without it": (
        "in sync: b has committed",
        [
            Registered("c", 4),
            decided((0, 0), "b", "bc"),
            Looked("c", 1, P, 0, 3),
            Looked("b", 1, P, 3, 3),
            PowerLost("c", False),
            Registered("c", 4),
            Looked("c", 2, P, 0, 2),
            Registered("c", 9),
            Looked("c", 2, P, 0, 2),
        ],
    ),
    "InSync: a bit has flipped, and it is unfenced in sync without it": (
        "in sync: b has committed",
        [
            Registered("c", 4),
            decided((0, 0), "b", "bc"),
            Looked("c", 1, P, 0, 3),
            Looked("b", 1, P, 3, 3),
            Flipped("c"),
            decided((0, 0), "b", "bc", alive="b"),
            Registered("c", 9),
            Looked("c", 2, P, 0, 2),
            decided((0, 0), "b", "bc"),
        ],
    ),
    "SyncedFirst": ("synced: b counts t-0 at c up to 3", [Counted("b", P, "c", 3, 2)]),
    "Proposals: on an earlier state": ("proposals: of t-0", [Proposed(P, 5, 7)]),
    "Proposals: backwards": ("proposals: of t-0", [Proposed(P, 5, 4)]),
    "Lives: of an earlier one": (
        "lives: a change of the ISR of t-0 is made that names c in broker epoch 4, and it is registered in 9",
        [Registered("c", 4), Registered("c", 9), Proposing("1", (("b", 2), ("c", 4))), Proposed(P, 5, 6, "1")],
    ),
    "Terms: two leaders": ("terms: c.*leads term 1, as b", [Elected("b", 1, 1, 0), Elected("c", 1, 1, 0)]),
    "Terms: in two lives": ("terms: b.*leads term 1, as b", [Elected("b", 1, 1, 0), Elected("b", 2, 1, 4)]),
    "Terms: two votes": ("terms: c votes in term 1 for d, and for b", [Voted("c", 1, "b"), Voted("c", 1, "d")]),
    "Terms: its own, too": ("terms: c votes", [Voted("c", 1, "b"), Voted("c", 1, "c")]),
    "Terms: a vote that is not kept": ("terms: c.*may forget", [Voted("b", 1, "b"), Voted("c", 1, "b", kept=False)]),
    "Terms: committed by count": ("terms: b.*a record of term 1", [Raised("b", 2, 2), Raised("b", 2, 1)]),
    "Metadata: another batch": ("metadata: c has", [recorded("b", 0), recorded("c", 0, crc=8)]),
    "Metadata: another term": ("metadata: c has", [recorded("b", 0), recorded("c", 0, term=2)]),
    "Metadata: a leader lacks it": (
        "metadata: c leads term 2 from offset 1 on, and 1",
        [recorded("b", 0), recorded("b", 1), Elected("c", 1, 2, 1)],
    ),
    "Metadata: a later leader lacked it": (
        "metadata: c leads term 2 from offset 1 on, and 1",
        [Elected("b", 1, 1, 0), recorded("b", 0), Elected("c", 1, 2, 1), recorded("b", 1)],
    ),
    "Metadata: below its snapshot": (
        "metadata: b has a snapshot up to 5",
        [Stands("b", 0, 3, 4), Stands("b", 5, 3, 5)],
    ),
    "Metadata: above its log": ("metadata: b.* ends at 4", [Stands("b", 0, 5, 4)]),
    "Metadata: a follower parts": ("metadata: b can follow no further: lost", [Parted("b", "lost")]),
    "Images": ("images: c and b", [Imaged("b", 3, "one"), Imaged("c", 3, "two")]),
    "Minimum": ("minimum: b", [led("b", 0, "b"), Looked("b", 1, P, 0, 3), Looked("b", 1, P, 3, 3)]),
    "Minimum: after a shrink": (
        "minimum: b",
        [
            led("b", 0, "b", "c"),
            Looked("b", 1, P, 0, 3),
            led("b", 0, "b"),
            *[Looked("b", 1, P, at, 3) for at in (1, 2)],
        ],
    ),
    "Agreement: another batch": ("agreement: c", [committed("b"), committed("c", crc=8)]),
    "Agreement: another end": ("agreement: c", [committed("b"), committed("c", last=3)]),
    "Agreement: another epoch": ("agreement: c", [committed("b"), committed("c", epoch=2)]),
    "Agreement: another epoch after the power went, with all synced": (
        "agreement: c",
        [committed("b"), PowerLost("c", True), committed("c", epoch=2)],
    ),
    "Agreement: another epoch, in sync though the power went": (
        "agreement: c",
        [committed("b"), decided((0, 0), "b", "bc"), PowerLost("c", False), committed("c", epoch=2)],
    ),
    "Agreement: in sync again, and never cut": (
        "agreement: c.* and is in sync again",
        [
            committed("b"),
            PowerLost("c", False),
            decided((0, 0), "b", "b"),
            committed("c", epoch=2),
            decided((0, 1), "b", "bc"),
        ],
    ),
    "Agreement: cut behind where it differs": (
        "agreement: c.* and is in sync again",
        [
            committed("b"),
            PowerLost("c", False),
            decided((0, 0), "b", "b"),
            committed("c", epoch=2),
            Epochs("c", P, 2, (), (), is_cut=True),
            decided((0, 1), "b", "bc"),
        ],
    ),
    "Agreement: in sync again, and another later": (
        "agreement: c",
        [
            committed("b"),
            PowerLost("c", False),
            *[decided((0, at), "b", isr) for at, isr in enumerate(("b", "bc", "b"))],
            committed("c", epoch=2),
        ],
    ),
    "EpochCaches: unknown": ("epochs: b", [epochs([(0, 0)], [(0, 0), (1, 3)])]),
    "EpochCaches: elsewhere": ("epochs: b", [epochs([(0, 0), (1, 4)], [(0, 0), (1, 3)])]),
    "EpochCaches: not cut": ("epochs: b.*past", [epochs([(0, 0), (1, 10)], [(0, 0)])]),
    "EpochCaches: not cut at its begin": (
        "epochs: b.*1 was cut off",
        [epochs([(0, 0), (1, 9)], [(0, 0)])._replace(is_cut=True, leads=2)],
    ),
    "EpochCaches: do not rise": ("epochs: b.*rise", [epochs([(1, 0), (0, 3)], [])]),
    "CommittedOffsets: older": (
        "committed offsets: 3 tells 1.*is 2",
        [committing("1", 1), told("1"), committing("2", 2), told("2"), *fetched("3", 1)],
    ),
    "CommittedOffsets: anew": (
        "committed offsets.*tells 1 of t.2",
        [committing("1", 1), told("1"), OffsetsAsked("2", "g"), OffsetsTold("2", 1, ((ANEW_P, 1),))],
    ),
    "CommittedOffsets: none": ("committed offsets.*tells -1", [committing("1", 1), told("1"), *fetched("2", -1)]),
    "CommittedOffsets: refused": (
        "committed offsets.*tells 2",
        [committing("1", 2), told("1", ILLEGAL_GENERATION), *fetched("2", 2)],
    ),
    "CommittedOffsets: overtaken": (
        "committed offsets.*tells 1",
        [committing("1", 1), told("1", NOT_COORDINATOR), committing("2", 2), told("2"), *fetched("3", 1)],
    ),
    "CommittedOffsets: of an earlier epoch": (
        "committed offsets.*tells 1",
        [committing("1", 1), committing("2", 2), told("2", epoch=2), told("1", epoch=1), *fetched("3", 1, epoch=2)],
    ),
    "Owners": ("owners: in group g.*with m and with n", [grouped(("m", 1, [P, Q]), ("n", 1, [Q]))]),
    "Zombies: another generation": (
        "zombies.*is in generation 2",
        [grouped(("m", 2, [P])), committing("1", 1), told("1")],
    ),
    "Zombies: no member": ("zombies.*is no member", [grouped(("n", 2, [P])), committing("1", 1), told("1")]),
    "Zombies: an earlier epoch": (
        "zombies.*is in epoch 2",
        [grouped(("m", 2, [Q]), classic=False), committing("1", 1), told("1")],
    ),
    "Consumed: committed": (
        "consumed: group g has committed t-0 up to 2",
        [*handed(0), committing("1", 2), told("1"), kept(A, B)],
    ),
    "Consumed: the end": ("consumed: group g was not given", [*handed(0), kept(A, B), Over(1)]),
    "ParkedOperations: late": ("parked", [Parked("b", 1, 1, 500, now) for now in (100, *range(601, 610))]),
    "ParkedOperations: parked late": ("parked", [Parked("b", 1, 1, 500, now) for now in (900, *range(1001, 1010))]),
    "ParkedOperations: twice": ("parked", [Completed("b", 1, 1, True), Completed("b", 1, 1, True)]),
    "ParkedOperations: without an answer": ("parked", [Completed("b", 1, 1, False)]),
    "ParkedOperations: again": ("parked", [Completed("b", 1, 1, True), Parked("b", 1, 1, 500, 100)]),
    "ParkedOperations: overlooked": ("parked: an operation of b waits for t-0", [Overlooked("b", "t-0", 5)]),
    "Bounds: too much": ("bounds: b keeps 9 bytes.*may keep 8", [Held("b", 8, 8, 8, 8), Held("b", 9, 8, 9, 9)]),
    "Bounds: by kind": ("bounds: b keeps 3 bytes", [Held("b", 3, 8, 3, 3), Held("b", 3, 8, 2, 3)]),
    "Bounds: by holder": ("bounds: b keeps 3 bytes", [Held("b", 3, 8, 3, 2)]),
    "Bounds: for who is gone": ("bounds: b keeps something for connection 7", [Held("b", 3, 8, 3, 3, (7,))]),
    "Answers: twice": ("answers", [Asked("b#1", 1), Answered("b#1", 1), Answered("b#1", 1)]),
    "Answers: not in order": ("answers", [Asked("b#1", 1), Asked("b#1", 2), Answered("b#1", 2)]),
    "Answers: another connection's": ("answers", [Asked("b#1", 1), Answered("b#2", 1)]),
    "Settled: no outcome": ("settled", [*sent(A), Over(60_000)]),
    "Settled: no outcome in time": ("settled", [*sent(A), Healed(0), *sent(B), Healed(60_000)]),
    "Settled: two outcomes": ("settled", [*sent(A), *acknowledged(A), Failed("p", P, A, "late")]),
}


def see(checks: Sequence[Check], history: Sequence[Event]) -> None:
    seen = Checks(checks)
    for event in history:
        seen.see(event)
    assert seen.events == len(history)


def check_of(name: str) -> Check:
    return next(check for check in all_checks() if type(check).__name__ == name.partition(":")[0])


def test_an_honest_history_passes_all() -> None:
    see(all_checks(), HONEST)


def test_replicas_that_keep_every_promise_pass() -> None:
    see(all_checks(), REPLICAS)


def test_who_is_eligible_and_comes_back_without_proof_is_passed_over_in_the_same_step() -> None:
    before = decided((0, 0), "", "", "bd", elr="c")._replace(last_known=("b",))
    see([check_of("Decisions")], [before, decided((1, 1), "b", "b", "bd")])


def test_who_is_eligible_leads_when_a_leader_alone_in_sync_gives_up() -> None:
    see([check_of("Decisions")], [decided((0, 0), "b", "b", elr="c"), decided((1, 1), "c", "c")])


def test_who_is_eligible_leads_where_the_one_in_sync_was_fenced_and_back_before_anybody_looked() -> None:
    before, after = decided((0, 0), "b", "b", elr="c"), decided((1, 1), "c", "c", elr="b")
    see([check_of("Decisions")], [before, after._replace(away=("b",))])
    with pytest.raises(Broken, match="not in the ISR"):
        see([check_of("Decisions")], [before, after._replace(away=("d",))])


def test_who_was_fenced_and_unfenced_in_one_turn_is_told_as_away() -> None:
    told: list[Event] = []
    image, watch = Image(), DecisionWatch(World("0"), told.append)
    brokers = [RegisterBroker(one, one, b"", (), fenced=False) for one in (1, 2)]
    image.apply([*brokers, Topic(b"t" * 16, "t"), Partition(b"t" * 16, 0, (1, 2), (1,), 1, elr=(2,))])
    watch.look(image)
    image.apply([BrokerChange(1, True), PartitionChange(b"t" * 16, 0, (2,), 2, elr=(1,)), BrokerChange(1, False)])
    watch.look(image)
    decisions = [one for one in told if isinstance(one, Decided)]
    assert [(one.leader, one.alive, one.away) for one in decisions] == [
        ("broker1", ("broker1", "broker2"), ()),
        ("broker2", ("broker1", "broker2"), ("broker1",)),
    ]


def test_who_lost_power_may_differ_until_it_is_cut_and_tells_nobody_what_is_committed() -> None:
    before: list[Event] = [PowerLost("c", False), decided((0, 0), "b", "b"), committed("c", epoch=2)]
    cut = Epochs("c", P, 0, (), (), is_cut=True)
    back = decided((0, 1), "b", "bc")
    see([check_of("Agreement")], [*before, committed("b"), cut, back, committed("c")])
    see([check_of("Agreement")], [committed("b"), *before, cut, back, committed("c")])
    see([check_of("Agreement")], [committed("b"), *before, committed("c")._replace(incarnation=2), back])


def test_a_high_watermark_falls_with_the_end_of_who_lost_power_and_is_not_in_sync() -> None:
    before: list[Event] = [PowerLost("c", False), decided((0, 0), "b", "b"), Looked("c", 2, P, 4, 4)]
    see([check_of("HighWatermark")], [*before, Looked("c", 2, P, 3, 3)])
    for after in ([Looked("c", 2, P, 2, 3)], [decided((0, 1), "b", "bc"), Looked("c", 2, P, 3, 3)]):
        with pytest.raises(Broken, match="has fallen"):
            see([check_of("HighWatermark")], [*before, *after])
    with pytest.raises(Broken, match="has fallen"):
        see([check_of("HighWatermark")], [*before[1:], Looked("c", 2, P, 3, 3)])


def test_a_move_that_ends_may_let_in_its_leader_with_the_same_change() -> None:
    moved = decided((1, 1), "d", "cd")._replace(replicas=("d", "c"))
    see([check_of("Decisions")], [decided((0, 0), "b", "bc"), moved])
    with pytest.raises(Broken, match="not in the ISR"):
        see([check_of("Decisions")], [decided((0, 0), "b", "bc"), moved._replace(replicas=ALL)])


def test_who_hears_what_was_committed_as_it_begins_to_lead_commits_nothing() -> None:
    begins: list[Event] = [Looked("c", 1, P, 1, 1), Looked("b", 1, P, 0, 3), led("b", 0, "b"), Looked("b", 1, P, 1, 3)]
    see([check_of("Minimum")], begins)
    with pytest.raises(Broken, match="minimum: b commits"):
        see([check_of("Minimum")], [*begins, Looked("b", 1, P, 2, 3)])


def test_who_hears_in_one_turn_that_others_are_in_sync_and_no_more_may_have_committed_between() -> None:
    alone: list[Event] = [decided((0, 0), "b", "b"), led("b", 0, "b"), Looked("b", 1, P, 0, 3), Looked("b", 1, P, 0, 4)]
    both: list[Event] = [decided((0, 1), "b", "bc"), decided((2, 2), "b", "b"), led("b", 2, "b")]
    see([check_of("Minimum")], [*alone, *both, Looked("b", 1, P, 2, 4)])
    with pytest.raises(Broken, match="minimum: b commits"):
        see([check_of("Minimum")], [*alone, *both, Looked("b", 1, P, 2, 4), Looked("b", 1, P, 3, 4)])
    with pytest.raises(Broken, match="minimum: b commits"):
        see([check_of("Minimum")], [*alone, Looked("b", 1, P, 2, 4)])


def test_who_decides_twice_in_one_turn_may_have_had_others_in_sync_between() -> None:
    alone: list[Event] = [decided((0, 0), "b", "b"), led("b", 0, "b"), Looked("b", 1, P, 1, 2)]
    see([check_of("Minimum")], [*alone, decided((0, 2), "b", "b"), led("b", 0, "b"), Looked("b", 1, P, 2, 2)])
    with pytest.raises(Broken, match="minimum: b commits"):
        see([check_of("Minimum")], [*alone, decided((0, 1), "b", "b"), led("b", 0, "b"), Looked("b", 1, P, 2, 2)])


def test_who_hears_of_an_isr_that_grew_and_is_as_it_was_may_have_committed_between() -> None:
    alone: list[Event] = [decided((0, 0), "b", "b"), led("b", 0, "b"), Looked("b", 1, P, 1, 3)]
    see([check_of("Minimum")], [*alone, decided((0, 2), "b", "b"), Looked("b", 1, P, 2, 3)])
    with pytest.raises(Broken, match="minimum: b commits"):
        see([check_of("Minimum")], [*alone, decided((0, 1), "b", "b"), Looked("b", 1, P, 2, 3)])
    twice = [Looked("b", 1, P, 2, 3), Looked("b", 1, P, 3, 3)]
    with pytest.raises(Broken, match="minimum: b commits"):
        see([check_of("Minimum")], [*alone, decided((0, 2), "b", "b"), *twice])


def test_who_commits_and_leads_alone_in_a_new_epoch_of_the_same_turn_had_others_in_sync() -> None:
    both: list[Event] = [led("b", 0, "b", "c"), Looked("b", 1, P, 1, 2)]
    alone = led("b", 2, "b")
    see([check_of("Minimum")], [*both, alone, Looked("b", 1, P, 2, 2)])
    with pytest.raises(Broken, match="minimum: b commits"):
        see([check_of("Minimum")], [*both, alone, Looked("b", 1, P, 1, 2), Looked("b", 1, P, 2, 2)])


def test_controllers_that_keep_every_promise_pass() -> None:
    see(all_checks(), QUORUM)


def test_groups_that_keep_every_promise_pass() -> None:
    see(all_checks(), GROUPS)


def test_a_producer_that_is_not_idempotent_may_write_twice_and_in_any_order() -> None:
    see(all_checks(), [*sent(A, B, idempotent=False), kept(B, A, B)])


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_history_is_refused(name: str) -> None:
    why, history = FORGED[name]
    with pytest.raises(Broken, match=why):
        see([check_of(name)], history)
    see([check_of(name)], history[:-1])  # by its last event, not before


def test_every_checker_has_a_forged_history() -> None:
    assert {name.partition(":")[0] for name in FORGED} == {type(check).__name__ for check in all_checks()}
