"""The shipped log as a voter's, on a disk in memory that loses what was not synced; the model beside it must agree.

Every change is made to both, and after each of them both begin and end at the same places, and know the same epochs.
What a power failure leaves is read from the disk, and must hold all that this voter was told is synced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from barnabas.broker.cluster.judgement import DIRECTORY, SUFFIX, newest_snapshot, snapshots
from barnabas.broker.config import TopicConfig
from barnabas.broker.config.topics import METADATA_TOPIC, METADATA_TOPIC_ID
from barnabas.broker.jobs import Job
from barnabas.broker.log import AppendOrigin, Isolation, Log
from barnabas.broker.memory_disk import Faults, MemoryDisk
from barnabas.broker.raft.world import Done, Mark
from barnabas.protocol.batch import batches, read_header
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import BatchBuilder, decode_records
from tests.broker.raft.quorum import Contents, Entry, MemoryLog, Quorum, Violation, Voter

WALL_MS = 1_700_000_000_000
CONFIG = TopicConfig(segment_bytes=600, segment_index_bytes=4096, retention_ms=-1, file_delete_delay_ms=0)


def run(disk: MemoryDisk, job: Job[Any]) -> None:
    """A job to its end."""
    waiting: list[bool] = []
    for token in job:
        if token is not None:
            waiting.clear()
            token.on_ready(lambda: waiting.append(True))
            while not waiting:
                assert disk.deliver()


def entries_in(data: Any) -> Iterator[Entry]:
    for position, _ in batches(data):
        epoch = read_header(data, position).leader_epoch
        for record in decode_records(data, position):
            yield Entry(epoch, int(bytes(record.value or b"")))


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
        self.log = Log(disk, DIRECTORY, TopicPartition(METADATA_TOPIC, 0), METADATA_TOPIC_ID, CONFIG)
        found = newest_snapshot(disk)
        mark = Mark(0, 0)
        snapshot: tuple[Entry, ...] = ()
        if found is not None:
            mark = Mark(found.end, found.epoch)
            snapshot = tuple(Entry(*one) for one in json.loads(disk.load(f"{DIRECTORY}/{found.name}")))
        run(disk, self.log.recover(clean=False, now_ms=WALL_MS, log_start_offset=mark.end, high_watermark=mark.end))
        log = self.log
        if (log.latest_epoch, log.log_end_offset) < (mark.epoch, mark.end):  # a snapshot came, and then the end
            log.truncate_fully_and_start_at(mark.end, now_ms=WALL_MS)
        run(disk, log.flush())
        super().__init__(voter, Contents(snapshot, mark, tuple(self._read())))
        log.advance_high_watermark(mark.end)
        self._agree()

    def _read(self) -> Iterator[Entry]:
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            data = self.log.read(offset, 1 << 20, Isolation.LOG_END).records
            found = list(entries_in(data))
            yield from found
            offset += len(found)

    def _agree(self) -> None:
        log = self.log
        ours = Mark(log.log_end_offset, log.latest_epoch if self.entries else self.start.epoch)
        if ours != self.end or log.log_start_offset != self.start.end:
            raise Violation(f"logs: the shipped one is {log.log_start_offset} to {ours}, the model {self.contents}")
        for epoch in {entry.epoch for entry in self.entries}:
            if self.end_of(epoch) != super().end_of(epoch):
                raise Violation(f"logs: epoch {epoch} ends at {self.end_of(epoch)} and {super().end_of(epoch)}")

    def end_of(self, epoch: int) -> Mark:
        log = self.log
        if log.log_end_offset == self.start.end:
            return super().end_of(epoch)
        if epoch >= log.latest_epoch:
            return Mark(log.log_end_offset, log.latest_epoch)
        there = log.end_offset_for_epoch(epoch)
        return Mark(there.end_offset, there.leader_epoch)

    def begin_epoch(self, epoch: int, leader: int) -> None:
        self.propose(Entry(epoch, -leader))

    def propose(self, entry: Entry) -> None:
        builder = BatchBuilder(1 << 20)
        builder.try_append(WALL_MS, None, str(entry.value).encode())
        self.log.append_as_leader(builder.build(), entry.epoch, now_ms=WALL_MS, origin=AppendOrigin.COORDINATOR)
        super().propose(entry)
        self._agree()

    def append(self, records: Any) -> int:
        data = bytearray(records)
        if data:
            self.log.append_as_follower(data, now_ms=WALL_MS)
        found = list(entries_in(data))
        self.entries += found
        self._agree()
        return len(found)

    def records(self, offset: int, count: int) -> Any:
        if offset == self.log.log_end_offset:
            return b""
        return bytes(self.log.read(offset, 75 * count, Isolation.LOG_END).records)

    def cut(self, end: int) -> None:
        self.log.truncate_to(end)
        super().cut(end)
        self._agree()

    def sync(self, end: int, done: Done) -> None:
        quorum = self._voter.quorum

        def durable(fault: KafkaError | None) -> None:
            if self._voter.alive:
                done(fault, quorum.now_ms)

        if self.log.when_durable(end, durable):
            quorum.at(quorum.now_ms, lambda: durable(None))
        else:
            quorum.at(quorum.now_ms + quorum.random.randrange(self._voter.slowest_ms()), self._deliver)

    def _deliver(self) -> None:
        if self._voter.alive:
            self.disk.deliver()

    def commit(self, end: int) -> None:
        super().commit(end)
        self.log.advance_high_watermark(end)

    def _write_snapshot(self) -> None:
        name = f"{self.start.end:020d}-{self.start.epoch:010d}{SUFFIX}"
        self.disk.write_atomic(f"{DIRECTORY}/{name}", json.dumps(self.snapshot).encode())
        for other in snapshots(self.disk):
            if other.name < name:
                self.disk.remove(f"{DIRECTORY}/{other.name}")

    def install(self, snapshot: Mark, done: Done) -> None:
        quorum = self._voter.quorum
        quorum.reached["snapshots installed"] += 1
        self.snapshot = tuple(Entry(*one) for one in json.loads(self._pieces))
        self.start, self.entries, self.committed = snapshot, [], snapshot.end
        self._write_snapshot()
        self.log.truncate_fully_and_start_at(snapshot.end, now_ms=WALL_MS)
        self.log.advance_high_watermark(snapshot.end)
        self._agree()
        quorum.at(quorum.now_ms, lambda: done(None, quorum.now_ms))

    def compact(self) -> None:
        super().compact()
        if self.start.end > self.log.log_start_offset:
            self._write_snapshot()
            self.log.raise_log_start_offset(self.start.end)
            run(self.disk, self.log.retain(WALL_MS))
            self._agree()
