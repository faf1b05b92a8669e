"""What must be there: every record that was acknowledged or sent, and what may have become of it.

acknowledged     at its offset, with its bytes, whatever ends the broker came to meanwhile
unanswered       there or not, whole, once; where it is found it stays
compacted        a record may go once a newer one of its key is there
deleted          the log start lies no higher than what was asked for, or than what retention may take
forgiven         records behind an offset from which a fault of the disk takes what it likes: what is served is true
"""

from __future__ import annotations

from dataclasses import dataclass, field


class Broken(AssertionError):
    """A promise was broken: the sentence says which."""


@dataclass(slots=True, eq=False)
class Batch:
    """One batch as it was sent. `offset` is that of its first record, None while nobody knows."""

    serial: int
    keys: tuple[bytes, ...]
    values: tuple[bytes | None, ...]
    timestamp_ms: int
    data: bytes = b""
    sequence: int = -1
    offset: int | None = None
    sends: int = 0
    gone: set[int] = field(default_factory=set)
    """Which of its records a fault took."""
    superseded: set[int] = field(default_factory=set)
    """Which of its records compaction may have taken for a newer one that a fault took then."""

    @property
    def end(self) -> int:
        """The offset after its last record."""
        assert self.offset is not None
        return self.offset + len(self.values)


@dataclass(slots=True)
class Read:
    """What a consumer is served of a partition, from its log start to its end.

    `records` are offset, key, value and the tag that says which record it is; `refused` holds offset ranges whose batch
    has a wrong sum: no consumer takes it for good. `error` is the code of an answer that was an error instead.
    """

    log_start: int
    end: int
    records: list[tuple[int, bytes | None, bytes | None, bytes]] = field(default_factory=list)
    refused: list[range] = field(default_factory=list)
    error: int = 0


@dataclass(slots=True)
class Producer:
    """An idempotent producer of one partition: the next sequence, and the batch that was last acknowledged."""

    producer_id: int
    next_sequence: int = 0
    last: Batch | None = None


