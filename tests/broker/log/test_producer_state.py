"""Idempotence: duplicates, order, fencing, expiry, snapshots."""

from __future__ import annotations

import pytest

from barnabas.broker.config import TopicConfig
from barnabas.broker.log import producer_state
from barnabas.broker.log.producer_state import ProducerBatch, ProducerState
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from tests.broker.log.harness import NOW, World, append, manager_of


def send(log, sequence, *, epoch=0, count=1, pid=7, **fields):
    return append(log, *[b"v"] * count, pid=pid, epoch=epoch, sequence=sequence, **fields)


def refused(log, sequence, **fields):
    end = log.log_end_offset
    with pytest.raises(KafkaError) as caught:
        send(log, sequence, **fields)
    assert log.log_end_offset == end
    return caught.value.code


def test_five_batches_are_remembered(memory):
    log = memory.new_log()
    for sequence in range(6):
        send(log, sequence)
    for sequence in (5, 1):
        info = send(log, sequence)
        assert (info.duplicate, info.first_offset, info.last_offset) == (True, sequence, sequence)
    assert refused(log, 0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 6


def test_a_duplicate_answers_with_the_stored_time(memory):
    log = memory.new_log()
    send(log, 0, timestamps=[NOW - 9])
    assert send(log, 0, timestamps=[NOW - 9]).log_append_time_ms == NOW - 9


def test_gaps_are_refused(memory):
    log = memory.new_log()
    send(log, 0, count=3)
    assert send(log, 3).first_offset == 3
    assert refused(log, 9) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_epochs_fence(memory):
    log = memory.new_log()
    send(log, 0, epoch=1)
    assert refused(log, 1, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(log, 3, epoch=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(log, 0, epoch=2)
    send(log, 1, epoch=2)


def test_an_unknown_producer_may_begin_anywhere(memory):
    log = memory.new_log()
    assert send(log, 42).first_offset == 0
    assert send(log, 43).first_offset == 1


def test_sequences_wrap(memory):
    log = memory.new_log()
    send(log, 2**31 - 1)
    send(log, 0)
    log = memory.new_log()
    send(log, 2**31 - 2, count=3)
    assert send(log, 2**31 - 2, count=3).duplicate
    send(log, 1)


def test_after_a_clean_restart_only_the_last_batch_is_known(world):
    log = world.new_log()
    for sequence in range(5):
        send(log, sequence)
    log = world.restart(log, clean=True)
    assert send(log, 4).duplicate
    assert refused(log, 3) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 5).first_offset == 5


def test_after_a_crash_the_log_itself_is_replayed(world):
    log = world.new_log()
    for sequence in range(5):
        send(log, sequence)
    log = world.restart(log, clean=False)
    assert send(log, 2).duplicate
    assert send(log, 5).first_offset == 5


def test_a_snapshot_is_written_on_roll_and_a_broken_one_is_passed_over(world):
    log = world.new_log(segment_bytes=400)
    for sequence in range(12):
        send(log, sequence)
    world.settle()
    snapshots = [n for n in world.disk.list("t-0") if n.endswith(".snapshot")]
    assert snapshots == [f"{base:020d}.snapshot" for base in log.bases[1:]]
    world.disk.write_atomic(f"t-0/{snapshots[-1]}", b"\0\1garbage")
    log = world.restart(log, clean=False)
    assert send(log, 11).duplicate
    assert send(log, 12).first_offset == 12


def test_a_missing_snapshot_is_replaced_by_replay(world):
    log = world.new_log(segment_bytes=400)
    for sequence in range(12):
        send(log, sequence)
    world.settle()
    for name in world.disk.list("t-0"):
        if name.endswith(".snapshot"):
            world.disk.remove(f"t-0/{name}")
    log = world.restart(log, clean=False)
    assert send(log, 11).duplicate
    assert send(log, 12).first_offset == 12


@pytest.mark.parametrize("cut", [False, True])
def test_whose_records_were_deleted_is_known_after_a_crash(world, cut):
    log = world.new_log()
    assert send(log, 0).last_offset == 0
    log.raise_log_start_offset(1)
    log = world.restart(log, clean=True, log_start_offset=1)
    append(log, b"another's")
    if cut:
        append(log, b"another's")
        world.call(lambda: log.truncate_to(2))
        world.settle()
    log = world.restart(log, clean=False, log_start_offset=1)
    assert send(log, 0).duplicate
    assert (log.log_start_offset, log.log_end_offset) == (1, 2)


def test_who_is_known_by_a_snapshot_alone_stays_known_after_a_crash(world):
    """Its batches went with their segment, and no snapshot lies where the rest begins: a later one does."""
    log = world.new_log(segment_bytes=200)
    send(log, 0, pid=8)
    for sequence in range(6):
        send(log, sequence)
    log = world.restart(log, clean=True)
    world.disk.remove(f"t-0/{log.bases[0]:020d}.log")
    for snapshot in log.snapshots[:-1]:
        world.disk.remove(f"t-0/{snapshot:020d}.snapshot")
    log = world.restart(log, clean=False)
    assert log.log_start_offset > 0
    assert send(log, 0, pid=8).duplicate
    assert send(log, 4).duplicate, "the log was walked, and knows more than the last one"
    assert send(log, 6).first_offset == 7


def test_a_snapshot_above_the_place_where_a_log_is_cut_is_not_used(world):
    """The recovery point says that the first segment is well, and its index is gone: it is walked, and torn."""
    log = world.new_log(segment_bytes=400)
    for sequence in range(12):
        send(log, sequence)
    world.run(log.flush())
    world.settle()
    base = log.bases[2]
    log.release()
    world.settle()
    world.disk.remove(f"t-0/{0:020d}.index")
    file = world.disk.open(f"t-0/{0:020d}.log")
    file.truncate(file.size - 1)
    file.close()
    world.reopen()
    log = world.open_log(clean=False, config=log.config, recovery_point=base)
    end = log.log_end_offset
    assert 0 < end < base
    assert send(log, end - 1).duplicate
    assert send(log, end).first_offset == end


def test_expiry(memory):
    log = memory.new_log()
    send(log, 0, pid=1, now_ms=NOW - 10)
    send(log, 0, pid=2, now_ms=NOW)
    assert log.expire_producers(NOW, 11) == 0
    assert log.expire_producers(NOW, 10) == 1
    assert set(log.producers.producers) == {2}
    assert send(log, 42, pid=1).first_offset == 2


DAY_MS = 24 * 60 * 60 * 1000


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("age_ms", [400 * DAY_MS, -3_000_000])
def test_who_fills_in_records_of_last_year_is_not_forgotten_at_the_next_look(world, age_ms, restarted):
    """Its retry was written twice. Timestamps are the clients' own, those that are ahead, too."""
    log = world.new_log()
    send(log, 0, timestamps=[NOW - age_ms], now_ms=NOW)
    if restarted:
        log = world.restart(log, clean=True)
    assert log.expire_producers(NOW + 1000, DAY_MS) == 0
    assert log.expire_producers(NOW + DAY_MS - 1, DAY_MS) == 0
    assert send(log, 0, timestamps=[NOW - age_ms]).duplicate
    assert log.expire_producers(NOW + 1000 + DAY_MS, DAY_MS) == 1


def test_a_clock_that_was_set_back_keeps_nobody_known_for_long(memory):
    log = memory.new_log()
    send(log, 0, now_ms=NOW + 400 * DAY_MS)
    assert log.expire_producers(NOW, DAY_MS) == 0
    assert log.expire_producers(NOW + DAY_MS, DAY_MS) == 1


def test_snapshot_bytes():
    state = ProducerState()
    state.update(5, 1, ProducerBatch(3, 4, 11, 1, 99))
    data = state.snapshot()
    assert data[:2] == b"\x00\x01"
    assert data[6:].hex() == (
        "00000001"  # entries
        "0000000000000005"  # producer id
        "0001"  # epoch
        "00000004"  # last sequence
        "000000000000000b"  # last offset
        "00000001"  # offset delta
        "0000000000000063"  # timestamp
        "ffffffff"  # coordinator epoch
        "ffffffffffffffff"  # no open transaction
    )
    again = ProducerState.from_snapshot(data)
    assert again.producers[5].batches == [ProducerBatch(3, 4, 11, 1, 99)]
    assert again.snapshot() == data


@pytest.mark.parametrize(
    "change", [lambda d: d[:-1], lambda d: b"\0\2" + d[2:], lambda d: d[:-1] + b"x", lambda d: b""]
)
def test_broken_snapshots_are_refused(change):
    state = ProducerState()
    state.update(5, 1, ProducerBatch(3, 4, 11, 1, 99))
    with pytest.raises(ValueError, match="snapshot"):
        ProducerState.from_snapshot(change(state.snapshot()))


def test_producers_that_nobody_gave_out_do_not_push_out_who_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 20)
    state = ProducerState()
    for sequence in range(3):
        state.update(7, 0, ProducerBatch(sequence, sequence, sequence, 0, 0))
    for number in range(1000):
        state.update(10**12 + number, 0, ProducerBatch(0, 0, 10 + number, 0, 2**62))
        assert len(state.producers) <= 20
    assert 7 in state.producers, "it has come back, they have not"
    assert 10**12 + 999 in state.producers, "the newest stays"
    with pytest.raises(KafkaError, match="OUT_OF_ORDER"):
        state.check(7, 0, 9, 9)


def test_of_those_alike_the_longest_silent_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 20)
    state = ProducerState()
    for number in range(20):
        state.update(number, 0, ProducerBatch(0, 0, number, 0, -number))
    state.update(99, 0, ProducerBatch(0, 0, 99, 0, 0))
    assert list(state.producers) == [*range(2, 20), 99]


