"""Voters in virtual time: the shipped core, with logs, disks and a network that lose whatever they may.

A voter's disk has what was synced; a crash takes the rest. A request, or its answer, may be lost, and comes after a
time drawn for each, so that what was sent later may come first. After every event the checks look at all voters.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from barnabas.broker.raft.kept import Kept
from barnabas.broker.raft.raft import Raft, Role, Timing
from barnabas.broker.raft.world import Answered, Done, Mark
from barnabas.protocol.errors import BarnabasError, ErrorCode
from barnabas.protocol.requests.begin_quorum_epoch import BeginQuorumEpochRequest
from barnabas.protocol.requests.end_quorum_epoch import EndQuorumEpochRequest
from barnabas.protocol.requests.fetch import FetchableTopicResponse, FetchRequest, FetchResponse
from barnabas.protocol.requests.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderIdAndEpoch,
    PartitionSnapshotResult,
    TopicSnapshotResult,
)
from barnabas.protocol.requests.vote import VoteRequest

CLUSTER = "a-cluster"
TIMEOUT_MS = 1500
PIECE = 40


class Violation(AssertionError):
    """What must never be was seen; the text begins with the name of the check."""


class Entry(NamedTuple):
    epoch: int
    value: int


class Contents(NamedTuple):
    """What is on a device: the snapshot's entries, its mark, the entries behind it."""

    snapshot: tuple[Entry, ...] = ()
    start: Mark = Mark(0, 0)
    entries: tuple[Entry, ...] = ()


class MemoryLog:
    """A voter's log."""

    def __init__(self, voter: Voter, contents: Contents) -> None:
        self._voter = voter
        self._pieces = b""
        self.snapshot, self.start, entries = contents
        self.entries = list(entries)
        self.committed = self.start.end

    @property
    def contents(self) -> Contents:
        return Contents(self.snapshot, self.start, tuple(self.entries))

    @property
    def end(self) -> Mark:
        if not self.entries:
            return self.start
        return Mark(self.start.end + len(self.entries), self.entries[-1].epoch)

    @property
    def whole(self) -> tuple[Entry, ...]:
        """All entries from the first on."""
        return (*self.snapshot, *self.entries)

    def end_of(self, epoch: int) -> Mark:
        if self.end == Mark(0, 0):
            return Mark(-1, -1)
        found = self.start if self.start.end and self.start.epoch <= epoch else Mark(self.start.end, epoch)
        for offset, entry in enumerate(self.entries, self.start.end + 1):
            if entry.epoch <= epoch:
                found = Mark(offset, entry.epoch)
        return found

    def snapshot_bytes(self) -> bytes:
        return json.dumps(self.snapshot).encode()

    def begin_epoch(self, epoch: int, leader: int) -> None:
        self.propose(Entry(epoch, -leader))

    def propose(self, entry: Entry) -> None:
        """Append one of the leader's own."""
        self.entries.append(entry)

    def records(self, offset: int, count: int) -> Any:
        """About so many from an offset on."""
        at = offset - self.start.end
        return self.entries[at : at + count]

    def append(self, records: Any) -> int:
        self.entries += records
        return len(records)

    def cut(self, end: int, done: Done) -> None:
        quorum = self._voter.quorum
        quorum.reached["cuts"] += 1
        del self.entries[end - self.start.end :]
        quorum.at(quorum.now_ms, lambda: done(None, quorum.now_ms) if self._voter.alive else None)

    def sync(self, end: int, done: Done) -> None:
        self._voter.disk(contents=self.contents, done=done)

    def commit(self, end: int) -> None:
        self.committed = max(self.committed, end)

    def take_piece(self, snapshot: Mark, position: int, data: bytes, *, whole: bool) -> None:
        self._pieces = data if not position else self._pieces + data
        if whole:
            try:
                json.loads(self._pieces)
            except ValueError as fault:
                raise BarnabasError(str(fault)) from fault

    def install(self, snapshot: Mark, done: Done) -> None:
        self._voter.quorum.reached["snapshots installed"] += 1
        self.snapshot = tuple(Entry(*one) for one in json.loads(self._pieces))
        self.start = snapshot
        self.entries = []
        self.committed = snapshot.end
        self._voter.disk(contents=self.contents, done=done)

    def compact(self) -> None:
        """A snapshot of all that is committed."""
        kept = self.committed - self.start.end
        if kept > 0:
            gone = self.entries[:kept]
            self.snapshot = (*self.snapshot, *gone)
            self.start = Mark(self.committed, gone[-1].epoch)
            self.entries = self.entries[kept:]


