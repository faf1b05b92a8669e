"""Compaction: of each key only the newest record stays (Kafka's LogCleaner and Cleaner).

    dirty range      [cleaned_to, first uncleanable): whole segments; never the active one, none that reaches the last
                     stable offset, none with a record younger than `min.compaction.lag.ms`
    map              newest offset of each key in the dirty range (as far as the map holds)
    rewrite          every segment below the map's end, in groups that fit `segment.bytes`, batch by batch:
                     a record stays if no newer one of its key is in the map and it is no tombstone past its horizon

A tombstone goes in two rounds: the first that keeps one writes a delete horizon (now + `delete.retention.ms`) into its
batch, a round after that time drops it. Offsets never change. The last batch of each live producer and of the round
stays even when it is empty, so that sequences and the log end survive.

Nothing is rewritten whose sum was not checked: a new sum would make damage look whole. A segment with a batch that is
bad (its sum, its frame, its offsets, or a record that cannot be read) stays as it is, `CompactionResult.bad` names the
batch, and the other segments are cleaned; above such a segment tombstones stay, for it may hold what they delete.
(Apache Kafka gives the partition up: it counts as uncleanable until the broker is started anew.)

A group is written to `.log.cleaned`, made durable, renamed to `.log.swap`, and takes the place of its segments; a start
in between either throws the first away or finishes the second.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from barnabas.broker.jobs import Gate, Job, wait, write_all
from barnabas.broker.log.apart import BYTES_AT_ONCE
from barnabas.broker.log.key_map import RECORDS_PER_STEP, BadBatch, digest, fault_of, first_bad_frame, map_keys, work_of
from barnabas.broker.log.scan import batches_in, patient, window_at
from barnabas.broker.log.segment import CLEANED_SUFFIX, DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, Segment
from barnabas.broker.log.state import Change, LogView, forget_orphan
from barnabas.broker.log.truncation import rename_all_away, undone_on_failure
from barnabas.protocol.batch import COMPRESSION_MASK, DELETE_HORIZON, BatchHeader, read_header
from barnabas.protocol.errors import KafkaError, ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.records import SLICE_BYTES, BatchRewriter, Record, decode_slices_of, encode_batch

_GROUP_SEGMENTS_MAX: Final = 32
"""Segments that one step replaces: three files of each are renamed."""
_LOOKED_AT_PER_STEP: Final = 100
"""Segments of one log, which may have 20,000; of each a file is opened, where there is a `min.compaction.lag.ms`."""
_LONG_MAX: Final = 2**63 - 1


class _BadSegment(Exception):
    """A segment is to be left as it is."""

    def __init__(self, segment: Segment, batch: BadBatch) -> None:
        super().__init__(batch)
        self.segment = segment
        self.batch = batch


@dataclass(slots=True, frozen=True)
class CompactionResult:
    """What a round did: offsets below `cleaned_to` are clean; bytes before and after; segments that were replaced.

    `bad`: for each segment that was left as it is the first bad batch.
    """

    cleaned_to: int
    bytes_before: int
    bytes_after: int
    segments_before: int
    segments_after: int
    bad: tuple[BadBatch, ...] = ()


@dataclass(slots=True, frozen=True)
class Cleanable:
    """How dirty a log is: bytes before and in the dirty range, and whether `max.compaction.lag.ms` is passed."""

    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    must: bool

    @property
    def ratio(self) -> float:
        """Dirty bytes by all bytes that can be cleaned."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def cleanable(log: LogView, now_ms: int) -> Job[Cleanable]:
    """Find the dirty range of a compacted log.

    Raises:
        OSError: a read failed.
    """
    config = log.config
    first_dirty = log.cleaned_to
    if not log.bases[0] <= first_dirty <= log.log_end_offset:
        first_dirty = log.bases[0]  # no checkpoint yet, or the log was cut below it
    end = min(log.active.base, log.last_stable_offset)
    clean_bytes = dirty_bytes = 0
    earliest = -1
    for count, (segment, following) in enumerate(zip(log.segments[:-1], log.bases[1:], strict=True), 1):
        if not count % _LOOKED_AT_PER_STEP:
            yield None
        if following > end:  # a record that may be cut again must not replace another
            end = min(end, segment.base)
            break
        if following > first_dirty:
            if config.min_compaction_lag_ms > 0:
                largest = yield from patient(lambda segment=segment: segment.largest_timestamp)  # type: ignore[misc]
                if largest > now_ms - config.min_compaction_lag_ms:
                    end = segment.base
                    break
            if earliest < 0 and config.max_compaction_lag_ms < _LONG_MAX and segment.size:
                header = yield from patient(
                    lambda segment=segment: read_header(segment.file.read(0, 61))  # type: ignore[misc]
                )
                earliest = header.base_timestamp
            dirty_bytes += segment.size
        else:
            clean_bytes += segment.size
    must = dirty_bytes > 0 and 0 <= earliest < now_ms - config.max_compaction_lag_ms
    return Cleanable(first_dirty, max(end, first_dirty), clean_bytes, dirty_bytes, must)