@pytest.mark.parametrize("how", ["release", "cut", "expire", "restart"])
def test_the_producers_of_all_logs_are_bounded_together(
    memory: World, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Two thousand of each of 20,000 partitions would be 17 GB."""
    monkeypatch.setattr(producer_state, "PRODUCERS_OF_ALL_MAX", 30)
    manager = manager_of(memory)
    manager.start(0)
    logs = [manager.create(TopicPartition("t", number), bytes(16), TopicConfig()) for number in range(4)]
    for number in range(40):
        for log in logs:
            send(log, 0, pid=number)

    def counts() -> list[int]:
        return [len(log.producers.producers) for log in logs]

    assert manager.room.producers.count == sum(counts()) <= 30 + 4 * producer_state.PRODUCERS_KEPT
    assert min(counts()) >= producer_state.PRODUCERS_KEPT
    assert all(39 in log.producers.producers for log in logs), "the newest stays"
    for log in logs:
        if how == "cut":
            log.truncate_fully_and_start_at(0)
        elif how == "expire":
            log.expire_producers(NOW + 10**9, 1)
        else:
            log.release()
    assert manager.room.producers.count == 0
    if how == "restart":
        monkeypatch.setattr(producer_state, "PRODUCERS_OF_ALL_MAX", 10)
        memory.settle()
        manager = manager_of(memory)
        memory.run(manager.load())
        logs = list(manager.logs.values())
        assert manager.room.producers.count == sum(counts()) <= 10 + 4 * producer_state.PRODUCERS_KEPT
        assert min(counts()) >= producer_state.PRODUCERS_KEPT
