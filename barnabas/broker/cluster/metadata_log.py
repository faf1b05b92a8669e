"""The metadata log on disk: an ordinary log, `__cluster_metadata-0`, and a snapshot that keeps it short.

One operation is one batch; its value per record is described in `records`. Appended is not committed: `append` calls
back once the batch is on stable storage. When `metadata.log.max.record.bytes.between.snapshots` have been committed
since the last snapshot, the image is written to `<end offset>-<epoch>.checkpoint` (v2 batches of the same records) and
the segments below go. A start reads the newest snapshot, then the log from there. The controller of a cluster keeps the
newest in memory, too, for brokers that are further back than its log.

    00000000000000000000.log                           records 0 to 4711
    00000000000000004000-0000000003.checkpoint         the image after record 3999
    000001.00000000000000000000.4711.cut               what a start or a repair cut off at byte 4711

Nothing of it is cut silently: a start looks all of it through first (`log/check`), and refuses what is broken and is no
torn tail, or what ends before the ledger says that it does (`judgement`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.broker.cluster import judgement
from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.judgement import DIRECTORY, SUFFIX, newest_snapshot, snapshots
from barnabas.broker.cluster.ledger import LEDGER_FILE, Ledger, LedgerUnreadable
from barnabas.broker.cluster.record_bytes import BATCH_BYTES_MAX, batch_of, log_config, snapshot_of
from barnabas.broker.cluster.record_log import Commit
from barnabas.broker.cluster.records import MetadataRecord, decode
from barnabas.broker.config.topics import METADATA_TOPIC, METADATA_TOPIC_ID
from barnabas.broker.jobs import Gate, Job, wait
from barnabas.broker.log import AppendOrigin, Log
from barnabas.broker.log.check import check_log
from barnabas.broker.log.losses import Losses
from barnabas.broker.log.replay import replay
from barnabas.broker.ports import Disk, WallClock
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition

TOPIC_ID: Final = METADATA_TOPIC_ID

logger = logging.getLogger(__name__)


class HeldSnapshot(NamedTuple):
    """A snapshot in memory: offset after the last record that it holds, leader epoch, and its batches."""

    end: int
    epoch: int
    data: bytes


class MetadataLog:
    """The records of a controller, in order.

    Args:
        disk: the data directory.
        clock: time of day.
        snapshot_bytes_max: bytes of records after which a snapshot is due.
        losses: is told of what a start cuts off.
        segment_bytes: bytes of one file; a batch must fit into it.
        holds_snapshot: whether the newest snapshot is kept in memory, for other brokers.
    """

    def __init__(
        self,
        disk: Disk,
        clock: WallClock,
        snapshot_bytes_max: int,
        losses: Losses | None = None,
        *,
        segment_bytes: int = BATCH_BYTES_MAX,
        holds_snapshot: bool = False,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._snapshot_bytes_max = snapshot_bytes_max
        config = log_config(segment_bytes)
        self.ledger = Ledger(disk)
        self._log = Log(disk, DIRECTORY, TopicPartition(METADATA_TOPIC, 0), TOPIC_ID, config, losses=losses)
        self._epoch = 0
        self._bytes_since_snapshot = 0
        self._snapshotting = False
        self._ending = False
        self._holds_snapshot = holds_snapshot
        self.held: HeldSnapshot | None = None
        """The newest snapshot, if it is kept and there is one."""

    @property
    def log(self) -> Log:
        """The log itself, to be read from; its high watermark is what is committed."""
        return self._log

    @property
    def epoch(self) -> int:
        """The leader epoch that records are appended with."""
        return self._epoch

    @property
    def end_offset(self) -> int:
        """Offset after the last appended record."""
        return self._log.log_end_offset

    @property
    def snapshot_due(self) -> bool:
        """Whether enough has come together for another snapshot."""
        return self._bytes_since_snapshot > self._snapshot_bytes_max and not self._snapshotting

    def load(self, image: Image, *, in_use: bool = False, last_epoch: int = -1) -> Job[None]:
        """Replay everything into `image`.

        Args:
            image: an empty one.
            in_use: the data directory holds what only a broker with metadata can have written.
            last_epoch: the newest that was kept elsewhere (-1: none); the next is above all that are known.

        Raises:
            MetadataUnreadable: something is broken or missing that was there; nothing was changed.
            UnknownRecord: a newer release wrote it.
            OSError: the disk failed.
        """
        try:
            self.ledger.load()
        except LedgerUnreadable as fault:
            logger.warning("%s; it is written anew from the metadata log", fault)
        snapshot = newest_snapshot(self._disk)
        found = yield from check_log(self._disk, DIRECTORY, gapless=True)
        gone = judgement.lost_segments(self._disk)
        judgement.judge(found, snapshot, self.ledger, in_use=in_use, gone=gone)
        if snapshot is not None:
            data = self._disk.load(f"{DIRECTORY}/{snapshot.name}")
            whole = bool(found.segments) and not found.segments[0].base
            for records in judgement.snapshot_records(data, snapshot, log_holds_all=whole):
                image.apply(records)
                yield None
            self._hold(snapshot.end, snapshot.epoch, data)
        if found.broken is not None:
            logger.warning(
                "the metadata log ends in a torn batch, which was never announced: %s, byte %d",
                found.broken.path,
                found.broken.position,
            )
        start = 0 if snapshot is None else snapshot.end
        log = self._log
        yield from log.recover(clean=False, now_ms=self._clock.now_ms(), log_start_offset=start)
        if log.log_end_offset > self.ledger.metadata_end:  # a kill came before the sync, and it counts from now on
            yield from log.flush()
        self._bytes_since_snapshot = yield from replay(
            log, start, lambda _, records: image.apply(decode(record.value or b"") for record in records)
        )
        log.advance_high_watermark(log.log_end_offset)
        snapshot_epoch = -1 if snapshot is None else snapshot.epoch
        self._epoch = max(found.latest_epoch, log.latest_epoch, snapshot_epoch, last_epoch) + 1
        log.assign_epoch(self._epoch)
        for path in judgement.unfinished_snapshots(self._disk):
            self._disk.remove(path)

    def note(self, producer_ids_end: int = 0) -> Gate:
        """Bring the ledger up to date with what is committed; the gate opens when it is, or could not be."""
        gate = Gate()

        def written(error: OSError | None) -> None:
            if error is not None:
                logger.warning("%s was not written: %s", LEDGER_FILE, error)
            gate.open()

        self.ledger.raise_to(self._log.high_watermark, producer_ids_end)
        self.ledger.write(written)
        return gate

    def keep_producer_ids(self, end: int, kept: Commit) -> None:
        """Note down in a second place that ids below `end` may be given out; `kept` hears when it is on the device."""

        def written(error: OSError | None) -> None:
            if error is None:
                kept(None)
            else:
                kept(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{LEDGER_FILE} cannot be written: {error}"))

        self.ledger.raise_to(self._log.high_watermark, end)
        self.ledger.write(written)

    def append(self, records: Sequence[MetadataRecord], committed: Commit) -> None:
        """Append one operation; `committed` hears when it is on stable storage, in the order of the appends.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, RECORD_LIST_TOO_LARGE for more than a batch holds, or NOT_CONTROLLER: the
                broker stops; nothing was appended.
        """
        for _ in self.append_in_steps(records, committed):
            pass

    def append_in_steps(self, records: Sequence[MetadataRecord], committed: Commit) -> Job[None]:
        """As `append`, in bounded steps up to the last, which appends; nobody else may append meanwhile.

        Raises:
            KafkaError: as `append`.
        """
        if self._ending:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "the broker is stopping")
        now_ms = self._clock.now_ms()
        data = yield from batch_of(records, now_ms)
        log = self._log
        log.append_as_leader(data, self._epoch, now_ms=now_ms, origin=AppendOrigin.COORDINATOR)
        end = log.log_end_metadata

        def durable(fault: KafkaError | None) -> None:
            if fault is None:
                log.advance_high_watermark(end)
                self._bytes_since_snapshot += len(data)
            committed(fault)

        already = log.when_durable(end.offset, durable)
        assert not already, "what was appended just now is not on stable storage yet"

    def snapshot(self, image: Image) -> Job[None]:
        """Write the committed image down, and let the log below it go.

        A failure is logged, and the snapshot stays due: the next change that is committed has it tried again. It is not
        due while this waits for its first step: what is committed meanwhile asks for no other.
        """
        self._snapshotting = True
        return self._snapshot(image)

    def _snapshot(self, image: Image) -> Job[None]:
        try:
            yield from self._write_snapshot(image.copy(), self._log.high_watermark)
        except (OSError, KafkaError) as fault:
            logger.error("the metadata snapshot was not written: %s", fault)
        finally:
            self._snapshotting = False

    def _write_snapshot(self, image: Image, end: int) -> Job[None]:
        covered_bytes = self._bytes_since_snapshot
        now_ms = self._clock.now_ms()
        written = yield from snapshot_of(image, now_ms)
        name = f"{end:020d}-{self._epoch:010d}{SUFFIX}"
        gate = Gate()
        self._disk.write_atomic(f"{DIRECTORY}/{name}", written, gate.open)
        yield from wait(gate)
        self._hold(end, self._epoch, written)
        self._bytes_since_snapshot -= covered_bytes
        for other in snapshots(self._disk):
            if other.name < name:
                self._disk.remove(f"{DIRECTORY}/{other.name}")
        self._log.raise_log_start_offset(end)
        yield from self._log.retain(now_ms)
        logger.info("metadata snapshot %s: %d bytes", name, len(written))

    def _hold(self, end: int, epoch: int, data: bytes) -> None:
        if self._holds_snapshot:
            self.held = HeldSnapshot(end, epoch, data)

    def end(self) -> None:
        """The broker stops: no change is taken any more, those under way are committed."""
        self._ending = True

    def close(self) -> Job[None]:
        """Flush and release the files, and note down where the log ends.

        Raises:
            OSError: the disk failed.
        """
        yield from self._log.close()
        yield from wait(self.note())