class Voter:
    """One life of one voter."""

    def __init__(self, quorum: Quorum, node_id: int) -> None:
        self.quorum = quorum
        self.node_id = node_id
        self.alive = True
        self.proposed: list[tuple[int, int, Callable[[], None]]] = []
        contents, kept = quorum.disks[node_id]
        self.log = quorum.log_of(self, contents)
        self.raft = Raft(node_id, quorum.voters, CLUSTER, kept, self.log, self, quorum.timing)
        self._disk_ms = 0
        self.raft.start(quorum.now_ms)

    # Outside

    def send(self, voter: int, request: Any, answered: Answered) -> None:
        self.quorum.send(self, voter, request, answered)

    def save(self, kept: Kept, done: Done) -> None:
        self.disk(kept=kept, done=done)

    def below(self, end: int) -> int:
        return self.quorum.random.randrange(end)

    def changed(self, now_ms: int) -> None:
        self.proposed = []

    def committed(self, now_ms: int) -> None:
        """What was proposed here, and is committed while this voter still leads, is acknowledged."""
        while self.proposed and self.proposed[0][0] < self.log.committed:
            self.proposed.pop(0)[2]()

    def slowest_ms(self) -> int:
        return self.quorum.disk_ms.get(self.node_id, 20)

    def disk(self, *, done: Done, contents: Contents | None = None, kept: Kept | None = None) -> None:
        """Bring something to the device, in the order of the calls."""
        self._disk_ms = max(self._disk_ms, self.quorum.now_ms + self.quorum.random.randrange(self.slowest_ms()))

        def written() -> None:
            if self.alive:
                old = self.quorum.disks[self.node_id]
                self.quorum.disks[self.node_id] = (contents or old[0], kept or old[1])
                done(None, self.quorum.now_ms)

        self.quorum.at(self._disk_ms, written)

    # What others ask

    def arrived(self, sender: int, request: Any, respond: Callable[[Any], None]) -> None:
        now_ms, raft = self.quorum.now_ms, self.raft
        if isinstance(request, VoteRequest):
            (part,) = request.topics[0].partitions

            def voted(response: Any) -> None:
                granted = [
                    one.leader_epoch for topic in response.topics for one in topic.partitions if one.vote_granted
                ]
                if granted and not part.pre_vote:
                    self.quorum.votes_for(self.node_id, granted[0], part.replica_id)
                respond(response)
                if granted and self.quorum.forgets and self.quorum.random.random() < self.quorum.forgets:
                    self.quorum.at(now_ms, lambda: self.quorum.restart(self))

            raft.vote(request, voted, now_ms)
        elif isinstance(request, BeginQuorumEpochRequest):
            raft.begin(request, respond, now_ms)
        elif isinstance(request, EndQuorumEpochRequest):
            raft.end(request, respond, now_ms)
        elif isinstance(request, FetchRequest):
            (asked,) = request.topics[0].partitions
            data = raft.fetch(sender, asked, now_ms)
            diverges = data.diverging_epoch is not None or data.snapshot_id is not None
            if data.error_code or diverges:
                data.records = []
            else:
                most = 1 + self.quorum.random.randrange(self.quorum.records_max)
                data.records = self.log.records(asked.fetch_offset, most)
            answer = FetchResponse(responses=[FetchableTopicResponse(topic_id=b"", partitions=[data])])
            wait_ms = 0 if data.error_code or diverges or data.records else 40
            self.quorum.at(now_ms + wait_ms, lambda: respond(answer))
        else:
            respond(self._piece(request))

    def _piece(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        (asked,) = request.topics[0].partitions
        log = self.log
        told = PartitionSnapshotResult(0, 0, asked.snapshot_id, LeaderIdAndEpoch(self.raft.leader, self.raft.epoch))
        if self.raft.leading is None:
            told.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif (asked.snapshot_id.end_offset, asked.snapshot_id.epoch) != log.start:
            told.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        else:
            data = log.snapshot_bytes()
            told.size, told.position = len(data), asked.position
            told.unaligned_records = data[asked.position : asked.position + PIECE]
        return FetchSnapshotResponse(topics=[TopicSnapshotResult("", [told])])


class Quorum:
    """The voters, their disks and the network; what is checked."""

    def __init__(self, *voters: int, seed: int = 0, loss: float = 0.0, timing: Timing | None = None) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self.voters = voters or (1, 2, 3)
        self.timing = timing or Timing()
        self.loss = loss
        self.delay_ms_max = 30
        self.disk_ms: dict[int, int] = {}
        """How slow a voter's disk is at most."""
        self.records_max = 8
        self.forgets = 0.0
        """How often a voter crashes when it has given its vote."""
        self.cut: set[frozenset[int] | tuple[int, int]] = set()
        """Pairs between which nothing passes, both ways, or from the first to the second."""
        self.disks = {one: (Contents(), Kept()) for one in self.voters}
        self.lives: dict[int, Voter] = {}
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._leaders: dict[int, int] = {}
        self._votes: dict[tuple[int, int], int] = {}
        self._leading: dict[int, int] = {}
        self.reached: Counter[str] = Counter()
        self.committed: list[Entry] = []
        self.acknowledged: list[int] = []
        self._value = itertools.count(1)
        for one in self.voters:
            self.start(one)

    # Lives

    def start(self, node_id: int) -> None:
        self.lives[node_id] = Voter(self, node_id)

    def log_of(self, voter: Voter, contents: Contents) -> MemoryLog:
        """The log of a life, as its disk has it."""
        return MemoryLog(voter, contents)

    def crash(self, node_id: int) -> None:
        """It loses power."""
        self.lives.pop(node_id).alive = False

    def restart(self, life: Voter) -> None:
        """It crashes, and is back at once."""
        if life.alive:
            self.crash(life.node_id)
            self.start(life.node_id)

    # The network, and time

    def at(self, at_ms: int, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(at_ms, self.now_ms), next(self._order), event))

    def _passes(self, one: int, other: int) -> bool:
        if frozenset((one, other)) in self.cut or (one, other) in self.cut:
            return False
        return self.random.random() >= self.loss

    def send(self, sender: Voter, target: int, request: Any, answered: Answered) -> None:
        over = False

        def end(response: Any | None) -> None:
            nonlocal over
            if not over and sender.alive:
                over = True
                answered(response, self.now_ms)

        def respond(response: Any) -> None:
            if self._passes(target, sender.node_id):
                self.at(self.now_ms + self.random.randrange(self.delay_ms_max), lambda: end(response))

        def arrive() -> None:
            life = self.lives.get(target)
            if life is not None and self._passes(sender.node_id, target):
                life.arrived(sender.node_id, request, respond)

        if isinstance(request, VoteRequest) and not request.topics[0].partitions[0].pre_vote:
            self.votes_for(sender.node_id, request.topics[0].partitions[0].replica_epoch, sender.node_id)
        self.at(self.now_ms + self.random.randrange(self.delay_ms_max), arrive)
        self.at(self.now_ms + TIMEOUT_MS, lambda: end(None))

    def step(self) -> bool:
        """The next thing that happens; whether there is one."""
        due = [(ms, life) for life in self.lives.values() if (ms := life.raft.next_deadline_ms()) is not None]
        first_ms = min((ms for ms, _ in due), default=None)
        if self._events and (first_ms is None or self._events[0][0] <= first_ms):
            self.now_ms, _, event = heapq.heappop(self._events)
            event()
        elif first_ms is not None:
            self.now_ms = max(self.now_ms, first_ms)
            next(life for ms, life in due if ms == first_ms).raft.tick(self.now_ms)
        else:
            return False
        for life in self.lives.values():
            life.raft.tick(self.now_ms)
        self.check()
        return True

    def run(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while self.now_ms < end_ms and self.step():
            pass

    def until(self, there: Callable[[], bool], ms_max: int = 60_000) -> int:
        began_ms = self.now_ms
        while not there():
            if self.now_ms > began_ms + ms_max or not self.step():
                raise Violation(f"liveness: it never comes to that ({self.told()})")
        return self.now_ms - began_ms

    def told(self) -> str:
        lives = self.lives.items()
        return ", ".join(f"{one} {each.raft.role.value} {each.raft.epoch} {each.log.end}" for one, each in lives)

    # What clients do, and see

    @property
    def leader(self) -> Voter | None:
        """Who leads the newest epoch, and can decide."""
        leading = [one for one in self.lives.values() if one.raft.leads]
        return max(leading, key=lambda one: one.raft.epoch, default=None)

    def propose(self, life: Voter) -> int:
        """A leader appends a value; it is acknowledged once it is committed."""
        value = next(self._value)
        offset = life.log.end.end
        life.log.propose(Entry(life.raft.epoch, value))
        life.proposed.append((offset, value, lambda: self.acknowledged.append(value)))
        life.raft.appended()
        return value

    @property
    def agreed(self) -> bool:
        """Whether all voters are there, follow one leader, and have all of one log committed."""
        lives = list(self.lives.values())
        return (
            len(lives) == len(self.voters)
            and self.leader is not None
            and len({one.raft.epoch for one in lives}) == 1
            and len({one.log.whole for one in lives}) == 1
            and all(one.log.committed == one.log.end.end for one in lives)
        )

    # Checks

    def votes_for(self, voter: int, epoch: int, candidate: int) -> None:
        before = self._votes.setdefault((voter, epoch), candidate)
        if before != candidate:
            raise Violation(f"one vote a term: {voter} voted for {before} and {candidate} in epoch {epoch}")

    def check(self) -> None:
        for node_id, life in self.lives.items():
            raft, log = life.raft, life.log
            if raft.fault is not None:
                raise Violation(f"fault: {raft.fault}")
            if raft.role is Role.LEADER and self._leading.get(node_id) != raft.epoch:
                self._leading[node_id] = raft.epoch
                before = self._leaders.setdefault(raft.epoch, node_id)
                if before != node_id:
                    raise Violation(f"one leader a term: {before} and {node_id} lead epoch {raft.epoch}")
                if list(log.whole[: len(self.committed)]) != self.committed:
                    raise Violation(f"committed is never lost: {node_id} leads {raft.epoch} without all of it")
            if log.committed > log.end.end:
                raise Violation(f"committed is never lost: {node_id} has less than it says")
            known = log.whole[: log.committed]
            both = min(len(known), len(self.committed))
            if list(known[:both]) != self.committed[:both]:
                raise Violation(f"logs agree below what is committed: {node_id} has others")
            if len(known) > len(self.committed):
                self.committed = list(known)
        values = {entry.value for entry in self.committed}
        if not values.issuperset(self.acknowledged):
            raise Violation("committed is never lost: an acknowledged value is gone")
