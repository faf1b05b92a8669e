"""All logs of a directory: load, create, delete, checkpoints, shutdown, housekeeping."""

from __future__ import annotations

import pytest

from barnabas.broker.config import TopicConfig
from barnabas.broker.log import Log, checkpoint, removal
from barnabas.broker.log.checkpoint import OFFSET_FILES, format_epochs, parse_directory_name, with_sum
from barnabas.broker.log.types import Isolation
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID, TopicPartition, format_uuid
from tests.broker.log.harness import NOW, TOPIC_ID, Clock, append, everything, manager_of

T0, T1 = TopicPartition("t", 0), TopicPartition("t-with-dash", 1)


def restart(world, manager, *, clean, **options):
    if clean:
        world.run(manager.shutdown())
    else:
        for log in manager.logs.values():
            log.release()
    world.settle()
    world.reopen()
    fresh = manager_of(world, **options)
    assert world.run(fresh.load()) is clean
    return fresh


def run_due(world, manager, now_ms):
    for job in manager.due_jobs(now_ms):
        world.run(job)
    world.settle()


@pytest.mark.parametrize("clean", [True, False])
def test_logs_come_back(world, clean):
    manager = manager_of(world)
    world.run(manager.load())
    for partition in (T0, T1):
        log = manager.create(partition, TOPIC_ID, TopicConfig())
        for i in range(5):
            append(log, b"%d" % i)
    manager = restart(world, manager, clean=clean)
    assert set(manager.logs) == {T0, T1}
    assert [r.value for r in everything(world, manager.logs[T1])] == [b"0", b"1", b"2", b"3", b"4"]
    assert manager.logs[T0].topic_id == TOPIC_ID
    assert manager.logs[T0].high_watermark == (5 if clean else 0)


