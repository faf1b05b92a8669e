"""Every checker takes an honest history and refuses a forged one, and says which promise it was."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check, Checks, all_checks
from barnabas.simulator.history import (
    Acknowledged,
    Answered,
    Asked,
    Completed,
    Event,
    Failed,
    Healed,
    Kept,
    Looked,
    Over,
    Parked,
    Polled,
    Sent,
)
from barnabas.simulator.world import Broken

P = TopicPartition("t", 0)
Q = TopicPartition("t", 1)
A, B, C, D = b"a", b"b", b"c", b"d"


def sent(*values: bytes, idempotent: bool = True) -> list[Event]:
    return [Sent("p", P, value, idempotent) for value in values]


def acknowledged(*values: bytes, first: int = 0) -> list[Event]:
    return [Acknowledged("p", P, value, offset) for offset, value in enumerate(values, first)]


def polled(*values: bytes, first: int = 0, consumer: str = "c") -> list[Event]:
    return [Polled(consumer, P, offset, value) for offset, value in enumerate(values, first)]


def kept(*values: bytes) -> Kept:
    return Kept(P, tuple(enumerate(values)))


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

FORGED: dict[str, tuple[str, Sequence[Event]]] = {
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
    "ParkedOperations: late": ("parked", [Parked("b", 1, 1, 500, 100), Parked("b", 1, 1, 500, 601)]),
    "ParkedOperations: parked late": ("parked", [Parked("b", 1, 1, 500, 900), Parked("b", 1, 1, 500, 1001)]),
    "ParkedOperations: twice": ("parked", [Completed("b", 1, 1, True), Completed("b", 1, 1, True)]),
    "ParkedOperations: without an answer": ("parked", [Completed("b", 1, 1, False)]),
    "ParkedOperations: again": ("parked", [Completed("b", 1, 1, True), Parked("b", 1, 1, 500, 100)]),
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
