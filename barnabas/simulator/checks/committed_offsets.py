"""Committed offsets: what a coordinator tells of a group's offset is what was committed last, or what comes after it.

    commit 7   answered 0             OffsetFetch    7: as it must    nothing, or an earlier one: broken
    commit 9   no answer yet          OffsetFetch    7 or 9

A commit without an answer may be there, for ever; so may one of a topic that was made anew under way, and one that was
refused for a reason that says nothing of the log. Commits of one coordinator are in the log in the order of their
answers, and a later leader epoch's behind all earlier ones. Apart is a coordinator that does not know yet that another
has taken commits in a later epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Committing, CommitTold, OffsetsAsked, OffsetsTold, Renamed
from barnabas.simulator.world import Broken

Key: TypeAlias = "tuple[str, TopicPartition]"

NOT_WRITTEN: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class _Acknowledged(NamedTuple):
    epoch: int = -1
    offset: int = -1


class CommittedOffsets(Check):
    """By group and partition: the last that was acknowledged, and all that may be there instead."""

    def __init__(self) -> None:
        self._number = 0
        self._asked: dict[str, tuple[int, Committing]] = {}
        self._last: dict[Key, _Acknowledged] = {}
        self._possible: dict[Key, dict[str, tuple[int, int]]] = {}
        """By request: its offset, and the number of its answer; 0 while it has none."""
        self._fetches: dict[str, tuple[str, dict[Key, _Acknowledged], dict[Key, set[int]]]] = {}
        self.rules = {
            Committing: self._committing,
            Renamed: lambda event: self._may_be(event.request, self._asked[event.request][1].group, event.offsets),
            CommitTold: self._told,
            OffsetsAsked: self._fetching,
            OffsetsTold: self._fetched,
        }

    def _committing(self, event: Committing) -> None:
        self._number += 1
        self._asked[event.request] = self._number, event
        self._may_be(event.request, event.group, event.offsets)

    def _may_be(self, request: str, group: str, offsets: Iterable[tuple[TopicPartition, int]]) -> None:
        for partition, offset in offsets:
            self._possible.setdefault((group, partition), {})[request] = offset, 0
            for asks, _, possible in self._fetches.values():
                if asks == group:
                    possible.setdefault((group, partition), set()).add(offset)

    def _told(self, event: CommitTold) -> None:
        asked = self._asked.pop(event.request, None)
        if asked is None:
            return
        self._number += 1
        since, commit = asked
        offsets = dict(commit.offsets)
        for partition, code in event.codes:
            key = commit.group, partition
            possible = self._possible[key]
            if code == 0:
                self._acknowledged(key, _Acknowledged(event.epoch, offsets[partition]), since)
            if code == 0 or code in NOT_WRITTEN:
                del possible[event.request]
            else:
                possible[event.request] = offsets[partition], self._number

    def _acknowledged(self, key: Key, now: _Acknowledged, since: int) -> None:
        """What was answered before this was asked for lies before it."""
        if now.epoch < self._last.get(key, now).epoch:
            return
        self._last[key] = now
        possible = self._possible[key]
        for request, (_, ended) in list(possible.items()):
            if 0 < ended < since:
                del possible[request]

    def _fetching(self, event: OffsetsAsked) -> None:
        last = {key: one for key, one in self._last.items() if key[0] == event.group}
        possible = {
            key: {offset for offset, _ in all_of.values()}
            for key, all_of in self._possible.items()
            if key[0] == event.group
        }
        self._fetches[event.request] = event.group, last, possible

    def _fetched(self, event: OffsetsTold) -> None:
        asked = self._fetches.pop(event.request, None)
        if asked is None:
            return
        group, last, possible = asked
        for partition, offset in event.offsets:
            key = group, partition
            known = last.get(key, _Acknowledged())
            if event.epoch < known.epoch or offset == known.offset:
                continue
            if offset not in possible.get(key, ()):
                raise Broken(
                    f"committed offsets: {event.request} tells {offset} of {partition} in group {group}; the last "
                    f"commit that was acknowledged is {known.offset}, in epoch {known.epoch}"
                )