def test_the_marker_is_written_last_and_removed_first(world):
    manager = manager_of(world)
    world.run(manager.load())
    manager.create(T0, TOPIC_ID, TopicConfig())
    world.run(manager.shutdown())
    assert world.disk.load(".kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1,"closingFiles":"none"}'
    world.reopen()
    job = manager_of(world).load()
    next(job)
    assert not world.disk.exists(".kafka_cleanshutdown")


def test_a_shutdown_asks_the_disk_once_per_log_and_waits_for_all_together(memory):
    manager = manager_of(memory)
    memory.run(manager.load())
    for i in range(10):
        append(manager.create(TopicPartition("t", i), TOPIC_ID, TopicConfig()), b"a", pid=1, epoch=0, sequence=0)
    memory.settle()
    asked: list[int] = []
    write = memory.disk.write_files

    def count(files, done):
        asked.append(len(files))
        write(files, done)

    memory.disk.write_files = count
    job = manager.shutdown()
    token = next((token for token in job if token is not None), None)
    assert token is not None
    assert asked == [4] * 10, "indexes, snapshot and epochs of all logs, before anything is waited for"
    with pytest.raises(KafkaError) as caught:
        append(manager.logs[TopicPartition("t", 0)], b"too late")
    assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    rounds = 0
    while token is not None:
        rounds += 1
        memory.disk.deliver()
        token = next((token for token in job if token is not None), None)
    assert memory.disk.exists(".kafka_cleanshutdown")
    assert rounds == 2, "what the logs asked for, and then the checkpoints"


def test_a_failed_log_leaves_out_the_marker(memory):
    manager = manager_of(memory)
    memory.run(manager.load())
    log = manager.create(T0, TOPIC_ID, TopicConfig())
    append(log, b"a")
    memory.disk.fail_syncs = 1
    memory.run(manager.shutdown())
    assert not memory.disk.exists(".kafka_cleanshutdown")


def test_create_gives_the_log_that_is_here(memory):
    manager = manager_of(memory)
    log = manager.create(T0, TOPIC_ID, TopicConfig())
    newer = TopicConfig(segment_bytes=1 << 21)
    assert manager.create(T0, TOPIC_ID, newer) is log
    assert log.config is newer
    with pytest.raises(KafkaError) as caught:
        manager.create(T0, bytes(15) + b"x", TopicConfig())
    assert caught.value.code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_a_log_that_cannot_be_made_is_a_storage_error(memory, monkeypatch):
    manager = manager_of(memory)

    def full(path):
        raise OSError(28, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(memory.disk, "make_dir", full)
        with pytest.raises(KafkaError) as caught:
            manager.create(T0, TOPIC_ID, TopicConfig())
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert manager.get(T0) is None
    manager.create(T0, TOPIC_ID, TopicConfig())


def test_delete_renames_at_once_and_removes_later(world):
    manager = manager_of(world)
    manager.start(0)
    log = manager.create(T0, TOPIC_ID, TopicConfig(file_delete_delay_ms=1000))
    append(log, b"a")
    view = world.call(lambda: log.read(0, 100, Isolation.LOG_END)).records
    world.settle()
    manager.delete(T0)
    away = f"t-0.{TOPIC_ID.hex()}-delete"
    assert world.disk.list("") == [away]
    assert manager.get(T0) is None
    assert manager.next_deadline_ms() == 1000
    run_due(world, manager, 999)
    assert world.disk.exists(away)
    run_due(world, manager, 1000)
    assert set(world.disk.list("")) <= set(OFFSET_FILES)
    assert len(view) > 60, "a reader keeps its bytes"
    manager.delete(T0)


def test_a_partition_can_be_made_anew_while_the_old_one_waits(world):
    manager = manager_of(world)
    manager.start(0)
    append(manager.create(T0, TOPIC_ID, TopicConfig()), b"old")
    manager.delete(T0)
    log = manager.create(T0, bytes(15) + b"x", TopicConfig())
    assert append(log, b"new").first_offset == 0
    world.settle()


def test_a_directory_marked_for_deletion_goes_after_the_start(world):
    world.disk.make_dir("t-0.00-delete")
    manager = manager_of(world, log_segment_delete_delay_ms=1000)
    world.run(manager.load())
    assert manager.next_deadline_ms() is None, "the delay is counted from the start"
    manager.start(5)
    run_due(world, manager, 1004)
    assert world.disk.exists("t-0.00-delete")
    run_due(world, manager, 1005)
    assert not world.disk.exists("t-0.00-delete")


def test_what_a_start_finds_renamed_away_goes_after_the_delay(world):
    topic = TopicConfig(segment_bytes=100, retention_bytes=100, file_delete_delay_ms=1000)
    manager = manager_of(world, topic=topic)
    log = manager.create(T0, TOPIC_ID, topic)
    for _ in range(4):
        append(log, b"a")
    world.settle()
    world.run(log.retain(NOW))
    names = [name for name in world.disk.list("t-0") if name.endswith(".deleted")]
    assert "00000000000000000000.log.deleted" in names
    manager = restart(world, manager, clean=False, topic=topic)
    manager.start(5)
    run_due(world, manager, 1004)
    assert [name for name in world.disk.list("t-0") if name.endswith(".deleted")] == names
    run_due(world, manager, 1005)
    assert [name for name in world.disk.list("t-0") if name.endswith(".deleted")] == []


def test_what_is_due_for_removal_is_removed_by_one_job(memory):
    """Ten thousand partitions deleted at once are due at once: no step takes all of them, and no second job comes."""
    manager = manager_of(memory)
    manager.start(0)
    for number in range(50):
        manager.create(TopicPartition("t", number), TOPIC_ID, TopicConfig(file_delete_delay_ms=10))
    for number in range(40):
        manager.delete(TopicPartition("t", number))
    (job,) = manager.due_jobs(10)
    assert next(job) is not None, "the first file"
    for number in range(40, 50):
        manager.delete(TopicPartition("t", number))
    assert manager.due_jobs(20) == []
    assert (manager.next_deadline_ms() or 0) > 20
    late = manager.create(TopicPartition("late", 0), TOPIC_ID, TopicConfig(file_delete_delay_ms=70))
    manager.delete(late.topic_partition)
    memory.settle()
    memory.run(job)
    memory.settle()
    assert [name.partition("-")[0] for name in memory.disk.list("")] == ["late"]
    assert manager.next_deadline_ms() == 90, "what was not due yet is thought of"
    run_due(memory, manager, 90)
    assert memory.disk.list("") == []


def test_the_checkpoints_of_many_logs_are_made_in_steps(memory, monkeypatch):
    """Of 20,000 logs one was made in a step of 27 ms: every 5 s, and whenever topics were deleted."""
    monkeypatch.setattr(checkpoint, "_LINES_PER_STEP", 2)
    written = []
    usual = format_uuid

    def count(raw):
        written.append(raw)
        return usual(raw)

    monkeypatch.setattr("barnabas.broker.log.checkpoint.format_uuid", count)
    manager = manager_of(memory)
    manager.start(0)
    for number in range(7):
        manager.create(TopicPartition(f"t{number}", 0), bytes([number] * 16), TopicConfig())
    in_a_step = []
    for job in manager.due_jobs(600_000):
        going = True
        while going:
            written.clear()
            going = next(job, job) is not job
            in_a_step.append(len(written))
            memory.settle()
    assert max(in_a_step) == 2
    assert [len(memory.disk.load(file).splitlines()) for file in OFFSET_FILES[::2]] == [2 + 7 + 1] * 2


@pytest.mark.parametrize("kept", [0, 1, 9, 10, 20, 21, 42])
def test_a_log_whose_topic_id_was_torn_is_that_of_the_topic_of_its_name(memory, kept):
    """Nothing waits for that file before the first sync, so a power failure may take its end; it is written anew."""
    manager = manager_of(memory)
    config = TopicConfig(flush_messages=1)
    append(manager.create(T0, TOPIC_ID, config), b"a")
    memory.settle()
    whole = memory.disk.load("t-0/partition.metadata")
    memory.disk.write_atomic("t-0/partition.metadata", whole[:kept])
    memory.disk.crash()
    manager = manager_of(memory)
    memory.run(manager.load())
    assert manager.logs[T0].topic_id == ZERO_UUID
    log = manager.create(T0, TOPIC_ID, config)
    assert [record.value for record in everything(memory, log)] == [b"a"]
    memory.run(manager.shutdown())
    manager = manager_of(memory)
    memory.run(manager.load())
    assert manager.logs[T0].topic_id == TOPIC_ID
    with pytest.raises(KafkaError) as caught:
        manager.create(T0, bytes(15) + b"x", config)
    assert caught.value.code == ErrorCode.INCONSISTENT_TOPIC_ID


@pytest.mark.parametrize("synced", ["by its first sync", "by the start after a kill", "though the sync began without"])
def test_a_power_failure_that_leaves_a_record_leaves_whose_it_is(memory, synced):
    """The record was there, and its log that of whichever topic had the name by then."""
    config = TopicConfig(flush_messages=1)
    manager = manager_of(memory)
    if synced == "by the start after a kill":
        append(manager.create(T0, TOPIC_ID, TopicConfig()), b"a")
        memory.settle()
        manager = restart(memory, manager, clean=False, topic=config)
    elif synced == "by its first sync":
        append(manager.create(T0, TOPIC_ID, config), b"a")
    else:
        log = manager.create(T0, ZERO_UUID, config)
        append(log, b"a")
        log.set_topic_id(TOPIC_ID)
        memory.settle()
        append(log, b"b")
    memory.settle()
    memory.disk.crash()
    manager = manager_of(memory)
    memory.run(manager.load())
    assert manager.logs[T0].log_end_offset
    assert manager.logs[T0].topic_id == TOPIC_ID


def test_a_log_that_began_anew_behind_its_first_offset_says_whose_it_is_with_its_first_sync(memory):
    """Nothing was synced below its recovery point, as of a follower whose leader's log begins there."""
    manager = manager_of(memory)
    manager.start(0)
    manager.create(T0, TOPIC_ID, TopicConfig()).truncate_fully_and_start_at(5, now_ms=NOW)
    run_due(memory, manager, 100)
    log = restart(memory, manager, clean=False, topic=TopicConfig(flush_messages=1)).logs[T0]
    assert log.recovery_point == 5
    append(log, b"a")
    memory.settle()
    memory.disk.crash()
    manager = manager_of(memory)
    memory.run(manager.load())
    assert (manager.logs[T0].log_end_offset, manager.logs[T0].topic_id) == (6, TOPIC_ID)


def test_a_sync_is_done_though_whose_the_log_is_cannot_be_noted_and_the_next_one_tries_again(memory):
    log = manager_of(memory).create(T0, TOPIC_ID, TopicConfig(flush_messages=1))
    memory.settle()
    memory.disk.faults.bad_syncs.add("t-0/partition.metadata")
    append(log, b"a")
    memory.settle()
    assert (log.recovery_point, log.losses.failed_writes) == (1, 1)
    log.files.save_epochs()
    memory.settle()
    assert log.files.recovery_point_to_save() == 0, "the next start is to know that it is missing"
    memory.disk.faults.bad_syncs.clear()
    append(log, b"b")
    memory.settle()
    assert log.files.recovery_point_to_save() == 2
    memory.disk.crash()
    manager = manager_of(memory)
    memory.run(manager.load())
    assert manager.logs[T0].topic_id == TOPIC_ID


def test_a_log_that_cannot_be_opened_answers_storage_error_and_others_go_on(world):
    manager = manager_of(world)
    for partition in (T0, T1):
        append(manager.create(partition, TOPIC_ID, TopicConfig()), b"a")
    world.run(manager.shutdown())
    world.disk.write_atomic("t-0/partition.metadata", b"version: 7\n")
    world.reopen()
    manager = manager_of(world)
    world.run(manager.load())
    assert set(manager.logs) == {T1}
    with pytest.raises(KafkaError) as caught:
        manager.get(T0)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def noted(*entries):
    """A checkpoint file: Kafka's lines, with the topic id behind, and the sum of it all."""
    lines = ["1", str(len(entries)), *(f"{entry} {format_uuid(TOPIC_ID)}" for entry in entries), ""]
    return with_sum("\n".join(lines).encode())


def test_checkpoints_are_kafkas_with_a_topic_id(world):
    manager = manager_of(world)
    manager.start(0)
    log = manager.create(T0, TOPIC_ID, TopicConfig())
    for _ in range(4):
        append(log, b"a")
    world.run(log.flush())
    log.raise_log_start_offset(3)
    run_due(world, manager, 30_000)
    assert world.disk.load("replication-offset-checkpoint") == noted("t 0 4")
    assert world.disk.load("recovery-point-offset-checkpoint") == noted("t 0 4")
    assert world.disk.load("log-start-offset-checkpoint") == noted("t 0 3")
    manager = restart(world, manager, clean=False)
    assert (manager.logs[T0].log_start_offset, manager.logs[T0].high_watermark) == (3, 4)


def test_a_recovery_point_is_saved_after_the_epochs_it_passes(memory):
    manager = manager_of(memory)
    manager.start(0)
    log = manager.create(T0, TOPIC_ID, TopicConfig())
    append(log, b"a", leader_epoch=3)
    memory.run(log.flush())
    assert not memory.disk.exists("t-0/leader-epoch-checkpoint")
    written = []
    write = memory.disk.write_atomic

    def note(path, data, done=None):
        written.append(path)
        write(path, data, done)

    memory.disk.write_atomic = note
    run_due(memory, manager, 30_000)
    assert written.index("t-0/leader-epoch-checkpoint") < written.index("recovery-point-offset-checkpoint")
    assert memory.disk.load("t-0/leader-epoch-checkpoint") == format_epochs([(3, 0)])


def test_no_recovery_point_is_saved_while_epochs_cannot_be(memory):
    manager = manager_of(memory)
    manager.start(0)
    log = manager.create(T0, TOPIC_ID, TopicConfig())
    append(log, b"a", leader_epoch=3)
    memory.run(log.flush())
    memory.disk.capacity = memory.disk.used
    run_due(memory, manager, 30_000)
    memory.disk.capacity = None
    assert not memory.disk.exists("recovery-point-offset-checkpoint")
    run_due(memory, manager, 90_000)
    assert memory.disk.load("t-0/leader-epoch-checkpoint") == format_epochs([(3, 0)])
    assert memory.disk.load("recovery-point-offset-checkpoint") == noted("t 0 1")


def test_the_high_watermark_is_saved_every_five_seconds(memory):
    manager = manager_of(memory)
    manager.start(1000)
    append(manager.create(T0, TOPIC_ID, TopicConfig()), b"a")
    assert manager.next_deadline_ms() == 6000
    run_due(memory, manager, 6000)
    assert memory.disk.load("replication-offset-checkpoint") == noted("t 0 1")
    assert manager.next_deadline_ms() == 11_000


def test_retention_runs_when_it_is_due(memory):
    clock = Clock()
    manager = manager_of(memory, clock, log_initial_task_delay_ms=10, log_retention_check_interval_ms=1000)
    manager.start(0)
    log = manager.create(T0, TOPIC_ID, TopicConfig(retention_ms=1000))
    append(log, b"a")
    run_due(memory, manager, 10)
    assert log.log_start_offset == 0
    clock.ms = NOW + 5000
    run_due(memory, manager, 1009)
    assert log.log_start_offset == 0
    run_due(memory, manager, 1010)
    assert log.log_start_offset == 1


def test_the_cleaner_goes_on_until_all_is_clean(memory):
    config = TopicConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01)
    manager = manager_of(memory, log_initial_task_delay_ms=10)
    manager.start(0)
    logs = [manager.create(TopicPartition("c", i), TOPIC_ID, config) for i in range(2)]
    for log in logs:
        for i in range(4):
            append(log, b"%d" % i, keys=[b"a"])
        log.roll(NOW)
    run_due(memory, manager, 10)
    assert sorted(log.cleaned_to for log in logs) == [-1, 4]
    run_due(memory, manager, 10)
    assert [log.cleaned_to for log in logs] == [4, 4]
    assert memory.disk.load("cleaner-offset-checkpoint") == noted("c 0 4", "c 1 4")
    run_due(memory, manager, 10)
    assert manager.next_deadline_ms() == 5000


@pytest.mark.parametrize("how", ["cut", "lost", "made anew"])
def test_how_far_a_log_is_clean_is_noted_down_when_it_is_less(memory, how):
    config = TopicConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01)
    manager = manager_of(memory, log_initial_task_delay_ms=1000)
    manager.start(0)
    log = manager.create(T0, TOPIC_ID, config)
    for value in (b"1", b"2", b"3", b"4"):
        append(log, value, keys=[b"a"])
    log.roll(NOW)
    run_due(memory, manager, 1000)
    assert memory.disk.load("cleaner-offset-checkpoint") == noted("t 0 4")
    now_ms = 1100
    if how == "cut":
        log.truncate_to(1)
    elif how == "lost":
        memory.run(log.flush())
        log.release()
        path = "t-0/00000000000000000000.log"
        memory.disk.remove("t-0/00000000000000000004.log")
        memory.disk.open(path).truncate(0)
        manager = restart(memory, manager, clean=False, log_initial_task_delay_ms=1000)
        manager.start(0)
        now_ms, log = 100, manager.logs[T0]
    else:
        manager.delete(T0)
        now_ms, log = 2000, manager.create(T0, TOPIC_ID, config)
    assert log.cleaned_to < 4
    run_due(memory, manager, now_ms)
    for value in (b"5", b"6", b"7", b"8", b"9"):
        append(log, value, keys=[b"a"])
    manager = restart(memory, manager, clean=False)
    assert manager.logs[T0].log_end_offset >= 5
    assert manager.logs[T0].cleaned_to <= 1, "what came since is not clean"


