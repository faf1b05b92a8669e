"""A voter that follows: it asks the leader for records, and says by its offset how much of the log is on its device.

    request(now_ms)             what to send; None while an answer, a sync or an installation is under way
    answered(response, now_ms)  what the leader said: `Told`

Nothing is asked for before all that is here is synced, so that what the leader counts is never lost. Where the leader's
log is another, this one is cut by its epochs, as often as it takes; where the leader's begins later, his snapshot comes
first, in pieces, and takes the place of all that is here. Source: `KafkaRaftClient.handleFetchResponse` and
`handleFetchSnapshotResponse` of Apache Kafka.
"""

from __future__ import annotations

import logging
from typing import Any, Final, NamedTuple

from barnabas.broker.config.topics import METADATA_TOPIC, METADATA_TOPIC_ID
from barnabas.broker.log.types import EpochEnd
from barnabas.broker.raft.world import Mark, NotInstalled, RaftLog
from barnabas.broker.replica.divergence import cut_at
from barnabas.protocol.errors import BarnabasError, ErrorCode, error_name
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from barnabas.protocol.requests.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PartitionSnapshot,
    SnapshotId,
    TopicSnapshot,
)

BACKOFF_MS: Final = 50
"""After an error, or no answer."""
NO_ROOM_MS: Final = 1000
"""Before all of a snapshot that could not be written is asked for again."""
WAIT_MS: Final = 500
"""How long the leader may wait for news; far below the fetch timeout."""
BYTES_MAX: Final = 1024 * 1024
PIECE_BYTES: Final = 128 * 1024

logger = logging.getLogger(__name__)


class Told(NamedTuple):
    """What an answer came to. `epoch` and `leader` are what it says of them (-1: nothing); `alive`: it leads."""

    epoch: int = -1
    leader: int = -1
    alive: bool = False
    committed: bool = False


