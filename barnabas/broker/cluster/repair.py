"""Going on without metadata that cannot be read: what is wrong, what would be done about it, and doing it.

Nothing is thrown away. What is cut off, or replaced, stays beside the log under a name that ends in `.cut`; logs of
topics that are lost with it are set aside by the next start. A repair that is cut short is begun anew: the ledger,
which keeps the broker from starting meanwhile, is written last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from barnabas.broker.cluster.controller import PRODUCER_ID_BLOCK_SIZE
from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.judgement import (
    DIRECTORY,
    SUFFIX,
    MetadataUnreadable,
    Snapshot,
    indexes_alone,
    judge,
    lost_segments,
    newest_snapshot,
    snapshot_records,
)
from barnabas.broker.cluster.ledger import LEDGER_FILE, Ledger, LedgerUnreadable, format_ledger
from barnabas.broker.cluster.records import ProducerIds, decode, encode
from barnabas.broker.jobs import Gate, Job, remove, wait, write_all
from barnabas.broker.log.check import Checked, check_log, good_batches, segment_base, segment_bases
from barnabas.broker.log.checkpoint import parse_directory_name
from barnabas.broker.log.cuttings import CUT_SUFFIX, keep_segment, keep_tail
from barnabas.broker.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment
from barnabas.broker.ports import Disk
from barnabas.protocol.batch import BatchHeader
from barnabas.protocol.records import BatchBuilder, decode_records


@dataclass(slots=True)
class Plan:
    """What a repair would do.

    Attributes:
        problems: why the broker does not start, one sentence each; none: there is nothing to repair.
        steps: what would be done, in words and in order.
        topics_lost: topics with logs here that the metadata would not know any more.
    """

    problems: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    topics_lost: list[str] = field(default_factory=list)
    _jobs: list[Callable[[], Job[None]]] = field(default_factory=list)

    def add(self, step: str, job: Callable[[], Job[None]]) -> None:
        """One more thing to do."""
        self.steps.append(step)
        self._jobs.append(job)

    def set_aside(self, disk: Disk, path: str) -> None:
        """Give a snapshot a name under which it counts for nothing."""

        def rename() -> Job[None]:
            disk.rename(path, path + CUT_SUFFIX)
            yield None

        self.add(f"rename {path} to {path}{CUT_SUFFIX}", rename)

    def cut(self, disk: Disk, base: int, position: int) -> None:
        """Cut a segment at a position, or set it aside as a whole."""
        path = Segment(disk, DIRECTORY, base, 0).path(LOG_SUFFIX)

        def whole() -> Job[None]:
            yield from _remove_indexes(disk, base)
            yield from keep_segment(disk, Segment.existing(disk, DIRECTORY, base, 0))

        def tail() -> Job[None]:
            segment = Segment.existing(disk, DIRECTORY, base, 0)
            yield from keep_tail(disk, segment, position)
            segment.file.truncate(position)
            gate = Gate()
            segment.file.sync(gate.open)
            yield from wait(gate)
            segment.close()

        if position:
            self.add(f"cut {path} at byte {position}; what follows is kept beside it in a {CUT_SUFFIX} file", tail)
        else:
            self.add(f"keep {path} as a {CUT_SUFFIX} file, which counts for nothing", whole)

    def forget(self, disk: Disk, base: int) -> None:
        """Remove the indexes of a segment that is gone: they name records that nobody has."""
        path = Segment(disk, DIRECTORY, base, 0).path(INDEX_SUFFIX)
        self.add(f"remove {path}, whose log file is gone", lambda: _remove_indexes(disk, base))

    def replace(self, disk: Disk, path: str, content: bytes, why: str) -> None:
        """Write a file as a whole."""
        self.add(f"write {path}: {why}", lambda: write_all(disk, [(path, content)]))

    def carry_out(self) -> Job[None]:
        """Do it.

        Raises:
            OSError: the disk failed; a new plan goes on from there.
        """
        for job in self._jobs:
            yield from job()


class _Reader:
    """Reads what can be read into an image."""

    def __init__(self) -> None:
        self.image = Image()
        self.from_offset = 0

    def visit(self, path: str, position: int, header: BatchHeader, view: memoryview) -> None:
        """A good batch of the log."""
        if header.base_offset >= self.from_offset:
            self.image.apply(decode(record.value or b"") for record in decode_records(view, 0))


def plan_repair(disk: Disk) -> Job[Plan]:
    """Look at the metadata, and work out what to do about it. Changes nothing.

    Raises:
        UnknownRecord: a newer release wrote it.
        OSError: the disk failed.
    """
    plan = Plan()
    ledger = Ledger(disk)
    try:
        ledger.load()
    except LedgerUnreadable as fault:
        plan.steps.append(f"{fault}; the next start writes it anew")
    reader = _Reader()
    snapshot = newest_snapshot(disk)
    if snapshot is not None:
        snapshot = _look_at_snapshot(disk, snapshot, reader, plan)
    found = yield from check_log(disk, DIRECTORY, gapless=True, visit=reader.visit)
    gone = lost_segments(disk)
    try:
        judge(found, snapshot, ledger, in_use=True, gone=gone)
    except MetadataUnreadable as fault:
        plan.problems.insert(0, _without_remedy(fault))
    if not plan.problems:
        return plan
    end = _mend_log(disk, found, snapshot, plan)
    for base in indexes_alone(disk):
        plan.forget(disk, base)
    ids_end = max(ledger.producer_ids_end, reader.image.next_producer_id)
    if not ledger.present:  # each record that is lost can have been a block
        known_end = max(0 if found.broken is None else found.broken.known_end, max(gone, default=-1) + 1)
        lost = max(known_end - found.end_offset, 1)
        ids_end += lost * PRODUCER_ID_BLOCK_SIZE
    plan.replace(disk, LEDGER_FILE, format_ledger(end, ids_end), f"the metadata ends before record {end}")
    names = {key.topic for key in map(parse_directory_name, disk.list("")) if key is not None}
    known = {*reader.image.topics, DIRECTORY.rpartition("-")[0]}
    plan.topics_lost = sorted(names - known)
    return plan


def _look_at_snapshot(disk: Disk, snapshot: Snapshot, reader: _Reader, plan: Plan) -> Snapshot | None:
    """Take in what can be read of a snapshot, and plan to go on from that; None if the log does without it."""
    path = f"{DIRECTORY}/{snapshot.name}"
    data = disk.load(path)
    log_holds_all = segment_bases(disk, DIRECTORY)[:1] == [0]
    try:
        for _ in snapshot_records(data, snapshot, log_holds_all=log_holds_all):
            pass
    except MetadataUnreadable as fault:
        plan.problems.append(_without_remedy(fault))
        plan.set_aside(disk, path)
        if log_holds_all:
            return None
    reader.from_offset = snapshot.end
    good = bytearray()
    for position, header in good_batches(data):
        batch = data[position : position + header.size]
        reader.image.apply(decode(record.value or b"") for record in decode_records(batch, 0))
        good += batch
    if plan.problems:
        plan.replace(disk, path, bytes(good) or _batch_of(ProducerIds(-1, 0)), "what can be read of it")
    return snapshot


def _without_remedy(fault: MetadataUnreadable) -> str:
    return str(fault).rpartition("; ")[0]


def _mend_log(disk: Disk, found: Checked, snapshot: Snapshot | None, plan: Plan) -> int:
    """Plan what makes the log whole; the offset it ends at then."""
    start = 0 if snapshot is None else snapshot.end
    bases = segment_bases(disk, DIRECTORY)
    broken = found.broken
    if not found.segments or found.end_offset < start:
        for base in bases:
            plan.cut(disk, base, 0)
        return start
    if found.segments[0].base > start:
        base = found.segments[0].base
        name = f"{DIRECTORY}/{base:020d}-{0 if snapshot is None else snapshot.epoch:010d}{SUFFIX}"
        content = _batch_of(ProducerIds(-1, 0)) if snapshot is None else disk.load(f"{DIRECTORY}/{snapshot.name}")
        plan.replace(disk, name, content, f"so that the log may begin with record {base}")
    if broken is not None:
        where = segment_base(broken.path)
        for base in bases:
            if base > where:
                plan.cut(disk, base, 0)
        plan.cut(disk, where, broken.position)
    return max(found.end_offset, start)


def _remove_indexes(disk: Disk, base: int) -> Job[None]:
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        yield from remove(disk, Segment(disk, DIRECTORY, base, 0).path(suffix))


def _batch_of(record: ProducerIds) -> bytes:
    builder = BatchBuilder(4096)
    builder.try_append(0, None, encode(record))
    return bytes(builder.build())