def compact(log: LogView, now_ms: int, *, keys_max: int) -> Job[CompactionResult | None]:
    """One round over the dirty range; None if there was nothing to do or the log changed under it.

    Args:
        log: a log with `cleanup.policy=compact`.
        now_ms: time of day (ms).
        keys_max: most keys the map may hold; the round ends where it is full.

    Raises:
        OSError: the disk failed; the segments are as they were, or replaced as a whole.
        KafkaError: as `_Round.clean`.
    """
    cuts = log.cuts
    dirty = yield from cleanable(log, now_ms)
    if dirty.first_dirty >= dirty.end or log.cuts != cuts or log.closed:
        return None
    newest, end = yield from map_keys(log, dirty.first_dirty, dirty.end, keys_max)
    if log.cuts != cuts or log.closed:
        return None
    before = [segment for segment in log.segments[:-1] if segment.base < end]
    bytes_before = sum(segment.size for segment in before)
    round_ = _Round(log, newest, end, now_ms, log.producers.last_offsets())
    bytes_after = segments_after = 0
    groups = yield from _groups(before, log.config.segment_bytes, log.config.segment_index_bytes)
    while groups:
        group = groups.pop(0)
        try:
            cleaned = yield from round_.clean(group)
        except _BadSegment as found:
            at = group.index(found.segment)
            groups[:0] = [part for part in (group[:at], group[at + 1 :]) if part]
            round_.bad.append(found.batch)
            bytes_after += found.segment.size
            segments_after += 1
            continue
        if cleaned is None:
            return None
        bytes_after += cleaned.size
        segments_after += 1
    return CompactionResult(end, bytes_before, bytes_after, len(before), segments_after, tuple(round_.bad))


