"""A checkpoint of leader epochs that a cut has left behind: where batches are walked, they say what begins where."""

from __future__ import annotations

from barnabas.broker.config import TopicConfig
from barnabas.broker.log import AppendOrigin, Log, checkpoint
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.protocol.batch import set_place
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import BatchBuilder

WALL_MS = 1_700_000_000_000
PATH = f"t-0/{checkpoint.LEADER_EPOCH_FILE}"


def log_on(disk: MemoryDisk) -> Log:
    log = Log(disk, "t-0", TopicPartition("t", 0), b"t" * 16, TopicConfig())
    for _ in log.recover(clean=False, now_ms=WALL_MS):
        disk.deliver()
    return log


def batch() -> bytearray:
    builder = BatchBuilder(1 << 10)
    builder.try_append(WALL_MS, None, b"v")
    return bytearray(builder.build())


def synced(disk: MemoryDisk, log: Log) -> None:
    for _ in log.flush():
        disk.deliver()


def test_an_older_epoch_in_the_place_of_a_newer_one_is_learned_after_a_power_failure() -> None:
    """A leader of epoch 2 is cut to nothing, and follows with records of epoch 1; two cuts in a row write once."""
    disk = MemoryDisk()
    log = log_on(disk)
    log.append_as_leader(batch(), 2, now_ms=WALL_MS, origin=AppendOrigin.COORDINATOR)
    log.append_as_leader(batch(), 4, now_ms=WALL_MS, origin=AppendOrigin.COORDINATOR)
    synced(disk, log)
    log.truncate_to(1)
    log.truncate_to(0)
    older = batch()
    set_place(older, 0, 0, len(older) - 12, 1)
    log.append_as_follower(older, now_ms=WALL_MS)
    synced(disk, log)
    assert log.epochs.entries == [(1, 0)]
    disk.crash()
    assert b"2 0" in disk.load(PATH), "the case that is meant: what was noted down is of the first cut"
    assert log_on(disk).epochs.entries == [(1, 0)]
