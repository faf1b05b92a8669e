"""What is noted of a log counts for the log of that topic id, and only as far as the log reaches."""

from __future__ import annotations

import errno
import os

import pytest

from barnabas.broker.config import TopicConfig
from barnabas.broker.jobs import at_once
from barnabas.broker.log.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LEADER_EPOCH_FILE,
    LOG_START_FILE,
    OFFSET_FILES,
    RECOVERY_POINT_FILE,
    Point,
    format_offsets,
    load_offsets,
    noted,
    with_sum,
)
from barnabas.broker.log.closing import CLOSING_FILE
from barnabas.broker.log.losses import Losses
from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from tests.broker.log.harness import NOW, PARTITION, TOPIC_ID, append, everything, manager_of

OTHER_ID = bytes(reversed(TOPIC_ID))
KEY = TopicPartition("t", 0)


def opened(world, **options):
    manager = manager_of(world, **options)
    world.run(manager.load(lambda name: TOPIC_ID if name == "t" else ZERO_UUID))
    return manager


def killed(world, manager, **options):
    """The broker dies, and another is started."""
    for log in manager.logs.values():
        log.release()
    world.settle()
    world.reopen()
    return opened(world, **options)


def saved(world, manager, at_ms):
    for job in manager.due_jobs(at_ms):
        world.run(job)
    world.settle()


def note(world, file, offset, topic_id=TOPIC_ID):
    world.disk.write_atomic(file, at_once(format_offsets({KEY: Point(offset, topic_id)})))


@pytest.mark.parametrize("how", ["clean stop", "checkpoint"])
def test_what_was_noted_of_a_topic_means_nothing_to_the_next_of_its_name(world, how):
    manager = opened(world)
    manager.start(0)
    log = manager.create(KEY, TOPIC_ID, TopicConfig())
    for number in range(100):
        append(log, *[b"%d" % number] * 10)
    log.raise_log_start_offset(900)
    if how == "checkpoint":
        world.run(log.flush())
        saved(world, manager, 30_000)
    else:
        world.run(manager.shutdown())
        world.settle()
        world.reopen()
        manager = opened(world)
    assert world.disk.load(LOG_START_FILE).split()[4] == b"900"
    manager.delete(KEY)
    anew = manager.create(KEY, OTHER_ID, TopicConfig())
    for number in range(50):
        append(anew, *[b"new %d" % number] * 10)
    log = killed(world, manager).logs[KEY]
    assert (log.log_start_offset, log.log_end_offset) == (0, 500)
    assert len(everything(world, log)) == 500


def test_a_file_of_kafkas_version_counts_by_name(world):
    manager = opened(world)
    log = manager.create(KEY, TOPIC_ID, TopicConfig())
    append(log, b"a", b"b", b"c")
    world.settle()
    for file, offset in ((RECOVERY_POINT_FILE, 3), (LOG_START_FILE, 1), (HIGH_WATERMARK_FILE, 2), (CLEANER_FILE, 2)):
        world.disk.write_atomic(file, b"0\n1\nt 0 %d\n" % offset)
    log = killed(world, manager).logs[KEY]
    found = (log.recovery_point, log.log_start_offset, log.high_watermark, log.cleaned_to)
    assert found == (3, 1, 2, 2)


@pytest.mark.parametrize("file", OFFSET_FILES)
def test_each_file_counts_for_its_topic_id_alone(memory, file):
    note(memory, file, 7)
    points = memory.run(load_offsets(memory.disk, file))
    assert points == {KEY: Point(7, TOPIC_ID)}
    assert noted(points, KEY, TOPIC_ID, -1) == 7
    assert noted(points, KEY, OTHER_ID, -1) == -1
    assert noted(points, TopicPartition("t", 1), TOPIC_ID, -1) == -1


@pytest.mark.parametrize(
    "data",
    [b"2\n1\nt 0 1\n", b"1\n1\nt 0 -1\n", b"1\n2\nt 0 1\n", b"1\n1\nt 0\n", b"1\n1\nt 0 1 notanid\n", b"1", b""],
)
@pytest.mark.parametrize("summed", [True, False])
def test_a_file_that_makes_no_sense_is_no_file_and_that_is_said(memory, data, summed, caplog):
    memory.disk.write_atomic(LOG_START_FILE, with_sum(data) if summed else data)
    assert memory.run(load_offsets(memory.disk, LOG_START_FILE)) == {}
    assert LOG_START_FILE in caplog.text


