"""A full disk ends nothing for good: at whichever call it fills up, the log is as it was, or has what it was given."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.broker.config import TopicConfig
from barnabas.broker.log import Log, LogManager
from barnabas.broker.log.segment import DELETED_SUFFIX
from barnabas.broker.memory_disk import Faults, MemoryDisk
from barnabas.broker.memory_disk.content import Named
from barnabas.protocol.errors import ErrorCode, KafkaError
from tests.broker.log.harness import NOW, PARTITION, TOPIC_ID, World, append, everything, manager_of


class Filling(Faults):
    """No room is left at the call `full_at` and at all that come after it (`stays`), or at that one alone."""

    def __init__(self) -> None:
        super().__init__()
        self.full_at: int | None = None
        self.stays = True

    def fill(self, full_at: int | None, *, stays: bool = True) -> None:
        self.calls, self.full_at, self.stays = 0, full_at, stays

    @property
    def was_full(self) -> bool:
        return self.full_at is not None and self.calls > self.full_at

    def ask(self, of: str | Named) -> None:
        path = of if isinstance(of, str) else of.path
        if path.endswith(DELETED_SUFFIX):  # putting names back needs no room
            return
        at = self.calls
        self.calls += 1
        if self.full_at is not None and (at >= self.full_at if self.stays else at == self.full_at):
            raise OSError(errno.ENOSPC, "no space left on device", path)


@pytest.fixture
def filling(tmp_path: Any) -> World:
    world = World("memory", tmp_path)
    world.disk = MemoryDisk(faults=Filling())
    return world


def filled(world: World) -> Log:
    log = world.new_log(segment_bytes=300, index_interval_bytes=50)
    for number in range(12):
        append(log, b"%d" % number, leader_epoch=number // 5, pid=1, epoch=0, sequence=number)
    world.run(log.flush())
    world.settle()
    return log


def state_of(world: World, log: Log) -> list[Any]:
    values = [record.value for record in everything(world, log)]
    return [log.log_start_offset, log.log_end_offset, log.bases, log.epochs.entries, values, log.failed]


WORK: dict[str, Callable[[Log], Any]] = {
    "append": lambda log: append(log, b"new", leader_epoch=3, pid=1, epoch=0, sequence=12),
    "roll": lambda log: log.roll(NOW),
    "truncate within a segment": lambda log: log.truncate_to(5),
    "truncate to a beginning": lambda log: log.truncate_to(log.bases[1]),
    "truncate all": lambda log: log.truncate_fully_and_start_at(40),
    "truncate all, same name": lambda log: log.truncate_fully_and_start_at(0),
}


def moments(world: World, work: Callable[[Log], Any], *, stays: bool) -> Iterator[tuple[Log, list[Any], bool]]:
    """The disk is full at the first call of the work, at the second, ... until it goes through without that call."""
    full_at = 0
    while True:
        log = filled(world)
        before = state_of(world, log)
        world.disk.faults.fill(full_at, stays=stays)
        try:
            work(log)
            refused = False
        except KafkaError as error:
            refused = error.code == ErrorCode.KAFKA_STORAGE_ERROR
            assert refused, error  # noqa: PT017
        world.settle()
        was_full = world.disk.faults.was_full
        world.disk.faults.fill(None)
        if not was_full:
            assert full_at > 0, "the work asks the disk for nothing"
            return
        yield log, before, refused
        log.release()
        world.disk = MemoryDisk(faults=Filling())
        full_at += 1


@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("name", WORK)
def test_the_disk_fills_up_at_any_call(filling: World, name: str, stays: bool) -> None:
    refusals = 0
    for log, before, refused in moments(filling, WORK[name], stays=stays):
        refusals += refused
        if refused:
            assert state_of(filling, log) == before
        assert log.failed is None
        end = log.log_end_offset
        assert append(log, b"later", leader_epoch=3).first_offset == end, "there is room again"
        filling.run(log.flush())
        filling.settle()
        assert log.recovery_point == end + 1
        after = state_of(filling, log)
        log.release()
        again = filling.open_log(clean=False, config=log.config, high_watermark=end + 1)
        assert state_of(filling, again) == after, "and it is all there after a kill"
    assert refusals > 0


def test_an_index_that_found_no_room_is_written_later(filling: World) -> None:
    log = filled(filling)
    log.files.save_epochs()
    filling.settle()
    filling.disk.faults.fill(1)  # the new segment is made, and then nothing fits
    log.roll(NOW)
    filling.settle()
    sealed = log.segments[-2]
    assert log.failed is None
    assert not sealed.indexes_saved
    assert log.recovery_point == 12, "the records are on the device"
    assert log.files.recovery_point_to_save() == sealed.base, "and a start would have to walk them"
    filling.disk.faults.fill(None)
    append(log, b"next")
    filling.run(log.flush())
    filling.settle()
    assert sealed.indexes_saved
    assert log.files.recovery_point_to_save() == 13
    assert filling.disk.load(sealed.path(".index")) == bytes(sealed.offsets.data)


def test_a_snapshot_that_found_no_room_is_written_at_the_stop(filling: World) -> None:
    """Else a clean start would take it that there are no producers, and their retries would be written twice."""
    log = filling.new_log()
    append(log, b"a", pid=1, epoch=0, sequence=0)
    filling.disk.faults.fill(1)
    log.roll(NOW)
    filling.settle()
    filling.disk.faults.fill(None)
    log = filling.restart(log, clean=True)
    assert append(log, b"a", pid=1, epoch=0, sequence=0).duplicate


def test_nobody_is_forgotten_with_a_segment_whose_end_no_snapshot_covers(filling: World) -> None:
    """Else a kill leaves the state of an older snapshot, to which the next batch is out of order for good."""
    log = filling.new_log(segment_bytes=300, retention_ms=1000)
    for number in range(12):
        if number == 6:
            filling.settle()
            filling.disk.faults.bad_syncs = {f"t-0/{base:020d}.snapshot" for base in range(7, 13)}
        append(log, b"%d" % number, pid=1, epoch=0, sequence=number)
    filling.settle()
    covered = log.snapshots[-1]
    assert covered < log.bases[-1]
    with pytest.raises(OSError, match="Input/output error"):
        filling.run(log.retain(NOW + 2000))
    assert log.bases[0] == covered, "what an earlier snapshot covers goes"
    filling.disk.faults.bad_syncs = set()
    assert filling.run(log.retain(NOW + 2000)) > 0
    assert log.log_start_offset == log.log_end_offset == 12
    log = filling.restart(log, clean=False)
    assert append(log, b"11", pid=1, epoch=0, sequence=11).duplicate
    assert append(log, b"12", pid=1, epoch=0, sequence=12).first_offset == 12


def test_epochs_that_found_no_room_hold_the_saved_recovery_point_back(filling: World) -> None:
    log = filling.new_log()
    append(log, b"a", leader_epoch=1)
    append(log, b"b", leader_epoch=2)
    filling.run(log.flush())
    filling.disk.faults.fill(0)
    log.files.save_epochs()
    assert log.files.recovery_point_to_save() == 0, "nothing is written yet"
    filling.settle()
    assert log.files.recovery_point_to_save() == 0
    filling.disk.faults.fill(None)
    log.files.save_epochs()
    filling.settle()
    assert log.files.recovery_point_to_save() == 2


def kept(world: World, manager: LogManager, at_ms: int) -> None:
    """One turn of all that is due."""
    for job in manager.due_jobs(at_ms):
        world.run(job)
    world.settle()


def test_small_files_that_found_no_room_are_written_a_second_after_there_is(filling: World) -> None:
    config = TopicConfig(segment_bytes=300, index_interval_bytes=50)
    manager = manager_of(filling, topic=config, log_cleaner_enable=False)
    filling.run(manager.load())
    log = manager.create(PARTITION, TOPIC_ID, config)
    manager.start(0)
    for number in range(6):
        append(log, b"%d" % number, pid=1, epoch=0, sequence=number)
    filling.settle()
    filling.disk.faults.fill(1)  # the new segment is made, and then nothing fits
    log.roll(NOW)
    filling.settle()
    for second in (1, 2, 3):
        assert manager.next_deadline_ms() == second * 1000
        kept(filling, manager, second * 1000)
        assert not log.segments[-2].indexes_saved
    filling.disk.faults.fill(None)
    kept(filling, manager, 4000)
    assert log.segments[-2].indexes_saved
    assert log.snapshots[-1] == log.bases[-1] == 6
    kept(filling, manager, 5000)
    assert manager.next_deadline_ms() == 10_000, "and then house is kept as ever: the high watermark is next"
    assert b" 0 6 " in filling.disk.load("recovery-point-offset-checkpoint")


@pytest.mark.parametrize(
    ("name", "first_ms"), [("replication-offset-checkpoint", 5000), ("log-start-offset-checkpoint", 30_000)]
)
def test_a_checkpoint_that_found_no_room_is_written_a_second_after_there_is(
    filling: World, name: str, first_ms: int
) -> None:
    manager = manager_of(filling, log_cleaner_enable=False)
    filling.run(manager.load())
    append(manager.create(PARTITION, TOPIC_ID, TopicConfig()), b"a")
    manager.start(0)
    filling.settle()
    filling.disk.faults.fill(0)
    kept(filling, manager, first_ms)
    assert manager.next_deadline_ms() == first_ms + 1000
    filling.disk.faults.fill(None)
    kept(filling, manager, first_ms + 1000)
    assert filling.disk.exists(name)


def test_a_small_file_that_the_device_refuses_ends_nothing_and_is_said_once(filling: World, caplog: Any) -> None:
    """EIO is no worse than a full disk where the file can be rebuilt: only records that cannot be synced are final."""
    config = TopicConfig(segment_bytes=300, index_interval_bytes=50)
    manager = manager_of(filling, topic=config, log_cleaner_enable=False)
    filling.run(manager.load())
    log = manager.create(PARTITION, TOPIC_ID, config)
    manager.start(0)
    names = ["leader-epoch-checkpoint", f"{0:020d}.index", f"{0:020d}.timeindex", f"{4:020d}.snapshot"]
    bad = {f"t-0/{name}" for name in names} | {"recovery-point-offset-checkpoint"}
    filling.disk.faults.bad_syncs = bad
    for number in range(4):
        append(log, b"%d" % number, leader_epoch=number, pid=1, epoch=0, sequence=number)
        if not number:
            filling.settle()
    log.roll(NOW)
    filling.settle()
    for second in range(30, 36):
        kept(filling, manager, second * 1000)
        end = log.log_end_offset
        assert append(log, b"x", leader_epoch=5, pid=1, epoch=0, sequence=end).first_offset == end
    said = [record.getMessage() for record in caplog.records if "cannot be written" in record.getMessage()]
    assert sorted(line.split(" ")[0] for line in said) == sorted(bad)
    assert manager.losses.failed_writes > len(said), "said once, all are counted"
    assert log.failed is None
    assert log.files.recovery_point_to_save() == 0
    filling.disk.faults.bad_syncs = set()
    filling.run(log.flush())
    kept(filling, manager, 37_000)
    kept(filling, manager, 38_000)
    later = f"t-0/{log.snapshots[-1]:020d}.snapshot"
    assert all(filling.disk.exists(later if path.endswith("snapshot") else path) for path in bad)
    assert log.files.recovery_point_to_save() == log.recovery_point > 4