@pytest.mark.parametrize("how", ["cut", "lost"])
def test_what_is_noted_of_a_log_is_noted_anew_when_it_is_cut(memory, how):
    manager = manager_of(memory)
    manager.start(0)
    log = manager.create(T0, TOPIC_ID, TopicConfig())
    for i in range(9):
        append(log, b"%d" % i)
    log.advance_high_watermark(9)
    log.raise_log_start_offset(6)
    run_due(memory, manager, 60_000)
    assert memory.disk.load("log-start-offset-checkpoint") == noted("t 0 6")
    if how == "cut":  # by a leader that was not in sync
        log.truncate_to(2)
        run_due(memory, manager, 60_100)
    else:
        log.release()
        memory.disk.open("t-0/00000000000000000000.log").truncate(log.recent[2])
        manager = restart(memory, manager, clean=False)
        manager.start(0)
        run_due(memory, manager, 100)
        log = manager.logs[T0]
    assert log.log_start_offset <= 2 == log.log_end_offset
    for i in range(9):
        append(log, b"new %d" % i)
    log.advance_high_watermark(8)
    log = restart(memory, manager, clean=False).logs[T0]
    assert log.log_start_offset <= 2 == log.high_watermark < log.log_end_offset == 11
    assert [r.value for r in everything(memory, log) if r.offset >= 2] == [b"new %d" % i for i in range(9)]


