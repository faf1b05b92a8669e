"""Damage to the metadata: what is cut, what is refused and in which words, and what is never given out twice."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.cluster.judgement import DIRECTORY
from barnabas.broker.cluster.ledger import LEDGER_FILE, format_ledger
from barnabas.broker.cluster.records import FeatureLevel
from barnabas.broker.cluster.repair import Plan, plan_repair
from barnabas.broker.jobs import Job
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.node import startup
from barnabas.protocol.batch import batches, read_header
from barnabas.protocol.requests.init_producer_id import InitProducerIdRequest
from tests.broker.node.world import World, batch

LOG = f"{DIRECTORY}/{0:020d}.log"
REMEDY = "barnabas log repair"
Damage = Callable[[bytes], bytes]


def used_disk(*, clean: bool = True) -> MemoryDisk:
    """A directory with topics a to d, each with a record; `clean`: it was stopped."""
    world = World()
    for name in "abcd":
        world.create(name)
        world.put(batch(b"x"), name)
    if clean:
        return world.stop()
    world.disk.life += 1  # the process is gone, all that it wrote is there
    return world.disk


def put(disk: MemoryDisk, path: str, data: bytes) -> None:
    disk.write_atomic(path, data)


def refused(disk: MemoryDisk) -> str:
    """Start; the sentence it is refused with."""
    before = disk.list("")
    world = World(disk=disk, start=False)
    world.core.start(world.now_ms)
    world.settle()
    assert not world.core.ready
    assert world.core.fault is not None
    assert not [name for name in disk.list("") if name.endswith(("-stray", "-delete"))]
    assert disk.list("") == before
    return str(world.core.fault)


def places(data: bytes) -> list[tuple[int, int, int]]:
    """Position, size and first record of each batch."""
    return [(position, size, read_header(data, position).base_offset) for position, size in batches(data)]


def flipped(data: bytes, at: int, bit: int = 3) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1 << bit
    return bytes(changed)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("which", [0, 3, -2, -1])
def test_one_flipped_bit_anywhere_in_a_batch_is_refused_and_told(which: int, clean: bool) -> None:
    """Whatever lies outside of the sum included: base offset, length, leader epoch, magic."""
    disk = used_disk(clean=clean)
    data = disk.load(LOG)
    position, size, offset = places(data)[which]
    for at in [*range(21), 23, 40, 60, size // 2, size - 1]:
        for bit in (0, 6):
            if which == -1 and (at == 15 or (at, bit) == (14, 0)):
                continue  # an epoch that rises a little in the very last batch is one that a start could have given
            put(disk, LOG, flipped(data, position + at, bit))
            said = refused(disk)
            assert LOG in said, at
            assert f"at byte {position} (record {offset})" in said or 12 <= at < 16, (at, said)
            assert REMEDY in said
            assert disk.load(LOG) == flipped(data, position + at, bit), "and nothing was changed"
    put(disk, LOG, data)
    assert World(disk=disk).offsets(-1, "d").offset == 1


def said_cut(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if "torn batch, which was never announced" in one.getMessage()]


@pytest.mark.parametrize("torn", ["cut short", "all zeros", "its end is zeros", "a block of it is zeros"])
def test_a_torn_tail_is_cut_said_and_kept(torn: str, caplog: pytest.LogCaptureFixture) -> None:
    disk = used_disk(clean=False)
    whole = disk.load(LOG)
    world = World(disk=disk)
    world.create("large", 60)
    world.disk.life += 1
    data = disk.load(LOG)
    position, size, _ = places(data)[-1]
    assert size > 2048
    edge = position - position % 512 + 1024
    ledger = disk.load(LEDGER_FILE)
    for kept in (1, 11, 12, 20, 60, 61, size // 2, size - 1) if torn == "cut short" else (0,):
        caplog.clear()
        damaged = {
            "cut short": data[: position + kept],
            "all zeros": data[:position] + bytes(size),
            "its end is zeros": data[:edge] + bytes(len(data) - edge),
            "a block of it is zeros": data[:edge] + bytes(512) + data[edge + 512 :],
        }[torn]
        assert damaged != data
        put(disk, LOG, damaged)
        put(disk, LEDGER_FILE, ledger)
        for directory in disk.list(""):
            if directory.startswith("large-"):
                disk.remove(directory)  # no log is made before the commit
        again = World(disk=disk)
        assert "large" not in again.core.image.topics
        assert sorted(again.core.image.topics) == ["a", "b", "c", "d"]
        (said,) = said_cut(caplog)
        assert f"{LOG}, byte {position}" in said
        (name,) = [f"{DIRECTORY}/{one}" for one in disk.list(DIRECTORY) if one.endswith(f".{position}.cut")]
        assert again.core.logs.losses.last[0].kept == name
        assert disk.load(name) == damaged[position:]
        assert disk.load(LOG).startswith(whole)
        disk.remove(name)


@pytest.mark.parametrize("lost", [1, 20, "a batch", "all", "the file", "the directory"])
def test_a_log_that_ends_before_what_was_announced_is_refused(lost: int | str) -> None:
    """After a clean stop a tail is not torn, however it looks."""
    disk = used_disk()
    data = disk.load(LOG)
    position, _, offset = places(data)[-1]
    if isinstance(lost, int):
        put(disk, LOG, data[:-lost])
    elif lost == "a batch":
        put(disk, LOG, data[:position])
    elif lost == "all":
        put(disk, LOG, b"")
    else:
        disk.remove(LOG if lost == "the file" else DIRECTORY)
    said = refused(disk)
    end = read_header(data, position).next_offset
    if isinstance(lost, int):
        assert f"record {offset}" in said
    elif lost == "a batch":
        assert f"ends with record {offset - 1}, and more was announced: records {offset} to {end - 1}" in said.replace(
            f"record {offset} cannot", f"records {offset} to {offset} cannot"
        )
    else:
        assert f"the metadata log {DIRECTORY} is {'empty' if lost == 'all' else 'missing'}" in said
        assert f"records 0 to {end - 1}" in said
    assert REMEDY in said
    put(disk, LOG, data) if disk.exists(DIRECTORY) else None


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("what", ["empty", "missing"])
def test_a_directory_of_an_earlier_release_that_lost_its_metadata_is_told_from_a_first_start(
    what: str, clean: bool
) -> None:
    disk = used_disk(clean=clean)
    disk.remove(LEDGER_FILE)
    data = disk.load(LOG)
    if what == "empty":
        put(disk, LOG, b"")
    else:
        disk.remove(DIRECTORY)
    assert f"the metadata log {DIRECTORY} is {what} in a data directory that was in use" in refused(disk)
    if what == "empty":
        put(disk, LOG, data)
        World(disk=disk)
        assert disk.exists(LEDGER_FILE), "and one that only lacks the ledger is completed"


def test_a_gap_between_two_files_of_the_metadata_is_refused() -> None:
    disk = used_disk()
    data = disk.load(LOG)
    (_, _, third), (position, _, fourth) = places(data)[2:4]
    put(disk, f"{DIRECTORY}/{fourth:020d}.log", data[position:])
    put(disk, LOG, data[: places(data)[2][0]])
    said = refused(disk)
    assert f"{DIRECTORY}/{fourth:020d}.log is broken at byte 0 (record {third})" in said
    put(disk, f"{DIRECTORY}/{fourth:020d}.log", data[position:])
    disk.remove(LOG)
    assert f"records 0 to {fourth - 1} before it cannot be found" in refused(disk)


@pytest.mark.parametrize("ledger", [True, False])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_a_newest_file_that_is_gone_while_its_index_is_here_is_refused(suffix: str, ledger: bool) -> None:
    """It was rolled to after the ledger was written: nothing else tells that there was more."""
    disk = used_disk(clean=False)
    data = disk.load(LOG)
    position, _, offset = places(data)[-1]
    put(disk, LOG, data[:position])
    for one in ("index", "timeindex"):
        put(disk, f"{DIRECTORY}/{offset:020d}.{one}", b"")
    if not ledger:
        disk.remove(LEDGER_FILE)
    disk.remove(f"{DIRECTORY}/{offset:020d}.{'index' if suffix == 'timeindex' else 'timeindex'}")
    said = refused(disk)
    assert f"{DIRECTORY}/{offset:020d}.log is gone, and its index is here: record {offset} and what followed" in said
    assert REMEDY in said
    put(disk, f"{DIRECTORY}/{offset:020d}.log", data[position:])
    assert World(disk=disk).offsets(-1, "d").offset == 1, "put back, it is whole"


def test_an_index_whose_file_is_being_removed_or_lies_below_a_later_one_is_no_loss() -> None:
    disk = used_disk()
    put(disk, f"{DIRECTORY}/{10**6:020d}.index", b"")
    put(disk, f"{DIRECTORY}/{10**6:020d}.log.deleted", b"")
    World(disk=disk).stop()
    disk = used_disk()
    _, path = snapshot_of(disk)
    end = int(path.rpartition("/")[2][:20])
    data = disk.load(LOG)
    position = next(position for position, _, offset in places(data) if offset == end)
    put(disk, f"{DIRECTORY}/{end:020d}.log", data[position:])
    disk.remove(LOG)  # a kill between the names: the snapshot has what the segment held
    World(disk=disk)


def snapshot_of(disk: MemoryDisk) -> tuple[World, str]:
    """A start on `disk`, and the snapshot that it wrote; a record came after that, then it was stopped."""
    world = World(disk=disk)
    world.core.jobs.add("metadata snapshot", world.core.metadata.snapshot(world.core.image))
    world.settle()
    (name,) = [name for name in disk.list(DIRECTORY) if name.endswith(".checkpoint")]
    world.producer_id()
    world.stop()
    return world, f"{DIRECTORY}/{name}"


def test_a_broken_snapshot_is_refused_and_set_aside_costs_nothing_while_the_log_is_there() -> None:
    disk = used_disk()
    _, path = snapshot_of(disk)
    good = disk.load(path)
    for damaged in (flipped(good, len(good) - 1), good[:-1], b""):
        put(disk, path, damaged)
        said = refused(disk)
        assert f"{path} is broken at byte 0" in said
        assert "nothing is lost, for the log still holds all records" in said
        assert "move this file out of the data directory" in said
    put(disk, path, good + b"\x9f" * 100)  # no batch can have this length
    assert f"{path} is broken at byte {len(good)}, and nothing is lost" in refused(disk)
    disk.remove(path)
    assert World(disk=disk).offsets(-1, "d").offset == 1


def test_a_snapshot_that_is_gone_or_broken_with_the_log_below_it_is_refused() -> None:
    disk = used_disk()
    _, path = snapshot_of(disk)
    end = int(path.rpartition("/")[2][:20])
    data = disk.load(LOG)
    position = next(position for position, _, offset in places(data) if offset == end)
    put(disk, f"{DIRECTORY}/{end:020d}.log", data[position:])
    disk.remove(LOG)
    World(disk=disk).stop()
    good = disk.load(path)
    put(disk, path, flipped(good, 100))
    said = refused(disk)
    assert f"{path} is broken at byte 0" in said
    assert f"records below {end}" in said
    assert REMEDY in said
    disk.remove(path)
    assert f"records 0 to {end - 1} before it cannot be found" in refused(disk)


@pytest.mark.parametrize("harm", [lambda data: flipped(data, 20), lambda data: data[:9], lambda data: b"", None])
def test_a_ledger_that_is_lost_is_written_anew(harm: Damage | None, caplog: pytest.LogCaptureFixture) -> None:
    disk = used_disk()
    good = disk.load(LEDGER_FILE)
    if harm is None:
        disk.remove(LEDGER_FILE)
    else:
        put(disk, LEDGER_FILE, harm(good))
    world = World(disk=disk)
    assert world.offsets(-1, "d").offset == 1
    assert (f"{LEDGER_FILE} is damaged" in caplog.text) == (harm is not None)
    world.stop()
    assert disk.load(LEDGER_FILE)[:20] == good[:20]


def test_a_ledger_that_the_device_does_not_give_back_is_written_anew(caplog: pytest.LogCaptureFixture) -> None:
    disk = used_disk()
    disk.faults.bad_reads = {LEDGER_FILE}
    world = World(disk=disk)
    assert world.offsets(-1, "d").offset == 1
    world.stop()
    disk.faults.bad_reads = set()
    (line,) = [record.getMessage() for record in caplog.records if LEDGER_FILE in record.getMessage()]
    assert os.strerror(errno.EIO) in line
    assert b"sum=" in disk.load(LEDGER_FILE)


def test_a_first_start_that_is_killed_at_any_step_starts_again() -> None:
    """Between any two steps of its jobs and completions of its disk; power loss and kill alike."""
    kinds = set()
    for power in (False, True):
        for steps in range(400):
            disk = MemoryDisk()
            world = World(disk=disk, start=False, barnabas_topics="t:2")
            world.core.start(world.now_ms)
            for _ in range(steps):
                if not world.core.run_job_step(world.now_ms):
                    disk.deliver()
                    world.core.wake(world.now_ms)
            done = world.core.ready
            if power:
                disk.crash()
            disk.life += 1
            disk._pending.clear()
            kinds.add(tuple(disk.list("")))
            again = World(disk=disk, barnabas_topics="t:2")
            assert again.put(batch(b"x"), partition=1).error_code == 0
            again.stop()
            if done:
                break
        else:
            raise AssertionError("the start never went through")
    assert len(kinds) >= 5, kinds


def test_another_cluster_id_is_refused_and_a_directory_without_one_is_completed() -> None:
    disk = used_disk()
    good = disk.load("meta.properties")
    world = World(disk=disk)
    mine = world.core.services.cluster_id
    assert world.core.image.cluster_id == mine
    world.stop()
    for other in (b"AAAAAAAAAAAAAAAAAAAAAA", b""):
        put(disk, "meta.properties", good.replace(mine.encode(), other))
        said = refused(disk)
        assert f"metadata is that of cluster {mine}" in said
        assert f"write cluster.id={mine} back" in said
    put(disk, "meta.properties", good)
    assert World(disk=disk).core.services.cluster_id == mine


def test_the_cluster_id_comes_into_metadata_that_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(startup, "Cluster", lambda cluster_id: FeatureLevel("group.version", 1))
        disk = used_disk()
    world = World(disk=disk)
    assert world.core.image.cluster_id == world.core.services.cluster_id != ""
    _, path = snapshot_of(world.stop())
    for suffix in (".log", ".index", ".timeindex"):  # what the snapshot holds is enough
        disk.remove(LOG.removesuffix(".log") + suffix)
    end = int(path.rpartition("/")[2][:20])
    put(disk, LEDGER_FILE, format_ledger(end, 0))
    assert World(disk=disk).core.image.cluster_id == world.core.services.cluster_id


@pytest.mark.parametrize("ledger", ["there", "gone", "damaged"])
def test_a_producer_id_is_never_given_out_twice_whatever_became_of_its_record(ledger: str) -> None:
    """The block is noted down in a second place before an id of it is given out, and a repair does not lower that.

    Without that place, each record that is lost counts as a block.
    """
    world = World()
    world.create()
    first = world.producer_id()
    assert world.put(batch(b"a", pid=first, epoch=0, sequence=0)).error_code == 0
    disk = world.stop()
    data = disk.load(LOG)
    position = next(
        position
        for position, _ in batches(data)
        if b"\x93\x09" in data[position : position + read_header(data, position).size]
    )
    put(disk, LOG, flipped(data, position + 70))
    if ledger == "gone":
        disk.remove(LEDGER_FILE)
    elif ledger == "damaged":
        put(disk, LEDGER_FILE, flipped(disk.load(LEDGER_FILE), 20))
    assert REMEDY in refused(disk)
    repair(disk)
    again = World(disk=disk)
    second = again.producer_id()
    assert second > first
    again.create("u")
    assert again.put(batch(b"b", pid=second, epoch=0, sequence=0), "u").base_offset == 0
    assert again.put(batch(b"c", pid=2**62, epoch=0, sequence=0), "u").base_offset == 1
    again.restart()
    third = again.producer_id()
    assert second < third < 2**20, "an id that a stranger made up does not count"


def test_no_producer_id_is_given_out_before_it_is_noted_down() -> None:
    world = World()
    asked = world.send(InitProducerIdRequest(None), 4)
    steps = 0
    while not asked.done:
        kept = world.disk.load(LEDGER_FILE)
        world.core.run_job_step(world.now_ms)
        world.disk.deliver()
        world.core.wake(world.now_ms)
        steps += 1
        assert steps < 50
    assert asked.response.error_code == 0
    assert f"producer.ids.end={asked.response.producer_id + 1000}".encode() in world.disk.load(LEDGER_FILE)
    assert b"producer.ids.end=0" in kept or b"producer.ids.end=1000" in kept


def repair(disk: MemoryDisk) -> Plan:
    plan: Plan = drive(disk, plan_repair(disk))
    assert plan.problems
    drive(disk, plan.carry_out())
    after: Plan = drive(disk, plan_repair(disk))
    assert not after.problems
    return plan


def drive(disk: MemoryDisk, job: Job[Any]) -> Any:
    while True:
        try:
            token = next(job)
        except StopIteration as end:
            return end.value
        if token is not None:
            disk.deliver()


def test_a_repair_goes_on_from_whatever_is_left_and_throws_nothing_away() -> None:
    reference = used_disk()
    _, path = snapshot_of(reference)
    end = int(path.rpartition("/")[2][:20])
    data = reference.load(LOG)
    spots = places(data)
    snapshot = reference.load(path)
    middle = spots[4][0] + 70
    above = f"{DIRECTORY}/{end:020d}.log"
    above_data = data[next(position for position, _, offset in spots if offset == end) :]
    cases: list[dict[str, bytes | None]] = [
        {path: None, LOG: flipped(data, middle)},
        {path: None, LOG: flipped(data, 70)},
        {path: None, LOG: b""},
        {path: None, LOG: None},
        {LOG: None},
        {LOG: data[: spots[3][0]]},
        {path: flipped(snapshot, 70)},
        {path: flipped(snapshot, 70), LOG: None, above: above_data},
        {path: None, LOG: None, above: above_data},
        {path: flipped(snapshot, 70), LOG: flipped(data, middle)},
        {LEDGER_FILE: None, path: None, LOG: flipped(data, middle)},
        {path: None, LOG: data[: spots[4][0]], f"{DIRECTORY}/{spots[4][2]:020d}.index": b""},
        {path: None, LOG: None, above: flipped(above_data, 70), above.replace(".log", ".index"): b""},
    ]
    for number, case in enumerate(cases):
        disk = used_disk()
        snapshot_of(disk)
        for name, content in case.items():
            if content is None:
                disk.remove(name)
            else:
                put(disk, name, content)
        refused(disk)
        plan = repair(disk)
        assert plan.steps, number
        for name, content in case.items():
            kept = [disk.load(f"{DIRECTORY}/{one}") for one in disk.list(DIRECTORY)]
            assert not content or name == LEDGER_FILE or any(content.endswith(one) for one in kept if one), (
                number,
                name,
            )
        world = World(disk=disk)
        lost = set("abcd") - set(world.core.image.topics)
        assert lost == set(plan.topics_lost), number
        strays = {name[0] for name in disk.list("") if name.endswith("-stray")}
        assert strays == lost, number
        for topic in "abcd":
            if topic in lost:
                world.create(topic)
            assert world.put(batch(b"y"), topic).base_offset == (0 if topic in lost else 1), number
        world.restart()
