"""Directories that are set aside, and those that cannot be: one bad directory keeps nothing else from serving."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.broker.log.names import free_name
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from tests.broker.node.world import World, batch

LONG = "x" * 249
"""As long as a topic's name may be."""
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


class DiskWithFaults(MemoryDisk):
    """Fails what `refused` names: (call, path)."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[tuple[str, str]] = set()
        self.code = errno.EIO

    def _judge(self, call: str, path: str) -> None:
        for failing, inside in self.refused:
            if call == failing and (path == inside or path.startswith(f"{inside}/")):
                raise OSError(self.code, os.strerror(self.code).lower(), path)

    def open(self, path: str, *, create: bool = False) -> Any:
        self._judge("open", path)
        return super().open(path, create=create)

    def names(self, path: str) -> Iterator[str]:
        self._judge("list", path)
        return super().names(path)

    def rename(self, old: str, new: str) -> None:
        self._judge("rename", old)
        if len(new.encode()) > 255:
            raise OSError(errno.ENAMETOOLONG, "File name too long", new)
        super().rename(old, new)


def files_of(disk: MemoryDisk, directory: str) -> dict[str, bytes]:
    return {name: disk.load(f"{directory}/{name}") for name in MemoryDisk.names(disk, directory)}


def test_names_hold_partition_and_id_in_full_and_are_bounded_in_bytes() -> None:
    disk = MemoryDisk()
    topic_id = bytes(range(16))
    for topic in (LONG, "ü" * 200, "t"):
        names = []
        for suffix in ("-stray", "-delete"):
            for _ in range(3):
                name = free_name(disk, TopicPartition(topic, 99_999), topic_id, suffix)
                assert len(name.encode()) <= 255
                assert f"-99999.{topic_id.hex()}" in name
                assert name.endswith(suffix)
                disk.make_dir(name)
                names.append(name)
        assert len(set(names)) == 6, "what was set aside before is never written over"


@pytest.mark.parametrize("name", [LONG, "t"])
def test_a_deleted_topic_of_the_longest_name_keeps_no_start_away(name: str) -> None:
    """Its deletion was committed, and the broker killed before the directories were renamed."""
    disk = DiskWithFaults()
    world = World(disk=disk)
    world.create("other")
    world.put(batch(b"y"), "other")
    world.create(name)
    world.put(batch(b"x"), name)
    kept = files_of(disk, f"{name}-0")
    topic_id = world.core.image.topics[name].topic_id
    disk.refused = {("rename", f"{name}-0")}
    assert world.delete(name) == 0
    disk.refused = set()
    again = World(disk=disk)
    (stray,) = [entry for entry in disk.list("") if entry.endswith("-stray")]
    assert topic_id.hex() in stray
    assert kept.items() <= files_of(disk, stray).items()
    assert again.offsets(-1, "other").offset == 1
    again.create(name)
    assert again.put(batch(b"new"), name).base_offset == 0


def faults_said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "left as it is" in record.getMessage()]


@pytest.mark.parametrize("call", ["open", "list", "rename"])
def test_a_directory_that_cannot_be_used_is_reported_and_left_as_it_is(
    call: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even a topic of that name that is made anew gets a log in its place."""
    disk = DiskWithFaults()
    world = World(disk=disk)
    for name in ("bad", "other"):
        world.create(name)
        world.put(batch(b"x"), name)
    world.stop()
    kept = files_of(disk, "bad-0")
    if call == "rename":  # that of a topic which is no more
        disk.rename("bad-0", "gone-0")
    bad = "gone" if call == "rename" else "bad"
    disk.refused = {(call, f"{bad}-0")}
    again = World(disk=disk)
    (said,) = faults_said(caplog)
    assert f"{bad}-0 cannot be used" in said
    assert "input/output error" in said
    assert "move it out of the data directory" in said
    if call == "rename":
        again.create("gone")
    assert again.put(batch(b"y"), bad).error_code == STORAGE_ERROR
    assert again.offsets(-1, bad).error_code == STORAGE_ERROR
    fetched = again.fetch({(bad, 0): 0}).response.responses[0].partitions[0]
    assert fetched.error_code == STORAGE_ERROR
    assert again.put(batch(b"y"), "other").base_offset == 1
    again.delete(bad)
    assert files_of(disk, f"{bad}-0") == kept
    again.create(bad)
    assert again.put(batch(b"y"), bad).error_code == STORAGE_ERROR
    assert len(faults_said(caplog)) == 1
    again.stop()
    assert files_of(disk, f"{bad}-0") == kept
    disk.refused = set()
    mended = World(disk=disk)
    (stray,) = [name for name in disk.list("") if name.endswith("-stray")]
    assert kept.items() <= files_of(disk, stray).items()
    assert mended.put(batch(b"z"), bad).base_offset == 0


def test_a_deleted_log_that_cannot_be_renamed_is_not_written_over(caplog: pytest.LogCaptureFixture) -> None:
    disk = DiskWithFaults()
    world = World(disk=disk)
    world.create()
    world.put(batch(b"kept"))
    kept = files_of(disk, "t-0")
    disk.refused = {("rename", "t-0")}
    world.delete()
    world.create()
    assert world.put(batch(b"new")).error_code == STORAGE_ERROR
    assert files_of(disk, "t-0") == kept
    assert len(faults_said(caplog)) == 1


def test_a_full_disk_keeps_a_topic_that_is_made_anew_waiting_and_no_longer(caplog: pytest.LogCaptureFixture) -> None:
    """The log of the one that was deleted makes way as soon as there is room; it is not written over meanwhile."""
    disk = DiskWithFaults()
    world = World(disk=disk)
    world.create()
    world.put(batch(b"old"))
    kept = files_of(disk, "t-0")
    disk.refused, disk.code = {("rename", "t-0")}, errno.ENOSPC
    world.delete()
    world.create()
    assert world.put(batch(b"new")).error_code == STORAGE_ERROR
    world.advance(5000)
    assert files_of(disk, "t-0") == kept
    assert not faults_said(caplog)
    disk.refused = set()
    world.advance(2000)
    assert world.put(batch(b"new")).base_offset == 0
    assert b"old" not in files_of(disk, "t-0")["00000000000000000000.log"]
    world.advance(world.core.config.log_segment_delete_delay_ms + 1000)
    assert not any(name.endswith("-delete") for name in disk.list("")), "its files go as those of any deleted log"


def test_nothing_is_made_in_a_directory_that_came_while_the_broker_ran(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    world = World(disk=disk)
    disk.make_dir("t-0")
    disk.write_atomic("t-0/00000000000000000000.log", b"somebody's")
    world.create()
    assert world.put(batch(b"new")).error_code == STORAGE_ERROR
    assert files_of(disk, "t-0") == {"00000000000000000000.log": b"somebody's"}
    assert len(faults_said(caplog)) == 1
    world.create("u")
    assert world.put(batch(b"x"), "u").error_code == 0
