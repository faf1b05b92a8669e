from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.cluster import record_bytes
from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.judgement import DIRECTORY, MetadataUnreadable, Snapshot, newest_snapshot
from barnabas.broker.cluster.metadata_log import MetadataLog
from barnabas.broker.cluster.records import (
    BrokerChange,
    Cluster,
    Config,
    FeatureLevel,
    MetadataRecord,
    Partition,
    PartitionChange,
    ProducerIds,
    RegisterBroker,
    RemoveTopic,
    Topic,
    UnknownRecord,
    UnregisterBroker,
    decode,
    encode,
)
from barnabas.broker.jobs import at_once
from barnabas.broker.memory_disk import Faults, MemoryDisk
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.records import BatchBuilder, decode_records

ID = bytes(15) + b"\x07"
EVERY_KIND: list[MetadataRecord] = [
    RegisterBroker(1, 3, b"i" * 16, (("PLAINTEXT", "host", 9092),), None),
    BrokerChange(1, False),
    UnregisterBroker(2),
    Topic(ID, "t"),
    Partition(ID, 0, (1, 2), (1,), 1, 5, 6),
    PartitionChange(ID, 0, (1, 2), -1, None),
    RemoveTopic(ID),
    Config(2, "t", "retention.ms", None),
    ProducerIds(1, 1000),
    FeatureLevel("metadata.version", 30),
    Cluster("AAAAAAAAAAAAAAAAAAAAAA"),
]


class Clock:
    def now_ms(self) -> int:
        return 1_700_000_000_000


class Harness:
    def __init__(self, disk: MemoryDisk, snapshot_bytes: int = 1 << 20) -> None:
        self.disk = disk
        self.image = Image()
        self.log = MetadataLog(disk, Clock(), snapshot_bytes)
        self.commits: list[Any] = []
        self.run(self.log.load(self.image))

    def run(self, job: Any) -> None:
        waiting: list[bool] = []
        while True:
            try:
                token = next(job)
            except StopIteration:
                return
            if token is not None:
                waiting.clear()
                token.on_ready(lambda: waiting.append(True))
                while not waiting:
                    assert self.disk.deliver()

    def append(self, *records: MetadataRecord) -> None:
        def committed(fault: Any) -> None:
            self.commits.append(fault)
            if fault is None:
                self.image.apply(records)

        self.log.append(records, committed)

    def deliver(self) -> None:
        while self.disk.deliver():
            pass


def content(image: Image) -> list[MetadataRecord]:
    return list(image.to_records())


def fill(harness: Harness, topics: range) -> None:
    for number in topics:
        topic_id = number.to_bytes(16, "big")
        harness.append(Topic(topic_id, f"t{number}"), Partition(topic_id, 0, (1,), (1,), 1))
        harness.append(Config(2, f"t{number}", "retention.ms", str(number)))
        harness.deliver()


@pytest.mark.parametrize("record", EVERY_KIND, ids=lambda record: type(record).__name__)
def test_a_record_comes_back(record: MetadataRecord) -> None:
    assert decode(encode(record)) == record


def test_a_later_release_may_add_fields_but_no_kinds() -> None:
    import msgpack

    assert decode(msgpack.packb([2, 1, True, "a field of the future"])) == BrokerChange(1, True)
    assert decode(msgpack.packb([1, 1, 3, b"i" * 16, []])) == RegisterBroker(1, 3, b"i" * 16, (), None, True)
    for strange in (msgpack.packb([99, 1]), b"\xc1", b"", msgpack.packb(5)):
        with pytest.raises(UnknownRecord, match="a newer one wrote it"):
            decode(strange)


@pytest.mark.parametrize("late", [False, True])
def test_what_was_committed_is_there_after_a_power_loss(late: bool) -> None:
    disk = MemoryDisk(late=late)
    first = Harness(disk)
    fill(first, range(1, 40))
    assert set(first.commits) == {None}
    first.append(Topic(b"\xff" * 16, "not committed"))
    disk.crash()
    second = Harness(disk)
    assert content(second.image) == content(first.image)
    assert len(first.commits) == 39 * 2