def test_the_dirtiest_log_is_compacted_first(memory):
    config = TopicConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01)
    manager = manager_of(memory, log_initial_task_delay_ms=10)
    manager.start(0)
    logs = [manager.create(TopicPartition("c", i), TOPIC_ID, config) for i in range(3)]

    def fill(counts):
        for log, count in zip(logs, counts, strict=True):
            for i in range(count):
                append(log, b"v", keys=[b"%d" % i])
            log.roll(NOW)

    fill([4, 4, 4])
    for _ in range(4):
        run_due(memory, manager, 10)
    assert [log.cleaned_to for log in logs] == [4, 4, 4]
    fill([2, 3, 1])
    seen = []
    for _ in range(3):
        run_due(memory, manager, 20_000)
        seen.append([log.cleaned_to for log in logs])
    assert seen == [[4, 7, 4], [6, 7, 4], [6, 7, 5]]


def test_flush_ms(memory):
    manager = manager_of(memory)
    manager.start(0)
    log = manager.create(T0, TOPIC_ID, TopicConfig(flush_ms=200))
    patient = manager.create(T1, TOPIC_ID, TopicConfig(flush_ms=1000))
    never = manager.create(TopicPartition("never", 0), TOPIC_ID, TopicConfig())
    for each in (log, patient, never):
        append(each, b"a")
    assert manager.next_deadline_ms() == 200
    run_due(memory, manager, 200)
    assert [each.recovery_point for each in (log, patient, never)] == [1, 0, 0]
    for now_ms in range(400, 1001, 200):
        run_due(memory, manager, now_ms)
    assert [each.recovery_point for each in (log, patient, never)] == [1, 1, 0]


