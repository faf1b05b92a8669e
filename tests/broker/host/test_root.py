"""The broker stays in its own directory, whoever renames it, and says what it can no longer find there."""

from __future__ import annotations

import errno
import os
import queue
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.host import disk_root
from barnabas.broker.host.disk import RealDisk
from barnabas.broker.ports import NotYet
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from tests.cli.process import broker, tree


def consumed(port: int, count: int) -> list[bytes]:
    found: list[bytes] = []
    with Consumer("t", bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest") as consumer:
        while len(found) < count:
            records = consumer.poll(60)
            assert records, "records are missing"
            found += [bytes(record.value) for record in records]
    return found


def produce(port: int, *values: bytes) -> None:
    with Producer(bootstrap_servers=f"127.0.0.1:{port}") as producer:
        for value in values:
            producer.send("t", value)
        producer.flush()


def test_a_broker_whose_directory_is_renamed_goes_on_in_it(tmp_path: Path) -> None:
    """Its stop wrote the marker of a clean end into whatever bore the old name, another broker's directory at worst."""
    old, new = tmp_path / "old", tmp_path / "new"
    options = ("--port", "0", "--topic", "t:1", "--data-dir")
    with broker(*options, str(old)) as first:
        produce(first.port, b"before")
        old.rename(new)
        with broker(*options, str(old)) as second:
            produce(second.port, b"other")
            produce(first.port, b"after")
            assert first.end() == 0
            assert not (old / ".kafka_cleanshutdown").exists(), "the other broker has not ended"
            assert (new / ".kafka_cleanshutdown").exists()
            assert consumed(second.port, 1) == [b"other"]
            assert second.end() == 0
    with broker(*options, str(new)) as third:
        assert consumed(third.port, 2) == [b"before", b"after"]
        assert third.end() == 0
    assert any("ready: a clean end" in line for line in third.errors)


@pytest.fixture(params=["relative", "whole"])
def disk(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A disk by its handle, and one of a system that has no calls for that."""
    monkeypatch.setattr(disk_root, "_RELATIVE", request.param == "relative")
    posted: queue.Queue[Any] = queue.Queue()
    (tmp_path / "root").mkdir()
    made: Any = RealDisk(tmp_path / "root", posted.put)
    made.posted = posted
    yield made
    made.close()


def told(disk: Any) -> OSError | None:
    """What a sync of `t-0/f` comes to."""
    answers: list[OSError | None] = []
    disk.file.sync(answers.append)
    disk.posted.get(timeout=60)()
    return answers[0]


@pytest.fixture
def filled(disk: Any) -> Any:
    disk.make_dir("t-0/deep/er")
    disk.file = disk.open("t-0/f", create=True)
    disk.file.append([b"data"])
    disk.write_atomic("t-0/small", b"small")
    return disk


def test_every_call_has_both_forms(filled: Any, tmp_path: Path) -> None:
    root = tmp_path / "root"
    assert filled.list("") == ["t-0"]
    assert filled.list("t-0") == ["deep", "f", "small"]
    filled.make_dir("t-0")
    with pytest.raises(FileExistsError):
        filled.make_dir("t-0/f")
    assert filled.exists("t-0/f")
    assert not filled.exists("t-0/f/x")
    filled.rename("t-0", "u-0")
    assert (root / "u-0" / "f").read_bytes() == b"data"
    assert filled.load("u-0/small") == b"small"
    assert filled.open("u-0/f").size == 4
    filled.remove("u-0/small")
    filled.remove("u-0")
    assert list(root.iterdir()) == []
    filled.remove("u-0")


def test_no_call_follows_the_old_name(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    disk = RealDisk(root, lambda step: step())
    root.rename(tmp_path / "moved")
    root.mkdir()
    disk.make_dir("d")
    disk.open("d/f", create=True).append([b"x"])
    disk.write_atomic("d/c", b"c")
    disk.rename("d/c", "d/e")
    assert (disk.list("d"), disk.load("d/e"), disk.exists("d/f")) == (["e", "f"], b"c", True)
    disk.remove("d/e")
    assert os.listdir(root) == []
    assert os.listdir(tmp_path / "moved" / "d") == ["f"]
    disk.close()
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        disk.load("d/f")


def test_a_file_removed_by_somebody_else_is_no_success_at_its_next_sync(filled: Any, tmp_path: Path) -> None:
    assert told(filled) is None
    (tmp_path / "root" / "t-0" / "f").unlink()
    filled.file.append([b"more"])
    assert bytes(filled.file.read(0, 8)) == b"datamore", "the handle still has it"
    error = told(filled)
    assert isinstance(error, FileNotFoundError)
    assert (error.filename, error.strerror) == ("t-0/f", "the file was removed under the broker")


@pytest.mark.parametrize("way", ["append", "read", "cold read", "sync"])
def test_an_error_of_the_device_names_file_place_and_cause(
    filled: Any, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    def broken(*_: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def cold(*_: Any) -> Any:
        raise BlockingIOError

    error: Any
    if way == "sync":
        monkeypatch.setattr(os, "fdatasync", broken)
        error = told(filled)
    else:
        monkeypatch.setattr(os, "pwrite", broken)
        monkeypatch.setattr(os, "preadv", cold if way == "cold read" else broken)
        monkeypatch.setattr(os, "pread", broken)
        if way == "cold read":
            with pytest.raises(NotYet) as pending:
                filled.file.read(1, 2)
            filled.posted.get(timeout=60)()
            assert pending.value.token
        with pytest.raises(OSError, match="Input/output") as caught:
            filled.file.append([b"x"]) if way == "append" else filled.file.read(1, 2)
        error = caught.value
    where = {"append": " at byte 4", "read": " at byte 1", "cold read": " at byte 1", "sync": ""}[way]
    assert (error.errno, error.filename, error.strerror) == (errno.EIO, "t-0/f", f"Input/output error{where}")


CALLS: dict[str, Callable[[Any], Any]] = {
    "open": lambda disk: disk.open("link/f"),
    "create": lambda disk: disk.open("link/new", create=True),
    "load": lambda disk: disk.load("link/f"),
    "write": lambda disk: disk.write_atomic("link/f", b"ours"),
    "list": lambda disk: disk.list("link"),
    "exists": lambda disk: disk.exists("link/f"),
    "make a directory": lambda disk: disk.make_dir("link"),
    "make one below": lambda disk: disk.make_dir("link/deep"),
    "remove": lambda disk: disk.remove("link/f"),
    "rename": lambda disk: disk.rename("link/f", "t-0/f"),
    "rename into": lambda disk: disk.rename("t-0/small", "link/f"),
}


@pytest.mark.parametrize("call", CALLS)
def test_no_call_follows_a_link_to_a_directory(filled: Any, tmp_path: Path, call: str) -> None:
    """A file that is a link was refused; a directory of a partition that was one led to wherever it led."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "f").write_bytes(b"not the broker's")
    (tmp_path / "root" / "link").symlink_to(elsewhere)
    before = tree(elsewhere)
    with pytest.raises(OSError, match=r"is a link|File exists") as caught:  # noqa: PT012 - opening is lazy
        found = CALLS[call](filled)
        if call in ("open", "create"):
            found.append([b"ours"])
    assert caught.value.errno in (errno.ELOOP, errno.EEXIST)
    assert tree(elsewhere) == before
    filled.remove("link")  # the link itself
    assert tree(elsewhere) == before
    assert not (tmp_path / "root" / "link").is_symlink()


@pytest.mark.parametrize("deep", ["", "t-0/"])
def test_no_directory_is_held_that_is_a_link(filled: Any, tmp_path: Path, deep: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "root" / deep / "link").symlink_to(elsewhere)
    with pytest.raises(OSError, match=r"link|Not a directory") as caught:
        filled.root.within(f"{deep}link")
    assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)