def _groups(segments: list[Segment], bytes_max: int, index_bytes_max: int) -> Job[list[list[Segment]]]:
    """Neighbours that fit into one segment by bytes, index entries and offset range."""
    groups: list[list[Segment]] = []
    size = index_size = 0
    for segment in segments:
        yield from patient(lambda segment=segment: (segment.offsets, segment.times))  # type: ignore[misc]
        entries = 12 * max(len(segment.offsets), len(segment.times))
        if (
            groups
            and size + segment.size <= bytes_max
            and index_size + entries <= index_bytes_max
            and segment.base - groups[-1][0].base <= 2**31 - 1
            and len(groups[-1]) < _GROUP_SEGMENTS_MAX
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size = index_size = 0
        size += segment.size
        index_size += entries
        yield None
    return groups


class _Round:
    """The rewriting half of one round."""

    def __init__(
        self, log: LogView, newest: dict[bytes, int], end: int, now_ms: int, last_of_producers: frozenset[int]
    ):
        self.log = log
        self.newest = newest
        self.end = end
        self.now_ms = now_ms
        self.last_of_producers = last_of_producers
        self.cuts = log.cuts
        self.bad: list[BadBatch] = []

    def clean(self, group: list[Segment]) -> Job[Segment | None]:
        """Rewrite a group of segments as one; None if the log changed meanwhile.

        Raises:
            _BadSegment: one of them is to be left as it is; nothing was changed.
            OSError: the disk failed; nothing was changed.
            KafkaError: KAFKA_STORAGE_ERROR, names could not be changed, and are what they were; or, where that failed
                too, the log has failed, and the next start finishes it.
        """
        log = self.log
        fresh = Segment(log.disk, log.directory, group[0].base, self.now_ms)
        fresh.room = log.active.room
        path = fresh.path(LOG_SUFFIX)
        fresh.adopt(log.disk.open(path + CLEANED_SUFFIX, create=True))
        try:
            for segment in group:
                yield from self._rewrite(segment, fresh)
            gate = Gate()
            fresh.file.sync(gate.open)
            yield from wait(gate)
        except (OSError, _BadSegment):
            self._abandon(fresh)
            raise
        fresh.synced_size = fresh.size
        fresh.close_times()
        first = next((i for i, segment in enumerate(log.segments) if segment is group[0]), -1)
        unchanged = first >= 0 and list(log.segments[first : first + len(group)]) == group and log.cuts == self.cuts
        if log.closed or not unchanged:
            self._abandon(fresh)
            return None
        try:
            with undone_on_failure(log) as rename:
                rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
                gone_files = rename_all_away(log.disk, group, rename)
                rename(path + SWAP_SUFFIX, path)
        except KafkaError:
            self._abandon(fresh)
            raise
        log.discard(gone_files)
        log.adopt(Change(segments=[*log.segments[:first], fresh, *log.segments[first + len(group) :]]))
        files = fresh.index_files()
        yield from write_all(log.disk, files)
        for path, _ in files:
            forget_orphan(log, fresh, path)
        if log.cuts == self.cuts:  # else it may end elsewhere, and have other indexes
            fresh.indexes_saved = True
        return fresh

    def _abandon(self, fresh: Segment) -> None:
        fresh.close()
        path = fresh.path(LOG_SUFFIX)
        if self.log.disk.exists(path + CLEANED_SUFFIX):  # not if the log was deleted meanwhile
            with suppress(OSError):  # a start, or the next round, takes it away
                self.log.disk.rename(path + CLEANED_SUFFIX, path + DELETED_SUFFIX)
                self.log.discard([path + DELETED_SUFFIX])

    def _rewrite(self, segment: Segment, fresh: Segment) -> Job[None]:
        bases = self.log.bases
        index = bisect_right(bases, segment.base)
        following = bases[index] if index < len(bases) else self.end
        bad = yield from first_bad_frame(segment, following)
        if bad is not None:
            raise _BadSegment(segment, bad)
        position = 0
        seen = 0
        while position < segment.size:
            at = position
            view = yield from patient(lambda at=at: window_at(segment.file, at, segment.size))  # type: ignore[misc]
            kept: list[Buffer] = []
            for offset, header in batches_in(view):
                position = at + offset + header.size
                reason = fault_of(view, offset, header)
                try:
                    data = None if reason else (yield from self._filter(view, offset, header))
                except ProtocolError as error:
                    reason = f"it cannot be read: {error}"
                if reason:
                    where = at + offset, header.base_offset, header.size
                    raise _BadSegment(segment, BadBatch(segment.file.path, *where, reason))
                if data is not None:
                    kept.append(data)
                    self._note(fresh, data)
                seen += work_of(header)
                if seen >= RECORDS_PER_STEP:
                    seen = 0
                    self._write(fresh, kept)
                    kept = []
                    yield None
            if position == at:
                raise OSError(f"{segment.file.path} changed while it was read: no batch at byte {at}")
            self._write(fresh, kept)
            yield None

    def _note(self, fresh: Segment, data: Buffer) -> None:
        header = read_header(data)
        interval = self.log.config.index_interval_bytes
        fresh.note(fresh.size, len(data), header.last_offset, header.max_timestamp, interval)
        fresh.size += len(data)

    @staticmethod
    def _write(fresh: Segment, kept: list[Buffer]) -> None:
        if kept:
            fresh.file.append(kept)

    def _filter(self, view: memoryview, position: int, header: BatchHeader) -> Job[Buffer | None]:
        """The batch as it shall be: the same bytes, fewer records, none but its header, or None."""
        whole = view[position : position + header.size]
        if header.is_control:
            return whole
        area, turn = yield from self.log.apart.opened(view, position, header)
        try:
            return (yield from self._sift(whole, area, header))
        finally:
            if turn:
                self.log.apart.release()

    def _sift(self, whole: memoryview, area: Buffer, header: BatchHeader) -> Job[Buffer | None]:
        horizon = header.base_timestamp if header.has_delete_horizon else None
        count = 0
        tombstones = False
        small: list[list[Record]] | None = (
            [] if header.record_count <= RECORDS_PER_STEP and len(area) <= BYTES_AT_ONCE else None
        )
        for kept in self._kept(area, header, horizon):
            count += len(kept)
            tombstones = tombstones or any(record.value is None for record in kept)
            if small is not None:
                small.append(kept)
            if len(area) > SLICE_BYTES or small is None:
                yield None
        if not count:
            if header.last_offset not in self.last_of_producers and header.next_offset < self.end:
                return None
            cleared = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON)
            empty = header._replace(attributes=cleared, base_timestamp=header.max_timestamp)
            return encode_batch(empty, []) if header.record_count or header.compression else whole
        stamp = horizon is None and tombstones
        if count == header.record_count and not stamp:
            return whole
        if stamp:
            until = self.now_ms + self.log.config.delete_retention_ms
            header_then = header._replace(attributes=header.attributes | DELETE_HORIZON, base_timestamp=until)
        else:
            header_then = header
        rewriter = BatchRewriter(header_then)
        for kept in self._kept(area, header, horizon) if small is None else small:
            rewriter.add(kept)
            if len(area) > SLICE_BYTES or small is None:
                yield None
        return rewriter.build()

    def _kept(self, area: Buffer, header: BatchHeader, horizon: int | None) -> Iterator[list[Record]]:
        """What stays of a batch, slice by slice: a batch may hold more records than there is memory for."""
        for records in decode_slices_of(area, header, RECORDS_PER_STEP):
            yield [record for record in records if self._stays(record, horizon)]

    def _stays(self, record: Record, horizon: int | None) -> bool:
        if record.key is None or record.offset < self.newest.get(digest(record.key), -1):
            return False
        return record.value is not None or horizon is None or self.now_ms < horizon or bool(self.bad)