def test_nothing_is_committed_before_its_sync() -> None:
    harness = Harness(MemoryDisk())
    harness.append(Topic(ID, "t"))
    assert harness.commits == []
    harness.append(Topic(b"\x02" * 16, "u"))
    harness.deliver()
    assert harness.commits == [None, None]


def test_a_failed_sync_is_told() -> None:
    disk = MemoryDisk()
    harness = Harness(disk)
    disk.fail_syncs = 1
    harness.append(Topic(ID, "t"))
    harness.deliver()
    assert [fault.code for fault in harness.commits] == [56]


@pytest.mark.parametrize("late", [False, True])
def test_a_snapshot_keeps_the_log_short(late: bool) -> None:
    disk = MemoryDisk(late=late)
    harness = Harness(disk, snapshot_bytes=8000)
    fill(harness, range(1, 20))
    assert not harness.log.snapshot_due
    fill(harness, range(20, 60))
    assert harness.log.snapshot_due
    writing = harness.log.snapshot(harness.image)
    assert not harness.log.snapshot_due, "one that waits for its first step is enough"
    harness.run(writing)
    assert not harness.log.snapshot_due
    fill(harness, range(60, 100))
    harness.run(harness.log.snapshot(harness.image))
    fill(harness, range(100, 110))
    names = [name for name in disk.list(DIRECTORY) if name.endswith(".checkpoint")]
    assert len(names) == 1
    disk.crash()
    again = Harness(disk)
    assert content(again.image) == content(harness.image)
    assert len(again.image.topics) == 109
    fill(again, range(110, 112))
    disk.crash()
    assert len(Harness(disk).image.topics) == 111


def test_a_file_with_a_name_that_no_snapshot_has_is_none() -> None:
    disk = MemoryDisk()
    disk.make_dir(DIRECTORY)
    for name in ("\u00b2-3.checkpoint", "3-\u00b2.checkpoint", "x.checkpoint", "4-5.checkpoint"):
        disk.write_atomic(f"{DIRECTORY}/{name}", b"")
    assert newest_snapshot(disk) == Snapshot("4-5.checkpoint", 4, 5)


def test_a_snapshot_that_found_no_room_stays_due() -> None:
    """Else the log would grow by as much again before the next is tried."""
    disk = MemoryDisk(faults=Faults())
    harness = Harness(disk, snapshot_bytes=2000)
    fill(harness, range(1, 20))
    disk.faults.refuse(1)
    harness.run(harness.log.snapshot(harness.image))
    assert not checkpoints(disk)
    assert harness.log.snapshot_due
    fill(harness, range(20, 22))
    writing = harness.log.snapshot(harness.image)
    next(writing)
    fill(harness, range(22, 24))
    harness.run(writing)
    assert len(checkpoints(disk)) == 1
    assert not harness.log.snapshot_due
    fill(harness, range(24, 40))
    assert harness.log.snapshot_due, "what came while it was written counts for the next"


def test_what_a_kill_left_of_a_snapshot_goes_with_the_next_start() -> None:
    disk = MemoryDisk()
    harness = Harness(disk, snapshot_bytes=1)
    fill(harness, range(1, 5))
    left = f"{DIRECTORY}/00000000000000000003-0000000001.checkpoint.tmp"
    disk.write_atomic(left, b"begun")
    disk.write_atomic(f"{DIRECTORY}/notes.tmp", b"somebody's own")
    assert content(Harness(disk).image) == content(harness.image)
    assert not disk.exists(left)
    assert disk.exists(f"{DIRECTORY}/notes.tmp")


def test_a_start_that_refuses_removes_nothing() -> None:
    disk = MemoryDisk()
    harness = Harness(disk, snapshot_bytes=1)
    fill(harness, range(1, 5))
    harness.run(harness.log.snapshot(harness.image))
    (name,) = checkpoints(disk)
    left = f"{DIRECTORY}/{name}.tmp"
    disk.write_atomic(left, b"begun")
    disk.flip(f"{DIRECTORY}/{name}", 70)
    with pytest.raises(MetadataUnreadable):
        Harness(disk)
    assert disk.exists(left)


