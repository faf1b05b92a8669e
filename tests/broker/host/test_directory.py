"""A data directory that fails as a whole is told from one bad file, and from a full disk."""

from __future__ import annotations

import errno

import pytest

from barnabas.broker.host.directory import PROBE, Directory
from barnabas.broker.memory_disk import MemoryDisk


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


def watched(disk: MemoryDisk) -> tuple[Directory, list[OSError]]:
    told: list[OSError] = []
    directory = Directory(disk)
    directory.on_failed = told.append
    return directory, told


def refusal(code: int) -> OSError:
    return OSError(code, "as it says")


def test_one_file_that_fails_is_not_the_directory(disk: MemoryDisk) -> None:
    directory, told = watched(disk)
    disk.faults.bad_syncs.add("t-0/0.log")
    directory.suspect(refusal(errno.EIO))
    assert disk.deliver() == 1
    assert (told, directory.failed) == ([], None)
    assert not disk.exists(PROBE), "nothing is left behind"
    directory.suspect(refusal(errno.EIO))
    assert disk.deliver() == 1, "the next one is asked about, too"


def test_a_directory_that_takes_nothing_has_failed_and_that_is_told_once(disk: MemoryDisk) -> None:
    directory, told = watched(disk)
    disk.faults.broken = True
    for _ in range(3):
        directory.suspect(refusal(errno.EIO))
    assert disk.deliver() == 1, "one question at a time"
    assert [error.errno for error in told] == [errno.EIO]
    directory.suspect(refusal(errno.EIO))
    assert (disk.deliver(), len(told), directory.failed) == (0, 1, told[0])


@pytest.mark.parametrize("error", [refusal(errno.ENOSPC), refusal(errno.EDQUOT), ValueError("no error of a disk")])
def test_a_full_disk_is_not_asked(disk: MemoryDisk, error: Exception) -> None:
    directory, told = watched(disk)
    disk.faults.broken = True
    directory.suspect(error)
    assert (disk.deliver(), told) == (0, [])


def test_a_disk_that_is_full_when_it_is_asked_has_not_failed(disk: MemoryDisk) -> None:
    directory, told = watched(disk)
    disk.faults.refuse(1)
    directory.suspect(refusal(errno.EIO))
    assert (disk.deliver(), told, directory.failed) == (1, [], None)
