"""What is promised to be on stable storage, and what a power loss leaves."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.config import TopicConfig
from barnabas.broker.log.segment import LOG_SUFFIX
from barnabas.broker.memory_disk import Faults
from barnabas.protocol.errors import ErrorCode, KafkaError
from tests.broker.log.harness import NOW, World, append, batch, everything


def test_flush_messages_asks_for_a_sync_every_n_records(world):
    log = world.new_log(flush_messages=3)
    assert [append(log, b"a").sync_needed for _ in range(3)] == [False, False, True]
    told: list[Any] = []
    assert not log.when_durable(3, told.append)
    assert told == [], "never from inside the call"
    world.settle()
    assert told == [None]
    assert log.recovery_point == 3
    assert log.when_durable(3, told.append)
    assert not append(log, b"b").sync_needed


def test_those_who_come_while_a_sync_runs_are_served_by_the_next(memory):
    log = memory.new_log(flush_messages=1)
    told: list[Any] = []
    append(log, b"a")
    log.when_durable(1, lambda e: told.append((1, e)))
    for i in range(2, 5):
        append(log, b"b")
        log.when_durable(i, lambda e, i=i: told.append((i, e)))
    memory.disk.deliver()
    assert told == [(1, None)]
    memory.disk.deliver()
    assert told == [(i, None) for i in range(1, 5)]
    assert memory.disk.deliver() <= 1, "two syncs served four"


def test_with_flush_messages_1_a_power_loss_leaves_every_answered_record(memory):
    """Crash after every number of deliveries: what `when_durable` announced is there, whatever else was torn."""
    for deliveries in range(20):
        for torn in (0, 7, 70):
            memory.disk.remove("t-0")
            log = memory.new_log(flush_messages=1, segment_bytes=300)
            answered: list[Any] = []
            for i in range(10):
                info = append(log, b"%d" % i, pid=1, epoch=0, sequence=i)
                log.when_durable(info.last_offset + 1, lambda e, i=i, told=answered: told.append(i))
                if i % 3 == 0 and i // 3 < deliveries:
                    memory.disk.deliver()
            for _ in range(max(0, deliveries - 4)):
                memory.disk.deliver()
            memory.disk.crash(lambda path, synced, size, torn=torn: synced + torn)
            again = memory.open_log(clean=False, config=log.config)
            found = {r.offset: int(r.value or b"") for r in everything(memory, again)}
            assert all(offset == value for offset, value in found.items())
            assert set(answered) <= set(found)
            assert append(again, b"next").first_offset not in found
    assert answered, "the last rounds answered something"


def test_without_flush_a_power_loss_may_lose_the_tail_but_never_the_order(memory):
    log = memory.new_log()
    for i in range(10):
        append(log, b"%d" % i)
    memory.disk.crash(lambda path, synced, size: size // 2)
    again = memory.open_log(clean=False)
    values = [int(r.value or b"") for r in everything(memory, again)]
    assert values == list(range(len(values)))
    assert 0 < len(values) < 10


def test_a_sync_that_fails_closes_the_log_for_writes(memory):
    log = memory.new_log(flush_messages=1)
    append(log, b"a")
    told: list[Any] = []
    log.when_durable(1, told.append)
    memory.disk.fail_syncs = 1
    memory.settle()
    assert [error.code for error in told] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert log.recovery_point == 0
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch(b"b"), 0, now_ms=NOW)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError):
        log.when_durable(1, told.append)
    assert [r.value for r in everything(memory, log)] == [b"a"], "what is there can be read"


def test_rolled_segments_are_synced_with_their_indexes(world):
    log = world.new_log(segment_bytes=400, index_interval_bytes=0)
    for _ in range(12):
        append(log, b"x" * 50)
    world.settle()
    assert log.recovery_point >= log.active.base
    for segment in log.segments[:-1]:
        assert segment.indexes_saved
        assert world.disk.load(segment.path(".index")) == bytes(segment.offsets.data)
        assert world.disk.load(segment.path(".timeindex")) == bytes(segment.times.data)


def test_flush_as_a_job(world):
    log = world.new_log()
    append(log, b"a")
    world.run(log.flush())
    assert log.recovery_point == 1
    world.run(log.flush())


def test_a_sync_that_was_under_way_when_the_log_was_cut_proves_nothing(memory):
    log = memory.new_log(flush_messages=1)
    told: list[Any] = []
    for i in range(4):
        append(log, b"%d" % i)
        log.when_durable(i + 1, lambda error, i=i: told.append((i, error and error.code)))
    log.truncate_to(2)
    append(log, b"new")
    gone = [(2, ErrorCode.NOT_LEADER_OR_FOLLOWER), (3, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    memory.disk.deliver()
    assert (log.recovery_point, told) == (0, gone)
    memory.settle()
    assert log.recovery_point == 3
    assert told == [*gone, (0, None), (1, None)]


def test_who_waits_for_a_log_that_is_deleted_is_told(memory):
    log = memory.new_log(flush_messages=1)
    told: list[Any] = []
    append(log, b"a")
    log.when_durable(1, lambda error: told.append(error and error.code))
    log.release()
    memory.settle()
    assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_nothing_is_promised_for_a_log_that_was_cut(memory):
    log = memory.new_log()
    for _ in range(4):
        append(log, b"a")
    memory.run(log.flush())
    log.truncate_to(2)
    assert log.recovery_point == 2
    append(log, b"b")
    assert not log.when_durable(3, lambda _: None)


def test_what_a_crash_left_without_a_sync_has_one_before_it_is_told(world):
    """A producer that sends it again hears at once that it is there."""
    log = world.new_log(flush_messages=1)
    append(log, b"a", pid=1, epoch=0, sequence=0)
    log = world.restart(log, clean=False)
    assert log.log_end_offset == 1
    assert append(log, b"a", pid=1, epoch=0, sequence=0).duplicate
    assert log.recovery_point == 1, "everything below it is on the device"


@pytest.mark.parametrize("flush_messages", [1, 2])
def test_no_reader_after_a_kill_is_given_what_a_power_failure_then_takes(memory, flush_messages):
    """The kill left it in the page cache of the machine: it was never announced, and looked like all that was."""
    log = memory.new_log(flush_messages=flush_messages)
    for value in (b"a", b"b", b"c"):
        log.append_as_leader(memoryview(batch(value)), 0, now_ms=NOW)  # a sync begins, and does not come back
    memory.disk.kill()
    log = memory.open_log(clean=False, config=log.config)
    given = [record.value for record in everything(memory, log)]
    assert given == [b"a", b"b", b"c"]
    memory.disk.crash()
    log = memory.open_log(clean=False, config=log.config)
    assert [record.value for record in everything(memory, log)] == given


def test_what_is_there_when_flush_messages_is_set_gets_its_sync(memory):
    log = memory.new_log()
    append(log, b"a")
    log.configure(TopicConfig(flush_messages=2))
    memory.settle()
    assert log.recovery_point == 0
    log.configure(TopicConfig(flush_messages=1))
    memory.settle()
    assert log.recovery_point == 1


def test_a_sync_that_fails_at_a_start_keeps_the_log_from_serving(memory):
    log = memory.new_log(flush_messages=1)
    append(log, b"a")
    memory.disk.kill()
    memory.disk.faults.bad_syncs.add(log.active.file.path)
    with pytest.raises(OSError, match="could not be made durable"):
        memory.open_log(clean=False, config=log.config)


def test_without_flush_messages_a_start_syncs_nothing(memory):
    log = memory.new_log()
    for _ in range(3):
        append(log, b"a")
    log = memory.restart(log, clean=False)
    assert (log.recovery_point, log.log_end_offset) == (0, 3)


def test_a_clean_end_waits_until_a_cut_is_on_the_device(memory: World) -> None:
    """Else a power failure brings back what was cut off, in the midst of a log that nobody walks any more."""
    memory.disk.faults = Faults(lambda bound: bound - 1, cuts=True)
    log = memory.new_log()
    append(log, b"a", b"b")
    memory.run(log.flush())
    memory.settle()
    path = log.active.path(LOG_SUFFIX)
    whole = log.active.size
    file = memory.disk.open(path)
    file.append([bytes(100)])
    file.sync(lambda error: None)
    memory.settle()
    log.release()
    log = memory.open_log(clean=False, recovery_point=2)
    assert (log.active.size, log.recovery_point) == (whole, 2)
    memory.run(log.close())
    memory.disk.crash()
    assert len(memory.disk.load(path)) == whole
