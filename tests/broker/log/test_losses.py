"""No loss is silent: each is said once, with partition, offsets, bytes, file and reason, and what was cut is kept."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.config import TopicConfig
from barnabas.broker.log import Isolation, Log, cuttings
from barnabas.broker.log.checkpoint import format_partition_metadata
from barnabas.broker.log.losses import Loss, Losses
from barnabas.broker.memory_disk import Faults, MemoryDisk
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from tests.broker.log.harness import NOW, PARTITION, TOPIC_ID, World, append, everything, manager_of

CONFIG = TopicConfig(segment_bytes=150, index_interval_bytes=50)


def filled(world: World, config: TopicConfig = CONFIG) -> Log:
    """Eight batches, two to a segment; the process is gone."""
    log = Log(world.disk, "t-0", PARTITION, TOPIC_ID, config)
    log.open_new(NOW)
    for number in range(8):
        append(log, b"%d" % number)
    world.settle()
    log.release()
    return log


def opened(world: World, config: TopicConfig = CONFIG, *, clean: bool = False, **noted: Any) -> Log:
    world.reopen()
    log = Log(world.disk, "t-0", PARTITION, TOPIC_ID, config, losses=Losses())
    world.run(log.recover(clean=clean, now_ms=NOW, **noted))
    return log


def change(world: World, path: str, data: bytes) -> None:
    world.disk.write_atomic(path, data)


def values(world: World, log: Log) -> list[Any]:
    return [record.value for record in everything(world, log)]


def cuts(world: World) -> list[str]:
    return [name for name in world.disk.list("t-0") if name.endswith(".cut")]


def test_a_torn_tail_is_said_and_kept(world, caplog):
    last = filled(world).segments[-1]
    path = last.path(".log")
    torn = bytes(world.disk.load(path))[:-3]
    change(world, path, torn)
    log = opened(world)
    (loss,) = log.losses.last
    good = log.active.size
    kept = f"t-0/000001.{last.base:020d}.{good}.cut"
    reason = f"cut at byte {good}, where no good batch begins"
    assert loss == Loss("t-0", 7, -1, len(torn) - good, path, reason, kept)
    assert world.disk.load(kept) == torn[good:]
    assert len([one for one in caplog.records if one.levelname == "WARNING"]) == 1
    assert "offsets 7 to unknown" in caplog.text
    assert values(world, log) == [b"%d" % number for number in range(7)]
    assert opened(world).losses.count == 0, "said once, and no file of the kept is taken for a segment"


@pytest.mark.parametrize("config", [CONFIG, TopicConfig()], ids=["segments", "one"])
def test_what_another_program_adds_to_the_end_is_cut_though_the_end_was_clean(world, config):
    """A copy of the file behind itself: readers would get records twice, at offsets that go back."""
    log = filled(world, config)
    last = log.segments[-1]
    world.reopen()
    log = Log(world.disk, "t-0", PARTITION, TOPIC_ID, config, losses=Losses())
    world.run(log.recover(clean=False, now_ms=NOW))
    world.run(log.close())
    path = last.path(".log")
    whole = bytes(world.disk.load(path))
    change(world, path, whole * 2)
    log = opened(world, config, clean=True)
    (loss,) = log.losses.last
    assert (loss.first_offset, loss.size) == (8, len(whole))
    assert bytes(world.disk.load(path)) == whole
    assert values(world, log) == [b"%d" % number for number in range(8)]


def test_what_was_cut_does_not_come_back_when_the_power_fails_later(memory):
    memory.disk = MemoryDisk(faults=Faults(lambda below: below - 1, cuts=True))
    last = filled(memory).segments[-1]
    memory.disk.sync_names("t-0")
    data = bytearray(memory.disk.load(last.path(".log")))
    data[-3] ^= 1
    change(memory, last.path(".log"), bytes(data))
    log = opened(memory, recovery_point=7)
    assert log.log_end_offset == 7
    memory.run(log.close())
    memory.disk.crash()
    assert len(memory.disk.load(last.path(".log"))) == log.active.size, "a clean end, and nothing bad behind the end"


def test_segments_behind_a_bad_batch_are_said_and_kept(world):
    log = filled(world)
    bases = log.bases
    contents = {base: world.disk.load(f"t-0/{base:020d}.log") for base in bases}
    path = f"t-0/{bases[1]:020d}.log"
    data = bytearray(contents[bases[1]])
    data[30] ^= 1
    change(world, path, bytes(data))
    log = opened(world)
    assert values(world, log) == [b"0", b"1"]
    told = [(loss.first_offset, loss.end_offset, loss.size) for loss in log.losses.last]
    sizes = [len(contents[base]) for base in bases]
    assert told == [(6, -1, sizes[3]), (4, 6, sizes[2]), (2, 4, sizes[1])], "from the end"
    kept = [world.disk.load(loss.kept) for loss in log.losses.last]
    assert kept == [contents[bases[3]], contents[bases[2]], bytes(data)]
    assert (log.losses.count, log.losses.size) == (3, sum(sizes[1:]))


@pytest.mark.parametrize("bound", ["files", "bytes"])
def test_what_is_kept_is_bounded_and_the_oldest_goes_first(memory, monkeypatch, caplog, bound):
    if bound == "files":
        monkeypatch.setattr(cuttings, "FILES_MAX", 2)
    else:
        monkeypatch.setattr(cuttings, "BYTES_MAX", 25)
    filled(memory)
    for number in range(4):
        path = "t-0/00000000000000000006.log"
        change(memory, path, memory.disk.load(path) + b"%d" % number * 10)
        assert opened(memory).losses.count == 1
    assert [name[:6] for name in cuts(memory)] == ["000003", "000004"]
    assert memory.disk.load(f"t-0/{cuts(memory)[0]}") == b"2" * 10
    assert caplog.text.count("cut off earlier") == 2


def test_what_is_larger_than_the_bound_is_said_and_not_kept(memory, monkeypatch):
    monkeypatch.setattr(cuttings, "BYTES_MAX", 5)
    filled(memory)
    path = "t-0/00000000000000000006.log"
    change(memory, path, memory.disk.load(path) + b"0123456789")
    (loss,) = opened(memory).losses.last
    assert (loss.size, loss.kept) == (10, "")
    assert "cannot be kept" in loss.reason
    assert cuts(memory) == []


def test_whole_segments_that_are_not_kept_go_no_sooner_than_any_other(memory, monkeypatch):
    """After `file.delete.delay.ms`: what a start drops is under its `.deleted` name until then."""
    monkeypatch.setattr(cuttings, "BYTES_MAX", 5)
    bases = filled(memory).bases
    path = f"t-0/{bases[1]:020d}.log"
    data = bytearray(memory.disk.load(path))
    data[30] ^= 1
    change(memory, path, bytes(data))
    later: list[str] = []
    log = Log(memory.disk, "t-0", PARTITION, TOPIC_ID, CONFIG, later.extend, Losses())
    memory.run(log.recover(clean=False, now_ms=NOW))
    assert log.bases == bases[:2]
    dropped = [f"t-0/{base:020d}.log.deleted" for base in bases[2:]]
    assert set(dropped) <= set(later)
    assert all(memory.disk.exists(name) for name in later)


def test_where_there_is_no_room_the_bytes_are_not_kept_and_the_start_goes_on(memory):
    filled(memory)
    path = "t-0/00000000000000000006.log"
    change(memory, path, memory.disk.load(path) + b"0123456789")
    memory.disk.capacity = memory.disk.used
    log = opened(memory)
    (loss,) = log.losses.last
    assert (loss.size, loss.kept) == (10, "")
    assert "no space left" in loss.reason
    assert cuts(memory) == []
    assert len(values(memory, log)) == 8


def test_a_segment_that_is_gone_is_said(world):
    filled(world)
    world.disk.remove("t-0/00000000000000000002.log")
    log = opened(world)
    told = {loss.reason.partition(":")[0]: loss[1:3] for loss in log.losses.last}
    assert told == {
        "the file is gone, and its index is here": (2, -1),
        "nothing is between two segments": (2, 4),
    }


def test_offsets_that_compaction_removed_are_no_loss(memory):
    config = TopicConfig(segment_bytes=150, index_interval_bytes=50, cleanup_policy=("compact",))
    filled(memory, config)
    for suffix in ("log", "index", "timeindex"):
        memory.disk.remove(f"t-0/00000000000000000002.{suffix}")
    assert opened(memory, config).losses.count == 0


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("name", ["high_watermark", "recovery_point", "log_start_offset"])
def test_a_log_that_ends_below_what_was_noted_is_said(memory, name, clean):
    filled(memory)
    log = opened(memory, CONFIG, clean=clean, **{name: 20})
    (loss,) = log.losses.last
    assert (loss.first_offset, loss.end_offset, loss.file) == (8, 20, "t-0")
    assert name.replace("_", " ") + " 20" in loss.reason
    assert len(values(memory, log)) == 8


@pytest.mark.parametrize("what", ["gone", "another topic's"])
def test_a_directory_that_is_gone_is_said_while_its_topic_is_there(memory, what):
    key, deleted = TopicPartition("t", 0), TopicPartition("gone", 0)
    manager = manager_of(memory)
    for one in (key, deleted):
        append(manager.create(one, TOPIC_ID, TopicConfig()), b"a", b"b")
    memory.run(manager.shutdown())
    for one in (key, deleted):
        if what == "gone":
            memory.disk.remove(str(one))
        else:
            memory.disk.write_atomic(f"{one}/partition.metadata", format_partition_metadata(b"another topic id"))
    manager = manager_of(memory)
    memory.run(manager.load(lambda name: TOPIC_ID if name == "t" else ZERO_UUID))
    assert list(manager.losses.last) == [Loss("t-0", 0, 2, 0, "t-0", f"the directory is {what}")]


def test_a_topic_whose_directory_is_gone_can_be_deleted_and_made_anew(world, caplog):
    """The partition refused everything until the next start, for there was nothing to be renamed."""
    manager = manager_of(world)
    append(manager.create(PARTITION, TOPIC_ID, TopicConfig()), b"a")
    world.settle()
    manager.unnamed.add(PARTITION)  # whose it is was never decided
    world.disk.remove("t-0")
    manager.delete(PARTITION)
    assert "t-0 was removed under the broker" in caplog.text
    assert not manager.unnamed
    log = manager.create(PARTITION, bytes(reversed(TOPIC_ID)), TopicConfig())
    assert append(log, b"b").first_offset == 0
    assert values(world, log) == [b"b"]
    world.settle()


def test_retention_that_lets_everything_go_is_said_once(memory):
    log = memory.new_log(retention_ms=1000, segment_bytes=150)
    for _ in range(5):
        append(log, b"a")
    size = log.size_bytes
    memory.run(log.retain(NOW + 500))
    assert log.losses.count == 0
    memory.run(log.retain(NOW + 1001))
    assert list(log.losses.last) == [Loss("t-0", 0, 5, size, "t-0", "retention.ms=1000 lets every record go")]
    memory.run(log.retain(NOW + 2000))
    assert log.losses.count == 1


def test_a_read_that_fails_leaves_one_line_and_is_counted(memory, caplog):
    faults = Faults()
    memory.disk = MemoryDisk(faults=faults)
    log = memory.new_log()
    append(log, b"a")
    faults.bad_reads.add("t-0/00000000000000000000.log")
    for _ in range(3):
        with pytest.raises(KafkaError) as caught:
            log.read(0, 1000, Isolation.LOG_END)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.losses.failed_reads == 3
    lines = [one.getMessage() for one in caplog.records]
    assert len(lines) == 1
    assert "t-0/00000000000000000000.log" in lines[0]


def test_the_record_is_bounded(memory):
    losses = Losses()
    for number in range(250):
        losses.report(Loss("t-0", number, number + 1, 2, "f", "r"))
    state = losses.snapshot()
    assert (state["count"], state["bytes"], len(state["last"])) == (250, 500, 100)
    assert state["last"][-1]["first_offset"] == 249