def checkpoints(disk: MemoryDisk) -> list[str]:
    return [name for name in disk.list(DIRECTORY) if name.endswith(".checkpoint")]


def test_what_a_kill_left_without_a_sync_has_one_before_anybody_is_told() -> None:
    """A topic that a start shows is there for good: what is written to it may be acknowledged after a sync."""
    disk = MemoryDisk()
    first = Harness(disk)
    fill(first, range(1, 3))
    first.append(Topic(ID, "shown"))
    disk.kill()
    assert "shown" in Harness(disk).image.topics
    disk.crash()
    assert "shown" in Harness(disk).image.topics


def test_a_broken_snapshot_is_not_served_from() -> None:
    disk = MemoryDisk()
    harness = Harness(disk, snapshot_bytes=1)
    fill(harness, range(1, 5))
    harness.run(harness.log.snapshot(harness.image))
    (name,) = [name for name in disk.list(DIRECTORY) if name.endswith(".checkpoint")]
    disk.flip(f"{DIRECTORY}/{name}", 70)
    with pytest.raises(MetadataUnreadable, match="is broken at byte 0"):
        Harness(disk)


def test_what_does_not_fit_into_a_batch_is_refused_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings may be long; a record left out of an operation would be missed, or the next start would trip over it."""
    monkeypatch.setattr(record_bytes, "BATCH_BYTES_MAX", 4096)
    disk = MemoryDisk()
    harness = Harness(disk)
    fill(harness, range(1, 5))
    before = content(harness.image)
    with pytest.raises(KafkaError) as caught:
        harness.append(Topic(ID, "long"), *(Config(2, "long", f"name.{number}", "x" * 100) for number in range(40)))
    assert caught.value.code == ErrorCode.RECORD_LIST_TOO_LARGE
    disk.crash()
    harness = Harness(disk)
    assert content(harness.image) == before
    harness.append(Topic(ID, "long"))
    for number in range(40):
        harness.append(Config(2, "long", f"name.{number:02}", "x" * 100))
        harness.deliver()
    harness.run(harness.log.snapshot(harness.image))
    disk.crash()
    assert content(Harness(disk).image) == content(harness.image)


def test_a_torn_last_operation_is_as_if_it_had_never_been() -> None:
    disk = MemoryDisk()
    harness = Harness(disk)
    fill(harness, range(1, 5))
    before = content(harness.image)
    harness.append(Topic(ID, "torn"), Partition(ID, 0, (1,), (1,), 1))
    disk.crash(lambda path, synced, size: (synced + size) // 2)
    assert content(Harness(disk).image) == before


def test_the_same_image_from_snapshot_and_from_records() -> None:
    image = Image()
    image.apply(EVERY_KIND[:6])
    again = Image()
    again.apply(image.to_records())
    assert content(again) == content(image)
    state = image.partition("t", 0)
    assert state is not None
    assert (state.leader, state.leader_epoch, state.partition_epoch, state.isr) == (-1, 6, 7, (1, 2))
    copy = image.copy()
    copy.apply([RemoveTopic(ID)])
    assert image.partition("t", 0) == state
    assert copy.partition("t", 0) is None


def test_the_batch_of_a_large_change_is_joined_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20,000 records nine times as many parts were joined at the end: 8 ms."""
    parts: list[int] = []
    usual = BatchBuilder.build

    def build(self: BatchBuilder, *arguments: Any, **further: Any) -> bytearray:
        parts.append(len(self._parts))
        return usual(self, *arguments, **further)

    monkeypatch.setattr(BatchBuilder, "build", build)
    records = [Topic(bytes([number & 255] * 16), f"t{number}") for number in range(5_000)]
    data = at_once(record_bytes.batch_of(records, 5))
    assert [decode(one.value or b"") for one in decode_records(data)] == records
    assert parts[0] <= 1 + len(records) // 250
