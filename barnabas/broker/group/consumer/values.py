"""What the log keeps of groups of the consumer protocol, record by record; None in place of a value deletes.

Topics of an assignment are ids. `records` says how all this lies in the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

Assignment: TypeAlias = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; no topic without partitions."""

Given: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, and the member epoch in which each was given (KIP-1251)."""

_NONE: Final[Given] = MappingProxyType({})

LEFT: Final = -1
LEFT_FOR_A_WHILE: Final = -2
"""Member epochs of one that leaves, and of a static one that is to come back."""


class MemberState(IntEnum):
    """How far a member is on its way to the target (`MemberState`): whom it waits for. The numbers are the log's."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class Classic(NamedTuple):
    """What a member that speaks the classic protocol can be assigned by, and how long its session is."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class Subscription(NamedTuple):
    """What a member says of itself. `topics` are sorted; `pattern` is "" without one; `host` in Kafka's form."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    pattern: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: Classic | None = None


class Current(NamedTuple):
    """What a member has, and in which epoch; `revoking` is what it still has to give up."""

    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Given = _NONE
    revoking: Given = _NONE


class Resolved(NamedTuple):
    """The topics that a regular expression matched, as of a version of the metadata, and when (time of day)."""

    topics: frozenset[str]
    version: int
    at_ms: int


class EpochRecord(NamedTuple):
    """A group's epoch, and the hash of what it subscribes to; None: the group is gone."""

    group_id: str
    epoch: int | None
    metadata_hash: int = 0


class MemberRecord(NamedTuple):
    """What a member says of itself."""

    group_id: str
    member_id: str
    subscription: Subscription | None


class TargetEpochRecord(NamedTuple):
    """The group epoch that the targets are for, and when they were computed (time of day)."""

    group_id: str
    epoch: int | None
    at_ms: int = 0


class TargetRecord(NamedTuple):
    """What a member is to have."""

    group_id: str
    member_id: str
    target: Assignment | None


class CurrentRecord(NamedTuple):
    """What a member has."""

    group_id: str
    member_id: str
    current: Current | None


class PatternRecord(NamedTuple):
    """What a regular expression of a group matched."""

    group_id: str
    pattern: str
    resolved: Resolved | None


ConsumerRecord: TypeAlias = (
    EpochRecord | MemberRecord | TargetEpochRecord | TargetRecord | CurrentRecord | PatternRecord
)
