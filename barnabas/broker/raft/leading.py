"""What a leader knows of its voters: how far each has the log on its device, what is committed by that, and its lease.

Committed is what a majority has, the leader counted as far as its own log is synced, once a record of the leader's own
epoch is among it: records of an earlier epoch are never committed by count alone (Raft, 5.4.2).

    voters 1 (leads epoch 3 from offset 7 on), 2, 3        ends 9, 7, 4: a majority has 7, which is below epoch 3
                                                           ends 9, 8, 4: offset 7 is of epoch 3, so committed is 8

The lease (check-quorum): a leader that no majority has fetched from in 1.5 times the fetch timeout resigns, so that one
who is cut off does not believe in itself for good. Source: `LeaderState` of Apache Kafka.

A voter that fetches from below what it had is counted for that and no more, and it is told, as Kafka tells it. What is
committed stays so. An old fetch that comes late holds up what is not committed yet until the next one, and takes back
nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

logger = logging.getLogger(__name__)

LEASE: Final = 1.5
"""Kafka's `LeaderState.CHECK_QUORUM_TIMEOUT_FACTOR`."""


class Leading:
    """One epoch of one leader. All times are monotonic ms."""

    def __init__(self, me: int, voters: Sequence[int], epoch_start: int, fetch_ms: int, now_ms: int) -> None:
        self._me = me
        self._epoch_start = epoch_start
        self._fetch_ms = fetch_ms
        self._heard: set[int] = set()
        self._lease_ms = now_ms
        self._others = [one for one in voters if one != me]
        self._begin_ms = dict.fromkeys(self._others, now_ms)
        self.ends = dict.fromkeys(voters, -1)
        """Up to where each voter has the log on its device; -1 before it is known."""
        self.fetched_ms = dict.fromkeys(self._others, -1)
        """When each of the others has fetched last; -1: not yet."""

    def fetched(self, voter: int, offset: int, now_ms: int) -> None:
        """A voter has fetched from an offset, and so has all below it, and no more, whatever it had before."""
        if offset < self.ends[voter]:
            logger.warning(
                "voter %d has the metadata up to offset %d, and had it up to %d: unless this is an old request that "
                "came late, its directory was restored from an older copy, or its disk has lost what it had synced; "
                "what was committed with its help may be lost if another voter goes now",
                voter,
                offset,
                self.ends[voter],
            )
        self.ends[voter] = offset
        self.fetched_ms[voter] = now_ms
        self._begin_ms[voter] = now_ms + self._fetch_ms // 2
        self._heard.add(voter)
        if len(self._heard) + 1 >= self._majority:
            self._heard.clear()
            self._lease_ms = now_ms

    def synced(self, end: int) -> None:
        """The leader's own log is on its device up to here."""
        self.ends[self._me] = max(self.ends[self._me], end)

    def committed(self) -> int:
        """The offset below which all is committed; -1 while nothing can be told."""
        end = sorted(self.ends.values(), reverse=True)[self._majority - 1]
        return end if end > self._epoch_start else -1

    @property
    def lease_ends_ms(self) -> int | None:
        """When the leader is to resign, if nobody fetches; None where it is a majority by itself."""
        return self._lease_ms + int(self._fetch_ms * LEASE) if self._others else None

    def to_be_told(self, now_ms: int) -> list[int]:
        """Voters that do not fetch, and are to hear (again) who leads."""
        due = [one for one in self._others if now_ms >= self._begin_ms[one]]
        for one in due:
            self._begin_ms[one] = now_ms + self._fetch_ms // 2
        return due

    def next_deadline_ms(self) -> int | None:
        """When a voter is to be told, or the lease ends."""
        lease_ms = self.lease_ends_ms
        return None if lease_ms is None else min(lease_ms, *self._begin_ms.values())

    def successors(self) -> list[int]:
        """The other voters, those with most of the log first."""
        return sorted(self._others, key=lambda one: (-self.ends[one], one))

    @property
    def _majority(self) -> int:
        return (len(self._others) + 1) // 2 + 1
