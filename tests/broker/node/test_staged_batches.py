"""Batches of more bytes than one step writes: written aside in pieces, and in the log with one change of name."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from barnabas.broker.log.log import Log
from barnabas.broker.log.look import LARGE
from barnabas.broker.log.staging import PIECE, StagedSegment, abandon
from barnabas.broker.log.types import Isolation
from barnabas.broker.memory_disk.file import MemoryFile
from barnabas.protocol.batch import read_header
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from tests.broker.node.test_large_batches_meanwhile import Held, part, small
from tests.broker.node.world import Answer, World, batch

MAX = 20 * 1024 * 1024
SIZE = LARGE + PIECE


def large(**more: Any) -> bytearray:
    return batch(b"v" * SIZE, keys=[b"k"], **more)


@pytest.fixture
def world() -> World:
    world = World()
    world.create("t", 2, max_message_bytes=MAX)
    world.create("compact", 1, max_message_bytes=MAX, cleanup_policy="compact")
    world.create("stamped", 1, max_message_bytes=MAX, message_timestamp_type="LogAppendTime")
    return world


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    real = MemoryFile.append

    def counted(self: Any, buffers: Any) -> None:
        found.append(sum(map(len, buffers)))
        real(self, buffers)

    monkeypatch.setattr(MemoryFile, "append", counted)
    return found


def step(world: World) -> None:
    world.core.run_job_step(world.now_ms)
    world.disk.deliver()
    world.core.wake(world.now_ms)


def log_of(world: World, topic: str = "t") -> Log:
    return world.core.logs.logs[TopicPartition(topic, 0)]


def segments(world: World, topic: str = "t") -> list[str]:
    """Names of segments in its directory, and of what may become one."""
    found = world.disk.list(log_of(world, topic).directory)
    return [name for name in found if name.endswith((".log", ".cleaned", ".swap"))]


def begun(world: World, **more: Any) -> Answer:
    """A large batch that is summed, and being written."""
    sent = world.produce({("t", 0): large(**more)})
    for _ in range(10):
        if any("large" in name for name in segments(world)):
            break
        step(world)
    assert any("large" in name for name in segments(world))
    assert not sent.done
    return sent


def code(sent: Answer) -> tuple[int, int]:
    return part(sent).error_code, part(sent).base_offset


@pytest.mark.parametrize("topic", ["t", "compact", "stamped"])
@pytest.mark.parametrize("before", [0, 1])
def test_no_step_writes_a_large_batch(world: World, written: list[int], topic: str, before: int) -> None:
    """100 MB were one step of 230 ms."""
    for _ in range(before):
        world.produce({(topic, 0): batch(b"v", keys=[b"k"])})
        world.settle()
    written.clear()
    sent = world.produce({(topic, 0): large()})
    steps = [sum(written)]
    while not sent.done:
        written.clear()
        step(world)
        steps.append(sum(written))
    assert max(steps) <= PIECE
    assert sum(steps) > SIZE
    assert code(sent) == (0, before)
    later = world.produce({(topic, 0): batch(b"w", keys=[b"k"])})
    world.settle()
    assert code(later) == (0, before + 1)
    bases = sorted({0, before})
    assert segments(world, topic) == [f"{base:020d}.log" for base in bases]
    log = log_of(world, topic)
    assert log.bases == bases
    assert log.active.size == log.active.file.size > SIZE
    found = [len(log.read(offset, MAX, Isolation.LOG_END).records) for offset in (before, before + 1)]
    assert sum(found) == log.active.size, "the large one at one place, and the other behind it"
    world.restart(clean=not before)
    assert log_of(world, topic).log_end_offset == before + 2


@pytest.mark.parametrize("topic", ["t", "compact", "stamped"])
def test_a_large_batch_is_summed_in_a_thread(world: World, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 MB were 8 to 15 ms of the loop, and twice that where nothing else kept a request from the short way."""
    held = Held(world.disk, monkeypatch)
    sent = world.produce({(topic, 0): large()})
    for _ in range(5):
        step(world)
    assert len(held.works) == 1
    assert not any("large" in name for name in segments(world, topic))
    monkeypatch.undo()
    held.release()
    world.settle()
    assert code(sent) == (0, 0)


