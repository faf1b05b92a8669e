"""A stop of many logs: some get their files, the others share one; nothing is lost, whatever comes in between."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.config import TopicConfig
from barnabas.broker.log import manager as manager_module
from barnabas.broker.log import recovery
from barnabas.broker.log.closing import CLOSING_FILE, ClosingFiles, mark, pack, unpack
from barnabas.broker.log.epochs import LeaderEpochs
from barnabas.broker.log.segment import Segment
from barnabas.broker.memory_disk.faults import Names
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from tests.broker.log.harness import NOW, TOPIC_ID, World, append, everything, manager_of

KEYS = [TopicPartition("t", number) for number in range(4)]
MARKER = ".kafka_cleanshutdown"
CONFIG = TopicConfig(segment_bytes=2000, index_interval_bytes=150)


@pytest.fixture(autouse=True)
def one_log_gets_its_files(monkeypatch):
    monkeypatch.setattr(manager_module, "_FILES_OF_LOGS_MAX", 1)


def filled(world, *, config: TopicConfig = CONFIG, **settings: Any):
    """Four logs over two epochs, with a producer; times fall now and then."""
    manager = manager_of(world, topic=config, **settings)
    world.run(manager.load())
    for key in KEYS:
        log = manager.create(key, TOPIC_ID, config)
        for i in range(12):
            times = [NOW + i * 10 - 25 * (i % 3)]
            append(log, b"%d" % i, leader_epoch=i // 8, timestamps=times, pid=7, epoch=0, sequence=i)
    return manager


def started(world, manager, *, clean: bool):
    """The next process, after `manager` has stopped or was lost."""
    for log in manager.logs.values():
        log.release()
    world.settle()
    world.reopen()
    fresh = manager_of(world, topic=CONFIG)
    assert world.run(fresh.load()) is clean
    return fresh


def assert_all_is_there(world, manager, more: int = 0):
    assert list(manager.logs) == KEYS
    for log in manager.logs.values():
        assert [record.value for record in everything(world, log)] == [b"%d" % i for i in range(12 + more)]
        assert log.epochs.entries[:2] == [(0, 0), (1, 8)]
        found = world.call(lambda log=log: log.offset_for_timestamp(NOW + 85))
        assert (found.timestamp, found.offset) == (NOW + 90, 9)
        with pytest.raises(KafkaError) as caught:
            append(log, b"x", leader_epoch=1, pid=7, epoch=0, sequence=40)
        assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert append(log, b"x", leader_epoch=1, pid=7, epoch=0, sequence=11 + more).duplicate


def test_all_logs_come_back_and_none_is_walked(world, monkeypatch):
    manager = filled(world)
    world.run(manager.shutdown())
    assert world.disk.exists("t-0/leader-epoch-checkpoint")
    assert not world.disk.exists("t-1/leader-epoch-checkpoint")
    assert set(unpack(world.disk.load(CLOSING_FILE))) == {"t-1", "t-2", "t-3"}
    assert world.disk.exists(MARKER)
    points = [line.split()[2] for line in world.disk.load("recovery-point-offset-checkpoint").splitlines()[2:-1]]
    assert points == [b"12", b"0", b"0", b"0"], "none passes an epoch whose file was not written"
    actives = [_looks(log.active) for log in manager.logs.values()]
    monkeypatch.setattr(recovery, "rebuild", None)
    fresh = started(world, manager, clean=True)
    assert [_looks(log.active) for log in fresh.logs.values()] == actives
    assert_all_is_there(world, fresh)
    assert not world.disk.exists(CLOSING_FILE)


def _looks(segment: Segment) -> tuple[int, int, int]:
    return segment.index_entries, segment.max_timestamp, segment.max_timestamp_offset


def test_the_latest_time_is_known_after_the_start_though_it_stands_at_the_beginning(memory):
    manager = manager_of(memory, topic=CONFIG)
    memory.run(manager.load())
    for key in KEYS:
        log = manager.create(key, TOPIC_ID, CONFIG)
        for i in range(12):
            append(log, b"%d" % i, timestamps=[NOW + (900 if i == 2 else i)])
    memory.run(manager.shutdown())
    manager = started(memory, manager, clean=True)
    for log in manager.logs.values():
        assert _looks(log.active)[1:] == (NOW + 900, 2)
        append(log, b"12", timestamps=[NOW + 500])
        assert memory.call(lambda log=log: log.offset_of_max_timestamp()).offset == 2


def test_stop_after_stop_goes_well_though_nothing_was_written_in_between(world):
    manager = filled(world)
    for _ in range(3):
        world.run(manager.shutdown())
        manager = started(world, manager, clean=True)
    assert_all_is_there(world, manager)


def test_what_is_appended_after_the_start_and_lost_with_the_process_is_found(world):
    """The files that were kept together are gone then, and those of the log were never written."""
    manager = filled(world)
    world.run(manager.shutdown())
    manager = started(world, manager, clean=True)
    for log in manager.logs.values():
        append(log, b"12", leader_epoch=3, timestamps=[NOW + 500], pid=7, epoch=0, sequence=12)
    manager = started(world, manager, clean=False)
    assert_all_is_there(world, manager, more=1)
    for log in manager.logs.values():
        assert log.epochs.entries == [(0, 0), (1, 8), (3, 12)]


@pytest.mark.parametrize("harm", [lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda data: b"\x00\x02" + data[2:]])
def test_kept_files_that_cannot_be_read_make_the_end_a_sudden_one(memory, harm):
    manager = filled(memory)
    memory.run(manager.shutdown())
    memory.disk.write_atomic(CLOSING_FILE, harm(memory.disk.load(CLOSING_FILE)))
    assert_all_is_there(memory, started(memory, manager, clean=False))


@pytest.mark.parametrize("what", ["gone", "another", "none is named"])
def test_a_marker_without_the_file_that_it_names_is_no_clean_end(world, what, caplog):
    """Retries of producers would be written twice: what they sent last stands in that file."""
    manager = filled(world)
    world.run(manager.shutdown())
    world.settle()
    if what == "gone":
        world.disk.remove(CLOSING_FILE)
    elif what == "another":
        world.disk.write_atomic(CLOSING_FILE, pack({"t-1": ClosingFiles(0, 0, {})}))
    else:
        world.disk.write_atomic(MARKER, mark(None))
    fresh = started(world, manager, clean=False)
    assert_all_is_there(world, fresh)
    assert CLOSING_FILE in caplog.text


@pytest.mark.parametrize("marker", [b"", b"{", b"[]", b"\0" * 30])
def test_a_marker_that_makes_no_sense_is_no_clean_end(memory, marker):
    manager = filled(memory)
    memory.run(manager.shutdown())
    memory.disk.write_atomic(MARKER, marker)
    assert_all_is_there(memory, started(memory, manager, clean=False))


def test_a_marker_of_an_earlier_build_goes_with_what_is_there(memory):
    manager = filled(memory)
    memory.run(manager.shutdown())
    memory.disk.write_atomic(MARKER, b'{"version":0,"brokerEpoch":-1}')
    assert_all_is_there(memory, started(memory, manager, clean=True))


def test_a_log_that_another_program_wrote_to_meanwhile_is_walked(memory):
    manager = filled(memory)
    memory.run(manager.shutdown())
    kept, marker = memory.disk.load(CLOSING_FILE), memory.disk.load(MARKER)
    manager = started(memory, manager, clean=True)
    append(manager.logs[KEYS[2]], b"12", leader_epoch=1, timestamps=[NOW + 500], pid=7, epoch=0, sequence=12)
    memory.run(manager.shutdown())
    memory.disk.write_atomic(CLOSING_FILE, kept)
    memory.disk.write_atomic(MARKER, marker)
    manager = started(memory, manager, clean=True)
    log = manager.logs[KEYS[2]]
    assert log.log_end_offset == 13
    assert memory.call(lambda: log.offset_for_timestamp(NOW + 400)).offset == 12
    assert append(log, b"x", leader_epoch=1, pid=7, epoch=0, sequence=12).duplicate


def test_large_files_are_the_logs_own(memory, monkeypatch):
    monkeypatch.setattr(manager_module, "_CLOSING_BYTES_MAX", 10)
    manager = filled(memory)
    memory.run(manager.shutdown())
    assert not memory.disk.exists(CLOSING_FILE)
    assert all(memory.disk.exists(f"{key}/leader-epoch-checkpoint") for key in KEYS)
    assert_all_is_there(memory, started(memory, manager, clean=True))


def test_power_loss_at_any_moment_of_a_stop_and_of_the_start_after_it(tmp_path):
    """Nothing that `flush.messages=1` answered is lost; a marker is only there together with what it vouches for."""
    endings = set()
    for moment in range(40):
        world = World("memory", tmp_path)
        config = TopicConfig(segment_bytes=2000, index_interval_bytes=150, flush_messages=1)
        manager = filled(world, config=config)
        world.settle()
        waiting = _until(world, manager.shutdown(), moment)
        world.disk.crash()
        marked = world.disk.exists(MARKER)
        endings.add((waiting, marked))
        fresh = manager_of(world, topic=config)
        assert world.run(fresh.load()) is marked
        world.disk.crash()
        again = manager_of(world, topic=config)
        assert world.run(again.load()) is False
        assert_all_is_there(world, again)
    assert endings == {(True, False), (False, True)}


def test_a_marker_that_a_start_removed_does_not_come_back(memory):
    """A power failure takes back what no sync covered: what was written since would be trusted, and not looked at."""
    memory.disk.faults.names = Names.LOOSE
    manager = filled(memory)
    memory.run(manager.shutdown())
    manager = started(memory, manager, clean=True)
    append(manager.logs[KEYS[2]], b"12", leader_epoch=5, timestamps=[NOW + 500], pid=7, epoch=0, sequence=12)
    memory.disk.crash(lambda path, synced, size: size)
    manager = manager_of(memory, topic=CONFIG)
    assert memory.run(manager.load()) is False
    log = manager.logs[KEYS[2]]
    assert (log.log_end_offset, log.latest_epoch) == (13, 5)


@pytest.mark.parametrize("power", [True, False])
def test_a_start_that_is_cut_short_after_it_has_taken_the_files(tmp_path, power):
    """What it took is nowhere else then: the next start learns it from the batches."""
    waiting = True
    moment = 0
    while waiting:
        world = World("memory", tmp_path)
        manager = filled(world)
        world.run(manager.shutdown())
        manager = manager_of(world, topic=CONFIG)
        waiting = _until(world, manager.load(), moment)
        moment += 1
        world.disk.crash(None if power else lambda path, synced, size: size)
        again = manager_of(world, topic=CONFIG)
        assert world.run(again.load()) is False
        assert_all_is_there(world, again)
    assert moment > len(KEYS)


@pytest.mark.parametrize(
    ("entries", "saved", "first"),
    [
        ([(0, 0), (1, 8)], [(0, 0), (1, 8)], None),
        ([(0, 0), (1, 8)], [(0, 0)], 8),
        ([(0, 0)], [(0, 0), (1, 8)], 8),
        ([(0, 0), (2, 9)], [(0, 0), (1, 8)], 8),
        ([(0, 0), (1, 8)], [], 0),
    ],
)
def test_from_where_on_an_epoch_checkpoint_says_something_else(entries, saved, first):
    assert LeaderEpochs(entries, saved=saved).unsaved_from() == first


def _until(world, job, moment: int) -> bool:
    """Take `moment` steps of a job; whether it is still under way."""
    for token in job:
        if not moment:
            job.close()
            return True
        moment -= 1
        if token is not None:
            fired: list[bool] = []
            token.on_ready(lambda fired=fired: fired.append(True))
            while not fired:
                world.deliver()
    return False


def test_a_saved_recovery_point_does_not_pass_an_index_that_was_not_saved(memory):
    """What a clean stop wrote of it is a part of the index: believed whole, lookups by time would miss what follows."""
    config = TopicConfig(segment_bytes=1000, index_interval_bytes=150)
    manager = manager_of(memory, topic=config)
    memory.run(manager.load())
    append(manager.create(KEYS[0], TOPIC_ID, config), b"a" * 100)
    memory.run(manager.shutdown())
    manager = started(memory, manager, clean=True)
    log = manager.logs[KEYS[0]]
    while len(log.segments) < 2:
        memory.run(log.flush())
        append(log, b"a" * 100, timestamps=[NOW + 10 * log.log_end_offset])
    assert log.recovery_point == log.bases[1]
    assert log.files.recovery_point_to_save() == 0
    memory.settle()
    assert log.segments[0].indexes_saved, "rolling alone has seen to that"
    assert log.files.recovery_point_to_save() == log.recovery_point


def test_a_saved_recovery_point_does_not_pass_epochs_that_were_not_saved(memory):
    manager = filled(memory)
    log = manager.logs[KEYS[0]]
    memory.run(log.flush())
    assert (log.recovery_point, log.files.recovery_point_to_save()) == (12, 0)
    log.files.save_epochs()
    memory.settle()
    assert log.files.recovery_point_to_save() == 12
    append(log, b"a", leader_epoch=2)
    memory.run(log.flush())
    assert (log.recovery_point, log.files.recovery_point_to_save()) == (13, 12)


names = st.text("abc.-", min_size=1, max_size=5)
files = st.builds(ClosingFiles, st.integers(0, 2**62), st.integers(0, 2**31), st.dictionaries(names, st.binary()))


@given(st.dictionaries(names, files), st.data())
def test_what_is_packed_comes_out_and_any_flipped_bit_is_found(closing, data):
    packed = pack(closing)
    assert unpack(packed) == closing
    at, bit = data.draw(st.integers(0, len(packed) - 1)), data.draw(st.integers(0, 7))
    harmed = bytearray(packed)
    harmed[at] ^= 1 << bit
    with pytest.raises(ValueError, match="closing files"):
        unpack(bytes(harmed))
    with pytest.raises(ValueError, match="closing files"):
        unpack(packed[:at])
