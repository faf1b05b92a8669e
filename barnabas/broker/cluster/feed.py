"""The controller's side of carrying the metadata: committed records, to brokers that ask for them with Fetch.

An observer asks as `KafkaRaftClient` has it: for partition 0 of `__cluster_metadata`, by its id, from the offset after
the last record that it has, with the epoch of that record. It is given what is committed and nothing else, so that what
it was given is never taken back. Where nothing is new it waits, as any fetch does.

    another cluster's id                          INCONSISTENT_CLUSTER_ID for the whole answer
    an offset beyond what is committed            OFFSET_OUT_OF_RANGE: it has what this controller never had, or lost
    an offset or an epoch that parts from ours    a diverging epoch: the same, as far as an observer is concerned
    an offset below the log's start               the snapshot that it is to read first (`snapshot_feed`)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from barnabas.broker.cluster import snapshot_feed
from barnabas.broker.cluster.metadata_log import HeldSnapshot
from barnabas.broker.delayed import CallbackTask, Timer
from barnabas.broker.log import Isolation, Log
from barnabas.broker.ports import NotYet, Token
from barnabas.broker.raft.fetching import epoch_fault
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)
from barnabas.protocol.requests.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

WAIT_MS_MAX: Final = 30_000
"""How long an observer may wait for news, whatever it asks for."""
BYTES_MAX: Final = 8 * 1024 * 1024
"""Of an answer, whatever is asked for; a first batch comes whole. Kafka's `KafkaRaftClient.MAX_FETCH_SIZE_BYTES`."""
WAITING_MAX: Final = 1000
"""Observers that wait at a time; one more is answered with what there is."""

FORGET_MS: Final = 300_000
"""An observer that has not asked for so long is told of no more. Kafka's `LeaderState.OBSERVER_SESSION_TIMEOUT_MS`."""

Respond = Callable[[FetchResponse], None]


class Observed(NamedTuple):
    """How far an observer was when it last asked, and when that was; when it last had all (-1: never). Monotonic ms."""

    end_offset: int
    asked_ms: int
    caught_up_ms: int
    offered: int
    """What was committed when it last asked: who asks from there has had all of that."""


class _Waiting:
    """One observer that waits for news."""

    __slots__ = ("asked", "respond", "task", "token")

    def __init__(self, asked: FetchPartition, respond: Respond) -> None:
        self.asked = asked
        self.respond = respond
        self.task: CallbackTask | None = None
        self.token: list[Token] = []