def test_no_flush_ms_has_all_logs_looked_at_without_a_pause(memory):
    manager = manager_of(memory)
    manager.start(0)
    manager.create(T0, TOPIC_ID, TopicConfig(flush_ms=0))
    assert manager.next_deadline_ms() == 100


def test_what_waits_for_its_removal_is_bounded_whatever_its_delay(memory, monkeypatch):
    monkeypatch.setattr(removal, "DOOMED_MAX", 10, raising=False)
    manager = manager_of(memory)
    manager.start(0)
    for number in range(12):
        partition = TopicPartition("t", number)
        manager.create(partition, TOPIC_ID, TopicConfig(file_delete_delay_ms=2**63 - 1 - (number == 5)))
        manager.delete(partition)
    memory.settle()
    run_due(memory, manager, 0)
    left = [name for name in memory.disk.list("") if name.endswith("-delete")]
    assert len(left) == 10
    assert not [name for name in left if name.startswith("t-5.")], "what is due next goes first"
    assert manager.next_deadline_ms() not in (None, 0)


def test_what_cannot_be_removed_is_not_tried_without_a_pause(memory, monkeypatch):
    monkeypatch.setattr(removal, "DOOMED_MAX", 10, raising=False)

    def refuse(path, done):
        memory.disk.complete(lambda: (_ for _ in ()).throw(OSError("no")), done)

    manager = manager_of(memory)
    manager.start(0)
    for number in range(12):
        partition = TopicPartition("t", number)
        manager.create(partition, TOPIC_ID, TopicConfig(file_delete_delay_ms=2**63 - 1))
        manager.delete(partition)
    memory.settle()
    monkeypatch.setattr(memory.disk, "remove_later", refuse)
    run_due(memory, manager, 0)
    assert manager.next_deadline_ms() not in (None, 0)


