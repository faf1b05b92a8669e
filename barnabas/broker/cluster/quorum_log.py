"""The metadata log of one of several controllers: what a voter of the quorum keeps (`raft.world.RaftLog`).

The files are those of `metadata_log`; what differs is when something counts. What is appended is committed once the
quorum says so, a leader's as well as a follower's, and until then it may be cut. Every record begins in the epoch of
some leader, whose first record is a `NewEpoch`.

    load()                 what lies on the device: nothing behind the newest snapshot is believed to be committed
    append_records(...)    a leader's change, one batch; it is committed when the quorum has it
    take_piece, install    a snapshot of the leader's takes the place of all that is here

A snapshot is on the device before the log below it goes, so a sudden end between the two leaves a log that ends below
its snapshot, or beside it: the next start begins where the snapshot ends. What is broken behind the last that was
noted down as committed (at a clean end) is cut, for an unsynced tail of several batches may have holes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from barnabas.broker.cluster import judgement
from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.judgement import DIRECTORY, SUFFIX, MetadataUnreadable, Snapshot, newest_snapshot
from barnabas.broker.cluster.ledger import LEDGER_FILE, Ledger, LedgerUnreadable
from barnabas.broker.cluster.metadata_log import TOPIC_ID, HeldSnapshot
from barnabas.broker.cluster.record_bytes import BATCH_BYTES_MAX, batch_of, log_config, snapshot_of
from barnabas.broker.cluster.records import MetadataRecord, NewEpoch
from barnabas.broker.config.topics import METADATA_TOPIC
from barnabas.broker.jobs import Gate, Job, at_once, wait
from barnabas.broker.log import AppendOrigin, Log
from barnabas.broker.log.check import Broken, check_log
from barnabas.broker.log.losses import Losses
from barnabas.broker.ports import Disk, NotYet, Token, WallClock
from barnabas.broker.raft.world import Done, Mark, NotInstalled
from barnabas.protocol.batch import HEADER_SIZE, read_header
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import Buffer, TopicPartition

Later: TypeAlias = Callable[[Callable[[int], None]], None]
"""`later(callback)`: runs it at the end of this step, or of the next, with the time (monotonic ms)."""

_NOTHING: Final = Mark(0, 0)

logger = logging.getLogger(__name__)


class QuorumLog:
    """One voter's log, on its data directory.

    Args:
        disk: the data directory.
        clock: time of day.
        later: what runs a callback that must not come from inside a call.
        snapshot_bytes_max: bytes of records after which a snapshot is due.
        losses: is told of what a start cuts off.
        segment_bytes: bytes of one file; a batch must fit into it.
    """

    def __init__(
        self,
        disk: Disk,
        clock: WallClock,
        later: Later,
        snapshot_bytes_max: int,
        losses: Losses | None = None,
        *,
        segment_bytes: int = BATCH_BYTES_MAX,
    ) -> None:
        config = log_config(segment_bytes)
        self.log = Log(disk, DIRECTORY, TopicPartition(METADATA_TOPIC, 0), TOPIC_ID, config, losses=losses)
        self.held: HeldSnapshot | None = None
        """The newest snapshot; None while the log has all records."""
        self._disk = disk
        self._clock = clock
        self._later = later
        self._snapshot_bytes_max = snapshot_bytes_max
        self._ledger = Ledger(disk)
        self._start = _NOTHING
        self._bytes_since_snapshot = 0
        self._snapshotting = False
        self._pieces: list[bytes] = []
        self._installing = False
        self._read: list[Token] = []  # what a cut has asked for
        self._waiting: list[tuple[int, Done]] = []  # for a sync, until a snapshot is installed

    # Its places (`RaftLog`)

    @property
    def start(self) -> Mark:
        """What the newest snapshot holds."""
        return self._start

    @property
    def end(self) -> Mark:
        """Where it ends."""
        end = self.log.log_end_offset
        return Mark(end, self.log.latest_epoch) if end > self._start.end else self._start

    @property
    def committed(self) -> int:
        """The high watermark."""
        return self.log.high_watermark

    def end_of(self, epoch: int) -> Mark:
        """Where the largest epoch ends that is here and not above."""
        start, end = self._start, self.end
        if end == _NOTHING:
            return Mark(-1, -1)
        if epoch >= end.epoch:
            return end
        there = self.log.end_offset_for_epoch(epoch)
        if end.end > start.end and there.end_offset > start.end:
            return Mark(there.end_offset, there.leader_epoch)
        return start if start.end and start.epoch <= epoch else Mark(start.end, epoch)

    # What changes it (`RaftLog`)

    def begin_epoch(self, epoch: int, leader: int) -> None:
        """Append the first record of an epoch, which this voter leads."""
        if self._installing:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "a snapshot is being installed")
        self.append_batch(at_once(batch_of([NewEpoch(leader)], self._clock.now_ms())), epoch)

    def append_records(self, records: Sequence[MetadataRecord], epoch: int) -> Job[int]:
        """Append one operation of the leader's, in bounded steps up to the last, which appends; where the log ends.

        Raises:
            KafkaError: RECORD_LIST_TOO_LARGE, KAFKA_STORAGE_ERROR; nothing was appended.
        """
        data = yield from batch_of(records, self._clock.now_ms())
        return self.append_batch(data, epoch)

    def append_batch(self, data: bytearray, epoch: int) -> int:
        """As `append_records`, of what is a batch already."""
        now_ms = self._clock.now_ms()
        self.log.append_as_leader(data, epoch, now_ms=now_ms, origin=AppendOrigin.COORDINATOR)
        self._bytes_since_snapshot += len(data)
        return self.log.log_end_offset

    def append(self, records: Buffer | list[Buffer] | None) -> int:
        """Append what the leader has sent; how many records that were."""
        data = bytearray(b"".join(records) if isinstance(records, list) else records or b"")
        before = self.log.log_end_offset
        if len(data) < HEADER_SIZE:
            return 0
        first = read_header(data).base_offset
        if first != before:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"offset {first} came where {before} is due")
        self.log.append_as_follower(data, now_ms=self._clock.now_ms())
        self._bytes_since_snapshot += len(data)
        return self.log.log_end_offset - before

    def cut(self, end: int, done: Done) -> None:
        """Cut all from `end` on, or have read what that takes: nobody may be surprised by a cut that comes later."""
        fault: KafkaError | None = None
        try:
            count = self.end.end - end
            self.log.truncate_to(end)
            logger.info("%d records of the metadata log, which were never committed, are cut", count)
        except NotYet as pending:
            self._read.append(pending.token)  # as long as it is held, the same read answers at once
            pending.token.on_ready(lambda: self._later(lambda now_ms: done(None, now_ms)))
            return
        except KafkaError as error:
            fault = error.kept()
        self._read.clear()
        self._later(lambda now_ms: done(fault, now_ms))

    def sync(self, end: int, done: Done) -> None:
        """Have all below `end` on the device."""
        if self._installing:
            self._waiting.append((end, done))
            return

        def durable(fault: KafkaError | None) -> None:
            self._later(lambda now_ms: done(fault, now_ms))

        try:
            if self.log.when_durable(end, durable):
                durable(None)
        except KafkaError as fault:
            durable(fault.kept())

    def commit(self, end: int) -> None:
        """All below `end` is committed."""
        self.log.advance_high_watermark(end)

    # Snapshots

    def take_piece(self, snapshot: Mark, position: int, data: bytes, *, whole: bool) -> None:
        """Put a piece of a snapshot aside."""
        if not position:
            self._pieces = []
        self._pieces.append(data)
        if whole:
            self._pieces = [b"".join(self._pieces)]
            for _ in judgement.snapshot_records(self._pieces[0], _named(snapshot), log_holds_all=False):
                pass

    def install(self, snapshot: Mark, done: Done) -> None:
        """From now on the log is that snapshot and nothing else; `done` once that is synced."""
        (data,), self._pieces = self._pieces, []
        self._installing = True

        def begun(now_ms: int) -> None:
            fault: Exception | None = None
            try:
                self._begin_at(snapshot, data)
            except (OSError, KafkaError) as error:
                fault = error
            self._installed(fault)
            done(fault, now_ms)

        def written(error: OSError | None) -> None:
            if error is None:
                self._later(begun)
            else:
                self._installed(None)
                fault = NotInstalled(str(error))
                self._later(lambda now_ms: done(fault, now_ms))

        self._disk.write_atomic(f"{DIRECTORY}/{_named(snapshot).name}", data, written)

    def _begin_at(self, snapshot: Mark, data: bytes) -> None:
        self.log.truncate_fully_and_start_at(snapshot.end, now_ms=self._clock.now_ms())
        self.log.advance_high_watermark(snapshot.end)
        self._bytes_since_snapshot = 0
        self._hold(snapshot, data)
        self._forget_older()
        logger.info("the metadata up to offset %d came as a snapshot of the leader's", snapshot.end)

    def _installed(self, fault: Exception | None) -> None:
        self._installing = False
        waiting, self._waiting = self._waiting, []
        for end, done in waiting:
            if fault is None:  # what they waited for is gone, or is there still
                self.sync(min(end, self.log.log_end_offset), done)
            else:
                self._later(lambda now_ms, done=done: done(fault, now_ms))  # type: ignore[misc]

    @property
    def snapshot_due(self) -> bool:
        """Whether enough has come together for another snapshot."""
        return self._bytes_since_snapshot > self._snapshot_bytes_max and not (self._snapshotting or self._installing)

    def snapshot(self, image: Image, mark: Mark) -> Job[None]:
        """Write down an image of what is committed, which is not to change, and let the log below it go.

        A failure is logged, and the snapshot stays due.
        """
        self._snapshotting = True
        return self._snapshot(image, mark)

    def _snapshot(self, image: Image, mark: Mark) -> Job[None]:
        try:
            yield from self._write_snapshot(image, mark)
        except (OSError, KafkaError) as fault:
            logger.error("the metadata snapshot was not written: %s", fault)
        finally:
            self._snapshotting = False

    def _write_snapshot(self, image: Image, mark: Mark) -> Job[None]:
        covered_bytes = self._bytes_since_snapshot
        now_ms = self._clock.now_ms()
        data = yield from snapshot_of(image, now_ms)
        if self._installing or mark.end <= self._start.end or not data:
            return  # a newer one came meanwhile; or nothing but the begin of an epoch is committed, much as has come
        gate = Gate()
        self._disk.write_atomic(f"{DIRECTORY}/{_named(mark).name}", data, gate.open)
        yield from wait(gate)
        if self._installing or mark.end <= self._start.end:
            return
        self._bytes_since_snapshot = max(self._bytes_since_snapshot - covered_bytes, 0)
        self._hold(mark, data)
        self._forget_older()
        self.log.raise_log_start_offset(mark.end)
        yield from self.log.retain(now_ms)
        logger.info("metadata snapshot %s: %d bytes", _named(mark).name, len(data))

    def _hold(self, mark: Mark, data: bytes) -> None:
        self._start = mark
        self.held = HeldSnapshot(mark.end, mark.epoch, data)

    def _forget_older(self) -> None:
        for other in judgement.snapshots(self._disk):
            if other.end < self._start.end:
                self._disk.remove(f"{DIRECTORY}/{other.name}")

    # Life

    def load(self, *, in_use: bool = False) -> Job[None]:
        """Open what lies on the device.

        Args:
            in_use: the data directory holds what only a broker with metadata can have written, and no voter's state.

        Raises:
            MetadataUnreadable: something is broken or missing that was there; nothing was changed.
            OSError: the disk failed.
        """
        try:
            self._ledger.load()
        except LedgerUnreadable as fault:
            logger.warning("%s; it is written anew from the metadata log", fault)
        snapshot = newest_snapshot(self._disk)
        found = yield from check_log(self._disk, DIRECTORY, gapless=True)
        behind = max(found.end_offset, -1 if found.broken is None else found.broken.known_end)
        superseded = snapshot is not None and behind <= snapshot.end
        if not superseded:
            gone = judgement.lost_segments(self._disk)
            broken = found.broken
            if broken is not None and broken.offset >= self._ledger.metadata_end:
                self._say_cut(broken)
                found = found._replace(broken=broken._replace(torn=True))
            judgement.judge(found, snapshot, self._ledger, in_use=in_use, gone=gone)
        elif snapshot is not None and snapshot.end < self._ledger.metadata_end:
            raise MetadataUnreadable(
                f"{DIRECTORY} ends with its snapshot, record {snapshot.end - 1}, and records up to "
                f"{self._ledger.metadata_end - 1} were announced; restore the data directory from a copy, or start "
                "this node with an empty one"
            )
        if snapshot is not None:
            data = self._disk.load(f"{DIRECTORY}/{snapshot.name}")
            whole = bool(found.segments) and not found.segments[0].base
            for _ in judgement.snapshot_records(data, snapshot, log_holds_all=whole):
                yield None
            self._hold(Mark(snapshot.end, snapshot.epoch), data)
        yield from self._open()
        for path in judgement.unfinished_snapshots(self._disk):
            self._disk.remove(path)

    def _say_cut(self, broken: Broken) -> None:
        """Many batches may wait for one sync, so whole ones may lie behind a torn one; the other voters have them."""
        logger.log(
            logging.INFO if broken.torn else logging.WARNING,
            "%s is broken at byte %d, and cut there: what was committed of it comes from the other controllers",
            broken.path,
            broken.position,
        )

    def _open(self) -> Job[None]:
        log, start, wall_ms = self.log, self._start, self._clock.now_ms()
        yield from log.recover(clean=False, now_ms=wall_ms, log_start_offset=start.end, high_watermark=start.end)
        if log.log_end_offset < start.end or log.latest_epoch < start.epoch:
            log.truncate_fully_and_start_at(start.end, now_ms=wall_ms)
        log.advance_high_watermark(start.end)
        yield from log.flush()
        self._bytes_since_snapshot = log.size_bytes

    def close(self) -> Job[None]:
        """Flush and release the files, and note down how much is known to be committed.

        Raises:
            OSError: the disk failed.
        """
        yield from self.log.close()
        gate = Gate()
        self._ledger.raise_to(self.committed, 0)
        self._ledger.write(gate.open)
        try:
            yield from wait(gate)
        except OSError as error:
            logger.warning("%s was not written: %s", LEDGER_FILE, error)


def _named(mark: Mark) -> Snapshot:
    return Snapshot(f"{mark.end:020d}-{mark.epoch:010d}{SUFFIX}", mark.end, mark.epoch)
