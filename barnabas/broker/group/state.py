"""The states of a classic group, and which may follow which. Source: `ClassicGroupState` of Apache Kafka.

- Empty: no members; perhaps offsets.
- PreparingRebalance: members are to join (again); JoinGroup waits.
- CompletingRebalance: all have joined, a generation has begun; SyncGroup waits for what the leader assigns.
- Stable: everybody has an assignment.
- Dead: gone; deleted, or led elsewhere.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class GroupState(Enum):
    """The value is Kafka's name for it."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_EMPTY, _PREPARING, _COMPLETING = GroupState.EMPTY, GroupState.PREPARING, GroupState.COMPLETING
_STABLE, _DEAD = GroupState.STABLE, GroupState.DEAD

FOLLOWS: Final = frozenset(
    {
        (_EMPTY, _PREPARING),  # the first member came
        (_PREPARING, _COMPLETING),  # all have joined, or the time for it is over
        (_PREPARING, _EMPTY),  # nobody was left
        (_COMPLETING, _STABLE),  # the leader's assignment is written
        (_COMPLETING, _PREPARING),  # a member came, went, or never fetched its assignment
        (_STABLE, _PREPARING),  # a member came, went, or changed what it wants
        (_STABLE, _STABLE),  # a static member came again under another id
        (_EMPTY, _DEAD),
        (_PREPARING, _DEAD),
        (_COMPLETING, _DEAD),
        (_STABLE, _DEAD),
    }
)
"""(state, next state)"""

CAN_REBALANCE: Final = (_EMPTY, _COMPLETING, _STABLE)
"""From where a rebalance may begin; no set, for to hash a member of an enum is a call."""


class Status(Enum):
    """How far a shard has come."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
