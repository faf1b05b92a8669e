"""The metadata log on disk: an ordinary log, `__cluster_metadata-0`, and a snapshot that keeps it short.

One operation is one batch; its value per record is described in `records`. Appended is not committed: `append` calls
back once the batch is on stable storage. When `metadata.log.max.record.bytes.between.snapshots` have been committed
since the last snapshot, the image is written to `<end offset>-<epoch>.checkpoint` (v2 batches of the same records) and
the segments below go. A start reads the newest snapshot, then the log from there.

    00000000000000000000.log                           records 0 to 4711
    00000000000000004000-0000000003.checkpoint         the image after record 3999
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from barnabas.broker.cluster.controller import Commit
from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.records import MetadataRecord, decode, encode
from barnabas.broker.config import TopicConfig
from barnabas.broker.config.topics import METADATA_TOPIC
from barnabas.broker.jobs import Gate, Job, wait
from barnabas.broker.log import AppendOrigin, Isolation, Log
from barnabas.broker.ports import Disk, NotYet, Token, WallClock
from barnabas.protocol.batch import batches, crc_ok, read_header
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import Buffer, TopicPartition
from barnabas.protocol.records import BatchBuilder, decode_records, decode_slices

DIRECTORY: Final = f"{METADATA_TOPIC}-0"
SUFFIX: Final = ".checkpoint"
TOPIC_ID: Final = (1).to_bytes(16, "big")
"""Kafka's reserved id of the metadata topic (`Uuid.METADATA_TOPIC_ID`)."""
_BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
_WINDOW: Final = 32 * 1024
_RECORDS_PER_STEP: Final = 250

logger = logging.getLogger(__name__)


class MetadataUnreadable(BarnabasError):
    """The metadata cannot be read: serving without it would lose topics."""