@pytest.mark.parametrize("file", OFFSET_FILES)
def test_one_wrong_bit_anywhere_in_a_file_and_it_is_no_file(memory, file):
    """A log start of 41 for 1 would hide records that were acknowledged, and retention would remove them."""
    whole = at_once(format_offsets({KEY: Point(11, TOPIC_ID), TopicPartition("sum", 1): Point(7, OTHER_ID)}))
    for at in range(len(whole)):
        for bit in range(8):
            data = bytearray(whole)
            data[at] ^= 1 << bit
            memory.disk.write_atomic(file, bytes(data))
            assert memory.run(load_offsets(memory.disk, file)) == {}, f"bit {bit} of byte {at}"


@pytest.mark.parametrize("file", OFFSET_FILES)
def test_a_file_that_cannot_be_read_keeps_no_broker_from_starting(world, file, caplog):
    manager = opened(world)
    append(manager.create(KEY, TOPIC_ID, TopicConfig()), b"a", b"b")
    world.settle()
    world.disk.make_dir(file)
    if world.kind != "real":
        world.disk.faults.bad_reads.add(file)
    log = killed(world, manager).logs[KEY]
    assert [record.value for record in everything(world, log)] == [b"a", b"b"]
    if world.kind == "real":
        assert f"{file} is not used: [Errno 21] Is a directory: '{file}'" in caplog.text


def test_one_wrong_bit_in_the_topic_id_of_a_log_gives_it_to_nobody_else(memory):
    """It would be set aside as the log of a topic that is gone, and the partition begin anew at offset 0."""
    manager = opened(memory)
    append(manager.create(KEY, TOPIC_ID, TopicConfig()), b"a", b"b")
    memory.settle()
    path = "t-0/partition.metadata"
    whole = memory.disk.load(path)
    for at in range(len(whole)):
        data = bytearray(whole)
        data[at] ^= 1
        memory.disk.write_atomic(path, bytes(data))
        manager = killed(memory, manager)
        assert manager.logs[KEY].topic_id == TOPIC_ID if KEY in manager.logs else KEY in manager.failed, f"byte {at}"
        memory.settle()
    for size in range(len(whole) + 1):  # a power failure took the end
        memory.disk.write_atomic(path, whole[:size].ljust(len(whole), b"\0") if size % 2 else whole[:size])
        manager = killed(memory, manager)
        assert manager.logs[KEY].topic_id == TOPIC_ID, f"the first {size} bytes"
        memory.settle()


@pytest.mark.parametrize("file", OFFSET_FILES)
def test_a_file_that_a_clean_stop_wrote_and_that_is_gone_is_said(memory, file, caplog):
    manager = opened(memory)
    append(manager.create(KEY, TOPIC_ID, TopicConfig()), b"a", b"b")
    memory.run(manager.shutdown())
    memory.disk.remove(file)
    caplog.clear()
    assert len(everything(memory, opened(memory).logs[KEY])) == 2
    assert [line.partition(" is gone")[0] for line in said(caplog)] == [file]


def test_a_file_that_was_never_written_is_nothing_to_speak_of(memory, caplog):
    assert memory.run(load_offsets(memory.disk, LOG_START_FILE)) == {}
    assert said(caplog) == []


def said(caplog):
    return [record.getMessage().partition(":")[0] for record in caplog.records]


