"""The life of an accepted connection, and what may keep its requests waiting, each as a table.

state     event                                             next
OPENING   its first bytes name a dialect                    OPEN
OPENING   HTTP is answered, the first bytes are refused     LEAVING
OPENING   not admitted, lost, aborted                       GONE
OPEN      refused, or the broker stops                      LEAVING   what was answered so far still leaves
OPEN      lost, aborted                                     GONE
LEAVING   everything left, lost, aborted                    GONE

Whole frames are handled while no request of the connection is outstanding, and nothing of these holds (bits, for they
come and go on their own, and one look sees them all):

STALLED   the peer does not read its answers                until they drain below the low mark
MUTED     a client over its quota (KIP-219)                 until the throttle time is over
SHORT     it holds much while memory is short               until there is room for the rest (`relief.py`)
QUEUED    its turn was over before its requests were        until it has the next one (`turns.py`)
LEFT      the state is LEAVING or GONE                      for ever
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """Where a connection stands."""

    OPENING = "opening"
    OPEN = "open"
    LEAVING = "leaving"
    GONE = "gone"


MOVES: Final = {
    State.OPENING: (State.OPEN, State.LEAVING, State.GONE),
    State.OPEN: (State.LEAVING, State.GONE),
    State.LEAVING: (State.GONE,),
    State.GONE: (),
}

STALLED: Final = 1
MUTED: Final = 2
SHORT: Final = 4
QUEUED: Final = 8
LEFT: Final = 16


def move(old: State, new: State) -> State:
    """The new state; a move that the table does not have is a bug of ours."""
    assert new in MOVES[old], f"a connection cannot go from {old.value} to {new.value}"
    return new