def test_a_large_batch_of_another_sum_is_refused_and_nothing_written(world: World, written: list[int]) -> None:
    damaged = large()
    damaged[-1] ^= 1
    sent = world.produce({("t", 0): damaged})
    behind = world.produce({("t", 0): small()})
    world.settle()
    assert code(sent) == (ErrorCode.CORRUPT_MESSAGE, -1)
    assert "the checksum of a batch sent to t-0 does not fit it" in str(part(sent).error_message)
    assert code(behind) == (0, 0)
    assert sum(written) < PIECE


def test_readers_see_the_end_as_it_was(world: World) -> None:
    world.put(small())
    sent = begun(world)
    log = log_of(world)
    assert (log.log_end_offset, log.high_watermark, log.size_bytes) == (1, 1, log.active.file.size)
    assert world.put(batch(b"v"), partition=1).error_code == 0
    world.settle()
    assert code(sent) == (0, 1)


def test_two_at_one_end_have_files_of_their_own(world: World) -> None:
    """Who has led and who follows now may both be at it; one of them is given up."""
    log = log_of(world)
    one, other = (StagedSegment(world.disk, log.directory, 0, 0, epoch) for epoch in (1, 2))
    assert one.file.path != other.file.path
    abandon(log, one)
    assert segments(world) == [f"{0:020d}.1.large.cleaned", f"{0:020d}.log"]
    again = StagedSegment(world.disk, log.directory, 0, 0, 3)
    assert again.file.path.endswith(f"{0:020d}.0.large.cleaned")


def test_who_comes_meanwhile_is_behind_it(world: World) -> None:
    sent = begun(world, pid=7, epoch=0, sequence=0)
    behind = [world.produce({("t", 0): small(pid=7, epoch=0, sequence=number)}) for number in (1, 2)]
    again = world.produce({("t", 0): large(pid=7, epoch=0, sequence=0)})
    assert not any(one.done for one in behind)
    world.settle()
    assert [code(one) for one in (sent, *behind, again)] == [(0, 0), (0, 1), (0, 2), (0, 0)]
    assert log_of(world).log_end_offset == 3
    assert segments(world) == [f"{0:020d}.log"]
    assert world.core.replicas.shared.late == {}


