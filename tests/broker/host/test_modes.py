"""What the broker makes is its owner's alone, and no link in its directory is followed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.broker.host.data_dir import DataDirLock
from barnabas.broker.host.disk import RealDisk
from tests.cli.process import broker


@pytest.fixture
def open_umask() -> Iterator[None]:
    """The most careless umask there is."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(path: Path) -> set[tuple[str, int]]:
    return {
        ("directory" if one.is_dir() else "file", stat.S_IMODE(one.stat().st_mode))
        for one in (path, *path.rglob("*"))
        if not one.is_socket()
    }


@pytest.mark.usefixtures("open_umask")
def test_whatever_the_umask_says_directories_are_0700_and_files_0600(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker("--port", "0", "--data-dir", str(data), "--topic", "t:2") as process:
        assert process.end() == 0
    assert modes(data) == {("directory", 0o700), ("file", 0o600)}


@pytest.mark.usefixtures("open_umask")
def test_the_data_directory_itself_is_made_for_its_owner(tmp_path: Path) -> None:
    DataDirLock(str(tmp_path / "data")).release()
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


@pytest.mark.parametrize("way", ["load", "write", "create", "append"])
def test_a_link_inside_the_directory_is_not_followed(tmp_path: Path, way: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"not the broker's")
    root = tmp_path / "data"
    root.mkdir()
    for name in ("f", "f.tmp"):
        (root / name).symlink_to(elsewhere)
    disk = RealDisk(root, lambda completion: completion())
    try:
        with pytest.raises(OSError) as caught:  # noqa: PT012 - opening is lazy, so the handle is asked for, too
            if way == "load":
                disk.load("f")
            elif way == "write":
                disk.write_atomic("f", b"ours")
            else:
                disk.open("f", create=way == "create").append([b"ours"])
        assert caught.value.errno == errno.ELOOP
    finally:
        disk.close()
    assert elsewhere.read_bytes() == b"not the broker's"