class MetadataLog:
    """The records of a cluster of one, in order."""

    def __init__(self, disk: Disk, clock: WallClock, snapshot_bytes_max: int) -> None:
        self._disk = disk
        self._clock = clock
        self._snapshot_bytes_max = snapshot_bytes_max
        config = TopicConfig(
            segment_bytes=_BATCH_BYTES_MAX,
            max_message_bytes=_BATCH_BYTES_MAX,
            segment_index_bytes=1024 * 1024,
            retention_ms=-1,
            file_delete_delay_ms=0,
        )
        self._log = Log(disk, DIRECTORY, TopicPartition(METADATA_TOPIC, 0), TOPIC_ID, config)
        self._epoch = 0
        self._bytes_since_snapshot = 0
        self._snapshotting = False

    @property
    def end_offset(self) -> int:
        """Offset after the last appended record."""
        return self._log.log_end_offset

    @property
    def snapshot_due(self) -> bool:
        """Whether enough has come together for another snapshot."""
        return self._bytes_since_snapshot > self._snapshot_bytes_max and not self._snapshotting

    def load(self, image: Image) -> Job[None]:
        """Replay everything into `image`.

        Raises:
            MetadataUnreadable: a snapshot is broken, or the log does not reach back to it.
            UnknownRecord: a newer release wrote it.
            OSError: the disk failed.
        """
        name, start = self._newest_snapshot()
        if name is not None:
            for records in _decode_batches(self._disk.load(f"{DIRECTORY}/{name}"), name):
                image.apply(records)
                yield None
        log = self._log
        yield from log.recover(clean=False, now_ms=self._clock.now_ms(), log_start_offset=start)
        if log.bases[0] > start:
            raise MetadataUnreadable(
                f"{DIRECTORY} begins at {log.bases[0]} and its newest snapshot ends at {start}: files are missing; "
                "restore the data directory from a copy"
            )
        if log.log_end_offset < start:
            raise MetadataUnreadable(
                f"{DIRECTORY} ends at {log.log_end_offset} and its newest snapshot at {start}: records are missing; "
                "restore the data directory from a copy"
            )
        offset = start
        while offset < log.log_end_offset:
            view = yield from self._read(offset)
            for position, _ in batches(view):
                header = read_header(view, position)
                for found in decode_slices(view, position, _RECORDS_PER_STEP):
                    image.apply(decode(record.value or b"") for record in found)
                    if header.record_count > _RECORDS_PER_STEP:
                        yield None
                self._bytes_since_snapshot += header.size
                offset = header.next_offset
            yield None
        log.advance_high_watermark(log.log_end_offset)
        self._epoch = log.latest_epoch + 1
        log.assign_epoch(self._epoch)

    def _read(self, offset: int) -> Job[Buffer]:
        held: list[Token] = []
        while True:
            try:
                return self._log.read(offset, _WINDOW, Isolation.LOG_END).records
            except NotYet as pending:
                held.append(pending.token)
            yield held[-1]

    def append(self, records: Sequence[MetadataRecord], committed: Commit) -> None:
        """Append one operation; `committed` hears when it is on stable storage, in the order of the appends.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, or RECORD_LIST_TOO_LARGE for more than a batch holds; nothing was appended.
        """
        for _ in self.append_in_steps(records, committed):
            pass

    def append_in_steps(self, records: Sequence[MetadataRecord], committed: Commit) -> Job[None]:
        """As `append`, in bounded steps up to the last, which appends; nobody else may append meanwhile.

        Raises:
            KafkaError: as `append`.
        """
        now_ms = self._clock.now_ms()
        builder = BatchBuilder(_BATCH_BYTES_MAX)
        for number, record in enumerate(records, 1):
            if not builder.try_append(now_ms, None, encode(record)):
                detail = f"a change of the metadata may take up to {_BATCH_BYTES_MAX} bytes; ask for less at a time"
                raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, detail)
            if number % _RECORDS_PER_STEP == 0:
                yield None
        if len(records) > _RECORDS_PER_STEP:
            yield None
        data = builder.build()
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
        """Write the committed image down, and let the log below it go. A failure is logged and tried again later."""
        self._snapshotting = True
        try:
            yield from self._write_snapshot(image.copy(), self._log.high_watermark)
        except OSError as fault:
            logger.error("the metadata snapshot was not written: %s", fault)
        finally:
            self._snapshotting = False

    def _write_snapshot(self, image: Image, end: int) -> Job[None]:
        self._bytes_since_snapshot = 0
        now_ms = self._clock.now_ms()
        data = bytearray()
        base = 0
        for records in _slices(image.to_records()):
            builder = BatchBuilder(_BATCH_BYTES_MAX)
            for record in records:
                value = encode(record)
                if not builder.try_append(now_ms, None, value):
                    data += builder.build()
                    builder = BatchBuilder(_BATCH_BYTES_MAX)
                    builder.try_append(now_ms, None, value)  # the first always fits
            data += builder.build()
            base += len(records)
            yield None
        name = f"{end:020d}-{self._epoch:010d}{SUFFIX}"
        gate = Gate()
        self._disk.write_atomic(f"{DIRECTORY}/{name}", bytes(data), gate.open)
        yield from wait(gate)
        for other in self._snapshots():
            if other < name:
                self._disk.remove(f"{DIRECTORY}/{other}")
        self._log.raise_log_start_offset(end)
        yield from self._log.retain(now_ms)
        logger.info("metadata snapshot %s: %d records, %d bytes", name, base, len(data))

    def close(self) -> Job[None]:
        """Flush and release the files."""
        yield from self._log.close()

    def _snapshots(self) -> list[str]:
        names = self._disk.list(DIRECTORY) if self._disk.exists(DIRECTORY) else []
        return [name for name in names if name.endswith(SUFFIX) and name[:20].isdigit()]

    def _newest_snapshot(self) -> tuple[str | None, int]:
        names = self._snapshots()
        return (names[-1], int(names[-1][:20])) if names else (None, 0)


def _slices(records: Iterator[MetadataRecord]) -> Iterator[list[MetadataRecord]]:
    part: list[MetadataRecord] = []
    for record in records:
        part.append(record)
        if len(part) == _RECORDS_PER_STEP:
            yield part
            part = []
    if part:
        yield part


def _decode_batches(data: bytes, name: str) -> Iterator[list[MetadataRecord]]:
    end = 0
    for position, size in batches(data):
        if not crc_ok(data, position, size):
            break
        yield [decode(record.value or b"") for record in decode_records(data, position)]
        end = position + size
    if end != len(data):
        raise MetadataUnreadable(f"{DIRECTORY}/{name} is broken at byte {end}; restore the data directory from a copy")
