"""The shipped log of a voter, on a disk in memory that loses what was not synced; the model beside it must agree.

Every change is made to both, and after each of them both begin and end at the same places, and know the same epochs.
What a power failure leaves is read from the disk, and must hold all that this voter was told is synced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from barnabas.broker.cluster.quorum_log import QuorumLog
from barnabas.broker.cluster.record_bytes import batch_of
from barnabas.broker.cluster.records import NewEpoch, ProducerIds, decode
from barnabas.broker.jobs import Job, at_once
from barnabas.broker.log import Isolation
from barnabas.broker.memory_disk import Faults, MemoryDisk
from barnabas.broker.raft.world import Done, Mark
from barnabas.protocol.batch import batches, read_header
from barnabas.protocol.records import decode_records
from tests.broker.raft.quorum import Contents, Entry, MemoryLog, Quorum, Violation, Voter

WALL_MS = 1_700_000_000_000


class Clock:
    def now_ms(self) -> int:
        return WALL_MS


class Snapshot:
    """What a snapshot is written of."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self._entries = entries

    def to_records(self) -> Iterator[ProducerIds]:
        return (ProducerIds(*entry) for entry in self._entries)


def run(disk: MemoryDisk, job: Job[Any]) -> None:
    """A job to its end."""
    waiting: list[bool] = []
    for token in job:
        if token is not None:
            waiting.clear()
            token.on_ready(lambda: waiting.append(True))
            while not waiting:
                assert disk.deliver()


def records_in(data: Any) -> Iterator[tuple[int, Any]]:
    for position, _ in batches(data):
        epoch = read_header(data, position).leader_epoch
        for record in decode_records(data, position):
            yield epoch, decode(record.value or b"")


def entries_in(data: Any) -> Iterator[Entry]:
    for epoch, record in records_in(data):
        yield Entry(epoch, -record.leader if isinstance(record, NewEpoch) else record.next_producer_id)


class RealQuorum(Quorum):
    """As `Quorum`, whose voters have the shipped log."""

    def __init__(self, *voters: int, seed: int = 0, **options: Any) -> None:
        self.real: dict[int, MemoryDisk] = {}
        super().__init__(*voters, seed=seed, **options)

    def log_of(self, voter: Voter, contents: Contents) -> MemoryLog:
        if voter.node_id not in self.real:
            faults = Faults(self.random.randrange, blocks=True, cuts=True)
            self.real[voter.node_id] = MemoryDisk(faults=faults)
        return RealLog(voter, self.real[voter.node_id])

    def crash(self, node_id: int) -> None:
        super().crash(node_id)
        self.real[node_id].crash()


class RealLog(MemoryLog):
    """Both logs. What is asked of them is answered by the shipped one."""

    def __init__(self, voter: Voter, disk: MemoryDisk) -> None:
        self.disk = disk
        self._quorum = voter.quorum
        self._life = voter
        self.real = QuorumLog(disk, Clock(), self._later, 1 << 20, segment_bytes=600)
        run(disk, self.real.load())
        held = self.real.held
        snapshot = () if held is None else tuple(Entry(*record) for _, record in records_in(held.data))
        super().__init__(voter, Contents(snapshot, self.real.start, tuple(self._read())))
        self._agree()

    def _later(self, callback: Callable[[int], None]) -> None:
        self._quorum.at(self._quorum.now_ms, lambda: callback(self._quorum.now_ms) if self._life.alive else None)

    def _read(self) -> Iterator[Entry]:
        log = self.real.log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            found = list(entries_in(log.read(offset, 1 << 20, Isolation.LOG_END).records))
            yield from found
            offset += len(found)

    def _agree(self) -> None:
        real = self.real
        if (real.start, real.end, real.committed) != (self.start, self.end, self.committed):
            raise Violation(f"logs: the shipped one is {real.start} to {real.end}, the model {self.contents}")
        for epoch in range(self.start.epoch, self.end.epoch + 2):
            if real.end_of(epoch) != super().end_of(epoch):
                raise Violation(f"logs: epoch {epoch} ends at {real.end_of(epoch)} and {super().end_of(epoch)}")

    def end_of(self, epoch: int) -> Mark:
        return self.real.end_of(epoch)

    def snapshot_bytes(self) -> bytes:
        return b"" if self.real.held is None else self.real.held.data

    def begin_epoch(self, epoch: int, leader: int) -> None:
        self.real.begin_epoch(epoch, leader)
        super().propose(Entry(epoch, -leader))
        self._agree()

    def propose(self, entry: Entry) -> None:
        self.real.append_batch(at_once(batch_of([ProducerIds(*entry)], WALL_MS)), entry.epoch)
        super().propose(entry)
        self._agree()

    def append(self, records: Any) -> int:
        count = self.real.append(records)
        self.entries += entries_in(records)
        self._agree()
        return count

    def records(self, offset: int, count: int) -> Any:
        log = self.real.log
        if offset == log.log_end_offset:
            return b""
        return bytes(log.read(offset, 80 * count, Isolation.LOG_END).records)

    def cut(self, end: int, done: Done) -> None:
        self.real.cut(end, lambda *_: None)
        super().cut(end, done)
        self._agree()

    def sync(self, end: int, done: Done) -> None:
        self.real.sync(end, done)
        self._deliver_soon()

    def _deliver_soon(self) -> None:
        quorum = self._quorum
        quorum.at(quorum.now_ms + quorum.random.randrange(self._life.slowest_ms()), self._deliver)

    def _deliver(self) -> None:
        if self._life.alive and self.disk.deliver():
            self._deliver_soon()

    def commit(self, end: int) -> None:
        super().commit(end)
        self.real.commit(end)

    def take_piece(self, snapshot: Mark, position: int, data: bytes, *, whole: bool) -> None:
        self._pieces = data if not position else self._pieces + data
        self.real.take_piece(snapshot, position, data, whole=whole)

    def install(self, snapshot: Mark, done: Done) -> None:
        came = tuple(Entry(*record) for _, record in records_in(self._pieces))

        def installed(error: Exception | None, now_ms: int) -> None:
            self._quorum.reached["snapshots installed"] += 1
            self.snapshot, self.start, self.entries, self.committed = came, snapshot, [], snapshot.end
            self._agree()
            done(error, now_ms)

        self.real.install(snapshot, installed)
        self._deliver_soon()

    def compact(self) -> None:
        super().compact()
        if self.start.end > self.real.start.end:
            run(self.disk, self.real.snapshot(Snapshot(self.snapshot), self.start))  # type: ignore[arg-type]
            self._agree()
