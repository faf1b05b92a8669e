"""One partition's log: append, offsets, watermarks (Kafka's UnifiedLog and LocalLog).

Invariant: log_start_offset <= last_stable_offset = high_watermark <= log_end_offset.
Reading is in `reader.py`, starting in `recovery.py`, cutting in `truncation.py`, forgetting in `retention.py` and
`compaction.py`, syncing in `flush.py`, what lies beside the segments in `small_files.py`.

Long because this class alone changes a log's state: what appends, rolls, adopts and closes stands together, with what
must hold of it, and beside it the doors to those rooms, where each call that others may make is described once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from operator import attrgetter, lt
from typing import TYPE_CHECKING, Final, TypeVar
from zlib import crc32

from barnabas.broker.config import TopicConfig
from barnabas.broker.jobs import Gate, Job, wait
from barnabas.broker.log import checkpoint, place, reader, recovery, retention, staging, truncation
from barnabas.broker.log.apart import Apart
from barnabas.broker.log.closing import ClosingFiles
from barnabas.broker.log.epochs import LeaderEpochs
from barnabas.broker.log.flush import Durable, Flusher
from barnabas.broker.log.found import Found, Noted
from barnabas.broker.log.look import LARGE, ROLL, SPENT, Asked, ClientBatch, Large, Summed, too_many
from barnabas.broker.log.losses import Losses, Report
from barnabas.broker.log.producer_owners import Asker
from barnabas.broker.log.producer_state import ProducerState
from barnabas.broker.log.room import Room
from barnabas.broker.log.segment import Segment, close_all
from barnabas.broker.log.small_files import SmallFiles
from barnabas.broker.log.state import Change
from barnabas.broker.log.types import (
    AppendInfo,
    AppendOrigin,
    EpochEnd,
    FetchData,
    Isolation,
    OffsetMetadata,
    TimestampOffset,
)
from barnabas.broker.log.validate import demands, follower_batches, validate_client_batch
from barnabas.broker.ports import Disk
from barnabas.protocol.batch import HEADER_SIZE, BatchHeader, add_sequence, set_place
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID, Records, TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.log.compaction import CompactionResult

EPOCH_MAX: Final = 2**31 - 1
_LARGEST_RELATIVE_OFFSET: Final = 2**31 - 1
_RECENT_MAX: Final = 512
_CLIENT: Final = AppendOrigin.CLIENT
_made: Final = object.__new__
_base_of: Final = attrgetter("base")
_size_of: Final = attrgetter("size")
_T = TypeVar("_T")


class Log:
    """One partition's log.

    Args:
        disk: where it lies.
        directory: its directory on that disk.
        topic_partition: whose log it is.
        topic_id: 16 raw bytes (all zero: not known).
        config: the topic's settings; `configure` replaces them at any time.
        discard: takes the paths of files that were renamed away and may be removed later (default: at once).
        losses: is told of what is lost, and of reads that fail.
        apart: where batches that hold much are looked through.
        unsaved: is called when a small file could not be written, or says too much: `write_again` shall be called,
            and the recovery point be saved, soon; at once (`cut=True`) where the log was cut, and with it
            (`committed=True`) where it begins and what is committed, if that is another by it.
        room: counts the producers, the segments and the bytes of indexes of all logs.

    A new object is empty and not open: run `recover` (or `open_new` for a log that is made now).
    """

    __slots__ = (
        "_at_once_max",
        "_demands",
        "_flusher",
        "_placed",
        "_records_max",
        "_room",
        "_sure_bytes",
        "_sure_ms",
        "_sure_offset",
        "_takes_records",
        "_watermark",
        "active",
        "apart",
        "bases",
        "cleaned_to",
        "cleaning",
        "closed",
        "config",
        "cuts",
        "directory",
        "discard",
        "disk",
        "ending",
        "epochs",
        "failed",
        "files",
        "log_end_offset",
        "log_start_offset",
        "losses",
        "producers",
        "recent",
        "recovery_point",
        "segments",
        "snapshots",
        "topic_id",
        "topic_partition",
        "unsaved",
    )

    active: Segment
    """The segment that is written to, the last one; there is none before the log is open."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: TopicConfig,
        discard: Callable[[list[str]], None] | None = None,
        losses: Losses | None = None,
        apart: Apart | None = None,
        unsaved: Callable[..., None] = lambda **_: None,
        room: Room | None = None,
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.discard = discard or self._remove_now
        self.losses = losses if losses is not None else Losses()
        self.apart = apart if apart is not None else Apart(disk)
        self._records_max = self.apart.records_max
        self.unsaved = unsaved
        self.segments: list[Segment] = []
        self.bases: list[int] = []
        self.epochs = LeaderEpochs()
        self.producers = ProducerState()
        self._room = room if room is not None else Room()
        self.producers.enter(self._room.producers)
        self.snapshots: list[int] = []
        self.log_end_offset = 0
        self.log_start_offset = 0
        self.recovery_point = 0
        self.cleaned_to = -1
        self.failed: OSError | None = None
        self.ending = False
        """Whether the broker stops: no record is taken any more, what is there is being synced."""
        self.closed = False
        self._takes_records = True
        """Neither failed, nor ending, nor closed: one look per append."""
        self.cleaning = False
        self.cuts = 0
        """How often the end was cut: a compaction that began before looks at it."""
        self.recent: dict[int, int] = {}
        """Offsets of batches lately appended to the active segment, and where they lie: tail reads need no index."""
        self._watermark: tuple[int, int, int] = OffsetMetadata(0)
        """The high watermark, the fields of an `OffsetMetadata`: to make one costs more than an append needs."""
        self._placed: OffsetMetadata | None = None
        """The same with its place, once it was asked for."""
        self._flusher = Flusher(self)
        self.files = SmallFiles(self)
        self._demands = demands(config)
        self._at_once_max = min(config.segment_bytes, LARGE)
        self._sure_bytes = self._sure_offset = self._sure_ms = 0
        """An append up to these rolls nothing, see `_foresee`; none does while no bytes are foreseen."""

    def adopt(self, change: Change) -> None:
        """Take over what is to be of this log: nobody but `Log` changes its state, and what must hold is asserted here.

        The places of offsets change with the segments: they are looked up again when they are needed.
        """
        self._sure_bytes = 0
        noted = self.log_start_offset, self._watermark[0]
        if change.segments is not None:
            if not self.closed:
                self._room.segments += len(change.segments) - len(self.segments)
            self.segments = change.segments
            bases = self.bases = list(map(_base_of, change.segments))
            self.recent.clear()
            self._flusher.look_again()
            assert bases, "a log has an active segment"
            self.active = change.segments[-1]
            assert all(map(lt, bases, bases[1:])), "segments rise by their base"
            for segment in change.segments:
                if segment.room is None:  # of 20,000 there are mostly none
                    segment.enter(self._room.indexes)
        self.topic_id = _new(change.topic_id, self.topic_id)
        self.log_start_offset = _new(change.log_start_offset, self.log_start_offset)
        self.log_end_offset = _new(change.log_end_offset, self.log_end_offset)
        self.recovery_point = _new(change.recovery_point, self.recovery_point)
        self.epochs = _new(change.epochs, self.epochs)
        if change.producers is not None:
            self.producers.leave()
            self.producers = change.producers
            self.producers.enter(self._room.producers)
        self.snapshots = _new(change.snapshots, self.snapshots)
        self.cleaned_to = _new(change.cleaned_to, self.cleaned_to)
        if change.failed is not None:
            self.failed, self._takes_records = change.failed, False
        if change.segments is not None or change.high_watermark is not None:
            watermark = _new(change.high_watermark, self.high_watermark)
            watermark = min(max(watermark, self.log_start_offset), self.log_end_offset)
            at_end = watermark == self.log_end_offset
            self._watermark, self._placed = self.log_end_metadata if at_end else OffsetMetadata(watermark), None
        assert self.bases[0] <= self.log_start_offset <= self.high_watermark <= self.log_end_offset
        assert self.bases[-1] <= self.log_end_offset
        assert self.recovery_point <= self.log_end_offset
        if change.cut_to is not None:
            self.cuts += 1
            # What comes there was never compacted: taken for clean, a tombstone would go before what it deletes.
            self.cleaned_to = min(self.cleaned_to, self.log_end_offset)
            self._flusher.cut(change.cut_to)
            # Else a start would miss what the saved recovery point says is there, and trust what comes there.
            self.unsaved(cut=True, committed=noted != (self.log_start_offset, self._watermark[0]))

    # Offsets

    def configure(self, config: TopicConfig) -> None:
        """Replace the topic's settings; where `flush.messages` asks now for a sync of what is there, it begins."""
        self.config = config
        self._demands = demands(config)
        self._at_once_max = min(config.segment_bytes, LARGE)
        self._sure_bytes = 0
        if self.segments and self.log_end_offset - self.recovery_point >= config.flush_messages:
            self.start_flush()

    @property
    def log_end_metadata(self) -> OffsetMetadata:
        """The log end offset and its place."""
        active = self.active
        return OffsetMetadata(self.log_end_offset, active.base, active.size)

    @property
    def high_watermark(self) -> int:
        """Everything below is committed."""
        return self._watermark[0]

    @property
    def last_stable_offset(self) -> int:
        """Everything below belongs to no open transaction: the high watermark until transactions come."""
        return self._watermark[0]

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(map(_size_of, self.segments))

    def advance_high_watermark(self, to: OffsetMetadata | int) -> bool:
        """Raise the high watermark (leader). Returns whether it rose, or went to a newer segment; never goes back."""
        new = OffsetMetadata(to) if isinstance(to, int) else to
        old = self._watermark
        assert new.offset <= self.log_end_offset, "the high watermark cannot pass the end of the log"
        if new.offset > old[0] or (new.offset == old[0] and new.segment_base > old[1]):
            self._watermark, self._placed = new, None
            return True
        return False

    def commit_all(self) -> bool:
        """Raise the high watermark to the log end (a leader without followers). Returns as `advance_high_watermark`."""
        end = self.log_end_offset
        active = self.active
        old = self._watermark
        if end == old[0] and active.base == old[1]:
            return False
        self._watermark = end, active.base, active.size
        self._placed = None
        return True

    def placed_high_watermark(self) -> OffsetMetadata:
        """The high watermark with its place: looked up once, then remembered.

        Raises:
            NotYet: bytes must be read first.
        """
        placed = self._placed
        if placed is None:
            placed = OffsetMetadata._make(self._watermark)
            if placed.segment_base < 0:
                self._watermark = placed = reader.offset_metadata(self, placed.offset)
            self._placed = placed
        return placed

    def placed_last_stable(self) -> OffsetMetadata:
        """The last stable offset with its place, as `placed_high_watermark`."""
        return self._placed or self.placed_high_watermark()

    def raise_log_start_offset(self, offset: int) -> bool:
        """Hide everything below `offset` (DeleteRecords, or a follower's leader). Returns whether it rose.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, above the high watermark.
        """
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition}: offset {offset} is beyond the high watermark {self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs = self.epochs.from_start(offset)
        self.files.save_epochs()
        return True

    # Append

    def append_as_leader(
        self,
        records: Records | Summed | ClientBatch,
        leader_epoch: int,
        now_ms: int,
        validate_full: bool = False,
        asker: Asker | None = None,
        origin: AppendOrigin = _CLIENT,
    ) -> AppendInfo:
        """Check one batch, give it its offsets, write it.

        Args:
            records: the batch; a writable buffer is patched in place. Nothing keeps a reference to it. A `ClientBatch`
                was checked already (see `Costly`), of one that is `Summed` no more than the sum.
            leader_epoch: the epoch this broker leads in.
            now_ms: time of day (ms).
            validate_full: walk every record (`barnabas.validate.records=full`).
            asker: who sent it: a producer id that is new here counts as its own.
            origin: a client's batch is held to more rules.

        Raises:
            Costly: the batch is to be looked through apart, see `look.look_apart`, summed there before (`Unsummed`), or
                staged (`Large`).
            InvalidRecord: INVALID_RECORD or INVALID_TIMESTAMP, with the records at fault.
            KafkaError: any other refusal (NOT_LEADER_OR_FOLLOWER: the broker stops); the log is as it was.
        """
        if not self._takes_records:
            raise self._refusal()
        config = self.config
        data, header, log_append_time_ms = (
            records
            if isinstance(records, ClientBatch)
            else validate_client_batch(
                records, self._demands, config, self.topic_partition, now_ms, origin, validate_full
            )
        )
        size = len(data)
        if size > self._at_once_max:
            found = ClientBatch(data, BatchHeader._make(header), log_append_time_ms)
            self._take_large(records, found, leader_epoch, origin, now_ms)
        _, length, _, _, _, _, last_delta, _, max_timestamp, producer_id, producer_epoch, sequence, _ = header
        if last_delta >= self._records_max:
            raise too_many(last_delta + 1, self._records_max, self.topic_partition)
        first_offset = self.log_end_offset
        last_offset = first_offset + last_delta
        rolled = not (
            self.active.size + size <= self._sure_bytes
            and last_offset <= self._sure_offset
            and 0 <= max_timestamp <= self._sure_ms
        ) and self._maybe_roll(size, max_timestamp, last_offset, now_ms)
        if producer_id >= 0 and origin is _CLIENT:
            known = self.producers.check(producer_id, producer_epoch, sequence, add_sequence(sequence, last_delta))
            if known is not None:
                return AppendInfo(
                    known.first_offset, known.last_offset, known.timestamp, self.log_start_offset, True, rolled
                )
        set_place(data, 0, first_offset, length, leader_epoch)
        self._write(data, size, max_timestamp, first_offset, last_offset)
        if producer_id >= 0:
            self.producers.replay(BatchHeader._make(header), last_offset, now_ms, asker)
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, first_offset)
        sync_needed = last_offset + 1 - self.recovery_point >= config.flush_messages
        if sync_needed:
            self._flusher.start()
        done = _made(AppendInfo)  # half the price of the call
        done.first_offset, done.last_offset, done.log_append_time_ms = first_offset, last_offset, log_append_time_ms
        done.log_start_offset, done.duplicate = self.log_start_offset, False
        done.rolled, done.sync_needed = rolled, sync_needed
        return done

    def _take_large(
        self,
        records: Records | Summed | ClientBatch,
        found: ClientBatch,
        leader_epoch: int,
        origin: AppendOrigin,
        now_ms: int,
    ) -> None:
        """Have a large batch of a client's staged; one that is, and is the next, has brought its segment.

        Raises:
            Large: it is to be staged, again where the log has another end or epoch since.
            KafkaError: RECORD_LIST_TOO_LARGE, what the producer's sequence says, KAFKA_STORAGE_ERROR.
        """
        config, size, header = self.config, len(found.data), found.header
        if size > config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE, f"batch of {size} bytes exceeds segment.bytes {config.segment_bytes}"
            )
        if header.last_offset_delta >= self._records_max or origin is not _CLIENT:
            return
        if not isinstance(records, staging.StagedBatch) or not staging.fits(self, records.segment, leader_epoch):
            raise Large(found, Asked(config, self.topic_partition, now_ms, header.compression))
        if header.producer_id >= 0:
            last = add_sequence(header.base_sequence, header.last_offset_delta)
            if self.producers.check(header.producer_id, header.producer_epoch, header.base_sequence, last) is not None:
                return
        self._take_staged(records.segment)

    def _take_staged(self, segment: staging.StagedSegment) -> None:
        SPENT.work += ROLL
        staging.put_in_place(self, segment)
        self._go_on_in(segment)

    def append_as_follower(
        self, records: Records | staging.StagedBatch, *, leader_epoch: int = EPOCH_MAX, now_ms: int = -1
    ) -> AppendInfo | None:
        """Write batches as the leader has them; None if there was no whole batch.

        Args:
            records: what the leader sent; nothing keeps a reference to it. A batch that was staged is summed already.
            leader_epoch: the epoch in which it was asked for: a batch of a later one is none of that leader's.
            now_ms: time of day (ms).

        Raises:
            KafkaError: CORRUPT_MESSAGE for a bad sum or a later epoch, UNKNOWN_SERVER_ERROR for offsets that do not
                rise from the end of this log, KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER (the broker stops). Batches
                before the bad one are in the log.
        """
        if not self._takes_records:
            raise self._refusal()
        first_offset = -1
        rolled = False
        staged: staging.StagedSegment | None = None
        if isinstance(records, staging.StagedBatch):
            came: Iterable[ClientBatch] = (records,)
            staged = records.segment
        else:
            came = follower_batches(records)
        for batch in came:
            header = batch.header
            if header.base_offset < self.log_end_offset:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"{self.topic_partition}: offset {header.base_offset} came after {self.log_end_offset - 1}",
                )
            if header.leader_epoch > leader_epoch:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"{self.topic_partition}: the batch at offset {header.base_offset} is of epoch "
                    f"{header.leader_epoch}, its leader of epoch {leader_epoch}",
                )
            if first_offset < 0:
                first_offset = header.base_offset
            size, last_offset = len(batch.data), header.last_offset
            if staged is not None and staging.fits(self, staged, leader_epoch):
                self._take_staged(staged)
                rolled = True
            else:
                rolled |= self._maybe_roll(size, header.max_timestamp, last_offset, now_ms)
            self._write(batch.data, size, header.max_timestamp, header.base_offset, last_offset)
            if header.producer_id >= 0:
                self.producers.replay(header, last_offset, now_ms)
            if header.leader_epoch != self.epochs.latest:
                self.epochs.assign(header.leader_epoch, header.base_offset)
        if first_offset < 0:
            return None
        sync_needed = self.log_end_offset - self.recovery_point >= self.config.flush_messages
        if sync_needed:
            self._flusher.start()
        return AppendInfo(first_offset, self.log_end_offset - 1, -1, self.log_start_offset, False, rolled, sync_needed)

    def _write(self, data: memoryview, size: int, max_timestamp: int, first_offset: int, last_offset: int) -> None:
        """Append to the active segment; only then does the log change."""
        try:
            position = self.active.append(data, size, last_offset, max_timestamp, self.config.index_interval_bytes)
        except OSError as error:
            self.losses.on_refused(error)
            raise self._storage_error(error) from error
        self.log_end_offset = last_offset + 1
        recent = self.recent
        if len(recent) >= _RECENT_MAX:
            recent.clear()
        recent[first_offset] = position

    def _maybe_roll(self, size: int, max_timestamp: int, last_offset: int, now_ms: int) -> bool:
        """Open a new segment if the incoming batch asks for it (LogSegment.shouldRoll)."""
        active = self.active
        config = self.config
        if active.size <= config.segment_bytes - size and last_offset - active.base <= _LARGEST_RELATIVE_OFFSET:
            if not active.size:
                return False
            if active.first_timestamp >= 0 and max_timestamp >= 0:
                waited = max_timestamp - active.first_timestamp
            else:
                waited = now_ms - active.created_ms
            if waited <= config.segment_ms - (self._jitter_ms() if config.segment_jitter_ms else 0) and (
                active.index_entries < config.segment_index_bytes // 12 - 1
                or not active.is_full_for(config.segment_index_bytes)
            ):
                self._foresee(active, config)
                return False
        elif not active.size and active.base == self.log_end_offset:
            return False
        if last_offset - active.base <= _LARGEST_RELATIVE_OFFSET and self._room.must_grow(
            active.size + size, self.topic_partition
        ):
            return False
        self.roll(now_ms)
        return True

    def _foresee(self, active: Segment, config: TopicConfig) -> None:
        """As far as the active segment grows without a roll, whatever comes: nearly no append has to ask."""
        free = config.segment_index_bytes // 12 - 2 - active.index_entries
        if active.index_entries and active.first_timestamp >= 0 and free > 0:
            self._sure_bytes = min(config.segment_bytes, active.size + free * HEADER_SIZE)  # an entry a batch, at most
            self._sure_offset = active.base + _LARGEST_RELATIVE_OFFSET
            self._sure_ms = active.first_timestamp + config.segment_ms
            if config.segment_jitter_ms:
                self._sure_ms -= self._jitter_ms()

    def _jitter_ms(self) -> int:
        """This segment's share of `segment.jitter.ms`: spread over segments, the same at every start."""
        jitter = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return crc32(f"{self.directory}/{self.active.base}".encode()) % jitter

    def roll(self, now_ms: int) -> None:
        """Seal the active segment and open a new one at the log end.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, the log is as it was.
        """
        SPENT.work += ROLL
        try:
            segment = Segment.create(self.disk, self.directory, self.log_end_offset, now_ms)
        except OSError as error:
            self.losses.on_refused(error)
            raise self._storage_error(error) from error
        self._go_on_in(segment)

    def _go_on_in(self, segment: Segment) -> None:
        offset = segment.base
        old = self.active
        old.close_times()
        if old.base == offset:  # an empty one is replaced by its like
            self.segments.pop()
            self.bases.pop()
            self._room.segments -= 1
        self._room.segments += 1
        segment.enter(self._room.indexes)
        self.segments.append(segment)
        self.active = segment
        self.bases.append(offset)
        self.recent.clear()
        self._sure_bytes = 0
        if old.base != offset:
            self.files.take_snapshot()
            self._flusher.start()

    @property
    def is_named(self) -> bool:
        """Whether the device knows which topic's log it is, see `flush`."""
        return self._flusher.is_named

    def unwritten(self, path: str, error: OSError) -> None:
        """A small file could not be written, on whatever grounds: it can be rebuilt, so that ends nothing."""
        self.losses.unwritten(path, error)
        self.unsaved()

    def snapshot_from(self, offset: int) -> Gate | None:
        """Have a producer snapshot at or above `offset`, see `small_files`."""
        return self.files.snapshot_from(offset)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that were silent for `producer.id.expiration.ms`. Returns how many."""
        return self.producers.expire(now_ms, expiration_ms)

    # Epochs

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch in this log, -1 if there is none."""
        return self.epochs.latest

    def assign_epoch(self, epoch: int) -> bool:
        """Let a leader epoch start at the log end (becoming leader). Returns whether it was new."""
        if epoch <= self.epochs.latest:
            return False
        return self.epochs.assign(epoch, self.log_end_offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Where a leader epoch ended in this log (KIP-101)."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # Reads

    def segment_index(self, offset: int) -> int:
        """Index of the segment an offset lies in (-1: before all)."""
        bases = self.bases
        if offset >= bases[-1]:
            return len(bases) - 1
        return bisect_right(bases, offset) - 1

    def read(self, offset: int, max_bytes: int, isolation: Isolation, min_one: bool = True) -> FetchData:
        """Whole batches from the one that contains `offset`, see `reader.read`."""
        return reader.read(self, offset, max_bytes, isolation, min_one)

    def offset_metadata(self, offset: int) -> OffsetMetadata:
        """Where an offset lies, see `reader.offset_metadata`."""
        return reader.offset_metadata(self, offset)

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record not older than `timestamp_ms`, see `reader.offset_for_timestamp`."""
        try:
            return reader.offset_for_timestamp(self, timestamp_ms)
        except OSError as error:
            raise reader.unreadable(self, error) from error

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """The first record that has the largest timestamp, see `reader.offset_of_max_timestamp`."""
        try:
            return reader.offset_of_max_timestamp(self)
        except OSError as error:
            raise reader.unreadable(self, error) from error

    # Cutting and forgetting

    def truncate_to(self, offset: int) -> bool:
        """Drop everything from the batch that contains `offset` on, see `truncation.truncate_to`.

        Returns whether records went. An epoch that begins at `offset` and has no record goes in any case: the leader
        that is followed now may have written there in another (`UnifiedLog.truncateTo`).
        """
        cut = truncation.truncate_to(self, offset)
        if cut is not None:
            self.adopt(cut)
        elif len(epochs := self.epochs.up_to(offset)) < len(self.epochs):
            self.adopt(Change(epochs=epochs))
        self.files.save_epochs(cut=True)
        return cut is not None

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int = -1) -> None:
        """Drop everything and go on at `offset`, see `truncation.truncate_fully_and_start_at`."""
        self.adopt(truncation.truncate_fully_and_start_at(self, offset, now_ms))
        self.files.save_epochs(cut=True)

    def retain(self, now_ms: int) -> Job[int]:
        """Delete segments by log start, size and age, see `retention.retain`."""
        deleted = yield from retention.retain(self, now_ms)
        if deleted and not self.closed:
            self.files.save_epochs()
        return deleted

    def compact(self, now_ms: int, *, keys_max: int = 1_000_000) -> Job[CompactionResult | None]:
        """Keep the newest record of each key, see `compaction.compact`."""
        from barnabas.broker.log import compaction  # most brokers compact nothing

        if self.cleaning or self.closed:
            return None
        self.cleaning = True
        cuts = self.cuts
        try:
            result = yield from compaction.compact(self, now_ms, keys_max=keys_max)
        finally:
            self.cleaning = False
        if result is not None and self.cuts == cuts:
            self.adopt(Change(cleaned_to=result.cleaned_to))
        return result

    # Life

    def open_new(self, now_ms: int) -> None:
        """Make the directory and its first segment.

        Raises:
            OSError: the disk refuses.
        """
        self.disk.make_dir(self.directory)
        self.adopt(Change(segments=[Segment.create(self.disk, self.directory, 0, now_ms)]))
        self.set_topic_id(self.topic_id)

    def set_topic_id(self, topic_id: bytes, *, durable: bool = False) -> None:
        """Note down whose log it is; unless it is to be `durable` now, the first sync of its records sees to that.

        Syncs for ten thousand new partitions would keep the disk busy for many seconds.
        """
        self.topic_id = topic_id
        self._flusher.is_named = topic_id == ZERO_UUID
        if topic_id == ZERO_UUID:
            return

        def noted(error: OSError | None) -> None:
            if durable and error is None and self.topic_id == topic_id:
                self._flusher.is_named = True

        path = f"{self.directory}/{checkpoint.PARTITION_METADATA_FILE}"
        self.disk.write_atomic(path, checkpoint.format_partition_metadata(topic_id), noted, durable=durable)

    def recover(
        self,
        *,
        clean: bool,
        now_ms: int,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        high_watermark: int = 0,
        cleaned_to: int = -1,
        closing: ClosingFiles | None = None,
        report: Report | None = None,
        named: bool = False,
    ) -> Job[None]:
        """Open what lies on disk, see `recovery.recover`; `report` is told of what is lost, else `losses`.

        A log that is not `named` is left so: whose it is, is not decided yet.

        Where `flush.messages` asks for it, what an end that was not clean left without a sync gets one first: it may be
        told as durable from now on, to a producer that sends it again above all.
        """
        found = Found(
            self.disk,
            self.directory,
            str(self.topic_partition),
            "compact" in self.config.cleanup_policy,
            self.config.index_interval_bytes,
            now_ms,
            self.discard,
            report or self.losses.report,
            self._room.indexes,
        )
        noted = Noted(recovery_point, log_start_offset, high_watermark)
        opened = yield from recovery.recover(found, clean, noted, closing)
        self.adopt(opened._replace(cleaned_to=min(cleaned_to, opened.log_end_offset or 0)))
        synced_once = self.recovery_point > self.bases[0]  # at its first base it may have been emptied to begin there
        self._flusher.is_named = not named or synced_once or self.topic_id == ZERO_UUID
        if max(recovery_point, log_start_offset, high_watermark, cleaned_to) > self.log_end_offset:
            self.unsaved(cut=True, committed=True)  # else the next start takes it for true, where the log has grown
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            yield from self.flush()

    def when_durable(self, offset: int, callback: Durable) -> bool:
        """Call back once everything below `offset` is on stable storage; starts the sync itself.

        Returns:
            True when it is already: then `callback` is not called. Otherwise it is called exactly once, later, with
            None, with KAFKA_STORAGE_ERROR when the sync failed, or with NOT_LEADER_OR_FOLLOWER when the log was cut
            below `offset`.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, an earlier sync failed; NOT_LEADER_OR_FOLLOWER, the broker stops.
        """
        if not self._takes_records:
            raise self._refusal()
        return self._flusher.when_durable(offset, callback)

    def flush(self) -> Job[None]:
        """Make everything durable.

        Raises:
            OSError: a sync failed.
        """
        if self._takes_records:
            gate = self._flusher.gate()
            if gate is not None:
                yield from wait(gate)

    def start_flush(self) -> None:
        """Begin to make everything durable, without waiting."""
        if self._takes_records:
            self._flusher.start()

    def write_again(self) -> None:
        """Begin to write what is missing: indexes of sealed segments, a producer snapshot above them."""
        sealed = self.segments[:-1]
        if sealed and self._takes_records:
            self.snapshot_from(self.bases[-1])
            if not all(segment.indexes_saved for segment in sealed):
                self._flusher.look_again()
                self._flusher.start()

    def mend_indexes(self) -> Job[None]:
        """Make indexes anew that were found wrong, see `place.mend_indexes`; `write_again` writes them."""
        return place.mend_indexes(self)

    def begin_close(self) -> tuple[Gate | None, ClosingFiles]:
        """Begin a clean end: take no more records, and sync.

        Returns:
            What must have come before `release` if the end is to be clean, and the small files that must have been
            written by `files.write_closing` (or put down in another place, see `closing`).
        """
        self.active.close_times()
        flushing = self._flusher.gate() if self.failed is None else None
        self.ending, self._takes_records = True, False
        return flushing, self.files.closing()

    def close(self) -> Job[None]:
        """A clean end, see `begin_close`; the files are released.

        Raises:
            OSError: something could not be written.
        """
        flushing, files = self.begin_close()
        writing = self.files.write_closing(files) if files.contents else None
        for gate in (flushing, writing):
            if gate is not None:
                yield from wait(gate)
        self.release()

    def release(self, closing: Callable[[list[Segment]], None] = close_all) -> None:
        """Release the files without writing anything (deletion, or after a crash); who waits for a sync is told.

        `closing` has the segments closed, of which there may be thousands.
        """
        if not self.closed:
            self._room.segments -= len(self.segments)
        self.closed, self._takes_records = True, False
        self._flusher.cut(-1)
        self.producers.leave()
        closing(list(self.segments))

    def _refusal(self) -> KafkaError:
        """Why no record is taken. A broker that stops gives its leadership away, in Kafka's words."""
        if self.failed is None and self.ending:
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition}: the broker is stopping")
        return self._storage_error(self.failed)

    def _storage_error(self, error: OSError | None) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.directory}: {error or 'the log is closed'}")

    def _remove_now(self, paths: list[str]) -> None:
        for path in paths:
            self.disk.remove(path)


def _new(new: _T | None, old: _T) -> _T:
    return old if new is None else new
