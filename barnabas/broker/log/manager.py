"""All logs of one data directory (Kafka's LogManager). What is due when is in `housekeeping.py`.

Long because whatever makes, opens, renames or closes a directory of a log stands together: none is taken for another's.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Callable

from barnabas.broker.config import BrokerConfig, TopicConfig
from barnabas.broker.config.topics import METADATA_TOPIC
from barnabas.broker.jobs import Gate, Job, wait, write_all
from barnabas.broker.log import checkpoint, lacking
from barnabas.broker.log.apart import Apart
from barnabas.broker.log.cleaner import Cleaner
from barnabas.broker.log.closing import CLOSING_FILE, ClosingFiles, load_closing, mark, pack
from barnabas.broker.log.housekeeping import Housekeeping
from barnabas.broker.log.index_room import index_bytes_max
from barnabas.broker.log.log import Log
from barnabas.broker.log.losses import Loss, Losses
from barnabas.broker.log.names import DELETE_SUFFIX, STRAY_SUFFIX, free_name
from barnabas.broker.log.room import Room
from barnabas.broker.log.types import FULL
from barnabas.broker.ports import Disk, WallClock
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID, TopicPartition

logger = logging.getLogger(__name__)

_LOGS_PER_STEP = 20
_LOOKED_AT_PER_STEP = 1000
_FILES_OF_LOGS_MAX = 100
"""How many logs get their own files at a stop; those of the others go into one, see `closing`."""
_CLOSING_BYTES_MAX = 64 * 1024
"""Files of a log that are larger (its active segment holds some 12 MiB then) are always its own."""


class LogManager:
    """The logs of one data directory.

    Args:
        disk: the data directory.
        config: the broker's settings.
        config_of: the settings of a partition's topic, asked for when a log is loaded (`set_config` changes them).
        wall_clock: time of day.

    Attributes:
        logs: every open log.
        failed: partitions whose directory cannot be used, and why. It is left as it is, nothing is made in its place,
            and they answer KAFKA_STORAGE_ERROR until the next start.
        losses: what was lost.
        unnamed: logs with records whose directory did not say at the start whose they are, as after a power failure;
            nothing is written there before `believe` or `stray`.
        gaps: logs that lack records in their midst or at their beginning, by what a start found, and from where on.
        room: how many producers they remember, how many segments there are, and what their indexes take.
        cleaner: what is compacted, and what cannot be.
    """

    def __init__(
        self,
        disk: Disk,
        config: BrokerConfig,
        config_of: Callable[[TopicPartition], TopicConfig],
        wall_clock: WallClock,
    ) -> None:
        self.disk = disk
        self.config = config
        self.config_of = config_of
        self.wall_clock = wall_clock
        self.logs: dict[TopicPartition, Log] = {}
        self.failed: dict[TopicPartition, Exception] = {}
        self.losses = Losses()
        self.unnamed: set[TopicPartition] = set()
        self.gaps: dict[TopicPartition, int] = {}
        self.apart = Apart(disk, config.barnabas_batch_records_max, config.barnabas_batch_bytes_max)
        self.room = Room(index_bytes_max(config))
        self._in_the_way: dict[TopicPartition, tuple[bytes, str]] = {}
        """Directories that a full disk keeps from being renamed, for which topic id and suffix; a new log waits."""
        self.cleaner = Cleaner(config, self.losses.report)
        self._housekeeping = Housekeeping(
            disk, config, self.logs, wall_clock, self.cleaner, self.losses, self.room.indexes
        )

    def get(self, partition: TopicPartition) -> Log | None:
        """A partition's log, None if there is none here.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, it is here and cannot be used.
        """
        log = self.logs.get(partition)
        if log is None and partition in self.failed:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: {self.failed[partition]}")
        return log

    def load(
        self,
        topic_id_of: Callable[[str], bytes] = lambda _: ZERO_UUID,
        is_here: Callable[[TopicPartition], bool] = lambda _: True,
    ) -> Job[bool]:
        """Open every log of the directory, after a clean shutdown or any other end. Returns whether it was clean.

        The clean shutdown marker is removed first, on the device, too: a crash from now on is no clean end, and a
        marker that comes back behind records which were written since would have them trusted unread. The metadata log
        is its owner's to open.

        Args:
            topic_id_of: the id of the topic of a name, for a directory that does not name its own any more.
            is_here: whether a partition is to have a log here; one that went to other brokers is no loss.

        Raises:
            OSError: the directory cannot be read, or is not synced.
        """
        disk = self.disk
        marked = clean = disk.exists(checkpoint.CLEAN_SHUTDOWN_FILE)
        closing: dict[str, ClosingFiles] = {}
        if clean:
            try:
                closing = load_closing(disk)
            except (ValueError, OSError) as error:
                logger.warning("the last end was clean, and yet all logs are checked: %s", error)
                clean = False
        disk.remove(checkpoint.CLEAN_SHUTDOWN_FILE)
        disk.remove(CLOSING_FILE)
        if marked:
            disk.sync_names("")
        points: dict[str, checkpoint.Points] = {}
        for file in checkpoint.OFFSET_FILES:
            points[file] = yield from checkpoint.load_offsets(disk, file, expected=clean)
            yield None
        yield from self._housekeeping.loaded(checkpoint.CLEANER_FILE, points[checkpoint.CLEANER_FILE])
        names = disk.list("")
        doomed = [name for name in names if name.endswith(DELETE_SUFFIX)]
        self._housekeeping.discard(doomed, self.config.log_segment_delete_delay_ms)
        yield None
        for name in names:
            partition = checkpoint.parse_directory_name(name)
            if partition is None or partition.topic == METADATA_TOPIC:
                continue
            try:
                self.logs[partition] = yield from self._open(partition, topic_id_of, clean, points, closing.get(name))
            except Exception as error:  # whatever one directory holds, the others serve
                self.leave(partition, error)
                self._housekeeping.keep_noted(partition, points)
                continue
            yield None
        yield from self._report_missing(points, topic_id_of, is_here)
        return clean

    def _report_missing(
        self,
        points: dict[str, checkpoint.Points],
        topic_id_of: Callable[[str], bytes],
        is_here: Callable[[TopicPartition], bool],
    ) -> Job[None]:
        """Say which directories are gone, or another topic's, that are to be here and of which something was noted."""
        for count, partition in enumerate(points[checkpoint.HIGH_WATERMARK_FILE]):
            topic_id = topic_id_of(partition.topic)
            log = self.logs.get(partition)
            here = partition in self.failed if log is None else log.topic_id in (topic_id, ZERO_UUID)
            if not here and topic_id != ZERO_UUID and is_here(partition):
                end = max(checkpoint.noted(points[file], partition, topic_id, 0) for file in points)
                if end:
                    first = checkpoint.noted(points[checkpoint.LOG_START_FILE], partition, topic_id, 0)
                    why = "the directory is gone" if log is None else "the directory is another topic's"
                    self.losses.report(Loss(str(partition), first, end, 0, str(partition), why))
            if count % _LOOKED_AT_PER_STEP == _LOOKED_AT_PER_STEP - 1:
                yield None

    def _open(
        self,
        partition: TopicPartition,
        topic_id_of: Callable[[str], bytes],
        clean: bool,
        points: dict[str, checkpoint.Points],
        closing: ClosingFiles | None,
    ) -> Job[Log]:
        named = checkpoint.load_topic_id(self.disk, str(partition))
        topic_id = topic_id_of(partition.topic) if named == ZERO_UUID else named
        log = self._new_log(partition, topic_id, self.config_of(partition))

        def noted(file: str, otherwise: int) -> int:
            return checkpoint.noted(points[file], partition, topic_id, otherwise)

        try:
            yield from log.recover(
                clean=clean,
                now_ms=self.wall_clock.now_ms(),
                recovery_point=noted(checkpoint.RECOVERY_POINT_FILE, 0),
                log_start_offset=noted(checkpoint.LOG_START_FILE, 0),
                high_watermark=noted(checkpoint.HIGH_WATERMARK_FILE, 0),
                cleaned_to=noted(checkpoint.CLEANER_FILE, -1),
                closing=closing,
                report=lacking.before(self.disk, str(partition), self.losses.report),
                named=named != ZERO_UUID,
            )
        except Exception:
            log.release()
            raise
        known = lacking.load(self.disk, str(partition))
        if 0 <= known < log.log_end_offset:
            self.gaps[partition] = known
        elif known >= 0:  # what is gone was its end: it is seen by what is left
            lacking.forget(self.disk, str(partition))
        if named == ZERO_UUID:
            if log.log_end_offset:
                self.unnamed.add(partition)
            else:
                log.set_topic_id(topic_id)
        return log

    def _new_log(self, partition: TopicPartition, topic_id: bytes, config: TopicConfig) -> Log:
        log: Log

        def discard(paths: list[str]) -> None:
            self._housekeeping.discard(paths, log.config.file_delete_delay_ms)

        log = Log(
            self.disk,
            str(partition),
            partition,
            topic_id,
            config,
            discard,
            self.losses,
            self.apart,
            self._housekeeping.again,
            self.room,
        )
        self._housekeeping.heed(config)
        return log

    def believed_ms(self, now_ms: int) -> int:
        """The time of day by which things grow old (ms), see `steady`."""
        return self._housekeeping.believed_ms(now_ms)

    def create(self, partition: TopicPartition, topic_id: bytes, config: TopicConfig) -> Log:
        """A partition's log: the one that is here, else a new one.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; INCONSISTENT_TOPIC_ID when one of another topic id is here.
        """
        log = self.get(partition)
        if log is not None:
            if log.topic_id not in (topic_id, ZERO_UUID):
                raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"the log of {partition} belongs to another topic id")
            if log.topic_id != topic_id:
                log.set_topic_id(topic_id)
            self.set_config(partition, config)
            return log
        if partition in self._in_the_way:
            away = self._rename(partition, *self._in_the_way[partition])
            if away.endswith(DELETE_SUFFIX):
                self._housekeeping.discard([away], config.file_delete_delay_ms)
        directory = str(partition)
        fresh = not self.disk.exists(directory)
        try:
            if not fresh and self.disk.list(directory):
                raise FileExistsError(errno.EEXIST, "a directory that was not there at the start", directory)
        except OSError as error:
            self.leave(partition, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: {error}") from error
        log = self._new_log(partition, topic_id, config)
        try:
            log.open_new(self.wall_clock.now_ms())
        except OSError as error:
            with contextlib.suppress(OSError):
                if fresh:
                    self.disk.remove(directory)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: {error}") from error
        self.logs[partition] = log
        return log

    def set_config(self, partition: TopicPartition, config: TopicConfig) -> None:
        """Replace the settings of a partition's topic, if its log is here."""
        log = self.logs.get(partition)
        if log is not None:
            log.configure(config)
            self._housekeeping.heed(config)

    def delete(self, partition: TopicPartition) -> None:
        """Rename a log away at once; its files go after `file.delete.delay.ms`. Nothing happens if it is not here.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, its directory stays (see `failed`).
        """
        log = self.get(partition)
        self._housekeeping.forget(partition)
        if log is None:
            return
        if not self.disk.exists(log.directory):
            del self.logs[partition]
            self.unnamed.discard(partition)
            log.release(self._housekeeping.close)
            logger.warning("%s was removed under the broker; there is nothing left of it to be deleted", log.directory)
            return
        away = self._set_aside(log, DELETE_SUFFIX, log.topic_id)
        self._housekeeping.discard([away], log.config.file_delete_delay_ms)

    def stray(self, partition: TopicPartition, why: str = "belongs to no topic of this cluster") -> None:
        """Set aside the log of a partition that is in no topic, or may be another's: its bytes stay under another name.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, its directory stays (see `failed`).
        """
        log = self.logs[partition]
        name = self._set_aside(log, STRAY_SUFFIX, ZERO_UUID if partition in self.unnamed else log.topic_id)
        logger.warning(
            "%s %s; it is now called %s (docs/DURABILITY.md says how it comes back)",
            partition,
            why,
            name,
        )

    def believe(self, partition: TopicPartition) -> None:
        """A log that did not say whose it is, is that of the topic which has the name, and says so from now on."""
        self.unnamed.discard(partition)
        log = self.logs[partition]
        log.set_topic_id(log.topic_id, durable=True)

    def doubt(self, partition: TopicPartition, offset: int, reason: str) -> None:
        """A log that is open is not believed from `offset` on: it is to be cut there, and fetched anew from others."""
        log, known = self.logs[partition], self.gaps.get(partition, offset)
        report = lacking.before(self.disk, str(partition), self.losses.report)
        report(Loss(str(partition), offset, log.log_end_offset, 0, log.directory, reason))
        self.gaps[partition] = min(known, offset)

    def is_damaged(self, partition: TopicPartition) -> bool:
        """Whether a partition's directory cannot be used for it does not say whose it is."""
        return isinstance(self.failed.get(partition), checkpoint.DamagedId)

    def give_up(self, partition: TopicPartition) -> None:
        """Set aside a directory that does not say whose it is: others have all of it, which is fetched anew.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, it stays as it is.
        """
        name = self._rename(partition, ZERO_UUID, STRAY_SUFFIX)
        self._housekeeping.forget(partition)
        del self.failed[partition]
        logger.warning("%s is fetched anew from others; what is damaged is now called %s", partition, name)

    def _set_aside(self, log: Log, suffix: str, topic_id: bytes) -> str:
        partition = log.topic_partition
        self.gaps.pop(partition, None)
        self.unnamed.discard(partition)
        del self.logs[partition]
        log.release(self._housekeeping.close)
        return self._rename(partition, topic_id, suffix)

    def _rename(self, partition: TopicPartition, topic_id: bytes, suffix: str) -> str:
        try:
            name = free_name(self.disk, partition, topic_id, suffix)
            self.disk.rename(str(partition), name)
        except OSError as error:
            if error.errno in FULL:
                self._in_the_way[partition] = topic_id, suffix
            else:
                self.leave(partition, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: {error}") from error
        self._in_the_way.pop(partition, None)
        return name

    def leave(self, partition: TopicPartition, error: Exception) -> None:
        """A directory cannot be used: say so once, and leave it as it is."""
        if partition not in self.failed:
            logger.warning(
                "%s cannot be used and is left as it is, %s answers KAFKA_STORAGE_ERROR: %s; "
                "mend it or move it out of the data directory, then start the broker anew",
                partition,
                partition,
                error,
            )
        self.failed[partition] = error

    def start(self, now_ms: int) -> None:
        """Begin to keep house at `now_ms` (monotonic)."""
        self._housekeeping.start(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `due_jobs` has something next (monotonic ms)."""
        return self._housekeeping.next_deadline_ms()

    def due_jobs(self, now_ms: int) -> list[Job[None]]:
        """The jobs that are due at `now_ms` (monotonic); each is given out once and comes back after it has ended."""
        return self._housekeeping.due_jobs(now_ms)

    def shutdown(self, broker_epoch: int = -1) -> Job[None]:
        """Close every log, write the checkpoints, and last of all the clean shutdown marker, with the broker's epoch.

        A log that cannot be closed cleanly leaves out the marker: the next start checks.
        """
        clean = not self.failed
        closing: list[tuple[Log, list[Gate]]] = []
        elsewhere: dict[str, ClosingFiles] = {}
        written = 0
        for log in list(self.logs.values()):
            if log.failed is not None:
                clean = False
                log.release()
                continue
            try:
                flushing, files = log.begin_close()
            except OSError:
                clean = False
                log.release()
                continue
            gates = [] if flushing is None else [flushing]
            if files.contents:
                if written < _FILES_OF_LOGS_MAX or sum(map(len, files.contents.values())) > _CLOSING_BYTES_MAX:
                    written += 1
                    gates.append(log.files.write_closing(files))
                else:
                    elsewhere[log.directory] = files
            closing.append((log, gates))
            if len(closing) % _LOGS_PER_STEP == 0:
                yield None
        for log, gates in closing:
            try:
                for gate in gates:
                    yield from wait(gate)
            except OSError as error:
                clean = False
                logger.warning(
                    "%s could not be closed cleanly, and the next start checks all logs: %s", log.topic_partition, error
                )
            log.release()
        checkpoints = yield from self._housekeeping.checkpoints()
        packed = pack(elsewhere) if elsewhere else None
        if packed is not None and clean:
            checkpoints.append((CLOSING_FILE, packed))
        yield from write_all(self.disk, checkpoints)
        if clean:
            self.disk.write_atomic(checkpoint.CLEAN_SHUTDOWN_FILE, mark(packed, broker_epoch))
