"""The faults of the disk in memory."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.ports import NotYet


def test_a_full_disk_takes_all_or_nothing():
    disk = MemoryDisk(capacity=10)
    file = disk.open("f", create=True)
    file.append([b"12345"])
    with pytest.raises(OSError, match="space"):
        file.append([b"123", b"456"])
    assert (file.size, bytes(file.read(0, 99))) == (5, b"12345")
    file.append([b"67890"])
    with pytest.raises(OSError, match="space"):
        disk.write_atomic("c", b"x")
    file.truncate(2)
    disk.write_atomic("c", b"x")
    disk.remove("f")
    assert disk.used == 1


def test_a_crash_loses_what_was_not_synced_and_kills_handles():
    disk = MemoryDisk()
    file = disk.open("f", create=True)
    file.append([b"safe"])
    told: list[Any] = []
    file.sync(told.append)
    file.append([b"lost"])
    disk.deliver()
    assert told == [None]
    file.sync(told.append)
    disk.crash()
    assert disk.deliver() == 0
    assert told == [None]
    assert disk.load("f") == b"safe"
    for use in (lambda: file.append([b"x"]), lambda: file.read(0, 1), lambda: file.sync(told.append)):
        with pytest.raises(OSError, match="crashed"):
            use()


def test_a_crash_may_keep_a_torn_part():
    disk = MemoryDisk()
    file = disk.open("f", create=True)
    file.append([b"0123456789"])
    disk.crash(lambda path, synced, size: 4)
    assert disk.load("f") == b"0123"
    disk.open("f").append([b"x"])
    disk.crash(lambda path, synced, size: -5)
    assert disk.load("f") == b"0123", "what survived one crash is durable"


def test_an_atomic_write_is_whole_or_absent_after_a_crash():
    disk = MemoryDisk()
    disk.write_atomic("c", b"old")
    disk.write_atomic("c", b"new", lambda _: None)
    disk.crash()
    assert disk.load("c") == b"old"


def test_a_small_file_that_is_not_durable_may_be_torn():
    disk = MemoryDisk()
    disk.write_atomic("kept", b"whole", durable=False)
    disk.write_atomic("torn", b"whole", lambda _: None, durable=False)
    disk.deliver()
    disk.crash(lambda path, synced, size: 3 if path == "torn" else synced)
    assert (disk.load("kept"), disk.load("torn")) == (b"", b"who")


def test_a_flipped_bit():
    disk = MemoryDisk()
    disk.write_atomic("f", b"\x00\x00")
    disk.flip("f", 1, 3)
    assert disk.load("f") == b"\x00\x08"


def test_late_reads_wait_for_delivery_and_answer_while_the_token_is_held():
    disk = MemoryDisk(late=True)
    file = disk.open("f", create=True)
    file.append([b"abc"])
    with pytest.raises(NotYet) as caught:
        file.read(0, 3)
    token = caught.value.token
    with pytest.raises(NotYet) as again:
        file.read(0, 3)
    assert again.value.token is token
    fired: list[Any] = []
    token.on_ready(lambda: fired.append(True))
    disk.deliver()
    assert fired == [True]
    assert bytes(file.read(0, 3)) == b"abc"
    assert bytes(file.read(0, 3)) == b"abc"
    del token, caught, again
    with pytest.raises(NotYet):
        file.read(0, 3)


def test_failing_syncs():
    disk = MemoryDisk()
    file = disk.open("f", create=True)
    file.append([b"x"])
    disk.fail_syncs = 1
    told: list[Any] = []
    file.sync(told.append)
    file.sync(told.append)
    disk.deliver()
    assert isinstance(told[0], OSError)
    assert told[1] is None


def test_completions_go_through_post():
    posted: list[Any] = []
    disk = MemoryDisk(posted.append)
    file = disk.open("f", create=True)
    told: list[Any] = []
    file.sync(told.append)
    assert (told, len(posted)) == ([], 1)
    posted[0]()
    assert told == [None]
