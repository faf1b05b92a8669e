"""What a controller of several has promised is there after a kill or a power failure between any two calls of its disk.

One of three is watched (`torn`) while it starts, votes, leads, is cut, is sent a snapshot, writes one, and stops. At
each step of its disk is noted what it has said to others so far: its votes, and how much of the log is on its device.
Each thing that the next start may find there is then started from: it keeps its votes, it has all that it said it has,
its snapshot is whole, and it refuses nothing.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any, NamedTuple

import pytest

from barnabas.broker.cluster.metadata_log import TOPIC_ID
from barnabas.broker.log import Isolation
from barnabas.broker.raft.kept import FILE, Kept
from barnabas.protocol.batch import batches, read_header
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.requests.fetch import FetchRequest
from barnabas.protocol.requests.vote import VoteRequest, VoteResponse
from tests.broker.node.cluster import Call, Wire
from tests.broker.node.controllers import Controllers
from tests.broker.node.torn import Image, Watched

ME = 2


class Said(NamedTuple):
    """What others have heard: the newest epoch, whom it voted for in it (-1: nobody), and what it has of the log."""

    epoch: int
    voted: int
    batches: dict[int, bytes]


class Moment(NamedTuple):
    said: Said
    image: Image


class Story(Controllers):
    """Three controllers, one of which is watched."""

    def __init__(self) -> None:
        self.disk = Watched()
        self.moments: dict[bytes, Moment] = {}
        self.snapshots: dict[Any, bytes] = {}
        self.reached: Counter[str] = Counter()
        self._epoch, self._voted, self._has = 0, -1, 0
        self._batches: dict[int, bytes] = {}
        self._seen: Any = None
        self.disk.looked = self.look
        super().__init__(disks={ME: self.disk}, metadata_log_max_record_bytes_between_snapshots=1500)

    # What others hear of it

    def _arrives(self, wire: Wire, call: Call) -> None:
        request = call.request
        if wire.sender.node_id == ME:
            self._asks(request)
        elif wire.target == ME and isinstance(request, VoteRequest):
            done = call.done

            def answered(response: Any) -> None:
                self._votes(request, response)
                done(response)

            call.done = answered
        super()._arrives(wire, call)

    def _asks(self, request: Any) -> None:
        if isinstance(request, VoteRequest):
            (part,) = request.topics[0].partitions
            if not part.pre_vote:
                self._has_voted(part.replica_epoch, ME)
        elif isinstance(request, FetchRequest) and request.topics[0].topic_id == TOPIC_ID:
            (asked,) = request.topics[0].partitions
            if self._hears(asked.current_leader_epoch):
                self._has = asked.fetch_offset

    def _votes(self, request: VoteRequest, response: VoteResponse | None) -> None:
        (part,) = request.topics[0].partitions
        told = [] if response is None else [one for topic in response.topics for one in topic.partitions]
        if any(one.vote_granted for one in told) and not part.pre_vote:
            self._has_voted(part.replica_epoch, part.replica_id)

    def _has_voted(self, epoch: int, candidate: int) -> None:
        self.reached["votes"] += 1
        if self._hears(epoch):
            assert self._voted in (-1, candidate), "two votes in one epoch"
            self._voted = candidate

    def _hears(self, epoch: int) -> bool:
        """Whether this is no message of an earlier epoch that took its time."""
        if epoch > self._epoch:
            self._epoch, self._voted = epoch, -1
        return epoch == self._epoch

    # What is on its disk meanwhile

    def said(self) -> Said:
        voter = self.nodes[ME].core.voter if ME in self.nodes else None
        if voter is not None and voter.raft is not None:
            log, leading = voter.log, voter.raft.leading
            self._has = min(max(self._has, -1 if leading is None else leading.ends[ME]), log.end.end)
            if voter.raft.role.value == "leader":
                self.reached["led"] += 1
            for node in self.nodes.values():
                held = None if node.core.voter is None else node.core.voter.log.held
                if held is not None:
                    self.snapshots[held.end, held.epoch] = held.data
            seen = log.start, log.end, self._has
            if seen != self._seen and not log.log.closed:
                self._seen, self._batches = seen, batches_of(log, self._has)
        return Said(self._epoch, self._voted, self._batches)

    def look(self) -> None:
        said = self.said()
        for image in self.disk.images():
            text = repr((said.epoch, said.voted, sorted(said.batches), sorted(image.files.items())))
            key = hashlib.blake2b(text.encode(), digest_size=16).digest()
            if key not in self.moments:
                self.moments[key] = Moment(said, image)

    def play(self) -> None:
        self.create()
        others = [1, 3]
        self._lead()
        for one in others:  # it decides what nobody hears of, and is cut
            self.cut.add(frozenset((ME, one)))
        for number in range(3):
            self.send(ME, CreateTopicsRequest([CreatableTopic(f"lost-{number}", 1, 1)]), 7)
        self.advance(10)
        alone = self.voter(ME).log.end.end
        self.until(lambda: self.active in others)
        self._fill("while", self.active, 1)
        self.cut.clear()
        self.until(lambda: self.voter(ME).log.committed == self.voter(self.active).log.committed)
        assert alone > 0
        self.reached["cut"] += 1
        self.stop(ME)
        self.until(lambda: self.active in others)
        self._fill("more", self.active, 12)
        start = self.voter(self.active).log.start.end
        self.start(ME)
        self.until(lambda: self[ME].core.ready)
        assert self.voter(ME).log.start.end >= start > 0
        self.reached["snapshot sent"] += 1
        self._lead()
        self._fill("own", ME, 12)
        assert self.voter(ME).log.start.end > start
        self.reached["snapshot written"] += 1
        self.kill(ME)
        self.start(ME)
        self.until(lambda: self[ME].core.ready)
        self.stop(ME)

    def _lead(self) -> None:
        """Have it lead."""
        for _ in range(20):
            if self.active == ME:
                return
            self.paused.add(self.active)
            self.until(lambda: self.active != 0)
            self.paused.clear()
            self.until(lambda: sum(one.core.voter.reign is not None for one in self.nodes.values()) == 1)  # type: ignore[union-attr]
        raise AssertionError("it never leads")

    def _fill(self, name: str, node_id: int, count: int) -> None:
        for number in range(count):
            topic = CreatableTopic(f"{name}-{number}", 1, 1)
            answer = self.ask(node_id, CreateTopicsRequest([topic]), 7)
            assert answer.topics[0].error_code == 0, answer


class Alone(Controllers):
    """It starts, and nobody is there."""

    def __init__(self, disk: Any) -> None:
        super().__init__(ME, disks={ME: disk})

    def until(self, there: Any, ms_max: int = 60_000) -> int:
        self.settle()
        return 0


def batches_of(log: Any, end: int) -> dict[int, bytes]:
    """Each batch of a log below `end`, by its first offset."""
    found = {}
    offset = log.log.log_start_offset
    while offset < min(end, log.log.log_end_offset):
        data = bytes(log.log.read(offset, 1 << 20, Isolation.LOG_END).records)
        for position, size in batches(data):
            header = read_header(data, position)
            offset = header.next_offset
            if offset <= end:
                found[header.base_offset] = data[position : position + size]
    return found


def check(moment: Moment, snapshots: dict[Any, bytes]) -> None:
    """What must be so after a start from there."""
    said = moment.said
    alone = Alone(moment.image.disk)
    core = alone[ME].core
    assert core.fault is None, core.fault
    voter = alone.voter(ME)
    assert voter.raft is not None
    kept: Kept = voter.raft.kept
    assert kept.epoch >= said.epoch, f"it forgot epoch {said.epoch}"
    if kept.epoch == said.epoch and said.voted >= 0:
        assert kept.voted == said.voted, f"it forgot that it voted for {said.voted}"
    start = voter.log.start
    here = batches_of(voter.log, voter.log.end.end)
    for offset, batch in said.batches.items():
        # Epochs rise along what is committed: what is older, behind a snapshot of a later epoch, its leader has lost.
        if offset >= start.end and read_header(batch, 0).leader_epoch >= start.epoch:
            assert here.get(offset) == batch, f"it lacks what it said it has at offset {offset}"
    held = voter.log.held
    if held is not None:
        assert snapshots.get((held.end, held.epoch), held.data) == held.data, "its snapshot is not whole"


@pytest.fixture(scope="module")
def story() -> Story:
    told = Story()
    told.play()
    return told


def test_the_story_has_all_that_is_to_be_torn(story):
    assert set(story.reached) == {"votes", "led", "cut", "snapshot sent", "snapshot written"}
    names = {path for moment in story.moments.values() for path in moment.image.files}
    assert {FILE, "meta.properties", "barnabas-ledger", ".kafka_cleanshutdown", "barnabas-life"} <= names
    assert any(path.endswith(".checkpoint") for path in names)


def test_whatever_is_left_no_promise_is_forgotten(story):
    faults = []
    for number, moment in enumerate(story.moments.values()):
        try:
            check(moment, story.snapshots)
        except Exception as fault:
            faults.append((number, moment.image.how, repr(fault)[:300]))
    assert not faults, f"{len(faults)} of {len(story.moments)}: {faults[:5]}"