class Following:
    """Follows one leader in one epoch. All times are monotonic ms. `fault`: this voter can follow nobody any more."""

    def __init__(self, me: int, cluster_id: str, leader: int, epoch: int, log: RaftLog, now_ms: int) -> None:
        self._me = me
        self._cluster_id = cluster_id
        self._leader = leader
        self._epoch = epoch
        self._log = log
        self._not_before_ms = now_ms
        self._asking = False
        self._writing = False
        self._unsynced = True  # whoever followed before may have left something
        self._snapshot: Mark | None = None
        self._position = 0
        self._said = ""
        self.fault: Exception | None = None

    def request(self, now_ms: int) -> FetchRequest | FetchSnapshotRequest | None:
        """What to ask the leader for now."""
        if self._asking or self._writing or self.fault is not None or now_ms < self._not_before_ms:
            return None
        if self._unsynced:
            self._unsynced, self._writing = False, True
            self._log.sync(self._log.end.end, self._written)
            return None
        self._asking = True
        if self._snapshot is not None:
            wanted = SnapshotId(self._snapshot.end, self._snapshot.epoch)
            part = PartitionSnapshot(0, self._epoch, wanted, self._position)
            topics = [TopicSnapshot(METADATA_TOPIC, [part])]
            return FetchSnapshotRequest(self._cluster_id, self._me, PIECE_BYTES, topics)
        end = self._log.end
        asked = FetchPartition(0, self._epoch, end.end, end.epoch, self._log.start.end, BYTES_MAX)
        return FetchRequest(
            cluster_id=self._cluster_id,
            replica_state=ReplicaState(self._me, -1),
            max_wait_ms=WAIT_MS,
            max_bytes=BYTES_MAX,
            topics=[FetchTopic(METADATA_TOPIC, METADATA_TOPIC_ID, [asked])],
        )

    def next_deadline_ms(self) -> int | None:
        """When `request` has something to say again."""
        return None if self._asking or self._writing or self.fault is not None else self._not_before_ms

    def answered(self, response: FetchResponse | FetchSnapshotResponse | None, now_ms: int) -> Told:
        """Take an answer in; None says that there was none."""
        self._asking = False
        if response is None:
            return self._again("it does not answer", now_ms)
        pieces = isinstance(response, FetchSnapshotResponse)
        told: list[Any] = response.topics if pieces else response.responses  # type: ignore[union-attr]
        parts: list[Any] = [part for topic in told for part in topic.partitions]
        if response.error_code or len(parts) != 1:
            return self._again(f"it refuses to be followed ({error_name(response.error_code)})", now_ms)
        (part,) = parts
        said = part.current_leader
        epoch, leader = (-1, -1) if said is None else (said.leader_epoch, said.leader_id)
        if epoch not in (-1, self._epoch):
            return Told(epoch, leader)
        if pieces:
            return self._take_piece(part, now_ms)
        if part.error_code:
            resigned = part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            level = logging.INFO if resigned else logging.WARNING
            return self._again(f"it answers {error_name(part.error_code)}", now_ms, level)
        return self._take(part, now_ms)

    def _take(self, part: Any, now_ms: int) -> Told:
        self._said = ""
        self._not_before_ms = now_ms
        parts = part.diverging_epoch
        if part.snapshot_id is not None and part.snapshot_id.end_offset >= 0:
            self._snapshot, self._position = Mark(part.snapshot_id.end_offset, part.snapshot_id.epoch), 0
            return Told(alive=True)
        if parts is not None and parts.epoch >= 0:
            return self._cut(EpochEnd(parts.epoch, parts.end_offset))
        try:
            self._unsynced = self._log.append(part.records) > 0
        except BarnabasError as fault:
            self._unsynced = True
            return self._again(f"what it sends cannot be appended: {fault}", now_ms)
        known = self._log.committed
        self._log.commit(min(part.high_watermark, self._log.end.end))
        return Told(alive=True, committed=self._log.committed > known)

    def _cut(self, told: EpochEnd) -> Told:
        log, end = self._log, self._log.end.end
        ours = log.end_of(told.leader_epoch)
        at = cut_at(EpochEnd(ours.epoch, ours.end), end, told)
        if at < log.committed:
            self._end(f"the leader does not have offset {log.committed - 1}, which was committed: it has lost its log")
            return Told()
        logger.info("the metadata log is cut from offset %d to %d: the leader has other records there", end, at)
        self._unsynced = self._writing = True
        log.cut(at, self._is_cut)
        return Told(alive=True)

    def _is_cut(self, error: Exception | None, now_ms: int) -> None:
        self._writing = False
        if error is not None:
            self._again(f"the metadata log cannot be cut: {error}", now_ms)

    def _take_piece(self, part: Any, now_ms: int) -> Told:
        wanted = self._snapshot
        if wanted is None:
            return Told()
        if part.error_code == ErrorCode.SNAPSHOT_NOT_FOUND:
            self._snapshot = None  # there is a newer one by now
            return self._again("it has another snapshot", now_ms)
        if part.error_code:
            return self._again(f"it answers {error_name(part.error_code)}", now_ms)
        piece = part.unaligned_records
        data = b"".join(piece) if isinstance(piece, list) else bytes(piece or b"")
        end = part.position + len(data)
        if part.position != self._position or not data or end > part.size:
            self._snapshot = None
            return self._again(f"a piece at byte {part.position} came, not at {self._position}", now_ms)
        try:
            self._log.take_piece(wanted, part.position, data, whole=end == part.size)
        except BarnabasError as fault:
            self._snapshot = None
            return self._again(f"its snapshot is damaged: {fault}", now_ms)
        self._position, self._not_before_ms, self._said = end, now_ms, ""
        if end == part.size:
            self._snapshot, self._writing = None, True
            self._log.install(wanted, self._installed)
        return Told(alive=True, committed=end == part.size)

    def _installed(self, error: Exception | None, now_ms: int) -> None:
        if not isinstance(error, NotInstalled):
            self._written(error, now_ms)
            return
        self._writing = False
        self._again(f"its snapshot cannot be kept: {error}", now_ms)
        self._not_before_ms = now_ms + NO_ROOM_MS

    def _written(self, error: Exception | None, now_ms: int) -> None:
        self._writing = False
        if error is not None:
            self._end(f"the metadata log cannot be written: {error}")

    def _again(self, reason: str, now_ms: int, level: int = logging.WARNING) -> Told:
        self._not_before_ms = now_ms + BACKOFF_MS
        if reason != self._said:
            self._said = reason
            logger.log(level, "the leader of the metadata (node %d): %s; it is asked again", self._leader, reason)
        return Told()

    def _end(self, reason: str) -> None:
        logger.error("this voter can follow no further: %s", reason)
        self.fault = QuorumFault(reason)


class QuorumFault(BarnabasError):
    """This voter's part in the quorum is over; the text says why."""