def test_when_a_deleted_log_was_flushed_is_forgotten(memory):
    manager = manager_of(memory)
    manager.start(0)
    config = TopicConfig(flush_ms=1000)
    append(manager.create(T0, TOPIC_ID, config), b"a")
    run_due(memory, manager, 1000)
    manager.delete(T0)
    assert not manager._housekeeping._flushed_ms, "one entry for every partition there ever was"
    log = manager.create(T0, TOPIC_ID, config)
    append(log, b"a")
    run_due(memory, manager, 2000)
    assert log.recovery_point == 1


def test_silent_producers_are_forgotten(memory):
    clock = Clock()
    manager = manager_of(memory, clock, producer_id_expiration_check_interval_ms=100, producer_id_expiration_ms=1000)
    manager.start(0)
    log = manager.create(T0, TOPIC_ID, TopicConfig())
    append(log, b"a", pid=1, epoch=0, sequence=0)
    clock.ms += 1000
    run_due(memory, manager, 100)
    assert not log.producers.producers


def test_a_task_is_given_out_once_until_it_ends(memory):
    manager = manager_of(memory)
    manager.start(0)
    first = manager.due_jobs(5000)
    assert len(first) == 1
    assert manager.due_jobs(99_999_999) != []
    assert manager.due_jobs(99_999_999) == []


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("t-0", T0),
        ("t-with-dash-1", T1),
        ("t", None),
        ("-1", None),
        ("t-0.abc-delete", None),
        ("t-x", None),
        ("t-0-stray", None),
        ("t-00", None),
        ("t-07", None),
    ],
)
def test_directory_names(name, partition):
    assert parse_directory_name(name) == partition


def test_whatever_is_the_matter_with_one_log_the_others_serve(memory, monkeypatch):
    manager = manager_of(memory)
    memory.run(manager.load())
    for partition in (T0, T1):
        append(manager.create(partition, TOPIC_ID, TopicConfig()), b"v")
    memory.run(manager.shutdown())
    recover = Log.recover

    def fails(self, **points):
        if self.topic_partition == T0:
            raise ValueError("a defect")
        return recover(self, **points)

    monkeypatch.setattr(Log, "recover", fails)
    manager = manager_of(memory)
    memory.run(manager.load())
    assert set(manager.logs) == {T1}
    with pytest.raises(KafkaError, match=r"KAFKA_STORAGE_ERROR.*a defect"):
        manager.get(T0)