class MetadataFeed:
    """Serves the metadata log of this node: the active controller's, or any controller's to its own broker.

    Args:
        node_id: this node.
        cluster_id: as `meta.properties` has it.
        topic_id: of the metadata topic.
        log: the metadata log; its high watermark is what is committed.
        epoch: in which this node appends to it.
        snapshot: the newest snapshot; None while the log has all records.
        timer: for those that wait.
        later: runs a callback at the end of this step, or of the next, with its time (monotonic ms).
    """

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        topic_id: bytes,
        log: Log,
        epoch: int,
        snapshot: Callable[[], HeldSnapshot | None],
        timer: Timer,
        later: Callable[[Callable[[int], None]], None],
    ) -> None:
        self._leader = LeaderIdAndEpoch(node_id, epoch)
        self._cluster_id = cluster_id
        self._topic_id = topic_id
        self._log = log
        self._timer = timer
        self._later = later
        self._waiting: dict[_Waiting, None] = {}
        self._snapshot = snapshot
        self._observed: dict[int, Observed] = {}

    def led_by(self, leader: int, epoch: int) -> None:
        """Among several controllers: who leads now."""
        self._leader = LeaderIdAndEpoch(leader, epoch)

    def fetch(self, request: FetchRequest, respond: Respond, now_ms: int) -> None:
        """Answer an observer, now or when something is committed. `respond` is called once."""
        if request.cluster_id not in (None, self._cluster_id):
            respond(FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
            return
        parts = [part for topic in request.topics if topic.topic_id == self._topic_id for part in topic.partitions]
        if len(parts) != 1 or len(request.topics) != 1 or parts[0].partition:
            respond(FetchResponse(error_code=ErrorCode.INVALID_REQUEST))
            return
        if request.replica_state is not None:
            self._note(request.replica_state.replica_id, parts[0].fetch_offset, now_ms)
        one = _Waiting(parts[0], respond)
        wait_ms = min(request.max_wait_ms, WAIT_MS_MAX)
        if wait_ms > 0 and self._has_all(parts[0]) and len(self._waiting) < WAITING_MAX:
            self._waiting[one] = None
            one.task = CallbackTask(lambda _: self._answer(one))
            self._timer.add(one.task, now_ms + wait_ms)
        else:
            self._answer(one)

    def observers(self, now_ms: int) -> dict[int, Observed]:
        """Who has asked of late, by node id."""
        self._observed = {one: seen for one, seen in self._observed.items() if now_ms - seen.asked_ms < FORGET_MS}
        return dict(sorted(self._observed.items()))

    def _note(self, node_id: int, offset: int, now_ms: int) -> None:
        """Source: `LeaderState.ReplicaState.updateFollowerState`."""
        before = self._observed.get(node_id)
        caught_up_ms = -1 if before is None else before.caught_up_ms
        if offset >= self._log.high_watermark:
            caught_up_ms = now_ms
        elif before is not None and offset >= before.offered:
            caught_up_ms = max(caught_up_ms, before.asked_ms)
        self._observed[node_id] = Observed(offset, now_ms, caught_up_ms, self._log.high_watermark)

    def fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        """A piece of the newest snapshot."""
        leader = self._leader.leader_id, self._leader.leader_epoch
        return snapshot_feed.answer(request, self._snapshot(), self._cluster_id, leader)

    def committed(self) -> None:
        """The high watermark of the log rose: whoever waits is answered."""
        for one in tuple(self._waiting):
            self._answer(one)

    def __len__(self) -> int:
        """Observers that wait."""
        return len(self._waiting)

    def _has_all(self, asked: FetchPartition) -> bool:
        """Whether there is nothing to say to one that asks this."""
        log = self._log
        return asked.fetch_offset == log.high_watermark and not self._fault(asked) and self._diverging(asked) is None

    def _answer(self, one: _Waiting) -> None:
        """Answer; where bytes must be read first, once they are there, with what is committed then."""
        if one.task is not None:
            self._timer.cancel(one.task)
            one.task = None
        self._waiting.pop(one, None)
        try:
            data = self._data(one.asked)
        except NotYet as pending:
            one.token.append(pending.token)
            pending.token.on_ready(lambda: self._later(lambda _: self._answer(one)))
            return
        one.respond(FetchResponse(responses=[FetchableTopicResponse(topic_id=self._topic_id, partitions=[data])]))

    def _data(self, asked: FetchPartition) -> PartitionData:
        log = self._log
        data = PartitionData(0, 0, log.high_watermark, log.high_watermark, log.log_start_offset, records=b"")
        data.current_leader = self._leader
        data.error_code = self._fault(asked)
        if data.error_code:
            return data
        if asked.fetch_offset < log.log_start_offset:
            snapshot = self._snapshot()
            assert snapshot is not None, "nothing but a snapshot lets the log begin later"
            data.snapshot_id = SnapshotId(snapshot.end, snapshot.epoch)
            return data
        data.diverging_epoch = self._diverging(asked)
        if data.diverging_epoch is None:
            try:
                size = max(1, min(asked.partition_max_bytes, BYTES_MAX))
                data.records = log.read(asked.fetch_offset, size, Isolation.HIGH_WATERMARK).records
            except KafkaError as error:
                data.error_code = error.code
        return data

    def _fault(self, asked: FetchPartition) -> int:
        there = 0 <= asked.fetch_offset <= self._log.high_watermark
        fault = epoch_fault(asked.current_leader_epoch, self._leader.leader_epoch)
        return fault or (0 if there else ErrorCode.OFFSET_OUT_OF_RANGE)

    def _diverging(self, asked: FetchPartition) -> EpochEndOffset | None:
        """Where this log parts from the one that was asked from; None where it does not."""
        log = self._log
        epoch = asked.last_fetched_epoch
        if epoch < 0 or not log.log_start_offset < asked.fetch_offset:
            return None
        there = log.end_offset_for_epoch(epoch)
        if there.leader_epoch == epoch and there.end_offset >= asked.fetch_offset:
            return None
        return EpochEndOffset(there.leader_epoch, there.end_offset)