@pytest.mark.parametrize("file", [*OFFSET_FILES, CLEAN_SHUTDOWN_FILE, CLOSING_FILE])
def test_a_small_file_that_the_device_does_not_give_back_keeps_no_start_away(memory, file, caplog, monkeypatch):
    """Without it the start is as after a sudden end, or as if nothing had been noted."""
    monkeypatch.setattr("barnabas.broker.log.manager._FILES_OF_LOGS_MAX", 0)
    manager = opened(memory)
    append(manager.create(KEY, TOPIC_ID, TopicConfig()), b"a", b"b", b"c")
    memory.run(manager.shutdown())
    assert memory.disk.exists(file)
    memory.disk.faults.bad_reads = {file}
    manager = manager_of(memory)
    clean = memory.run(manager.load(lambda name: TOPIC_ID))
    assert clean == (file in OFFSET_FILES)
    assert len(everything(memory, manager.logs[KEY])) == 3
    (line,) = [record.getMessage() for record in caplog.records if file in record.getMessage()]
    assert os.strerror(errno.EIO) in line


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("point", ["log_start_offset", "recovery_point"])
def test_a_point_above_the_end_is_not_believed(world, clean, point, caplog):
    """Nothing is wiped or skipped: the log begins at its first file, all of it is walked, and that is said once."""
    log = world.new_log(segment_bytes=100)
    for number in range(5):
        append(log, b"%d" % number)
    flipped = log.segments[3].size // 2
    if clean:
        world.run(log.close())
    else:
        log.release()
    world.settle()
    path = "t-0/00000000000000000003.log"
    data = bytearray(world.disk.load(path))
    data[flipped] ^= 1
    world.disk.write_atomic(path, bytes(data))
    world.reopen()
    log = type(log)(world.disk, "t-0", PARTITION, TOPIC_ID, log.config, losses=(told := Losses()))
    world.run(log.recover(clean=clean, now_ms=NOW, **{point: 900}))
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 3, 0)
    assert [record.value for record in everything(world, log)] == [b"0", b"1", b"2"], "the walk found the flipped bit"
    assert [loss.end_offset for loss in told.last].count(900) == 1
    assert not [name for name in world.disk.list("t-0") if name.endswith(".log.deleted")]


def test_a_directory_without_its_id_is_that_of_the_topic_of_its_name(world):
    manager = opened(world)
    log = manager.create(KEY, TOPIC_ID, TopicConfig())
    append(log, b"a", b"b", b"c")
    world.settle()
    note(world, LOG_START_FILE, 2)
    world.disk.remove("t-0/partition.metadata")
    manager = killed(world, manager)
    log = manager.logs[KEY]
    assert (log.topic_id, log.log_start_offset) == (TOPIC_ID, 2)
    append(log, b"d")
    world.run(log.flush())
    assert not world.disk.exists("t-0/partition.metadata"), "it may be another's yet"
    manager.believe(KEY)
    world.settle()
    assert world.disk.exists("t-0/partition.metadata")


def test_what_is_noted_of_a_log_that_cannot_be_opened_stays(memory):
    manager = opened(memory)
    log = manager.create(KEY, TOPIC_ID, TopicConfig())
    append(log, b"a", b"b", b"c")
    log.raise_log_start_offset(2)
    memory.run(manager.shutdown())
    intact = memory.disk.load("t-0/partition.metadata")
    memory.disk.write_atomic("t-0/partition.metadata", b"version: 7\n")
    manager = opened(memory)
    assert set(manager.failed) == {KEY}
    manager.start(0)
    saved(memory, manager, 30_000)
    memory.run(manager.shutdown())
    memory.disk.write_atomic("t-0/partition.metadata", intact)
    log = opened(memory).logs[KEY]
    assert log.log_start_offset == 2


def test_a_log_that_went_while_others_were_saved_writes_nothing_into_the_next_of_its_name(world):
    """Its leader epochs were written into the new one's directory, and where there was none a failure was told."""
    manager = opened(world)
    manager.start(0)
    first = manager.create(TopicPartition("first", 0), OTHER_ID, TopicConfig())
    old = manager.create(KEY, TOPIC_ID, TopicConfig())
    gone = manager.create(TopicPartition("gone", 0), OTHER_ID, TopicConfig())
    for log in (first, old, gone):
        append(log, b"v", leader_epoch=7)
    jobs = manager.due_jobs(30_000)
    for job in jobs:
        next(job, None)  # the first log's checkpoint is waited for
    for log in (old, gone):
        manager.delete(log.topic_partition)
    append(manager.create(KEY, OTHER_ID, TopicConfig()), b"new", leader_epoch=1)
    world.settle()
    for job in jobs:
        world.run(job)
    world.settle()
    path = f"/{LEADER_EPOCH_FILE}"
    assert world.disk.exists("first-0" + path)
    assert not world.disk.exists("t-0" + path)
    assert not manager.losses.failed_writes