@pytest.mark.parametrize("steps", range(6))
def test_a_disk_that_is_full_in_the_middle_leaves_the_log_as_it_was(world: World, steps: int) -> None:
    world.put(small())
    before = segments(world)
    world.disk.capacity = world.disk.used + steps * PIECE
    sent = world.produce({("t", 0): large()})
    world.settle()
    assert code(sent) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert (log_of(world).log_end_offset, log_of(world).failed, segments(world)) == (1, None, before)
    world.disk.capacity = None
    assert world.put(large()).base_offset == 1
    assert world.put(small()).base_offset == 2


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("failing", [1, 2, 3])
def test_names_that_cannot_be_changed_are_put_back(
    world: World, before: int, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(before):
        world.put(small())
    sent = begun(world)
    done: list[str] = []
    real = world.disk.rename

    def rename(old: str, new: str) -> None:
        done.append(new)
        if len(done) == failing:
            raise OSError(errno.EIO, "no")
        real(old, new)

    monkeypatch.setattr(world.disk, "rename", rename)
    world.settle()
    expected = 0 if before and failing > 1 else ErrorCode.KAFKA_STORAGE_ERROR
    assert code(sent)[0] == expected
    log = log_of(world)
    assert (log.log_end_offset, log.failed) == (before + (not expected), None)
    assert world.put(small()).base_offset == log.log_end_offset - 1
    world.restart(clean=False)
    assert log_of(world).log_end_offset == before + 1 + (not expected)
    assert not any("large" in name for name in segments(world))


@pytest.mark.parametrize("kept", [0, 1, 2])
@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("steps", range(1, 12))
def test_a_kill_at_any_step_loses_nothing_else(world: World, steps: int, before: int, kept: int) -> None:
    """Nothing, half or all is left of what was not synced."""
    for _ in range(before):
        world.put(small())
        log_of(world).start_flush()
        world.settle()
    sent = world.produce({("t", 0): large()})
    for _ in range(steps):
        step(world)
    world.restart(clean=False, keep=lambda path, size: size * kept // 2)
    log = log_of(world)
    assert log.log_end_offset in (before, before + (sent.done or kept == 2))
    assert not any("large" in name or "swap" in name for name in segments(world))
    assert world.put(small()).base_offset == log.log_end_offset - 1


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("kept", [0, 1, 2])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_kill_between_two_names_leaves_a_segment(
    world: World, at: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty segment makes room for it: there is one of that base at any time, whatever comes before its end."""
    world.put(small())
    log_of(world).roll(world.wall_ms)
    log_of(world).start_flush()
    world.settle()
    begun(world)
    left = [at]
    real = world.disk.rename

    def rename(old: str, new: str) -> None:
        if not left[0]:
            raise Killed
        left[0] -= 1
        real(old, new)

    monkeypatch.setattr(world.disk, "rename", rename)
    with pytest.raises(Killed):
        world.settle()
    found = segments(world)
    assert f"{1:020d}.log" in found or f"{1:020d}.log.swap" in found
    monkeypatch.undo()
    world.restart(clean=False, keep=lambda path, size: size * kept // 2)
    log = log_of(world)
    assert log.log_end_offset == 1 + (kept == 2 and at > 0)
    assert segments(world) == [f"{0:020d}.log", f"{1:020d}.log"]
    assert world.put(small()).base_offset == log.log_end_offset - 1


@pytest.mark.parametrize("change", ["epoch", "end", "cut"])
def test_what_changed_meanwhile_counts(world: World, written: list[int], change: str) -> None:
    """Another epoch of the same leader, another end: then it is written where the log ends now, in steps as before."""
    world.put(small())
    sent = begun(world)
    partition = world.core.replicas.partition(TopicPartition("t", 0))
    assert partition is not None
    log = partition.log
    if change == "epoch":
        partition.leader_epoch += 1
    elif change == "end":
        log.append_as_leader(small(), partition.leader_epoch, world.wall_ms)
    else:
        log.truncate_fully_and_start_at(0)
    end = log.log_end_offset
    world.settle()
    assert code(sent) == (0, end)
    assert log.latest_epoch == partition.leader_epoch
    read = log.read(end, MAX, Isolation.LOG_END).records
    header = read_header(bytearray(read))
    assert (header.base_offset, header.leader_epoch) == (end, partition.leader_epoch)
    assert max(written) <= PIECE
    assert not any("large" in name for name in segments(world))
    world.restart(clean=False)
    assert log_of(world).log_end_offset == end + 1


def test_who_leads_no_longer_appends_nothing(world: World) -> None:
    world.put(small())
    sent = begun(world)
    partition = world.core.replicas.partition(TopicPartition("t", 0))
    assert partition is not None
    partition.leader_id = 2
    world.settle()
    assert code(sent) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert log_of(world).log_end_offset == 1
    assert segments(world) == [f"{0:020d}.log"]


@pytest.mark.parametrize("anew", [False, True])
def test_a_topic_that_goes_meanwhile_is_unknown(world: World, anew: bool) -> None:
    sent = begun(world)
    world.delete("t")
    if anew:
        world.create("t", 1, max_message_bytes=MAX)
    world.settle()
    assert code(sent)[0] in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if anew:
        assert world.put(large()).base_offset == 0
        assert segments(world) == [f"{0:020d}.log"]


def test_a_log_that_was_cut_to_nothing_goes_on_in_its_segment(world: World) -> None:
    assert world.put(large()).base_offset == 0
    log = log_of(world)
    assert isinstance(log.active, StagedSegment)
    log.active.truncate(0, 0)
    assert log.active.append(b"abc", 3, 0, 0, 4096) == 0
    assert log.active.size == log.active.file.size == 3


def test_more_than_a_segment_takes_is_refused_before(world: World, written: list[int]) -> None:
    world.create("small", 1, max_message_bytes=MAX, segment_bytes=LARGE)
    written.clear()
    assert world.put(large(), "small").error_code == ErrorCode.RECORD_LIST_TOO_LARGE
    assert not written


def test_a_stop_in_the_middle_leaves_nothing_of_it(world: World) -> None:
    world.put(small())
    begun(world)
    world.restart()
    assert log_of(world).log_end_offset == 1
    assert segments(world) == [f"{0:020d}.log"]
    assert world.put(large()).base_offset == 1


@pytest.mark.parametrize("before", [0, 1])
def test_a_sync_that_is_asked_for_holds_all_of_it(world: World, before: int) -> None:
    world.create("sure", 1, max_message_bytes=MAX, flush_messages=1)
    for _ in range(before):
        world.put(small(), "sure")
    assert world.put(large(), "sure").error_code == 0
    world.restart(clean=False, keep=lambda path, size: 0)
    assert log_of(world, "sure").log_end_offset == before + 1