class PartitionModel:
    """One partition of one topic id."""

    def __init__(self, topic: TopicModel, number: int) -> None:
        self.topic = topic
        self.number = number
        self.where = f"{topic.name}-{number}"
        self.batches: list[Batch] = []
        """Those whose offset is known, in the order of their offsets."""
        self.unsure: list[Batch] = []
        self.end = 0
        self.durable_end = 0
        """What lies below is on the device: a clean stop came after it, or with `flush.messages=1` an answer."""
        self.start_asked = 0
        self.start_done = 0
        self.damaged_from: int | None = None
        """A fault lies in a file at this offset: from here on anything may be missing, and nothing may be wrong."""
        self.unsynced_from: int | None = None
        """The power failed: from here on it may be missing, until the next start has shown what is."""
        self.producer: Producer | None = None

    @property
    def forgiven_from(self) -> int | None:
        """The offset from which on records may be missing, None when all must be there."""
        return min((at for at in (self.damaged_from, self.unsynced_from) if at is not None), default=None)

    def damaged(self, offset: int) -> None:
        """A file was damaged where this offset lies."""
        self.damaged_from = min(offset, self.damaged_from if self.damaged_from is not None else offset)
        self.producer = None

    def power_failed(self) -> None:
        """What was not synced may be gone."""
        self.unsynced_from = self.durable_end

    def sent(self, batch: Batch) -> None:
        """A batch is on its way; nothing is known of it until it is answered."""
        self.unsure.append(batch)

    def acknowledged(self, batch: Batch, offset: int) -> None:
        """A batch was answered without an error.

        Raises:
            Broken: with an offset that it cannot have.
        """
        if batch.offset is not None:
            if offset != batch.offset:
                raise Broken(
                    f"{self.where}: batch {batch.serial} was at {batch.offset}, its retry is acknowledged at {offset}: "
                    "it is written twice, or not at all"
                )
            if self.topic.flush_each:
                self.durable_end = max(self.durable_end, batch.end)
            return
        again = batch.sends > 1 and not any(
            one.offset is not None and one.offset < offset + len(batch.values) and offset < one.end
            for one in self.batches
        )  # it was written before, and retention or compaction took it unseen
        if offset < self.end and not again:
            raise Broken(f"{self.where}: offset {offset} is given away a second time, the end was {self.end}")
        if batch not in self.unsure:
            self.unsure.append(batch)  # given up before its answer came
        self._place(batch, offset)
        if self.topic.flush_each:
            self.durable_end = max(self.durable_end, batch.end)

    def refused(self, batch: Batch) -> None:
        """A batch was answered with an error that says nothing was written."""
        self.unsure.remove(batch)

    def _place(self, batch: Batch, offset: int) -> None:
        self.unsure.remove(batch)
        batch.offset = offset
        self.batches.append(batch)
        self.batches.sort(key=lambda one: one.offset or 0)
        self.end = max(self.end, batch.end)
        producer = self.producer
        if producer and batch.sequence >= 0 and (not producer.last or batch.sequence > producer.last.sequence):
            producer.last = batch

    def begin_anew(self) -> None:
        """The broker that was asked is dead: what it had not written by then it will never write."""
        self.unsure = [batch for batch in self.unsure if batch.sequence >= 0 and self.producer is not None]

    def compare(self, read: Read, wall_ms: int, *, clean: bool = False) -> int:
        """Compare all that is served with all that must be; the number of acknowledged records that a fault took.

        Args:
            read: everything that a consumer gets.
            wall_ms: time of day (ms), for retention by time.
            clean: the broker came to a clean end before, so that what was deleted stays so.

        Raises:
            Broken: a promise was broken.
        """
        if read.error:
            if self.forgiven_from is None:
                raise Broken(f"{self.where}: reading answers error {read.error}")
            return 0
        if read.refused and self.damaged_from is None:
            raise Broken(f"{self.where}: no consumer takes what is served at {read.refused}")
        self._find_unsure(read)
        lost = self._look_for_lost(read)
        if clean and read.log_start < self.start_done and self.forgiven_from is None:
            raise Broken(f"{self.where}: records below {self.start_done} were deleted, {read.log_start} is the start")
        self.start_done = min(self.start_done, read.log_start)
        if lost:  # by its bytes retention may have counted what is gone now
            self.start_asked = max(self.start_asked, read.log_start)
        else:
            self._check_start(read.log_start, wall_ms)
        self._check_keys(read)
        if read.end < self.end and self.forgiven_from is None:
            raise Broken(f"{self.where}: acknowledged up to {self.end}, the log ends at {read.end}")
        if lost or (self.forgiven_from is not None and read.end < self.end):
            self._give_up(read.end)
        self.unsynced_from = None
        if clean:
            self.durable_end = read.end
        return lost

    def _find_unsure(self, read: Read) -> None:
        """Every record that is served was sent to this partition, stands once, and where it was acknowledged."""
        known = {
            offset: (batch, index)
            for batch in self.batches
            for index, offset in enumerate(_offsets(batch))
            if index not in batch.gone
        }
        unsure = {self.tag(batch, index): (batch, index) for batch in self.unsure for index in range(len(batch.values))}
        last = -1
        for offset, key, value, tag in read.records:
            if offset <= last:
                raise Broken(f"{self.where}: offset {offset} is served after {last}")
            last = offset
            found = known.get(offset) or unsure.get(tag)
            if found is None:
                raise Broken(f"{self.where}: nobody wrote what is served at {offset}: {tag!r}")
            batch, index = found
            if batch.offset is None:
                self._place(batch, offset - index)
                known |= {at: (batch, number) for number, at in enumerate(_offsets(batch))}
            if (batch.offset or 0) + index != offset:
                raise Broken(f"{self.where}: {tag!r} is served at {offset}, and at {(batch.offset or 0) + index}")
            if (batch.keys[index], batch.values[index], self.tag(batch, index)) != (key, value, tag):
                raise Broken(f"{self.where}: offset {offset} holds {tag!r}, not {self.tag(batch, index)!r} as written")

    def tag(self, batch: Batch, index: int) -> bytes:
        """What stands in the header of a record, so that it is known wherever it turns up."""
        return b"%s/%d/%d/%d" % (self.topic.topic_id.hex().encode(), self.number, batch.serial, index)

    def _look_for_lost(self, read: Read) -> int:
        """Mark what a fault took; how many records that is."""
        served = {offset for offset, *_ in read.records}
        there = served.union(*read.refused)
        newest, newest_ever = ({}, {}) if not self.topic.may_compact else self._newest_of_keys(read, there)
        lost = 0
        for batch in self.batches:
            forgiven = self._is_forgiven(batch)
            for index, offset in enumerate(_offsets(batch)):
                if offset < read.log_start or offset in served or index in batch.gone:
                    continue
                if forgiven and offset in there:
                    continue
                if newest_ever.get(batch.keys[index], -1) >= offset and not forgiven:
                    batch.superseded.add(index)
                excused = newest.get(batch.keys[index], -1) >= offset or index in batch.superseded
                if excused and (offset < read.end or not forgiven):
                    continue
                if not forgiven:
                    raise Broken(
                        f"{self.where}: the record acknowledged at {offset} (batch {batch.serial}) is not there; "
                        f"served are {read.log_start} to {read.end}, {len(served)} records"
                        + (f", refused {read.refused}" if read.refused else "")
                    )
                batch.gone.add(index)
                lost += 1
        return lost

    def _is_forgiven(self, batch: Batch) -> bool:
        return self.forgiven_from is not None and batch.end > self.forgiven_from

    def _newest_of_keys(self, read: Read, there: set[int]) -> tuple[dict[bytes, int], dict[bytes, int]]:
        """For whose sake compaction may have taken the older records of each key.

        Returns:
            The newest offset that is there, or was deleted with its key; and the newest that a fault may
            have taken since.
        """
        newest: dict[bytes, int] = {}
        newest_ever: dict[bytes, int] = {}
        oldest = {key: offset for offset, key, *_ in reversed(read.records)}
        for batch in self.batches:
            forgiven = self._is_forgiven(batch)
            for index, offset in enumerate(_offsets(batch)):
                key = batch.keys[index]
                deleted = batch.values[index] is None and index not in batch.gone
                if forgiven and (offset >= read.end or oldest.get(key, offset) < offset):
                    deleted = False  # the fault took it: what it deleted is there
                if offset in there or deleted:
                    newest[key] = max(offset, newest.get(key, -1))
                if forgiven:
                    newest_ever[key] = max(offset, newest_ever.get(key, -1))
        return newest, newest_ever

    def _check_keys(self, read: Read) -> None:
        """An older record of a key is not served where a newer one was there and compaction took both."""
        if not self.topic.may_compact or self.forgiven_from is not None:
            return
        newest = {key: offset for offset, key, *_ in read.records}
        for batch in self.batches:
            for index, offset in enumerate(_offsets(batch)):
                at = newest.get(batch.keys[index])
                deleted = batch.values[index] is None and index not in batch.gone
                if deleted and at is not None and read.log_start <= at < offset:
                    raise Broken(
                        f"{self.where}: {batch.keys[index]!r} was deleted at {offset}; that is gone, and {at} is not"
                    )

    def _check_start(self, log_start: int, wall_ms: int) -> None:
        """What lies below the log start was asked to be deleted, or retention may take it."""
        if log_start <= self.start_asked or self.forgiven_from is not None:
            return
        newest = {key: at for one in self.batches for key, at in zip(one.keys, _offsets(one), strict=True)}
        taken = [
            batch
            for batch in self.batches
            if self.start_asked <= (batch.offset or 0) < log_start
            and not (self.topic.may_compact and all(newest[key] >= batch.end for key in batch.keys))  # gone before
        ]
        kept = [batch for batch in taken if not self._may_go(batch, wall_ms)]
        if kept:
            raise Broken(
                f"{self.where}: the log starts at {log_start}; deletion was asked up to {self.start_asked}, and "
                f"retention may not take {len(kept)} batches, the first at {kept[0].offset}"
            )

    def _may_go(self, batch: Batch, wall_ms: int) -> bool:
        """Whether retention may take a batch: by its age, or by the bytes behind it. It may take some by each."""
        topic = self.topic
        if topic.retention_ms is not None and batch.timestamp_ms < wall_ms - topic.retention_ms:
            return True
        behind = sum(len(one.data) for one in self.batches if (one.offset or 0) >= batch.end)
        return topic.retention_bytes is not None and behind >= topic.retention_bytes

    def _give_up(self, end: int) -> None:
        """What a fault took is gone, and its offsets may be given away again."""
        self.batches = [batch for batch in self.batches if len(batch.gone) < len(batch.values)]
        self.end = end
        self.durable_end = min(self.durable_end, end)
        self.producer = None
        self.unsure = []


@dataclass(slots=True)
class TopicModel:
    """One topic id. The settings are the most that any of the topic's life allowed to be taken."""

    name: str
    topic_id: bytes
    flush_each: bool = False
    may_compact: bool = False
    retention_ms: int | None = None
    retention_bytes: int | None = None
    partitions: list[PartitionModel] = field(default_factory=list)

    def allow(self, settings: dict[str, str]) -> None:
        """Settings that were in force, or may have been."""
        policy = settings.get("cleanup.policy", "")
        self.may_compact |= "compact" in policy
        if settings.get("retention.ms", "-1") != "-1":
            self.retention_ms = min(int(settings["retention.ms"]), self.retention_ms or 2**62)
        if settings.get("retention.bytes", "-1") != "-1":
            self.retention_bytes = min(int(settings["retention.bytes"]), self.retention_bytes or 2**62)

    def grow(self, count: int) -> None:
        """As many partitions as `count`."""
        self.partitions += [PartitionModel(self, number) for number in range(len(self.partitions), count)]


def _offsets(batch: Batch) -> range:
    assert batch.offset is not None
    return range(batch.offset, batch.offset + len(batch.values))
